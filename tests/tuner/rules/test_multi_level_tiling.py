"""Multi-level tiling: the steps that it takes, and that they leave the result as it is."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.target import target
from tileloom.tir import PrimFunc, run
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.multi_level_tiling import MultiLevelTiling, ReuseType
from tuner.tvm_spaces import steps, workloads

CPU = MultiLevelTiling()
GPU = MultiLevelTiling(
    "SSSRRSRS",
    ("blockIdx.x", "vthread.x", "threadIdx.x"),
    vector_load_lens=(1, 2, 3, 4, 8, 16),
    reuse_read=ReuseType("must", (4,), "shared"),
    reuse_write=ReuseType("must", (3,), "local"),
)
#: What other rules of TVM's do.
OTHER_RULES = (
    r'name="(PadInput|root)"',
    r"meta_schedule\.(parallel|vectorize|unroll_explicit)",
    r"candidates=\[0, 16",
    r"compute_inline",
    r"sample_compute_location",
    r"sch\.compute_at\(block=b0,",
)


def product(dtype: str = "float32", then: str = "", m: int = 12, n: int = 8, k: int = 16) -> Any:
    """A matrix product "C", in a buffer of its own if more is done with its elements."""
    local = f'C = T.alloc_buffer(({m}, {n}), "{dtype}")' if then else ""
    out = "D" if then else "C"
    after = f"""
    for i, j in T.grid({m}, {n}):
        with T.block("D"):
            x, y = T.axis.remap("SS", [i, j])
            D[x, y] = {then}"""
    return from_source(f"""from tileloom.script import tir as T

