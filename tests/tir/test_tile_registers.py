"""Tile registers in the interpreter: which memory they read and write."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base.errors import VerifyError
from tileloom.tir.tile_registers import TileRegisters


def test_only_what_is_loaded_must_be_written() -> None:
    tiles, memory = TileRegisters(), np.arange(12, dtype=np.int16)
    written = np.zeros(12, bool)
    written[4:6] = written[8:10] = True
    tiles.configure(2, 4)
    tiles.load(0, (memory, written, (4,)), 8)
    assert tiles.tile(0).view(np.int16).tolist() == [[4, 5], [8, 9]]
    for missing in (4, 9):
        some = written.copy()
        some[missing] = False
        with pytest.raises(VerifyError, match="loaded from memory before it is written"):
            tiles.load(0, (memory, some, (4,)), 8)


def test_what_is_stored_is_written() -> None:
    tiles, memory, written = TileRegisters(), np.ones(12, np.int16), np.zeros(12, bool)
    tiles.configure(2, 4)
    tiles.store(0, (memory, written, (2,)), 10)
    assert np.flatnonzero(written).tolist() == [2, 3, 7, 8]
    assert np.flatnonzero(memory == 0).tolist() == [2, 3, 7, 8]


@pytest.mark.parametrize(("start", "stride"), [(-1, 4), (9, 4), (0, 22), (1, -4)])
def test_rows_outside_of_memory(start: int, stride: int) -> None:
    tiles, memory = TileRegisters(), np.zeros(12, np.int16)
    tiles.configure(2, 4)
    tiles.load(0, (memory, None, (8,)), 4)
    tiles.load(0, (memory, None, (0,)), 20)
    with pytest.raises(VerifyError, match="a tile reaches out of memory of 24 bytes"):
        tiles.load(0, (memory, None, (start,)), stride)


def test_each_tile_has_its_own_size() -> None:
    tiles, memory = TileRegisters(), np.arange(8, dtype=np.int32)
    tiles.configure(1, 8, 2, 4)
    tiles.load(0, (memory, None, (1,)), 0)
    tiles.load(1, (memory, None, (5,)), 8)
    assert [tiles.tile(k).view(np.int32).tolist() for k in (0, 1)] == [[[1, 2]], [[5], [7]]]
    tiles.zero(1)
    assert not tiles.tile(1).any() and tiles.tile(0).any()
    for number in (-1, 2):
        with pytest.raises(VerifyError, match=f"tile {number} has no size"):
            tiles.tile(number)
    tiles.release()
    with pytest.raises(VerifyError, match="tile 0 has no size"):
        tiles.zero(0)


def test_rows_of_a_part_of_a_larger_array() -> None:
    tiles, whole = TileRegisters(), np.arange(60, dtype=np.int32).reshape(6, 10)
    tiles.configure(2, 8)
    part, written = whole[1:4, 3:7], np.zeros((6, 10), bool)
    tiles.load(0, (part, None, (1, 2)), 40)
    assert tiles.tile(0).view(np.int32).tolist() == [[25, 26], [35, 36]]
    tiles.store(0, (part, written[1:4, 3:7], (0, 0)), 40)
    assert part[:2, :2].tolist() == [[25, 26], [35, 36]]
    assert np.flatnonzero(written).tolist() == [13, 14, 23, 24]
