"""Which reductions are worth sharing among workers, and their loops as one."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.tir import PrimFunc
from tileloom.tuner.rules.reductions import fuse_reduced_loops, needs_partial_results

from .programs import assert_same, chain, product, row_sums, script


def needs(func: PrimFunc, block: str, most: int = 64, steps: Any = None) -> bool:
    sch = Schedule(func)
    if steps is not None:
        steps(sch)
    return needs_partial_results(sch.state, sch.get_sref(sch.get_block(block)), most)


@pytest.mark.parametrize(
    ("shape", "most", "expected"),
    [
        ((8, 8, 512), 64, True),
        ((8, 8, 512), 63, False),  # 64 results are more than enough
        ((8, 8, 65), 64, True),
        ((8, 8, 64), 64, False),  # not less than there is to reduce
        ((128, 128, 128), 64, False),
    ],
)
def test_products(shape: tuple[int, int, int], most: int, expected: bool) -> None:
    assert needs(product(*shape), "C", most) is expected


def test_reductions_without_reuse_always_need_them() -> None:
    assert needs(row_sums(4096, 2), "B")
    assert not needs(row_sums(4096, 1), "B")


def test_other_blocks_need_none() -> None:
    assert not needs(chain(lambda x: x + 1.0), "B0")
    assert not needs(row_sums(), "root")


@pytest.mark.parametrize(
    "steps",
    [
        lambda sch: sch.split(sch.get_loops("B")[1], [2, None]),  # no longer plainly the loops
        lambda sch: sch.annotate("B", "meta_schedule.tiling_structure", "SR"),
        lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[1]),
    ],
)
def test_blocks_on_which_others_have_worked_need_none(steps: Any) -> None:
    func = row_sums()
    assert needs(func, "B")
    sch = Schedule(func)
    steps(sch)
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert not any(needs(func, name, steps=steps) for name in names)


def test_unknown_extents() -> None:
    func = script("""
@T.prim_func
def main(n: T.int32, a: T.handle, B: T.Buffer((4,), "float32")):
    A = T.match_buffer(a, (4, n), "float32")
    for i, k in T.grid(4, n):
        with T.block("B"):
            x, y = T.axis.remap("SR", [i, k])
            with T.init():
                B[x] = 0.0
            B[x] = B[x] + A[x, y]
""")
    assert not needs(func, "B")


@pytest.mark.parametrize(
    "body",
    [
        """for i in range(4):
        for k in range(8):
            with T.block("B"):
                x, y = T.axis.remap("SR", [i, k])
                with T.init():
                    B[x] = 0.0
                B[x] = B[x] + A[x, y]
        with T.block("after"):
            x = T.axis.spatial(4, i)
            C[x] = B[x] * 2.0""",  # more than the block is in its loops
        """for i, k in T.grid(4, 8):
        with T.block("B"):
            x, y = T.axis.remap("SR", [i, k])
            B[x] = B[x] + A[x, y]""",  # nothing starts it
        """with T.block("B"):
        with T.init():
            B[0] = 0.0
        B[0] = B[0] + A[0, 0]""",  # there are no loops
    ],
)
def test_blocks_that_do_not_stand_alone_need_none(body: str) -> None:
    func = script(f"""
@T.prim_func
def main(
    A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")
):
    {body}
""")
    assert not needs(func, "B")


def test_loops_that_reduce_go_inside_and_become_one() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((4, 6, 8), "float32"), B: T.Buffer((6,), "float32")):
    for k, i, m in T.grid(4, 6, 8):
        with T.block("B"):
            r, x, s = T.axis.remap("RSR", [k, i, m])
            with T.init():
                B[x] = 0.0
            B[x] = B[x] + A[r, x, s]
""")
    sch = Schedule(func)
    loop, before = fuse_reduced_loops(sch, sch.get_block("B"))
    assert (sch.get(loop).static_extent, before) == (32, 1)
    assert [sch.get(found).static_extent for found in sch.get_loops("B")] == [6, 32]
    assert_same(func, [sch])


def test_one_loop_that_reduces_inside_is_left_as_it_is() -> None:
    sch = Schedule(row_sums())
    fuse_reduced_loops(sch, sch.get_block("B"))
    trace: Any = sch.trace
    assert [step.kind.name for step in trace.insts] == ["GetBlock", "GetLoops"]


def test_several_results_at_once() -> None:
    a, k = te.placeholder((4, 8, 8), name="A"), te.reduce_axis((0, 8), "k")
    b = te.compute((4, 8), lambda i, j: te.sum(a[i, j, k], k), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    assert fuse_reduced_loops(sch, sch.get_block("B"))[1] == 2
