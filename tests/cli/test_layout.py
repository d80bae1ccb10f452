"""`tileloom layout`, called as users call it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tileloom.cli.app import cli
from tileloom.tile.layouts.draw import LayoutPicture, read_encoding

ROWS = (
    "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], "
    "order = [1, 0]}>"
)
SHARED = "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>"
OLD = ROWS.replace("ttg", "triton_gpu")


def call(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["layout", *map(str, arguments)])


def cells(output: str) -> list[list[str]]:
    """The elements of a table, without its margins."""
    rows = [line.partition("|")[2].split() for line in output.splitlines() if "|" in line]
    return rows[1:]


@pytest.mark.parametrize("text", [ROWS, OLD])
def test_threads_of_elements(text: str) -> None:
    result = call(text, "8x16")
    assert result.exit_code == 0, result.output
    drawn = cells(result.output)
    assert drawn == [
        [f"T{row * 8 + column // 2}:{column % 2}" for column in range(16)] for row in range(8)
    ]


def test_copies_are_counted_and_large_tables_cut() -> None:
    result = call(f"#ttg.slice<{{dim = 1, parent = {ROWS}}}>", 64, "--columns", 4)
    assert cells(result.output) == [["T0:0+7", "T8:0+7", "T16:0+7", "T24:0+7", "..."]]
    assert "60 columns more" in result.output


def test_offsets_and_banks_of_shared_memory() -> None:
    offsets = cells(call(SHARED, "8x16").output)
    banks = cells(call(SHARED, "8x16", "--banks").output)
    assert offsets[1][:5] == ["20", "21", "22", "23", "16"]
    assert banks[1][:5] == ["b10", "b10", "b11", "b11", "b8"]


def test_what_a_conversion_moves() -> None:
    other = ROWS.replace("[2, 1], order", "[1, 2], order")
    assert call(ROWS, "8x16", "--to", ROWS).output == "no-op\n"
    assert call(ROWS, "8x16", "--to", other).output.startswith("shared memory: ")
    assert "wavefronts" in call(ROWS, "8x16", "--to", SHARED).output
    assert call(SHARED, "8x16", "--to", ROWS).output == call(ROWS, "8x16", "--to", SHARED).output


def test_a_picture_is_svg(tmp_path: Path) -> None:
    path = tmp_path / "layout.svg"
    assert call(ROWS, "8x16", "--svg", path).exit_code == 0
    tree = ElementTree.fromstring(path.read_text())
    squares = [e for e in tree.iter() if e.tag.endswith("rect")]
    assert len(squares) == 8 * 16
    assert len({square.get("fill") for square in squares}) == 64  # a colour for each thread


def test_planes_of_three_dimensions() -> None:
    text = ROWS.replace("[1, 2]", "[1, 1, 2]").replace("[4, 8]", "[1, 4, 8]")
    text = text.replace("[2, 1], order = [1, 0]", "[2, 1, 1], order = [2, 1, 0]")
    drawn = LayoutPicture((2, 4, 16), read_encoding(text), 16, False).text()
    assert "dim0 = 0" in drawn and "dim0 = 1" in drawn and drawn.count("T32:0") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("#ttg.blocked<{}>", "8x8"), "missing parameter sizePerThread"),
        (("i32", "8x8"), "this is not a layout"),
        ((f"{ROWS} x", "8x8"), "there is more than a layout"),
        ((ROWS, "8by8"), "is not a shape"),
        ((ROWS, "12x12"), "powers of two, not 12"),
        ((ROWS, "64"), "for tensors of 2 dimensions, not 1"),
        ((ROWS, "8x8", "--banks"), "--banks is for layouts of shared memory"),
        ((SHARED, "8x8", "--to", SHARED), "both layouts are of shared memory"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and message in result.output, result.output
