"""Which blocks share a kernel on a GPU, and which rows all of it reduces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import intrin
from tileloom.plan.cuda.fusion_groups import (
    DEEP,
    LARGE,
    LONG,
    blocks_alone,
    find_fusion_groups,
    is_long,
    settle,
)
from tileloom.plan.cuda.tile import busy_blocks
from tileloom.plan.domain import Domain, GroupAxis
from tileloom.schedule import Schedule
from tileloom.target import target

GPU = target("cuda -arch=sm_80")


def domain(rows: int, depth: int, innermost: bool) -> Domain:
    row, column = GroupAxis(rows, False, 1 + innermost), GroupAxis(depth, True, 2 - innermost)
    return Domain([row], [column], {})


@pytest.mark.parametrize(
    ("rows", "depth", "innermost", "long"),
    [
        (4, LONG, True, True),
        (4, LONG - 1, True, False),
        (3, LONG, True, False),  # little altogether
        (1, LONG, True, True),
        (busy_blocks(GPU) // 2 - 1, LONG, True, True),
        (busy_blocks(GPU) // 2, LONG, True, False),  # a block each is enough
        (32, DEEP, False, True),
        (32, DEEP - 1, False, False),
        (LARGE // DEEP, DEEP, False, True),
        (LARGE // DEEP - 1, DEEP, False, False),
        (32 * (busy_blocks(GPU) // 2 - 1), DEEP, False, True),
        (32 * (busy_blocks(GPU) // 2 - 1) + 1, DEEP, False, False),
    ],
)
def test_rows_that_the_whole_gpu_reduces(
    rows: int, depth: int, innermost: bool, long: bool
) -> None:
    found = domain(rows, depth, innermost)
    assert found.reduces_innermost == innermost
    assert blocks_alone(found) == (rows if innermost else (rows + 31) // 32)
    assert is_long(found, GPU) == long


def softmax(rows: int, columns: int) -> list[te.Tensor]:
    a = te.placeholder((rows, columns), name="A")
    j, k = (te.reduce_axis((0, columns), name=name) for name in "jk")
    top = te.compute((rows,), lambda i: te.max(a[i, j], axis=j), name="top")
    power = te.compute((rows, columns), lambda i, c: intrin.exp(a[i, c] - top[i]), name="power")
    s = te.compute((rows,), lambda i: te.sum(power[i, k], axis=k), name="s")
    return [a, te.compute((rows, columns), lambda i, c: power[i, c] / s[i], name="out")]


def product_and_bias() -> list[te.Tensor]:
    a, b = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return [a, b, te.compute((64, 48), lambda i, j: c[i, j] + 1.0, name="d")]


def shifted() -> list[te.Tensor]:
    a = te.placeholder((64,), name="A")
    x = te.compute((64,), lambda i: a[i] + 1.0, name="x")
    k = te.reduce_axis((0, 64), name="k")
    s = te.compute((1,), lambda _: te.sum(x[k], axis=k), name="s")
    return [a, x, s, te.compute((64,), lambda i: x[63 - i] * s[0], name="y")]


def reductions_of_reductions() -> list[te.Tensor]:
    a = te.placeholder((8, 16, 32), name="A")
    k, m = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 16), name="m")
    s = te.compute((8, 16), lambda i, j: te.sum(a[i, j, k], axis=k), name="s")
    return [a, te.compute((8,), lambda i: te.sum(s[i, m], axis=m), name="t")]


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (lambda: softmax(64, 128), [["top", "power", "s", "out"]]),
        (lambda: softmax(1000, LONG), [["top", "power", "s", "out"]]),
        (product_and_bias, [["c", "d"]]),
        (reductions_of_reductions, [["s"], ["t"]]),
    ],
)
def test_groups(make: Callable[[], list[Any]], groups: list[list[str]]) -> None:
    sch = Schedule(te.create_prim_func(make()))
    found = find_fusion_groups(sch, GPU)
    assert [group.names for group in found] == groups
    assert [group.is_product(sch) for group in found] == ["c" in names for names in groups]


def test_what_is_read_elsewhere_is_not_shared() -> None:
    """Neither is the sum's kernel that of the block which reads from the other end."""
    sch = Schedule(te.create_prim_func(shifted()))
    names = [group.names for group in find_fusion_groups(sch, GPU)]
    assert not any({"x", "y"} <= set(group) for group in names)
    assert sorted(name for group in names for name in group) == ["s", "x", "y"]


def test_long_rows_fall_into_stages() -> None:
    """All of the GPU has reduced a row before it is read again."""
    sch = Schedule(te.create_prim_func(softmax(4, 4 * LONG)))
    found = settle(sch, GPU)
    place = {name: k for k, group in enumerate(found) for name in group.names}
    assert place["top"] < place["out"] and place["s"] < place["out"]
    last = found[place["out"]]
    assert last.names[-1] == "out" and last.leaves(sch, sch.get(sch.get_block("out")))
    (sums,) = (found[k] for k in {place["s"]})
    assert sums.leaves(sch, sch.get(sch.get_block("s"))), "another kernel reads it"
    assert {b.name for b in sums.exported} >= {"s"}
    short = Schedule(te.create_prim_func(softmax(64, 128)))
    (alone,) = settle(short, GPU)
    assert not alone.exported and not alone.leaves(short, short.get(short.get_block("s")))
    copy = alone.copy()
    copy.names.append("more")
    assert "more" not in alone.names and copy.domain is not alone.domain
