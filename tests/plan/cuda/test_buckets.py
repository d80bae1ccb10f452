"""Tiles of domains whose sizes are not known: for each range of sizes that of its largest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan import Tile, choose_tile
from tileloom.plan.cuda.buckets import CROWD, FEW, LIMIT, choose_open_tile
from tileloom.plan.cuda.tile import LONGEST, MANY
from tileloom.target import target

GPU = target("cuda -arch=sm_80")


def tile(rows: int, depth: int, innermost: bool = True, length: int = 64) -> Tile:
    return choose_tile(
        rows, depth, reduces=True, innermost=innermost, bits=32, target=GPU, length=length
    )


def open_tile(rows: int, depth: int, innermost: bool = True, length: int = 64) -> Tile:
    return choose_open_tile(
        rows, depth, reduces=True, innermost=innermost, bits=32, target=GPU, length=length
    )


def ranges(space: Space, number: int, make: Callable[[], Tile], top: int) -> dict[int, Tile]:
    """The tile of each range of a size, by the range's largest value."""
    found: dict[int, Tile] = {}
    for way, made in space.variants(make, 16):
        with space.assuming(*way):
            _, high = space.between(number.polynomial)  # type: ignore[attr-defined]
        found[min(high, top)] = made
    assert not space.guards, "all sizes are followed"
    return found


@pytest.mark.parametrize(
    ("innermost", "low", "high", "tops"),
    [
        (True, 1, 8192, [8, 32, 128, 512, 2048, 8192]),
        (True, 9, 8192, [32, 128, 512, 2048, 8192]),
        (True, 33, 2000, [128, 512, 2000]),  # no longer than rows can be
        (True, 5, 8, [8]),
        (True, 5, 9, [8, 9]),
        (False, 1, 256, [8, 256]),
        (False, 9, 100, [100]),
    ],
)
def test_ranges_of_lengths(innermost: bool, low: int, high: int, tops: list[int]) -> None:
    space = Space()
    depth = symbol(space, "n", low, high, low)
    found = ranges(space, depth, lambda: open_tile(64, depth, innermost), high)
    assert sorted(found) == tops
    for top in tops:
        assert found[top] == tile(64, top, innermost)


@pytest.mark.parametrize(("innermost", "longest"), [(True, 8192), (False, 256)])
def test_rows_of_any_length_are_walked(innermost: bool, longest: int) -> None:
    """What a thread passes over depends; so it keeps nothing of it, and reads no vectors."""
    space = Space()
    depth = symbol(space, "n", longest + 1, 1 << 30, longest + 1)
    (found,) = ranges(space, depth, lambda: open_tile(64, depth, innermost), 1 << 30).values()
    like = tile(64, MANY * LONGEST, innermost)
    assert found == replace(like, reduce_inner=MANY, vector=1) and not found.keeps_rows


@pytest.mark.parametrize(
    ("depth", "innermost", "same"),
    [(256, True, False), (2048, True, False), (64, True, False), (64, False, False),
     (8, True, True), (16_384, True, True), (2048, False, True)],
)  # fmt: skip
def test_many_rows_where_that_makes_a_difference(depth: int, innermost: bool, same: bool) -> None:
    space = Space()
    rows = symbol(space, "m", 1, 1 << 20, 1)
    found = ranges(space, rows, lambda: open_tile(rows, depth, innermost), 1 << 20)
    few, many = tile(FEW, depth, innermost), tile(CROWD, depth, innermost)
    assert (few == many) == same
    assert found == ({1 << 20: few} if same else {LIMIT - 1: few, 1 << 20: many})


@pytest.mark.parametrize(
    ("low", "high", "rows"), [(1, 100, 100), (1, 20, 20), (1 << 15, 1 << 20, 1 << 15)]
)
def test_rows_within_bounds(low: int, high: int, rows: int) -> None:
    """Few rows are no more than there can be, and many no fewer."""
    space = Space()
    number = symbol(space, "m", low, high, low)
    found = ranges(space, number, lambda: open_tile(number, 256), high)
    assert found == {high: tile(rows, 256)}


def test_sizes_that_are_known() -> None:
    assert open_tile(64, 1000) == tile(64, 1000)
    assert open_tile(64, 1000, False) == tile(64, 1000, False)


@pytest.mark.parametrize(
    ("step", "low", "vector"),
    [
        (8, LIMIT * 256, 4),
        (4, LIMIT * 256, 4),
        (2, LIMIT * 256, 2),
        (6, LIMIT * 256, 2),
        (1, LIMIT * 256, 1),
        (4, LIMIT * 256 - 4, 1),  # there may be too few
    ],
)
def test_vectors_of_elementwise_blocks(step: int, low: int, vector: int) -> None:
    space = Space()
    rows = symbol(space, "m", -(-low // step), 1 << 24, 1 << 20) * step
    made = space.variants(
        lambda: choose_open_tile(
            rows, 1, reduces=False, innermost=False, bits=32, target=GPU, length=1
        ),
        8,
    )
    least = min((found for _, found in made), key=lambda found: found.vector)
    assert (least.vector, least.spatial_inner) == (vector, vector)
    assert all(found.spatial_thread == 256 for _, found in made)
