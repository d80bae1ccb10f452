"""What the loops of a matrix product know of it: its extents, its micro-kernel and its panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base import DType
from ...compute import if_then_else
from ...expr import EQ, Call, Expr, Min, as_expr, broadcast_to, cast, const
from ...expr.build import bitwise
from ...expr.dot_ops import ROUND_BF16
from ...tir import Buffer, IfThenElse, Stmt
from ..contractions import panel_width
from ..symbols import hint, is_symbolic
from ..words import find_words
from .microkernels import Dot, Fma, MicroKernel, Tiles
from .words import load_words, word_of

if TYPE_CHECKING:
    from .machine import Machine

#: Panels that must read a strip of the left operand to make up for copying it.
WORTH_COPYING = 4

#: An element, given the batch position and two indices.
Element = Callable[[list[Expr], Expr, Expr], Expr]
#: An element, given the batch position, a channel and the offsets in a window, and a column.
Tap = Callable[[list[Expr], Expr, list[Expr], Expr], Expr]
#: Stores a finished element, given the batch position, row, column and value.
Epilogue = Callable[[list[Expr], Expr, Expr, Expr], Stmt]


@dataclass(frozen=True)
class Lines:
    """An operand in memory, some of whose elements are neighbours.

    Attributes:
        buffer: its memory.
        place: where an element is, given (batch, row, k) or (batch, k, column), as in `Product`.
    """

    buffer: Buffer
    place: Element


@dataclass(frozen=True)
class Product:
    """`result[b, i, j] = epilogue(sum over k of left[b, i, k] * right[b, k, j])`.

    Attributes:
        batch: extents that the product is repeated over.
        rows, columns, depth: extents of i, j and k.
        dtype: of the accumulators.
        result: of the product; a sum that is given to the epilogue may be rounded to it.
        kinds: the types of the operands.
        left, right: elements of the operands, given (batch, i, k) and (batch, k, j).
        epilogue: stores a finished element.
        partial: memory where unfinished sums wait between blocks of the depth, and the position
            in it given (batch, i, j); None: the depth is never blocked.
        packed: the right operand as panels over the whole depth, made beforehand, the same for
            all of the batch, and the columns of a panel; `right` is not used then.
        left_lines, right_lines: where the operands are, if along the depth they lie in one piece.
        right_rows: where the right operand is, if along its columns it lies in one piece.
        taps: where the depth is channels times windows, the extents of a window, and elements of
            the right operand in these terms.
        turned_left: whether a column of the left operand lies in one piece, rather than a row.
        turned_right: whether a column of the right operand does.
        left_collides: whether rows of the left operand lie a power of two apart, so that they push
            each other out of the cache.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    depth: int
    dtype: DType
    result: DType
    kinds: tuple[DType, DType]
    left: Element
    right: Element
    epilogue: Epilogue
    partial: tuple[Buffer, Element] | None = None
    packed: tuple[Buffer, int] | None = None
    left_lines: Lines | None = None
    right_lines: Lines | None = None
    right_rows: Lines | None = None
    taps: tuple[tuple[int, ...], Tap] | None = None
    turned_left: bool = False
    turned_right: bool = False
    left_collides: bool = False


@dataclass(frozen=True)
class Stretch:
    """A stretch of the depth, in steps of the micro-kernel: block `number` of `blocks`."""

    number: Expr
    blocks: int
    start: Expr
    extent: Expr
    room: int  # the steps that a packed panel has room for


@dataclass(frozen=True)
class Strip:
    """Rows of the result that a micro-kernel makes: `height`, or the first `count` of them."""

    row: Expr
    height: int
    count: Expr | None = None

    def at(self, r: int | Expr) -> Expr:
        """Row `r`; the last one for those that there are not."""
        place: Expr = self.row + (r if self.count is None else Min(as_expr(r), self.count - 1))
        return place


def choose_microkernel(
    kinds: Sequence[DType], total: DType, extents: tuple[int, int, int], machine: Machine
) -> MicroKernel:
    """The fastest that there is for operands and accumulators of these types.

    Args:
        extents: rows, columns and depth.
    """
    _, columns, depth = extents
    # 24 of 32 registers hold partial sums; with 16 registers, 12 do.
    most = 12 if machine.vector_bits >= 512 else 6
    if is_symbolic(columns) or is_symbolic(depth):
        return Fma(total, most)
    left, right = kinds
    words = find_words(left, right, total, machine)
    if words is None:
        return Fma(total, most)
    return Dot(left, right, most) if words.unit == 1 else Tiles(left, right)


