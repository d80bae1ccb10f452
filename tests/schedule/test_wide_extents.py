"""Primitives on loops and buffers of more than 2**31 iterations and elements.

Nothing runs: programs obey the spec of their stage, walk as many points as before, and no int32
arithmetic of what they are lowered to overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest

from tileloom import te
from tileloom.expr import IndexMap, IntImm, const
from tileloom.lower import lower
from tileloom.lower.loops.widen_index_dtype import widen_index_dtype
from tileloom.schedule import Schedule, ScheduleError
from tileloom.tir.spec import verify

SIDE = 131072


def two_steps(kind: str = "int64", *, side: int = SIDE) -> Schedule:
    """C = (A + 1) * 3 over a square, in int8."""
    n = const(side, kind)
    a = te.placeholder((n, n), "int8", name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + const(1, "int8"), name="B")
    c = te.compute((n, n), lambda i, j: b[i, j] * const(3, "int8"), name="C")
    return Schedule(te.create_prim_func([a, c]))


def total(kind: str = "int64") -> Schedule:
    """The sum of a square, over both axes."""
    n = const(SIDE, kind)
    a = te.placeholder((n, n), "int32", name="A")
    axes = [te.reduce_axis((const(0, kind), n), name) for name in "xy"]
    whole = te.compute((1,), lambda _: te.sum(a[axes[0].var, axes[1].var], axis=axes), name="B")
    return Schedule(te.create_prim_func([a, whole]))


def iterations(sch: Schedule, block: str) -> int:
    extents = [sch.get(loop).extent for loop in sch.get_loops(block)]
    assert all(isinstance(extent, IntImm) for extent in extents), extents
    return prod(extent.value for extent in extents)


def check(sch: Schedule) -> None:
    """The program is legal, and nothing that it is lowered to overflows."""
    func = sch.mod["main"]
    verify(func, "blocks")
    flat = lower(func)
    verify(flat, "flat")
    assert widen_index_dtype(flat) is flat


def fuse_and_split(sch: Schedule) -> None:
    loop = sch.fuse(*sch.get_loops("B"))
    sch.split(loop, [None, 4096, 8])


def split_and_reorder(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    outer, inner = sch.split(i, [None, 4096])
    sch.reorder(j, inner)
    sch.vectorize(sch.split(outer, [None, 4])[1])


def split_apart(sch: Schedule) -> None:
    sch.split(sch.fuse(*sch.get_loops("B")), [None, 3000])


def layouts(sch: Schedule) -> None:
    sch.transform_block_layout("B", lambda i, j: (i * SIDE + j,))
    sch.transform_layout("B", ("write", 0), lambda i, j: (i * SIDE + j,))


def layout_of_tiles(sch: Schedule) -> None:
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 16, j // 8, i % 16, j % 8))


def caches(sch: Schedule) -> None:
    sch.cache_read("B", 0, "local")
    sch.reverse_compute_at(sch.cache_write("B", 0, "local"), sch.get_loops("B")[0])


def cache_by_index(sch: Schedule) -> None:
    sch.reindex_cache_read("B", 0, "global", lambda i, j: (i * SIDE + j,))


def moved(sch: Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[0])


def inlined(sch: Schedule) -> None:
    sch.reindex("C", ("read", 0))
    sch.compute_inline("B")


def tiled(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    (a, b), (c, d) = sch.split(i, [None, 16]), sch.split(j, [None, 16])
    sch.reorder(a, c, b, d)
    sch.blockize(b)


CASES: dict[str, tuple[Callable[[Schedule], None], str]] = {
    f.__name__: (f, "B" if f is not inlined else "C")
    for f in (
        fuse_and_split, split_and_reorder, layouts, layout_of_tiles, cache_by_index, moved, inlined,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_many_points_as_before(name: str) -> None:
    steps, block = CASES[name]
    sch = two_steps()
    steps(sch)
    assert iterations(sch, block) == SIDE * SIDE
    check(sch)


@pytest.mark.parametrize("steps", [split_apart, caches, tiled])
def test_programs_that_take_more_or_fewer(steps: Callable[[Schedule], None]) -> None:
    sch = two_steps()
    steps(sch)
    check(sch)


@pytest.mark.parametrize("steps", [layouts, layout_of_tiles, cache_by_index, split_and_reorder])
def test_int32_loops_of_a_buffer_that_takes_more(steps: Callable[[Schedule], None]) -> None:
    """Each extent fits into int32, what is made of them does not."""
    sch = two_steps("int32")
    steps(sch)
    assert iterations(sch, "B") == SIDE * SIDE
    check(sch)


def test_a_sum_in_parts() -> None:
    sch = total()
    loop = sch.fuse(*sch.get_loops("B")[1:])
    part = sch.rfactor(sch.split(loop, [1024, None])[0], 0)
    sch.decompose_reduction(part, sch.get_loops(part)[1])
    assert sch.get(sch.get_block("B_rf_update")).writes[0].buffer.shape[0].value == 1024
    check(sch)


def test_loops_that_their_type_cannot_number_are_not_fused() -> None:
    sch = two_steps("int32")
    with pytest.raises(ScheduleError, match="17179869184 iterations, which int32 cannot number"):
        sch.fuse(*sch.get_loops("B"))
    assert iterations(sch, "B") == SIDE * SIDE
    small = two_steps("int32", side=46340)  # the largest square below 2**31
    assert small.get(small.fuse(*small.get_loops("B"))).extent.value == 46340**2


def test_loops_of_two_types() -> None:
    sch = two_steps()
    sch.fuse(sch.add_unit_loop("B"))
    loops = sch.get_loops("B")
    sch.fuse(sch.add_unit_loop(loops[0]), *loops)
    assert iterations(sch, "B") == SIDE * SIDE
    check(sch)


def test_an_index_map_of_numbers_keeps_its_type() -> None:
    rows = IndexMap.from_func(lambda i, j: (i * SIDE + j,))
    assert [str(e.dtype) for e in rows.map_indices([3, 4])] == ["int32"]
    assert rows.map_shape([8, SIDE])[0] is const(8 * SIDE)
    assert rows.map_shape([SIDE, SIDE])[0] is const(SIDE * SIDE, "int64")
    back = rows.inverse([SIDE, SIDE])
    assert [str(e) for e in back.final_indices] == [
        "axis0 // T.int64(131072)",
        "axis0 % T.int64(131072)",
    ]
