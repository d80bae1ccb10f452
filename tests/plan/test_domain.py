"""The axes that the blocks of a group share, and groups that share none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tileloom import te
from tileloom.plan import GroupRefused
from tileloom.plan.domain import find_domain
from tileloom.schedule import Schedule


def domain(*tensors: te.Tensor) -> Any:
    return find_domain(Schedule(te.create_prim_func(tensors)))


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
