"""Where the elements of tiles are: the canonical layouts of the PTX ISA, written out."""

from __future__ import annotations

import itertools

import pytest

from tileloom.base.tensor_map import TileLayout, swizzled

LEADING, STRIDE = 4096, 8192


def canonical(swizzle: int, across: bool, size: int, row: int, depth: int) -> int:
    """Bytes by the ISA's table of layouts ((..):(..)), with T elements in 16 bytes."""
    t = 16 // size
    lines = max(swizzle, 16) // 16  # pieces of 16 bytes that a line of the pattern has
    if across and swizzle == 0:  # ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
        return row % t * size + row // t * STRIDE + depth % 8 * 16 + depth // 8 * LEADING
    if across:  # ((T,c,m),(8,k)):((1,T,LBO),(cT,SBO))
        piece, pattern = row // t % lines, row // (t * lines)
        return (
            row % t * size + piece * 16 + pattern * LEADING
            + depth % 8 * lines * 16 + depth // 8 * STRIDE
        )  # fmt: skip
    if swizzle == 0:  # ((8,m),(T,2k)):((1T,SBO),(1,LBO))
        return row % 8 * 16 + row // 8 * STRIDE + depth % t * size + depth // t * LEADING
    # ((8,m),(T,2k)):((cT,SBO),(1,T))
    return row % 8 * lines * 16 + row // 8 * STRIDE + depth * size


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_canonical_layouts(swizzle: int, across: bool, size: int) -> None:
    layout = TileLayout(size, LEADING, STRIDE, swizzle, across)
    deep = (swizzle or 64) // size  # along k a swizzled line holds all that there is
    for row, depth in itertools.product(range(160), range(deep if not across else 32)):
        assert layout.offset(row, depth) == canonical(swizzle, across, size, row, depth)


@pytest.mark.parametrize("width", [32, 64, 128])
def test_swizzles_permute_pieces_within_lines(width: int) -> None:
    """`Swizzle<B, 4, 3>`: the B bits from 4 on change by the B bits from 7 on."""
    bits = {32: 1, 64: 2, 128: 3}[width]
    for address in range(0, 4096, 4):
        source = address >> 7 & ((1 << bits) - 1)
        assert swizzled(address, width) == address ^ source << 4
    assert sorted(swizzled(k, width) for k in range(0, 1024, 16)) == list(range(0, 1024, 16))
