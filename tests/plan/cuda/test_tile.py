"""Tiles of GPUs and what they cost: small numbers by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileloom.plan.cuda.choose import choose_tile, vector_of, without_reduction
from tileloom.plan.cuda.cost import estimate
from tileloom.plan.cuda.tile import (
    KEPT,
    LONGEST,
    MANY,
    Tile,
    alternatives,
    busy_blocks,
    divisor,
    next_power,
    trim,
)
from tileloom.target import target

GPU, NEWER = target("cuda -arch=sm_80"), target("cuda -arch=sm_90")


def test_numbers() -> None:
    for value in range(1, 70):
        for limit in (1, 2, 7, 32, 100):
            fits = [k for k in range(1, limit + 1) if value % k == 0 and k <= value]
            assert divisor(value, limit) == max(fits)
        power = next_power(value)
        assert power & (power - 1) == 0 and power >= value > power // 2
    assert next_power(0) == 1 and divisor(0, 4) == 1
    assert [trim(value, 2, 5) for value in (0, 2, 4, 5, 9)] == [2, 2, 4, 5, 5]
    assert busy_blocks(GPU) == 2 * GPU.processors


def test_what_threads_keep() -> None:
    """Elements one by one, or twice as many in vectors."""
    for vector, most in ((1, KEPT), (4, LONGEST)):
        tile = Tile(4, 1, 32, most, "warp", vector)
        assert tile.keeps_rows and tile.threads == 128
        assert not replace(tile, reduce_inner=most + 1).keeps_rows
    assert tile.with_threads(2).threads == 64


@pytest.mark.parametrize(("rows", "depth"), [(12, 40), (7, 11), (64, 64), (1, 1), (100, 96)])
@pytest.mark.parametrize("vector", [1, 4])
def test_alternatives_leave_no_thread_without_work(rows: int, depth: int, vector: int) -> None:
    tile = Tile(8, 1, 16, 4, "discrete", vector, 2)
    first, *others = alternatives(tile, rows, depth)
    assert first == tile
    if vector > 1:
        assert others.pop(0) == replace(tile, vector=1)
    for other in others:
        assert rows % other.spatial_thread == 0 and other.spatial_thread <= 8
        assert other.reduce_thread * other.reduce_inner == depth and other.reduce_thread <= 16
        assert (other.vector, other.parts, other.method) == (1, 1, "discrete")
        assert other.spatial_thread == divisor(rows, 8)
    exact = Tile(8, 1, 16, 4, "discrete")
    assert list(alternatives(exact, 64, 64)) == [exact]


@pytest.mark.parametrize("length", [64, 62, 63, 3, 128])
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("bits", [4, 8, 16, 32, 64])
def test_vectors(length: int, inner: int, bits: int) -> None:
    """The widest that 16 bytes hold, that divides the row, and that a thread has enough for."""
    widths = [v for v in (1, 2, 4, 8, 16) if v * max(8, bits) <= 128]
    fits = [v for v in widths if v == 1 or (length % v == 0 and inner >= v)]
    assert vector_of(length, inner, bits) == max(fits)


@pytest.mark.parametrize("rows", [1, 100, 255, 256, 1 << 14, 1 << 15, 1 << 16, 1 << 20, 65537])
def test_tiles_without_reductions(rows: int) -> None:
    for bits, most in ((32, 4), (16, 8), (64, 2)):
        tile = without_reduction(rows, bits)
        assert tile.vector == tile.spatial_inner and rows % tile.vector == 0
        assert tile.spatial_thread == min(256, rows)
        if rows % most == 0 and rows // most >= 256 * 64:
            assert tile.vector == most
        assert tile.vector == 1 or rows // tile.vector >= 256 * 64, "enough for all processors"
        assert (tile.reduce_thread, tile.reduce_inner, tile.method) == (1, 1, "none")


@pytest.mark.parametrize("innermost", [False, True])
@pytest.mark.parametrize("depth", [1, 5, 16, 17, 100, 1024, 5000])
@pytest.mark.parametrize("rows", [1, 3, 200, 10_000])
def test_tiles_cover_a_row(rows: int, depth: int, innermost: bool) -> None:
    tile = choose_tile(rows, depth, reduces=True, innermost=innermost, bits=32, target=GPU)
    assert tile.reduce_thread * tile.reduce_inner >= depth
    assert tile.reduce_thread * (tile.reduce_inner - 1) < depth, "and no more than once too often"
    assert tile.threads <= 1024 and tile.spatial_thread <= max(1, rows) and tile.parts == 1
    if innermost:
        shared = {"warp": tile.reduce_thread <= 32, "block": 32 < tile.reduce_thread <= 1024}
        assert shared[tile.method]
        if depth <= 16:
            assert tile.reduce_thread == next_power(depth)
    else:
        assert tile.method == ("none" if tile.reduce_thread == 1 else "discrete")
        assert tile.reduce_thread <= 32


def test_costs_go_by_work() -> None:
    """Twice the rows or bits take twice as long where memory is busy; newer GPUs take less."""
    tile = Tile(4, 1, 32, 4, "warp", 4)

    def cost(rows: int = 1 << 22, tile: Tile = tile, bits: int = 32, gpu: object = GPU) -> float:
        return estimate(tile, rows, 128, bits, gpu)  # type: ignore[arg-type]

    assert cost(1 << 23) / cost() == pytest.approx(2, rel=0.01)
    assert 1.7 < cost(bits=64) / cost() <= 2
    newer = cost(gpu=NEWER) * NEWER.processors / GPU.processors
    assert newer < cost()
    assert cost(tile=replace(tile, reduce_inner=LONGEST + 1)) > 1.9 * cost(), "rows are read twice"
    assert cost(1) == cost(4) < cost(1 << 16), "a few rows are one block"


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Tile(1, 1, 1, 8, "none"), Tile(1, 1, 8, 8, "warp")),
        (Tile(1, 1, 8, 8, "warp"), Tile(1, 1, 32, 8, "warp")),
        (Tile(1, 1, 32, 8, "warp"), Tile(1, 1, 64, 8, "block")),
        (Tile(1, 1, 64, 8, "block"), Tile(1, 1, 1024, 8, "block")),
        (Tile(32, 1, 2, 8, "discrete"), Tile(32, 1, 32, 8, "discrete")),
        (Tile(32, 1, 1, 8, "none"), Tile(32, 1, 2, 8, "discrete")),
        (Tile(1, 1, 32, 8, "warp", 4), Tile(1, 1, 32, 8, "warp", 1)),
        (Tile(1, 1, 32, 4, "warp", 4), Tile(1, 1, 32, 5, "warp", 4)),
    ],
)
def test_costs_of_coming_together(less: Tile, more: Tile) -> None:
    """Of a few rows, which memory is not busy with: more threads take more steps at the end."""
    assert estimate(less, 1, 8, 32, GPU) < estimate(more, 1, 8, 32, GPU)


def test_rows_in_parts() -> None:
    """Several blocks for a long row read it in less time."""
    whole = Tile(1, 1, 256, MANY, "block")
    parts = replace(whole, reduce_inner=MANY // 8, parts=8)
    assert estimate(parts, 1, 1 << 18, 32, GPU) < estimate(whole, 1, 1 << 18, 32, GPU) / 4


def test_columns_side_by_side() -> None:
    """A warp of them or two, no more than there are; two where there are many short columns."""
    found = {
        (rows, depth): choose_tile(rows, depth, reduces=True, innermost=False, bits=32, target=GPU)
        for rows in (1, 20, 33, 64, 65, 5000, 1 << 20)
        for depth in (1, 4, 9, 100, 3000)
    }
    for (rows, _), tile in found.items():
        assert tile.spatial_thread in (min(rows, 32), 64 if rows >= 64 else 32)
        assert tile.spatial_thread <= rows
    assert any(tile.spatial_thread == 64 for tile in found.values())


@pytest.mark.parametrize("rows", [1, 5, 100, 4000])
@pytest.mark.parametrize("parts", [2, 8, 64])
def test_parts_of_rows_are_rows(rows: int, parts: int) -> None:
    """Blocks that share a row take as long as blocks for so many shorter rows."""
    tile = Tile(1, 1, 256, 8, "block", 4)
    whole = estimate(replace(tile, parts=parts), rows, parts << 13, 32, GPU)
    assert whole == estimate(tile, rows * parts, 1 << 13, 32, GPU)
