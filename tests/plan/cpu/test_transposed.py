"""Elementwise blocks that read along one axis and write along another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom import te
from tileloom.plan.cpu.transposed import as_written, dims_of, transposed_axes
from tileloom.plan.domain import Domain, blocks_by_name, domain_of
from tileloom.schedule import Schedule
from tileloom.tir import Block

SHAPE = (20, 24, 32)


def group(value: Callable[..., Any], shape: tuple[int, ...] = SHAPE) -> tuple[Domain, list[Block]]:
    """A block of a shape from arrays over the same axes in other orders."""
    i, j, k = shape
    orders = {
        "A": (i, j, k),
        "B": (k, j, i),
        "C": (i, k, j),
        "D": (j, i, k),
        "E": (i,),
        "F": (k, i),
    }
    inputs = {name: te.placeholder(order, name=name) for name, order in orders.items()}
    result = te.compute(shape, lambda *at: value(*inputs.values(), *at), name="R")
    func = te.create_prim_func([*inputs.values(), result])
    blocks = list(blocks_by_name(Schedule(func)).values())
    return domain_of(blocks), blocks


Value = Callable[..., Any]


@pytest.mark.parametrize(
    ("value", "across"),
    [
        (lambda a, b, c, d, e, f, i, j, k: a[i, j, k], None),
        (lambda a, b, c, d, e, f, i, j, k: b[k, j, i], 20),
        (lambda a, b, c, d, e, f, i, j, k: c[i, k, j], 24),
        (lambda a, b, c, d, e, f, i, j, k: d[j, i, k], None),  # neighbours stay neighbours
        (lambda a, b, c, d, e, f, i, j, k: f[k, i] + a[i, j, k], 20),
        (lambda a, b, c, d, e, f, i, j, k: e[i] + a[i, j, k], None),  # not along both
        (lambda a, b, c, d, e, f, i, j, k: b[k, j, i] + a[i, j, k], 20),
        (lambda a, b, c, d, e, f, i, j, k: b[k, j, i] * f[k, i], 20),
        (lambda a, b, c, d, e, f, i, j, k: b[k, j, i] + c[i, k, j], None),  # of two kinds
        (lambda a, b, c, d, e, f, i, j, k: b[k, j, i * 1 + 0] + 1.0, 20),
    ],
)
def test_axes_that_operands_lie_along(value: Value, across: Any) -> None:
    domain, blocks = group(value)
    groups = [[axis] for axis in as_written(domain, blocks)]
    assert [axis.extent for (axis,) in groups] == list(SHAPE)
    found: Any = transposed_axes(groups, blocks, domain, 8)
    assert (found and [axis.extent for axis in found]) == (across and [across])
    assert transposed_axes(groups[-1:], blocks, domain, 8) is None


@pytest.mark.parametrize(
    ("shape", "side", "pays"),
    [
        ((20, 24, 32), 20, True),
        ((20, 24, 32), 21, False),  # fewer than a side of the tile
        ((20, 24, 8), 8, True),
        ((20, 24, 7), 8, False),
        ((8, 24, 32), 8, True),
        ((7, 24, 32), 8, False),
    ],
)
def test_tiles_have_a_side(shape: tuple[int, ...], side: int, pays: bool) -> None:
    domain, blocks = group(lambda a, b, c, d, e, f, i, j, k: b[k, j, i], shape)
    groups = [[axis] for axis in as_written(domain, blocks)]
    assert (transposed_axes(groups, blocks, domain, side) is not None) == pays


def test_dimensions() -> None:
    domain, blocks = group(lambda a, b, c, d, e, f, i, j, k: b[k, j, i] + e[i // 2] + a[i, 0, k])
    (block,) = blocks
    axes = domain.axes["R"]
    read = {region.buffer.name: region.buffer for region in block.reads}
    assert dims_of(block, domain, read["B"]) == axes[::-1]
    assert dims_of(block, domain, read["E"]) == [None]
    assert dims_of(block, domain, read["A"]) == [axes[0], None, axes[2]]
    other, _ = group(lambda a, b, c, d, e, f, i, j, k: a[i, j, k])
    assert other.rows == domain.rows


def test_results_say_the_order() -> None:
    """The first block with a result of all axes; without one, the domain."""
    a = te.placeholder((4, 6), name="A")
    b = te.compute((6, 4), lambda i, j: a[j, i] + 1.0, name="B")
    blocks = list(blocks_by_name(Schedule(te.create_prim_func([a, b]))).values())
    domain = domain_of(blocks)
    assert [axis.extent for axis in as_written(domain, blocks)] == [6, 4]
    assert as_written(domain, []) is domain.spatial
