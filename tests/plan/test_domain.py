"""The axes that the blocks of a group share, and groups that share none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import Var
from tileloom.plan import GroupRefused
from tileloom.plan.domain import blocks_by_name, domain_of
from tileloom.schedule import Schedule


def domain(*tensors: te.Tensor) -> Any:
    return domain_of(list(blocks_by_name(Schedule(te.create_prim_func(tensors))).values()))


def rows(shape: Sequence[int]) -> tuple[te.Tensor, te.Tensor]:
    """An input and the sums of its rows."""
    a = te.placeholder(shape, name="A")
    k = te.reduce_axis((0, shape[1]), name="k")
    return a, te.compute(shape[:1], lambda i: te.sum(a[i, k], axis=k), name="S")


def test_a_sum_and_what_is_made_of_it() -> None:
    a, s = rows((3, 7))
    b = te.compute((3, 7), lambda i, j: a[i, j] / s[i], name="B")
    found = domain(a, b)
    assert [axis.extent for axis in found.spatial] == [3]
    assert [axis.extent for axis in found.reduced] == [7]
    assert found.axes["B"] == [*found.spatial, *found.reduced]
    assert (found.rows, found.depth, found.reduces_innermost) == (3, 7, True)


def test_a_block_that_runs_over_one_axis_twice() -> None:
    """The diagonal makes rows and columns one axis."""
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i, i] * 2.0, name="C")
    with pytest.raises(GroupRefused, match="'B' runs over one axis of the group twice"):
        domain(a, b, c)


def test_axes_of_two_lengths() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((3, 4), lambda i, j: b[i, j] * 2.0, name="C")
    with pytest.raises(GroupRefused, match="'C' has extent 3, where another block has 4"):
        domain(a, b, c)


def test_a_reduction_over_a_part_of_what_another_reduces() -> None:
    a, s = rows((3, 7))
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 7), name="j")
    t = te.compute((1,), lambda _: te.sum(a[i, j], axis=[i, j]), name="T")
    with pytest.raises(GroupRefused, match="'S' reduces over some of the axes"):
        domain(a, s, t)


def shared(*tensors: te.Tensor, guess: Any = None) -> Any:
    sch = Schedule(te.create_prim_func(tensors))
    return domain_of(list(blocks_by_name(sch).values()), guess)


def test_axes_go_from_the_longest_step_to_the_shortest() -> None:
    """By the largest buffer that an axis runs through, whatever the order of the loops."""
    a = te.placeholder((3, 5, 7), name="A")
    b = te.compute((7, 3, 5), lambda i, j, k: a[j, k, i] + 1.0, name="B")
    found = domain(a, b)
    assert [axis.extent for axis in found.axes["B"]] == [7, 3, 5]
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((7, 5), lambda i, j: te.sum(a[k, j, i], axis=k), name="C")
    found = domain(a, c)
    assert [(axis.extent, axis.weight) for axis in found.spatial] == [(5, 7), (7, 1)]
    assert [(axis.extent, axis.weight) for axis in found.reduced] == [(3, 35)]
    assert (found.rows, found.depth, found.reduces_innermost) == (35, 3, False)


@pytest.mark.parametrize(
    ("shape", "over", "innermost"),
    [
        ((4, 6), 1, True),
        ((4, 6), 0, False),
        ((6,), 0, True),  # nothing is kept
        ((1, 6), 1, True),
        ((6, 1), 0, True),  # of what is kept there is one
    ],
)
def test_what_lies_side_by_side(shape: tuple[int, ...], over: int, innermost: bool) -> None:
    a = te.placeholder(shape, name="A")
    k = te.reduce_axis((0, shape[over]), name="k")
    rest = [n for d, n in enumerate(shape) if d != over] or [1]

    def total(*i: Any) -> Any:
        kept = list(i) if len(shape) > 1 else []
        return te.sum(a[(*kept[:over], k.var, *kept[over:])], axis=k)

    found = domain(a, te.compute(rest, total, name="B"))
    assert found.reduces_innermost == innermost
    assert [axis is None for axis in found.axes["B"]] == [n == 1 for n in rest] + [False]
    assert (found.rows, found.depth) == (4 * 6 // shape[over] if len(shape) == 2 and 1 not in shape
                                         else 1, shape[over])  # fmt: skip


def test_without_reductions() -> None:
    a = te.placeholder((4, 6), name="A")
    found = domain(a, te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B"))
    assert (found.rows, found.depth, found.reduced, found.reduces_innermost) == (24, 1, [], False)
    other = found.copy()
    other.axes["more"] = []
    assert "more" not in found.axes and other.spatial is found.spatial


def test_what_is_done_once_a_row_has_no_axis_of_depth() -> None:
    a, s = rows((3, 7))
    root = te.compute((3,), lambda i: s[i] * 2.0, name="R")
    found = domain(a, te.compute((3, 7), lambda i, j: a[i, j] / root[i], name="B"))
    (row,), (depth,) = found.spatial, found.reduced
    assert found.axes == {"S": [row, depth], "R": [row], "B": [row, depth]}


def test_blocks_alone_have_axes_of_their_own() -> None:
    """The diagonal of one block joins no axes where no other block has them."""
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + a[j, i], name="B")
    found = domain(a, b)
    assert len(found.spatial) == 2 and found.axes["B"] == [*found.spatial]


def test_sizes_that_are_not_constant() -> None:
    n = Var("n", "int32")
    a = te.placeholder((n, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    s = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    with pytest.raises(GroupRefused, match="an axis whose extent n is not constant"):
        shared(a, s)
    found = shared(a, s, guess=lambda size: 11)
    (row,), (depth,) = found.spatial, found.reduced
    assert (row.extent, row.size, row.weight) == (11, n, 7) and depth.extent == 7
    one = te.compute((n, 1), lambda i, _: a[i, 0] + 1.0, name="B")
    found = shared(a, one, guess=lambda size: 1)
    assert [axis is None for axis in found.axes["B"]] == [False, True], "n may be more than 1"


def test_open_sizes_must_be_the_same() -> None:
    n, m = Var("n", "int32"), Var("m", "int32")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, 4), lambda i, j: b[i, j] * 2.0, name="C")
    with pytest.raises(GroupRefused, match="'C' has extent m, where another block has n"):
        shared(a, b, c, guess=lambda size: 8)


def test_what_blocks_run_over() -> None:
    """All rows, and all of the depth or nothing of it; else a block is in no nest of the others."""
    a = te.placeholder((3, 5, 7), name="A")
    j, k = te.reduce_axis((0, 5), name="j"), te.reduce_axis((0, 7), name="k")
    s = te.compute((3,), lambda i: te.sum(a[i, j, k], axis=[j, k]), name="S")
    full = te.compute((3, 5, 7), lambda i, j, k: a[i, j, k] / s[i], name="full")
    row = te.compute((3,), lambda i: s[i] * 2.0, name="row")
    part = te.compute((3, 5), lambda i, j: full[i, j, 0] * 2.0, name="part")
    none = te.compute((5, 7), lambda j, k: full[0, j, k] * 2.0, name="none")
    found = domain(a, full, row, part, none)
    names = ["S", "full", "row", "part", "none"]
    assert [found.over_depth(name) for name in names] == [True, True, False, True, True]
    assert [found.is_regular(name) for name in names] == [True, True, True, False, False]
