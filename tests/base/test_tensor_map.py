"""Where the elements of tiles are: the canonical layouts of the PTX ISA, written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.base.tensor_map import TensorMap, TileLayout, swizzled

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


@pytest.mark.parametrize(
    ("shape", "kind", "box", "swizzle", "fits"),
    [
        ((64, 128), "float16", (8, 64), 0, True),
        ((64, 128), "float16", (8, 64), 128, True),
        ((64, 128), "float16", (8, 128), 128, False),  # rows of 256 bytes
        ((64, 128), "float16", (8, 64), 64, False),
        ((64, 128), "float16", (8, 16), 32, True),
        ((64, 128), "float16", (8, 64), 16, False),
        ((64, 128), "float16", (1, 8), 0, True),
        ((64, 128), "float16", (0, 8), 0, False),
        ((300, 128), "float16", (256, 8), 0, True),
        ((300, 128), "float16", (257, 8), 0, False),
        ((64, 128), "float16", (8, 4), 0, False),  # 8 bytes
        ((64, 128), "float16", (8, 12), 0, False),  # 24 bytes
        ((64, 128), "int8", (8, 16), 0, True),
        ((64, 124), "float16", (8, 8), 0, False),  # rows of 248 bytes
        ((64, 120), "float16", (8, 8), 0, True),
        ((64,), "float32", (4,), 0, True),
        ((64, 128), "float16", (8,), 0, False),
        ((), "float16", (), 0, False),
        ((2, 2, 2, 2, 8), "float16", (1, 1, 1, 1, 8), 0, True),
        ((2, 2, 2, 2, 2, 8), "float16", (1, 1, 1, 1, 1, 8), 0, False),
        ((0, 128), "float16", (8, 64), 0, False),
    ],
)
def test_which_maps_there_are(
    shape: tuple[int, ...], kind: str, box: tuple[int, ...], swizzle: int, fits: bool
) -> None:
    array = np.zeros(shape, kind)
    if not fits:
        with pytest.raises(ArgumentError):
            TensorMap(array, box, swizzle)
        return
    found = TensorMap(array, box, swizzle)
    assert found.sizes == shape[::-1] and found.extents == box[::-1]
    assert found.steps == array.strides[-2::-1]
    assert found.bytes == math.prod(box) * array.itemsize


def test_elements_of_rows_adjoin() -> None:
    array = np.zeros((64, 128), "float16")
    for view, box in ((array[:, ::2], (8, 8)), (array.T, (8, 8)), (array[:, ::-1], (8, 8))):
        with pytest.raises(ArgumentError, match="adjoin"):
            TensorMap(view, box)
    assert TensorMap(array[::2], (8, 8)).steps == (512,)
    assert TensorMap(array[:, :64], (8, 8)).steps == (256,)
    with pytest.raises(ArgumentError, match="multiples of 16 bytes"):
        TensorMap(np.zeros((64, 1), "float16"), (8, 1))
