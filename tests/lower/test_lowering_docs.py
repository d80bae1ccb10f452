"""`docs/lowering.md` names the passes that there are, and all of CINN's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileloom.codegen import vmath
from tileloom.codegen.vmath import exact
from tileloom.lower import pipeline
from tileloom.lower.loops.map_calls import POWERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "lowering.md"
LISTS = ("PIPELINE", "GPU_PIPELINE")
_NAMES = """
    RestructureVarNodes ReplaceIndexToBindExpr UpdateBufferAxis ReplaceLoopVarToGpu
    SharedAxisVisitor LocalAxisVisitor ResizeBufferToMaxVarRange ReplaceVarToZero
    FoldCINNCallArguments TransformPolyForToFor ReplaceConstParamToInteger Simplify
    ReplaceCrossThreadReduction UnrollLoop VectorizeLoops SetCudaAxisInfo RemoveGpuForloopsAxis
    CudaSyncThreadsDropIfThenElse SimplifyBlocks MapExternCall ExternCallMultiOutputShallowStore
    InsertDebugLogCallee RemoveNestedBlock IfSimplify RemoveScheduleBlock
    LowerFunctionCallBindVars CallArgListToPodValue LowerIntrin EliminateInvariantLoop
    ReplaceCrossBlockReduction TransBufferWithDynamicShape IfFusion RearrangeLoadInstruction
    VectorizeForTrans IfFold eliminate_common_global_memory_read
    eliminate_common_factor_of_local_index longlong2int realize_composite_reduce for_cse
    reindex_transpose_buffer __builtin_assume
"""
CINN = _NAMES.split()
_FEW = ("nextafter", "isnan", "isinf", "isfinite", "rsqrt")
_CALLS = re.compile(r"(<!-- calls -->\n).*?(<!-- end of calls -->)", re.DOTALL)
_BLOCK = re.compile(r"(<!-- pipeline: (\w+) -->\n).*?(<!-- end of pipeline -->)", re.DOTALL)


def reasons() -> dict[str, list[tuple[str, str]]]:
    """The passes of each list in `pipeline.py`, with the remark on the line."""
    source = Path(pipeline.__file__).read_text()
    found: dict[str, list[tuple[str, str]]] = {}
    lists = re.findall(r"^(\w+): Sequence\[Pass\] = \(\n(.*?)^\)", source, re.DOTALL | re.MULTILINE)
    for name, body in lists:
        lines = re.findall(r"^    (\w+),(?:  # (.*))?$", body, re.MULTILINE)
        found[name] = [(step, remark.strip()) for step, remark in lines]
    found["PIPELINE"] = found["BLOCKS_TO_LOOPS"] + found["LOOPS_TO_FLAT"]
    return found


def table(name: str) -> str:
    rows = ["| pass | why it stands there |", "|---|---|"]
    rows += [f"| `{step}` | {remark} |" for step, remark in reasons()[name]]
    return "\n".join(rows)


def calls() -> str:
    """What becomes an instruction, and what code of ours."""
    instructions = [name for name in (*exact.NATIVE, *exact.ROUNDED) if name not in _FEW]
    own = sorted(set(vmath.NAMES) - {*instructions, *_FEW})
    bits = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left",
            "shift_right", "popcount", "clz", "reinterpret", "abs")  # fmt: skip
    rows = [
        ("one instruction, or LLVM's expansion of it", (*instructions, *bits)),
        ("a few instructions", _FEW),
        ("polynomials and tables of our own, written inline", own),
    ]
    text = ["| becomes | calls |", "|---|---|"]
    text += [f"| {what} | {', '.join(f'`{name}`' for name in names)} |" for what, names in rows]
    return "\n".join(text)


def updated(text: str) -> str:
    """The page with today's tables."""
    text = _CALLS.sub(lambda found: f"{found[1]}{calls()}\n{found[2]}", text)
    return _BLOCK.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", text)


def cinn_rows() -> dict[str, list[str]]:
    """By CINN's name, the names of what is here in its place."""
    _, _, section = PAGE.read_text().partition("## CINN's passes")
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", section, re.MULTILINE)[1:]
    return {
        name.strip("`"): re.findall(r"`(\w+)`", here)
        for names, here in rows
        for name in names.split(" / ")
        if not names.startswith("---")
    }


def test_the_page_shows_the_pipelines_and_calls() -> None:
    """Run this file as a script to bring the page up to date."""
    text = PAGE.read_text()
    assert text == updated(text)


@pytest.mark.parametrize("name", LISTS)
def test_the_tables_are_those_of_the_lists(name: str) -> None:
    steps = [pipeline.name_of(step) for step in getattr(pipeline, name)]
    assert [step for step, _ in reasons()[name]] == steps


def test_every_pass_of_cinn_has_a_row() -> None:
    assert set(CINN) - cinn_rows().keys() == set()


@pytest.mark.parametrize("name", CINN)
def test_a_pass_that_is_named_is_in_a_pipeline(name: str) -> None:
    steps = {pipeline.name_of(s) for s in (*pipeline.PIPELINE, *pipeline.GPU_PIPELINE)}
    here = cinn_rows()[name]
    assert set(here) <= steps
    shown = re.compile(rf"\| `?{name}`? (\||/)")
    (row,) = filter(shown.match, PAGE.read_text().splitlines())
    remark = row.strip("| ").split(" | ")[-1]
    assert here or len(remark) > 20, f"{name} needs a pass, or the reason that there is none"


def test_every_pass_is_in_a_file_of_its_own_with_a_contract() -> None:
    for step in (*pipeline.PIPELINE, *pipeline.GPU_PIPELINE):
        said = step.__doc__ or ""
        assert "Needs:" in said, step
        assert "Ensures:" in said, step
        assert pipeline.name_of(step).startswith(step.__module__.rsplit(".", 1)[1][:8]) or (
            step.__module__.endswith("plan_allocations")
        ), step


def test_the_powers() -> None:
    shown = re.findall(r"^\| `pow\(x, ([-\d.]+)\)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(map(float, shown)) == sorted(POWERS)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
