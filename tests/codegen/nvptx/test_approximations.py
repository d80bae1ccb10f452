"""Functions on GPUs: approximations under `-fast-math`, and how exact they are without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu import assemble
from tileloom import te
from tileloom.base.errors import UserError
from tileloom.driver import assembly
from tileloom.expr import Expr
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.target.approximations import APPROXIMATIONS, Approximation
from tileloom.tir import IRModule

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu-math.md"


def elementwise(kind: str, op: str, vector: int = 1) -> IRModule:
    a = te.placeholder((256,), kind, name="A")
    name = op.removeprefix("tir.")

    def formula(x: Expr) -> Any:
        return x / (x + x) if op == "/" else getattr(T, name)(x)

    b = te.compute((256,), lambda i: formula(a[i]), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    loops = sch.split(sch.get_loops("B")[0], [None, 32, vector])
    sch.bind(loops[0], "blockIdx.x")
    sch.bind(loops[1], "threadIdx.x")
    if vector > 1:
        sch.vectorize(loops[2])
    return sch.mod


def table() -> str:
    """The approximations as a table in Markdown."""
    lines = ["| operation | type | from | PTX | largest error | |", "|---|---|---|---|---|---|"]
    for a in APPROXIMATIONS.values():
        words = [step.split()[0] for step in a.code.split(";")]
        if a.packed:
            words.append(a.packed.split()[0])
        name = a.op.removeprefix("tir.").replace("/", "x / y")
        code = ", ".join(f"`{word}`" for word in words)
        lines.append(f"| {name} | {a.dtype} | sm_{a.since} | {code} | {a.error} | {a.note} |")
    return "\n".join(lines)


def updated(text: str) -> str:
    """The page with today's table between its markers."""
    head, _, rest = text.partition("<!-- approximations -->\n")
    _, _, tail = rest.partition("<!-- end of approximations -->")
    return f"{head}<!-- approximations -->\n{table()}\n<!-- end of approximations -->{tail}"


def test_the_page_shows_the_table() -> None:
    """Run this file as a script to bring the page up to date."""
    text = PAGE.read_text()
    assert text == updated(text)


CASES = list(APPROXIMATIONS.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.dtype}")
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
def test_instructions(case: Approximation, arch: str, tmp_path: Path) -> None:
    words = [step.split()[0] for step in case.code.split(";")]
    ptx = assembly(elementwise(case.dtype, case.op), f"cuda -arch={arch} -fast-math")
    there = target(f"cuda -arch={arch}").sm >= case.since
    for word in words:
        assert not there or word in ptx, ptx
    assert there or words[-1] not in ptx
    assemble(ptx, arch, tmp_path)
    exact = assembly(elementwise(case.dtype, case.op), f"cuda -arch={arch}")
    assert ".approx" not in exact
    assert "div.full" not in exact
    assert ".ftz" not in exact


@pytest.mark.parametrize("op", ["exp", "log", "sin", "sqrt", "rsqrt", "sigmoid"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_floats_take_the_way_through_single_precision(
    op: str, kind: str, tmp_path: Path
) -> None:
    ptx = assembly(elementwise(kind, f"tir.{op}"), "cuda -arch=sm_80 -fast-math")
    assert re.search(r"\.approx\.ftz\.f32", ptx)
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize("case", [c for c in CASES if c.packed], ids=lambda c: f"{c.op}-{c.dtype}")
def test_two_at_once(case: Approximation, tmp_path: Path) -> None:
    ptx = assembly(elementwise(case.dtype, case.op, 8), "cuda -arch=sm_90a -fast-math")
    assert ptx.count(case.packed.split()[0]) == 4
    assemble(ptx, "sm_90a", tmp_path)


def test_vectors_of_single_precision(tmp_path: Path) -> None:
    ptx = assembly(elementwise("float32", "tir.exp2", 4), "cuda -arch=sm_80 -fast-math")
    assert ptx.count("ex2.approx.ftz.f32") == 4
    assert "v4" in ptx
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize("name", ["pow", "erf", "atan", "tan"])
def test_other_functions_stay(name: str) -> None:
    def build(option: str) -> str:
        a = te.placeholder((64,), name="A")
        function = {"pow": lambda x: T.pow(x, x)}.get(name) or getattr(T, name)
        b = te.compute((64,), lambda i: function(a[i]), name="B")
        sch = Schedule(te.create_prim_func([a, b]))
        sch.bind(sch.get_loops("B")[0], "threadIdx.x")
        return re.sub(r"callseq \d+", "", assembly(sch.mod, f"cuda -arch=sm_80{option}"))

    assert build("") == build(" -fast-math")


def test_the_option() -> None:
    fast = target("cuda -arch=sm_80 -fast-math")
    assert target(str(fast)) == fast
    assert fast.key != target("cuda -arch=sm_80").key
    assert target("cuda -arch=sm_80 -fast-math=0") == target("cuda -arch=sm_80")
    with pytest.raises(UserError, match="neither 0 nor 1"):
        target("cuda -fast-math=maybe")
    with pytest.raises(UserError, match="unknown option -fast-math"):
        target("cpu -fast-math")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.dtype}")
def test_the_emulator_is_off_by_what_is_stated(case: Approximation) -> None:
    func = lower(elementwise(case.dtype, case.op), "cuda")["main"]
    x = np.linspace(0.7, 6, 256)
    x = x.astype(te.placeholder((1,), case.dtype).dtype.numpy)
    exact, off, same = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    run_kernels(func, x, exact)
    run_kernels(func, x, off, fast_math=1)
    run_kernels(func, x, same, fast_math=1)
    np.testing.assert_array_equal(off, same)
    wide, found, at = (y.astype("float64") for y in (exact, off, x))
    bound = (case.relative + case.growth * at) * np.abs(wide) + case.absolute
    spacing = (
        np.abs(wide) * {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[case.dtype]
    )
    assert (np.abs(found - wide) <= bound + spacing).all()
    if case.dtype == "float32":
        assert (found != wide).any()


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
