"""The tile of a domain: which candidates the formula prefers, against what others have measured."""

from __future__ import annotations

import pytest

from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan import Tile, choose_tile
from tileloom.plan.cuda.buckets import choose_open_tile
from tileloom.plan.cuda.choose import vector_of
from tileloom.plan.cuda.cost import estimate
from tileloom.target import target

A100, V100 = target("cuda -arch=sm_80"), target("cuda -arch=sm_70")
WARPS = [Tile(rows, 1, 32, 8, "warp") for rows in (1, 2, 4, 8)]
BLOCKS = [Tile(1, 1, threads, 256 // threads, "block") for threads in (64, 128, 256)]


@pytest.mark.parametrize(("rows", "method"), [(802, "block"), (7096, "warp"), (11096, "warp")])
def test_sums_of_256_by_blocks_or_by_warps(rows: int, method: str) -> None:
    """An A100 took 15.1 us by blocks and 15.4 by warps for 802 rows, 25.9 and 22.7 for 7096, 31.3
    and 27.3 for 11096; threads read one element at a time."""
    times = {
        name: min(estimate(tile, rows, 256, 32, A100) for tile in tiles)
        for name, tiles in (("warp", WARPS), ("block", BLOCKS))
    }
    assert min(times, key=lambda name: times[name]) == method


@pytest.mark.parametrize("rows", [7096, 11096, 100_000])
def test_many_rows_are_left_to_warps(rows: int) -> None:
    tile = choose_tile(rows, 256, reduces=True, innermost=True, bits=32, target=A100)
    assert (tile.method, tile.reduce_thread, tile.vector) == ("warp", 32, 4)


@pytest.mark.parametrize("gpu", [V100, A100])
def test_long_columns_are_shared_by_threads(gpu: object) -> None:
    """2048 x 4096 along the first axis: 44 us where threads share a column, 190 where not."""
    tile = choose_tile(4096, 2048, reduces=True, innermost=False, bits=32, target=target(str(gpu)))
    assert tile.method == "discrete"
    alone = Tile(256, 1, 1, 2048, "none")
    assert estimate(alone, 4096, 2048, 32, A100) > 3 * estimate(tile, 4096, 2048, 32, A100)


@pytest.mark.parametrize("rows", [1, 3, 100, 5000])
@pytest.mark.parametrize("depth", [1, 2, 31, 32, 33, 1031, 8192, 50_000])
@pytest.mark.parametrize("innermost", [True, False])
def test_tiles_cover_their_domain(rows: int, depth: int, innermost: bool) -> None:
    tile = choose_tile(rows, depth, reduces=True, innermost=innermost, bits=32, target=A100)
    assert tile.threads <= 1024
    assert tile.reduce_thread * tile.reduce_inner >= depth
    assert tile.reduce_thread * (tile.reduce_inner - 1) < depth
    assert depth % tile.vector == 0
    if depth > 1024:
        assert tile.reduce_thread >= 16


@pytest.mark.parametrize(
    ("length", "inner", "bits", "vector"),
    [(4096, 8, 32, 4), (4098, 8, 32, 2), (4097, 8, 32, 1), (4096, 2, 32, 2), (4096, 1, 32, 1),
     (4096, 16, 16, 8), (4096, 8, 64, 2), (4096, 17, 32, 4), (4096, 16, 8, 16)],
)  # fmt: skip
def test_vectors_are_what_16_bytes_hold(length: int, inner: int, bits: int, vector: int) -> None:
    assert vector_of(length, inner, bits) == vector


@pytest.mark.parametrize(
    ("low", "high", "vector"),
    [(500, 10_000, 1), (1 << 16, 1 << 20, 4), (1 << 20, 1 << 28, 4), (1 << 13, (1 << 16) - 1, 1)],
)
def test_vectors_of_rows_that_are_not_known(low: int, high: int, vector: int) -> None:
    """At least 2^18 elements are worth vectors, where their number is a multiple of 4."""
    space = Space()
    for step, wanted in ((4, vector), (2, min(vector, 2)), (1, 1)):
        rows = symbol(space, f"n{step}", 4 * low // step, high, high) * step
        tile = choose_open_tile(
            rows, 1, reduces=False, innermost=False, bits=32, target=A100, length=1
        )
        assert (tile.vector, tile.spatial_inner) == (wanted, wanted)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("rows", "most"), [(1 << 13, 1), (1 << 15, 2), (1 << 24, 16)])
def test_vectors_where_nothing_is_reduced(rows: int, most: int, bits: int) -> None:
    tile = choose_tile(rows, 1, reduces=False, innermost=False, bits=bits, target=A100)
    assert tile.vector == tile.spatial_inner == min(most, 128 // bits)
