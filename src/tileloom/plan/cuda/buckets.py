"""Tiles for domains whose sizes are not known yet: which, is decided by ranges of sizes.

Each comparison of such a size may be a decision, which is followed both ways (`expr.extents`), each
to a kernel of its own. So few are asked for: into which range a row's length falls, so that a
thread's share of it has a known length and fits into registers; and whether there are many rows,
where that makes a difference. Tiles are those of the longest row of the range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...expr.extents import is_number, limits
from ...target import Target
from .choose import THREADS, choose_tile, without_reduction
from .tile import LONGEST, MANY, Tile

#: Lengths of rows up to which a tile serves; and of columns.
ALONG, ACROSS = (8, 32, 128, 512, 2048, 8192), (8, 256)
#: Few rows, the least that are many, and many.
FEW, LIMIT, CROWD = 128, 1024, 1 << 14


def choose_open_tile(
    rows: int,
    depth: int,
    *,
    reduces: bool,
    innermost: bool,
    bits: int,
    target: Target,
    length: int,
) -> Tile:
    """The tile of a domain whose rows, or their lengths, may be unknown; see `choose_tile`."""

    def tile_for(rows: int, depth: int) -> Tile:
        return choose_tile(
            rows,
            depth,
            reduces=reduces,
            innermost=innermost,
            bits=bits,
            target=target,
            length=length,
        )

    if is_number(rows) and is_number(depth):
        return tile_for(rows, depth)
    if not reduces:
        return _without_reduction(rows, bits)
    longest = depth if is_number(depth) else _longest(depth, ALONG if innermost else ACROSS)
    tile = _for_rows(rows, longest or MANY * LONGEST, tile_for)
    if longest is None:
        tile = replace(tile, reduce_inner=MANY, vector=1)
    return tile


def _without_reduction(rows: int, bits: int) -> Tile:
    """Vectors where the bounds prove that their length divides the rows, and there are enough."""
    tile = without_reduction(CROWD * THREADS, bits)
    vector = tile.vector
    while vector > 1 and rows % vector != 0:
        vector //= 2
    if vector > 1 and rows < LIMIT * THREADS:
        vector = 1
    return replace(tile, spatial_inner=vector, vector=vector)


def _longest(depth: int, tops: tuple[int, ...]) -> int | None:
    """The largest length of the range that is decided for; None if there is none."""
    for top in tops:
        if depth <= top:
            return min(top, limits(depth)[1])
    return None


def _for_rows(rows: int, depth: int, tile_for: Callable[[int, int], Tile]) -> Tile:
    if is_number(rows):
        return tile_for(rows, depth)
    least, most = limits(rows)
    few, many = (tile_for(max(least, min(most, n)), depth) for n in (FEW, CROWD))
    if few == many:
        return few
    return many if rows >= LIMIT else few
