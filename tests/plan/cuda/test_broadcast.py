"""Rows along which operands are constant: along which axes, from which sizes, and their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import const
from tileloom.plan.cuda.broadcast import EACH, LEAST, THREADS, along_broadcasts, broadcast_tile
from tileloom.plan.cuda.fusion_groups import settle
from tileloom.plan.cuda.tile import next_power
from tileloom.plan.domain import Domain, GroupAxis
from tileloom.schedule import Schedule
from tileloom.target import target

GPU = target("cuda -arch=sm_80")
Value = Callable[..., Any]


def planned(shape: tuple[Any, ...], value: Value, kept: tuple[int, ...]) -> list[list[int]] | None:
    """Extents of rows and of what is walked along, for an operand that has some of the axes."""
    x = te.placeholder(shape, name="X")
    s = te.placeholder([n if k in kept else 1 for k, n in enumerate(shape)], name="S")

    def element(*i: Any) -> Any:
        return value(x, s, i, tuple(i[k] if k in kept else const(0) for k in range(len(shape))))

    result = te.compute(shape, element, name="R")
    sch = Schedule(te.create_prim_func([x, s, result]))
    (fusion,) = settle(sch, GPU)
    made = along_broadcasts(sch, fusion)
    if made is None:
        return None
    assert made.axes["R"] == [*made.spatial, *made.reduced], "the block runs over the new axes"
    assert all(axis.reduced for axis in made.reduced) and not any(a.reduced for a in made.spatial)
    return [[axis.extent for axis in part] for part in (made.spatial, made.reduced)]


def scaled(x: Any, s: Any, i: Any, at: Any) -> Any:
    return x[i] * s[at]


@pytest.mark.parametrize(
    ("shape", "kept", "rows"),
    [
        ((256, 1024), (0,), [[256], [1024]]),
        ((16, 64, 32, 32), (1,), [[16, 64], [32, 32]]),
        ((16, 64, 32, 32), (0, 1), [[16, 64], [32, 32]]),
        ((16, 64, 32, 32), (0,), [[16], [64, 32, 32]]),
        ((16, 64, 32, 32), (0, 2), [[16, 64, 32], [32]]),
        ((16, 64, 32, 32), (3,), None),  # constant along outer axes alone
        ((16, 64, 32, 32), (), None),  # along all of them
        ((LEAST // 32, 32), (0,), [[LEAST // 32], [32]]),
        ((LEAST // 32 - 1, 32), (0,), None),  # too little
        ((1 << 14, 33), (0,), None),  # rows of no whole warps, and short
        ((1 << 14, 1023), (0,), None),
        ((1 << 14, 4 * THREADS + 1), (0,), [[1 << 14], [4 * THREADS + 1]]),
        ((64, LEAST), (0,), [[64], [LEAST]]),
        ((LEAST,), (0,), None),  # one axis
    ],
)
def test_axes_along_which_an_operand_is_constant(
    shape: tuple[int, ...], kept: tuple[int, ...], rows: list[list[int]] | None
) -> None:
    assert planned(shape, scaled, kept) == rows


def test_the_nearest_of_several_operands_says_the_row() -> None:
    x, a, b = (
        te.placeholder(shape, name=name)
        for shape, name in (((32, 64, 128), "X"), ((32,), "A"), ((32, 64), "B"))
    )
    result = te.compute((32, 64, 128), lambda i, j, k: x[i, j, k] * a[i] + b[i, j], name="R")
    sch = Schedule(te.create_prim_func([x, a, b, result]))
    (fusion,) = settle(sch, GPU)
    made = along_broadcasts(sch, fusion)
    assert made is not None and [axis.extent for axis in made.reduced] == [128]


def test_what_is_read_across_rows_or_anywhere_says_nothing() -> None:
    transposed = lambda x, s, i, at: x[i[1], i[0]] * s[at]  # noqa: E731
    assert planned((512, 512), transposed, (0,)) is None, "tiles in shared memory are for that"
    shifted = lambda x, s, i, at: x[i] * s[(i[0] // 2, *at[1:])]  # noqa: E731
    assert planned((512, 512), shifted, (0,)) is None


def test_rows_of_reductions_stay_as_they_are() -> None:
    x = te.placeholder((512, 512), name="X")
    k = te.reduce_axis((0, 512), name="k")
    total = te.compute((512,), lambda i: te.sum(x[i, k], axis=k), name="S")
    sch = Schedule(te.create_prim_func([x, total]))
    (fusion,) = settle(sch, GPU)
    assert along_broadcasts(sch, fusion) is None


@pytest.mark.parametrize("rows", [1, 2, 3, 100, 5000])
@pytest.mark.parametrize("length", [32, 64, 100, 1024, 4096, 5000, 1 << 16])
@pytest.mark.parametrize("bits", [16, 32])
def test_tiles_of_rows(rows: int, length: int, bits: int) -> None:
    """Every row is covered by its threads, in few steps each; a block has 256 threads at most."""
    axes = [GroupAxis(rows, False, length)], [GroupAxis(length, True, 1)]
    tile = broadcast_tile(Domain(*axes, {}), bits)
    assert length % tile.vector == 0 and tile.vector * bits <= 128
    vectors = -(-length // tile.vector)
    assert tile.reduce_thread == min(THREADS, next_power(vectors))
    assert tile.spatial_thread == max(1, min(rows, THREADS // tile.reduce_thread))
    assert tile.threads <= THREADS and tile.spatial_inner == 1 and tile.method == "none"
    steps = tile.reduce_inner // tile.vector
    assert tile.reduce_inner == steps * tile.vector and 1 <= steps <= EACH
    assert (tile.parts - 1) * tile.reduce_thread * steps < vectors
    assert vectors <= tile.parts * tile.reduce_thread * steps
    assert tile.parts == 1 or (steps == EACH and tile.reduce_thread == THREADS)


def test_tiles_of_two_axes_read_vectors_of_the_inner_one() -> None:
    axes = [GroupAxis(64, False, 48)], [GroupAxis(8, True, 6), GroupAxis(6, True, 1)]
    tile = broadcast_tile(Domain(*axes, {}), 32)
    assert (tile.vector, tile.reduce_thread) == (2, 32), "24 vectors of 2"
    assert broadcast_tile(Domain(*axes, {}), 16).vector == 2
