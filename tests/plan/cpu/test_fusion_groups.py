"""Which blocks share a domain on a CPU, in which order, and what is materialized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import intrin
from tileloom.plan.cpu.fusion_groups import (
    find_fusion_groups,
    inline_elementwise,
    materialized_blocks,
    materialized_bytes,
    recompute_materialized,
)
from tileloom.plan.domain import blocks_by_name
from tileloom.plan.sizes import Sizes
from tileloom.schedule import Schedule

A = te.placeholder((12, 20), name="A")
W = te.placeholder((20, 12), name="W")


def total(x: Any, name: str, rows: int = 12, columns: int = 20) -> Any:
    k = te.reduce_axis((0, columns), name="k")
    return te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name=name)


def wide(value: Callable[..., Any], name: str) -> Any:
    return te.compute((12, 20), value, name=name)


def softmax() -> list[te.Tensor]:
    k = te.reduce_axis((0, 20), name="k")
    top = te.compute((12,), lambda i: te.max(A[i, k], axis=k), name="top")
    power = wide(lambda i, j: intrin.exp(A[i, j] - top[i]), "power")
    s = total(power, "s")
    return [A, wide(lambda i, j: power[i, j] / s[i], "out")]


def independent() -> list[te.Tensor]:
    return [A, W, wide(lambda i, j: A[i, j] + 1.0, "x"),
            te.compute((20, 12), lambda i, j: W[i, j] * 2.0, name="y")]  # fmt: skip


def other_length() -> list[te.Tensor]:
    """The third block needs both, which share nothing."""
    s, t = total(A, "s"), total(W, "t", 20, 12)
    return [A, W, s, t, wide(lambda i, j: s[i] + t[j], "z")]


def alike() -> list[te.Tensor]:
    """Blocks of one domain, of which the second needs the first."""
    x = wide(lambda i, j: A[i, j] + 1.0, "x")
    return [A, x, wide(lambda i, j: x[i, j] * 2.0, "y")]


def through_another() -> list[te.Tensor]:
    """The last block cannot join the first group: it needs the second, which needs the first."""
    s = total(A, "s")
    t = te.compute((3,), lambda i: s[i * 4] + s[i * 4 + 1], name="t")
    return [A, s, t, te.compute((12,), lambda i: t[i // 4] + s[i], name="u")]


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (softmax, [["top", "power", "s", "out"]]),
        (independent, [["x"], ["y"]]),
        (other_length, [["s"], ["t"], ["z"]]),
        (alike, [["x", "y"]]),
        (through_another, [["s"], ["t"], ["u"]]),
    ],
)
def test_groups(make: Callable[[], list[te.Tensor]], groups: list[list[str]]) -> None:
    sch = Schedule(te.create_prim_func(make()))
    found = find_fusion_groups(sch, Sizes())
    assert [group.names for group in found] == groups


def test_levels_count_the_reductions_before() -> None:
    (group,) = find_fusion_groups(Schedule(te.create_prim_func(softmax())), Sizes())
    assert group.levels == {"top": 0, "power": 1, "s": 1, "out": 2}
    assert group.passes == 3
    assert [group.full(name) for name in group.names] == [True] * 4
    root = total(A, "s")
    twice = te.compute((12,), lambda i: intrin.sqrt(root[i]), name="t")
    out = wide(lambda i, j: A[i, j] * twice[i], "out")
    (group,) = find_fusion_groups(Schedule(te.create_prim_func([A, out])), Sizes())
    assert group.levels == {"s": 0, "t": 1, "out": 1} and group.passes == 2
    assert [group.full(name) for name in group.names] == [True, False, True]


def left(*tensors: te.Tensor) -> list[str]:
    sch = Schedule(te.create_prim_func(tensors))
    inline_elementwise(sch)
    return list(blocks_by_name(sch))


@pytest.mark.parametrize(("costly", "more"), [(False, []), (True, ["x"])])
def test_what_is_costly_is_not_repeated(costly: bool, more: list[str]) -> None:
    """In a reduction and after it, or for each element of more axes."""
    value = intrin.exp if costly else (lambda v: v + 1.0)
    x = wide(lambda i, j: value(A[i, j]), "x")
    s = total(x, "s")
    assert left(A, s) == ["s"]
    assert left(A, wide(lambda i, j: x[i, j] + x[i, j] * 2.0, "y")) == ["y"]
    assert left(A, wide(lambda i, j: x[i, j] / s[i], "y")) == [*more, "s", "y"]
    row = te.compute((12,), lambda i: value(A[i, 0]), name="x")
    across = te.compute((20, 12), lambda j, i: row[i] * A[i, j], name="y")
    assert left(A, across) == [*more, "y"]
    one = te.compute((12, 1), lambda i, _: row[i] * 2.0, name="y")
    assert left(A, one) == ["y"]


def test_what_stays_the_same_along_rows_is_repeated_where_they_are_long() -> None:
    """Also where a row is several axes; not in a reduction."""
    a = te.placeholder((12, 5, 8), name="a")
    root = te.compute((12,), lambda i: intrin.sqrt(a[i, 0, 0]), name="x")
    scaled = te.compute((12, 5, 8), lambda i, j, k: a[i, j, k] * root[i], name="y")
    assert left(a, scaled) == ["y"]
    assert left(a, te.compute((12, 4), lambda i, j: a[i, j, 0] * root[i], name="y")) == ["x", "y"]
    j = te.reduce_axis((0, 5), name="j")
    summed = te.compute((12, 8), lambda i, k: te.sum(a[i, j, k] * root[i], axis=j), name="y")
    assert left(a, summed) == ["x", "y"]


def test_what_leaves_is_made() -> None:
    x = wide(lambda i, j: A[i, j] + 1.0, "x")
    assert left(A, x, wide(lambda i, j: x[i, j] * 2.0, "y")) == ["x", "y"]


def test_bytes_that_are_kept_for_a_row() -> None:
    sch = Schedule(te.create_prim_func(softmax()))
    (group,) = find_fusion_groups(sch, Sizes())
    assert [b.name_hint for b in materialized_blocks(sch, group)] == ["power"]
    assert materialized_bytes(sch, group, Sizes(), 80) == 80
    assert materialized_bytes(sch, group, Sizes(), 79) is None
    recompute_materialized(sch, group)
    assert group.names == ["top", "s", "out"] == list(blocks_by_name(sch))
    assert materialized_bytes(sch, group, Sizes(), 0) == 0
    plain = Schedule(te.create_prim_func(alike()))
    (group,) = find_fusion_groups(plain, Sizes())
    assert materialized_blocks(plain, group) == []