class Plan:
    """A product and how its loops are cut.

    Attributes:
        steps: the depth in steps of the micro-kernel, with those that fill it up.
        whole: the steps whose elements are all there.
        nr: the columns of a panel; `panels` of them hold all columns.
    """

    def __init__(self, product: Product, machine: Machine) -> None:
        self.product = p = product
        extents = p.rows, p.columns, p.depth
        self.micro = choose_microkernel(p.kinds, p.dtype, extents, machine)
        self.lanes = max(1, machine.vector_bits // p.dtype.bits)
        self.mr = self.micro.rows
        if not is_symbolic(p.rows):
            self.mr = max(1, min(self.mr, p.rows))
        self.packed: Buffer | None = None
        self.nr = panel_width(p.columns, machine.vector_bits, p.dtype)
        if p.packed is not None:
            self.packed, self.nr = p.packed
        while self.nr % self.lanes:  # panels that were made for narrower vectors
            self.lanes //= 2
        self.panels = -(-p.columns // self.nr)
        self.ragged = p.columns % self.nr != 0
        parts, unit = self.micro.parts, self.micro.steps
        self.whole = p.depth // parts if parts > 1 else p.depth
        self.steps = self.whole
        if parts * unit > 1:
            self.steps = -(-p.depth // (parts * unit)) * unit
        self.words = parts > 1
        self.copies_left = self._copies_left(hint(self.panels))

    def _copies_left(self, panels: int) -> bool:
        """Whether rows of the left operand are copied before every panel reads them."""
        p = self.product
        often = panels >= WORTH_COPYING
        if not self.words:
            converts = p.kinds[0] is not p.dtype
            return often and not p.turned_left and (converts or p.left_collides)
        if self.micro.copies or p.left_lines is None or self.steps != self.whole:
            return True
        if is_symbolic(p.rows) and self.micro.steps > 1:
            return True  # there may be fewer rows than a tile takes
        return self.whole * self.micro.parts != p.depth or (often and p.left_collides)

    # ------------------------------------------------------------------ what a step takes

    def left(self, at: list[Expr], row: Expr, step: Expr, *, filled: bool = False) -> Expr:
        """What a step takes of a row; zeros where the depth ends, if `filled`."""
        if not self.words:
            return cast(self.product.dtype, self.product.left(at, row, step))
        lines = self.product.left_lines
        if lines is not None and not filled:
            return self.flipped(load_words(lines.buffer, self.left_place(at, row, step), 1))
        return self.flipped(
            self._word(lambda k: self.product.left(at, row, k), step, self.product.kinds[0], filled)
        )

    def left_place(self, at: list[Expr], row: Expr, step: Expr) -> Expr:
        """Where the left operand has what a step takes of a row."""
        lines = self.product.left_lines
        if lines is None:
            raise ValueError("the left operand does not lie in lines")
        return lines.place(at, row, step * self.micro.parts)

    def flipped(self, word: Expr) -> Expr:
        """A word of the left operand as the micro-kernel wants it."""
        flips = self.micro.flips
        if flips is None:
            return word
        return bitwise("tir.bitwise_xor", word, broadcast_to(flips, word.dtype.lanes))

    def right(self, at: list[Expr], step: Expr, column: Expr, *, filled: bool = False) -> Expr:
        """What a step takes of a column."""
        if not self.words:
            return cast(self.product.dtype, self.product.right(at, step, column))
        return self._word(
            lambda k: self.product.right(at, k, column), step, self.product.kinds[1], filled
        )

    def _word(self, element: Callable[[Expr], Expr], step: Expr, kind: DType, filled: bool) -> Expr:
        found = []
        for part in range(self.micro.parts):
            k = step * self.micro.parts + part
            value = element(k)
            if filled:
                value = if_then_else(k < self.product.depth, value, const(0, kind))
            found.append(value)
        return word_of(found)

    def rounded(self, total: Expr) -> Expr:
        """A finished sum, rounded already where the micro-kernel's sums have a quick way."""
        if self.micro.flushes and str(self.product.result) == "bfloat16":
            return Call("bfloat16", ROUND_BF16, (total,))
        return total

    # ------------------------------------------------------------------ panels

    def last_or_not(self, panel: Expr, make: Callable[[bool], Stmt]) -> Stmt:
        """`make(True)` where the panel has columns beyond the matrix, else `make(False)`."""
        if not self.ragged:
            return make(False)
        if self.panels == 1:
            return make(True)
        return IfThenElse(EQ(panel, const(self.panels - 1)), make(True), make(False))

    def whole_steps(self, stretch: Stretch) -> Expr:
        """How many steps of a stretch have all of their elements."""
        if self.whole == self.steps and self.whole * self.micro.parts == self.product.depth:
            return stretch.extent
        if stretch.blocks == 1:
            return const(self.whole)
        return Min(stretch.extent, const(self.whole) - stretch.start)
