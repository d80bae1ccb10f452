"""Micro-kernels: what the innermost loops of a matrix product do, by the machine's instructions.

A micro-kernel adds to a tile of accumulators the products of some rows of the left operand with one
panel of the right one. It goes along the depth in steps. A step takes one element of a row and one
line of the panel (`Fma`), or a word of neighbours along the depth (`Dot`, `Tiles`; see `words`).
It knows nothing of how the operands got there or of what becomes of the sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ...base import DType, dtype
from ...base.sums import SUM_RUN
from ...expr import Call, Expr, Var, cast, const
from ...expr import tile_ops as tiles
from ...expr.dot_ops import DOT_BF16, DOT_INT8
from ...tir import (
    SERIAL,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    Stmt,
    make_buffer,
    seq,
)
from .nest import allocate, vector
from .words import parts_of_a_word

_FLIP_SIGNS = const(-0x7F7F7F80, "int32")  # 0x80 in each byte: between u8 and s8, by 128

#: Steps along the depth before a sum is put aside, for the sake of its rounding errors.
LONG_RUN = 1024


@dataclass(frozen=True)
class Rows:
    """Rows of the left operand.

    Attributes:
        height: how many.
        at: an element or word, given the row and the step.
        pointer: the address of that word, where the rows are in memory, in whole words.
        stride: the bytes from one row to the next there.
    """

    height: int
    at: Callable[[int, Expr], Expr]
    pointer: Callable[[int, Expr], Expr] | None = None
    stride: Expr | None = None


@dataclass(frozen=True)
class Panel:
    """A panel of the right operand: step k takes line `first + k` of `memory`, `width` wide."""

    memory: Buffer
    first: Expr
    width: int
    lanes: int


class MicroKernel(ABC):
    """What the loops around a micro-kernel ask it.

    Attributes:
        in_registers: whether the accumulators are to be in registers, and not an array.
        from_zero: whether it sets the accumulators to its sums, rather than adding to them.
        parts: elements along the depth in one step.
        packed: the type of what panels hold.
        rows: the most rows that it takes at once.
        steps: it takes a multiple of so many.
        copies: whether rows are to be copied whatever they are.
        flips: what is to be done to each word of the left operand when it is copied, if anything.
        flushes: whether its sums are never subnormal, so that they may be rounded as it rounds.
    """

    in_registers: bool = True
    from_zero: bool = False
    parts: int = 1
    packed: DType
    rows: int
    steps: int = 1
    copies: bool = False
    flips: Expr | None = None
    flushes: bool = False

    @abstractmethod
    def multiply(self, acc: Buffer, rows: Rows, panel: Panel, steps: Expr) -> Stmt:
        """`acc[row * panel.width + column] += ...` over so many steps; `=` if `from_zero`."""

    def around(self, height: int, width: int, body: Stmt) -> Stmt:
        """What runs micro-kernels on `height` rows and panels of `width` columns."""
        return body


class Fma(MicroKernel):
    """Elements of rows are broadcast, and multiplied in vectors of the accumulators' type."""

    def __init__(self, kind: DType, rows: int) -> None:
        self.packed, self.rows = kind, rows

    def multiply(self, acc: Buffer, rows: Rows, panel: Panel, steps: Expr) -> Stmt:
        def add(slot: Expr, left: Expr, right: Expr) -> Stmt:
            total = BufferLoad(acc, [slot]) + left * cast(acc.dtype, right)
            return BufferStore(acc, total, (slot,))

        return _outer_products(rows, panel, steps, add, acc.dtype)


class Dot(MicroKernel):
    """Words of rows are broadcast: dot products of pairs of bfloat16 or of fours of bytes.

    The instruction for bytes takes unsigned ones times signed ones. Where both operands are of one
    kind, the sign bits of the left one are flipped, which adds 128 to all of it or takes as much
    away; what that changes is the same for all rows and is summed beside them.
    """

    def __init__(self, left: DType, right: DType, rows: int) -> None:
        self.packed, self.rows = dtype("int32"), rows
        self.parts = parts_of_a_word(left)
        self.op = DOT_INT8[False, True] if left.is_int else DOT_BF16
        self.flushes = not left.is_int
        same = left.is_int and left.is_unsigned == right.is_unsigned
        self.copies, self.flips = same, _FLIP_SIGNS if same else None
        self.right_first = left.is_int and right.is_unsigned

    def _dot(self, total: Expr, left: Expr, right: Expr) -> Expr:
        factors = (right, left) if self.right_first else (left, right)
        return Call(total.dtype, self.op, (total, *factors))

    def multiply(self, acc: Buffer, rows: Rows, panel: Panel, steps: Expr) -> Stmt:
        def add(slot: Expr, left: Expr, right: Expr) -> Stmt:
            return BufferStore(acc, self._dot(BufferLoad(acc, [slot]), left, right), (slot,))

        if self.flips is None:
            return _outer_products(rows, panel, steps, add, self.packed)
        size = panel.width
        excess = make_buffer((size,), acc.dtype, "excess", scope="local")
        flipped = Rows(1, lambda r, k: _FLIP_SIGNS)

        def count(slot: Expr, left: Expr, right: Expr) -> Stmt:
            total = self._dot(BufferLoad(excess, [slot]), left, right)
            return BufferStore(excess, total, (slot,))

        def both(k: Expr) -> Stmt:
            return seq(
                _outer_product(rows, panel, k, add, self.packed),
                _outer_product(flipped, panel, k, count, self.packed),
            )

        k = Var("k")
        body = seq(
            _vectors(panel, lambda at: BufferStore(excess, const(0, acc.dtype), (at,))),
            For(k, const(0), steps, SERIAL, both(k)),
            *(
                _vectors(panel, lambda at, r=r: _less(acc, r * size + at, excess, at))  # type: ignore[misc]
                for r in range(rows.height)
            ),
        )
        return allocate(excess, body)


