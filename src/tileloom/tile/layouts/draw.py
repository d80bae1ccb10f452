"""Pictures of layouts: which thread has which element in which register, or where an element is in
shared memory, as a table of text or as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import product
from math import prod

from ..ir.interning import Attribute
from ..ir.parse_attributes import AttributeParser
from ..ir.source import SourceText
from .banks import BANKS, WORD
from .encodings import Encoding, Ints, SharedEncoding
from .properties import lane_count, warp_count
from .to_linear import to_linear_layout

HUES = 137  # degrees between the colours of warps


def read_encoding(text: str) -> Encoding:
    """A layout from its text.

    Raises:
        UserError: if it is not one.

    >>> read_encoding("#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>")
    <#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>>
    """
    parser = AttributeParser(SourceText(text, "<layout>", 1))
    start = parser.start
    found: Attribute = parser.attribute()
    if not isinstance(found, Encoding):
        raise parser.error("this is not a layout", start, start + 1)
    if parser.kind != "end":
        raise parser.error("there is more than a layout", parser.start, len(text))
    return found


class LayoutPicture:
    """What there is to draw of a layout.

    Attributes:
        shape: of the tensor.
        labels: of each element, in row-major order.
        groups: by which elements get their colour: the warp and lane, or the bank.
    """

    def __init__(self, shape: Sequence[int], encoding: Encoding, bits: int, banks: bool) -> None:
        self.shape: Ints = tuple(shape)
        self.title = str(encoding)
        self.labels: list[str] = [""] * prod(shape)
        self.groups: list[tuple[int, int]] = [(0, 0)] * prod(shape)
        if isinstance(encoding, SharedEncoding):
            self._draw_memory(encoding, bits, banks)
        else:
            self._draw_threads(encoding)

    def _draw_memory(self, encoding: SharedEncoding, bits: int, banks: bool) -> None:
        table = to_linear_layout(self.shape, encoding, bits).table()[0]
        for offset, element in enumerate(table.tolist()):
            bank = offset * bits // 8 // WORD % BANKS
            self.labels[element] = f"b{bank}" if banks else str(offset)
            self.groups[element] = (0, bank)

    def _draw_threads(self, encoding: Encoding) -> None:
        layout = to_linear_layout(self.shape, encoding)
        lanes, warps = lane_count(encoding), warp_count(encoding)
        found: list[list[str]] = [[] for _ in self.labels]
        table = layout.without_zeros("register").table()
        for block, warp, lane in product(*map(range, table.shape[:3])):
            prefix = f"B{block}." if len(table) > 1 else ""
            for register, element in enumerate(table[block, warp, lane].tolist()):
                if not found[element]:
                    self.groups[element] = (block * warps + warp, lane)
                found[element].append(f"{prefix}T{warp * lanes + lane}:{register}")
        self.labels = [shortened(names) for names in found]

    def planes(self) -> Iterator[tuple[str, int]]:
        """The planes of the last two dimensions: a heading, and the first element."""
        outer, size = self.shape[:-2], prod(self.shape[-2:])
        for number, place in enumerate(product(*map(range, outer))):
            heading = ", ".join(f"dim{d} = {index}" for d, index in enumerate(place))
            yield heading, number * size

    def text(self, rows: int = 32, columns: int = 16) -> str:
        """A table for each plane, of so many rows and columns at most."""
        height, width = self.plane_shape()
        shown, across = min(rows, height), min(columns, width)
        parts = []
        for heading, start in self.planes():
            body = [
                [self.labels[start + r * width + c] for c in range(across)] for r in range(shown)
            ]
            parts.append(grid(heading, body, height - shown, width - across))
        return "\n\n".join(parts)

    def plane_shape(self) -> tuple[int, int]:
        """The rows and columns of a plane; a vector is a row."""
        return (1, self.shape[0]) if len(self.shape) == 1 else (self.shape[-2], self.shape[-1])

    def svg(self, cell: int = 44) -> str:
        """The picture as SVG: a square for each element, coloured by warp and lane, or by bank."""
        height, width = self.plane_shape()
        parts = []
        top = 2 * cell
        for heading, start in self.planes():
            parts.append(_text(4, top - 8, heading, "start"))
            for r, c in product(range(height), range(width)):
                index = start + r * width + c
                parts.append(self._square(index, c * cell, top + r * cell, cell))
            top += (height + 1) * cell
        size = f'width="{width * cell}" height="{top}"'
        style = "<style>text{font:9px sans-serif}rect{stroke:#fff}</style>"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}'
        title = _text(4, 16, self.title, "start")
        return "\n".join([head, title, *parts, "</svg>"]) + "\n"

    def _square(self, index: int, x: int, y: int, cell: int) -> str:
        label = self.labels[index]
        box = f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{self.colour(index)}"/>'
        return box + _text(x + cell // 2, y + cell // 2 + 3, label, "middle")

    def colour(self, index: int) -> str:
        """The colour of an element: a hue for each warp, paler with the lane."""
        group, place = self.groups[index]
        return f"hsl({group * HUES % 360},70%,{55 + place % 32}%)"


def shortened(names: Sequence[str]) -> str:
    """The first of several places that have an element, and how many there are more.

    >>> shortened(["T0:0"]), shortened(["T0:0", "T1:0", "T2:0"])
    ('T0:0', 'T0:0+2')
    """
    return names[0] if len(names) == 1 else f"{names[0]}+{len(names) - 1}"


def grid(heading: str, body: Sequence[Sequence[str]], more_rows: int, more_columns: int) -> str:
    """A table of text, with its rows and columns numbered."""
    width = max(max((len(label) for row in body for label in row), default=1), 3)
    margin = len(str(len(body) - 1))

    def line(first: str, cells: Sequence[str]) -> str:
        return f"{first:>{margin}} | " + " ".join(f"{cell:>{width}}" for cell in cells)

    more = " ..." if more_columns else ""
    top = line("", [str(c) for c in range(len(body[0]))]) + more
    lines = [top, "-" * len(top), *(line(str(r), row) + more for r, row in enumerate(body))]
    if more_rows or more_columns:
        lines.append(f"({more_rows} rows and {more_columns} columns more)")
    return "\n".join([heading, *lines] if heading else lines)


def _text(x: int, y: int, label: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(label)}</text>'
