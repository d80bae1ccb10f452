"""Products of words in tile registers: which there are, and their strips."""

from __future__ import annotations

from typing import Any

import pytest

from plan.cpu.test_contraction import cpu, matmul, words
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan.cpu.tile_registers import (
    begins_with_columns,
    dot_of,
    tile_rows,
    words_in_tiles,
)
from tileloom.schedule import Schedule
from tileloom.schedule.library import as_matrices
from tileloom.target import Target
from tileloom.tir import PrimFunc


@pytest.mark.parametrize("rows", [*range(1, 40), 63, 64, 65, 96, 97, 127, 1000])
def test_rows_of_a_strip(rows: int) -> None:
    """One tile holds up to 16; else the lowest strips of two tiles that are as few as can be."""
    height = tile_rows(rows)
    if rows <= 16:
        assert height == rows
        return
    strips = -(-rows // 32)
    assert height % 2 == 0 and 16 < height <= 32, "two tiles of the same height"
    assert strips * height >= rows > strips * (height - 2)


@pytest.mark.parametrize(("low", "high", "heights"), [(1, 900, {16, 32}), (1, 9, {9}),
                                                      (17, 900, {32})])  # fmt: skip
def test_rows_that_are_not_known(low: int, high: int, heights: set[int]) -> None:
    space = Space()
    rows: Any = symbol(space, "m", low, high, low)
    assert {height for _, height in space.variants(lambda: tile_rows(rows), 8)} == heights


def found(func: PrimFunc, target: Target) -> tuple[str | None, str | None]:
    sch = Schedule(func)
    product = as_matrices(sch, "C", in_pieces=True)
    return dot_of(sch, product), words_in_tiles(sch, product, target)


ALL = ("amx-int8", "amx-bf16")


@pytest.mark.parametrize(
    ("op", "features", "bits", "kinds"),
    [
        ("u8s8", ALL, 512, "u8s8"),
        ("u8u8", ALL, 512, "u8u8"),
        ("s8u8", ALL, 512, "s8u8"),
        ("s8s8", ALL, 512, "s8s8"),
        ("bf16", ALL, 512, "bf16"),
        ("o8s8", ALL, 512, None),  # tiles need no offset
        ("o8u8", ALL, 512, None),
        ("u8s8", ("amx-int8",), 512, "u8s8"),
        ("u8s8", ("amx-bf16",), 512, None),
        ("bf16", ("amx-int8",), 512, None),
        ("bf16", ("amx-bf16",), 512, "bf16"),
        ("u8s8", ALL, 256, None),
        ("u8s8", (), 512, None),
    ],
)
def test_words_in_tiles(op: str, features: Any, bits: int, kinds: str | None) -> None:
    func = words(f"tir.dot_{op}", 20, 40, 16)
    assert found(func, cpu(bits, 1, *features)) == (f"tir.dot_{op}", kinds)


def test_numbers_are_no_words() -> None:
    assert found(matmul(20, 40, 16), cpu(512, 1, *ALL)) == (None, None)


@pytest.mark.parametrize(("step", "whole"), [(16, True), (8, False), (1, False)])
def test_an_open_depth_is_of_whole_tiles(step: int, whole: bool) -> None:
    space = Space()
    depth: Any = symbol(space, "k", 16, 100, 20) * step
    func = words("tir.dot_u8s8", 20, 40, depth)
    answers = {kinds for _, (_, kinds) in space.variants(
        lambda: found(func, cpu(512, 1, *ALL)), 8)}  # fmt: skip
    assert answers == {"u8s8" if whole else None}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", ["u8s8", "bf16", "s8u8"])
def test_which_factor_is_of_the_columns(op: str, swapped: bool) -> None:
    sch = Schedule(words(f"tir.dot_{op}", 20, 40, 16, swapped))
    assert begins_with_columns(sch, as_matrices(sch, "C", in_pieces=True)) == swapped