def _less(acc: Buffer, slot: Expr, excess: Buffer, at: Expr) -> Stmt:
    value = BufferLoad(acc, [slot]) - BufferLoad(excess, [at])
    return BufferStore(acc, value, (slot,))


Add = Callable[[Expr, Expr, Expr], Stmt]


def _outer_products(rows: Rows, panel: Panel, steps: Expr, add: Add, kind: DType) -> Stmt:
    k = Var("k")
    body = _outer_product(rows, panel, k, add, kind)
    return For(k, const(0), steps, SERIAL, body, annotations={SUM_RUN: LONG_RUN})


def _outer_product(rows: Rows, panel: Panel, k: Expr, add: Add, kind: DType) -> Stmt:
    """`add(slot, left, right)` for a step of all rows with a line of the panel."""
    line = (panel.first + k) * panel.width
    steps = []
    for r in range(rows.height):
        left = Var(f"left{r}", kind)
        adds = [
            vector(panel.lanes, lambda lane, r=r, u=u, left=left: add(  # type: ignore[misc]
                const(r * panel.width + u * panel.lanes) + lane,
                left,
                BufferLoad(panel.memory, [line + u * panel.lanes + lane]),
            ))
            for u in range(panel.width // panel.lanes)
        ]  # fmt: skip
        steps.append(LetStmt(left, rows.at(r, k), seq(*adds)))
    return seq(*steps)


def _vectors(panel: Panel, body: Callable[[Expr], Stmt]) -> Stmt:
    def part(u: int) -> Stmt:
        return vector(panel.lanes, lambda lane: body(const(u * panel.lanes) + lane))

    return seq(*map(part, range(panel.width // panel.lanes)))


class Tiles(MicroKernel):
    """Two by two squares of accumulators in the tile registers of x86 (AMX)."""

    in_registers, from_zero = False, True

    def __init__(self, left: DType, right: DType) -> None:
        self.packed, self.rows, self.steps = dtype("int32"), 2 * tiles.TILE_ROWS, tiles.TILE_ROWS
        self.parts, self.flushes = parts_of_a_word(left), not left.is_int
        if left.is_int:
            self.dot = tiles.DOT_INT8[not left.is_unsigned, not right.is_unsigned]
        else:
            self.dot = tiles.DOT_BF16

    def around(self, height: int, width: int, body: Stmt) -> Stmt:
        """Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 a panel."""
        low = min(height, tiles.TILE_ROWS)
        high = height - low or 1
        sizes = [low, low, high, high, low, high, tiles.TILE_ROWS, tiles.TILE_ROWS]
        flat = [const(n) for rows in sizes for n in (rows, tiles.TILE_BYTES)]
        return seq(_do(tiles.CONFIGURE, *flat), body, _do(tiles.RELEASE))

    def multiply(self, acc: Buffer, rows: Rows, panel: Panel, steps: Expr) -> Stmt:
        if rows.pointer is None or rows.stride is None:
            raise ValueError("tiles are loaded from memory")
        side = tiles.TILE_ROWS
        down = range(-(-rows.height // side))
        across = range(panel.width // side)
        line = panel.width * 4
        sums = [(i, j, const(2 * i + j)) for i in down for j in across]

        def place(i: int, j: int) -> Expr:
            return _address(acc, const(i * side * panel.width + j * side))

        k = Var("k")
        body: list[Stmt] = []
        for j in across:
            at = (panel.first + k * side) * panel.width + j * side
            where = _address(panel.memory, at)
            body.append(_do(tiles.LOAD_ONCE, const(6 + j), where, const(line)))
        for i in down:
            body.append(
                _do(tiles.LOAD, const(4 + i), rows.pointer(i * side, k * side), rows.stride)
            )
            body += [_do(self.dot, const(2 * i + j), const(4 + i), const(6 + j)) for j in across]
        return seq(
            *(_do(tiles.ZERO, tile) for _, _, tile in sums),
            For(k, const(0), steps // side, SERIAL, seq(*body)),
            *(_do(tiles.STORE, tile, place(i, j), const(line)) for i, j, tile in sums),
        )


def _do(op: str, *args: Expr) -> Stmt:
    return Evaluate(Call("int32", op, args))


def _address(buffer: Buffer, index: Expr) -> Expr:
    return Call("handle", "tir.address_of", (BufferLoad(buffer, [index]),))