@T.prim_func
def main(
    A: T.Buffer(({m}, {k}), "{dtype}"), B: T.Buffer(({k}, {n}), "{dtype}"),
    {out}: T.Buffer(({m}, {n}), "{dtype}"),
):
    {local}
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            x, y, z = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[x, y] = T.{dtype}(0)
            C[x, y] = C[x, y] + A[x, z] * B[z, y]
{after if then else ""}
""")


def ways(
    func: PrimFunc,
    rule: MultiLevelTiling = CPU,
    machine: str = "cpu",
    block: str = "C",
    **notes: Any,
) -> list[Schedule]:
    sch = Schedule(func, seed=7)
    for key, value in notes.items():
        sch.annotate(block, f"meta_schedule.{key}", value)
    return rule.apply(sch, sch.get_block(block), TuneContext(sch.mod, target(machine)))


def methods(sch: Schedule) -> list[str]:
    trace: Any = sch.trace
    return [step.kind.method for step in trace.insts]


def text(sch: Schedule) -> str:
    trace: Any = sch.trace
    return "\n".join(trace.as_python())


@pytest.mark.parametrize(("workload", "block"), [("GMM", "Z"), ("C2D", "conv2d_nhwc")])
@pytest.mark.parametrize(
    ("machine", "name", "rule", "count"),
    [
        ("cpu", "llvm_nc4", CPU, 3),
        ("cuda -arch=sm_70", "cuda_sm70", GPU, 1),
        ("cuda -arch=sm_80", "cuda_sm80_tc", GPU, 3),
    ],
)
def test_steps_are_those_of_tvm(
    workload: str, block: str, machine: str, name: str, rule: MultiLevelTiling, count: int
) -> None:
    if not workloads():
        pytest.skip("the sample of design spaces is not here")
    sample = workloads()[workload]
    func: Any = from_source("from tileloom.script import tir as T\n" + sample["script"])
    found = ways(func, rule, machine, block)
    theirs = [steps(space["trace_py"], OTHER_RULES) for space in sample["targets"][name]]
    # Each rule of TVM's turns the order of the spaces round: they are a set here.
    ours = [steps(sch.trace.simplified(True).as_python()) for sch in found]  # type: ignore[union-attr]
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == count


@pytest.mark.parametrize(
    ("machine", "rule"),
    [("cpu", CPU), ("cpu", replace(CPU, structure="SRS")), ("cuda -arch=sm_80", GPU)],
)
@pytest.mark.parametrize("then", ["", "C[x, y] + 1.0"])
def test_the_result_stays_the_same(machine: str, rule: MultiLevelTiling, then: str) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype("float32") for shape in ((6, 8), (8, 4))]
    expected = inputs[0].astype("float64") @ inputs[1] + (1 if then else 0)
    for sch in ways(product(then=then, m=6, n=4, k=8), rule, machine):
        out = np.zeros((6, 4), "float32")
        run(sch.mod["main"], *inputs, out)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_tiles_are_as_large_as_loops() -> None:
    sch = ways(product())[0]
    extents = [sch.get(loop).static_extent for loop in sch.get_loops(sch.get_block("C"))]
    # Of "SSRSRS": two loops for each S, one for each R.
    rows, columns = [extents[n] for n in (0, 2, 5, 8)], [extents[n] for n in (1, 3, 6, 9)]
    assert [prod(rows), prod(columns), extents[4] * extents[7]] == [12, 8, 16]
    assert sch.get(sch.get_block("C")).annotations["meta_schedule.tiling_structure"] == "SSRSRS"


def test_a_consumer_is_the_copy_of_the_output() -> None:
    found = ways(product(then="T.max(C[x, y], 0.0)"))
    assert [methods(sch)[-1] for sch in found] == ["reverse_compute_at"] * 2 + ["get_consumers"]
    assert not any("cache_write" in methods(sch) for sch in found)
    # Read in another order it is none.
    assert [methods(s)[-2:] for s in ways(product(then="C[y, x]", m=8))][1] == [
        "cache_write",
        "reverse_compute_at",
    ]


def test_a_block_says_where_its_output_is_copied() -> None:
    (sch,) = ways(product(), write_cache_level=[2])
    assert "cache_write" in methods(sch)
    assert (
        len(ways(product(), replace(CPU, reuse_write=ReuseType("no")), write_cache_level=[2])) == 1
    )


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [("float32", "1, 2, 3, 4"), ("float16", "1, 2, 4, 8"), ("int8", "1, 2, 3, 4, 8, 16"),
     ("float64", "1, 2, 3, 4, 8, 16")],
)  # fmt: skip
def test_vectors_of_copies(dtype: str, lengths: str) -> None:
    (sch,) = ways(product(dtype), GPU, "cuda -arch=sm_70")
    assert text(sch).count(f"candidates=[{lengths}]") == 2
    (sch,) = ways(product(dtype), replace(GPU, vector_load_lens=()), "cuda -arch=sm_70")
    assert "cooperative_fetch" not in text(sch)


def test_threads_of_small_work() -> None:
    (small,) = ways(product(m=4, n=4), GPU, "cuda -arch=sm_70")
    (large,) = ways(product(m=16, n=16), GPU, "cuda -arch=sm_70")
    key = "meta_schedule.thread_extent_{}_inclusive"
    for sch, low in ((small, 1), (large, 32)):
        notes = sch.get(sch.get_block("C")).annotations
        assert (notes[key.format("low")], notes[key.format("high")]) == (low, 1024)


def test_pipelines_need_two_copies() -> None:
    assert len(ways(product(), GPU, "cuda -arch=sm_80")) == 3
    assert len(ways(product(), replace(GPU, reuse_read=ReuseType("no")), "cuda -arch=sm_80")) == 1
    stages = [text(sch).split("software_pipeline_stage")[1][11:20]
              for sch in ways(product(), GPU, "cuda -arch=sm_90")[1:]]  # fmt: skip
    assert stages == ["[0, 0, 2]", "[0, 0, 3]"]


def test_other_blocks_are_left_alone() -> None:
    func = product(then="C[x, y] + 1.0")
    context = TuneContext(Schedule(func).mod, target("cpu"))
    sch = Schedule(func)
    assert CPU.apply(sch, sch.get_block("D"), context) == [sch]
    assert methods(sch) == ["get_block"]
    chosen = replace(CPU, filter_fn=lambda s, ref: ref.block.name_hint == "D")
    assert len(chosen.apply(sch, sch.get_block("D"), context)) == 3
    tiled = CPU.apply(sch, sch.get_block("C"), context)[0]
    assert CPU.apply(tiled, tiled.get_block("C"), context) == [tiled]


def test_a_way_that_is_refused_is_left_out() -> None:
    # No buffer can be in a memory of this name; the way without a copy remains.
    (sch,) = ways(product(), replace(CPU, reuse_write=ReuseType("may", (1,), "nowhere")))
    assert "cache_write" not in methods(sch)
    must = replace(CPU, reuse_write=ReuseType("must", (1,), "nowhere"))
    (sch,) = ways(product(), must)
    assert methods(sch) == ["get_block"]
