"""The padding of a new layout: what it holds, and a block that writes or promises it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import (
    EQ,
    SPATIAL,
    Call,
    Expr,
    IndexMap,
    IterVar,
    Not,
    Or,
    Range,
    Var,
    cast,
    const,
    substitute,
)
from ...tir import (
    SERIAL,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    Stmt,
    pre_order,
    seq,
)


@dataclass(frozen=True)
class LayoutPadding:
    """What the places of a new layout hold that no element goes to.

    Attributes:
        back: from new indices to old ones.
        outside: the condition for a place to be padding, over the variables of `back`.
        value: a number, or an index map from the place to its value.
    """

    back: IndexMap
    outside: Expr
    value: Any

    def at(self, buffer: Buffer, place: Sequence[Expr]) -> tuple[Expr, Expr]:
        """The condition for a place to be padding, and what it holds then."""
        outside = substitute(self.outside, dict(zip(self.back.initial_indices, place, strict=True)))
        if isinstance(self.value, IndexMap):
            value = self.value.map_indices(list(place))[0]
        else:
            value = const(self.value, buffer.dtype)
        return outside, cast(buffer.dtype, value)


def is_written(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement stores to a buffer."""
    return any(isinstance(n, BufferStore) and n.buffer is buffer for n in pre_order(stmt))


def fill_block(buffer: Buffer, padding: LayoutPadding, assumed: bool) -> Stmt:
    """Loops that write the padding, or that promise it of a parameter."""
    loops, axes = variables("axis", buffer), variables("v_axis", buffer)
    around, _ = padding.at(buffer, loops)
    within, value = padding.at(buffer, axes)
    body: Stmt
    if assumed:
        holds = Or(Not(within), EQ(BufferLoad(buffer, axes), value))
        body = Evaluate(Call("int32", "tir.assume", [holds]))
    else:
        body = BufferStore(buffer, value, tuple(axes))
    point = BufferRegion.point(buffer, axes)
    block = Block(
        iter_vars(axes, buffer),
        (point,) if assumed else (),
        () if assumed else (point,),
        f"buffer_{buffer.name}_{'assumptions' if assumed else 'padding'}",
        body,
    )
    stmt: Stmt = BlockRealize(tuple(loops), const(True) if assumed else around, block)
    return nest(loops, buffer, stmt)


def insert_fill(scope: Block, fill: Stmt, buffer: Buffer, first: bool) -> Block:
    """The filling before everything, or right after the last part that writes the buffer."""
    parts = list(getattr(scope.body, "seq", (scope.body,)))
    if first:
        return scope.replace(body=seq(fill, *parts))
    last = max((k for k, part in enumerate(parts) if is_written(part, buffer)), default=-1)
    return scope.replace(body=seq(*parts[: last + 1], fill, *parts[last + 1 :]))


def variables(name: str, buffer: Buffer) -> list[Var]:
    """Variables of the types of a buffer's indices."""
    return [Var(f"{name}{k}", extent.dtype) for k, extent in enumerate(buffer.shape)]


def iter_vars(axes: Sequence[Var], buffer: Buffer) -> tuple[IterVar, ...]:
    """Iteration variables over a buffer's shape."""
    ranges = map(Range.from_extent, buffer.shape)
    return tuple(IterVar(r, axis, SPATIAL) for axis, r in zip(axes, ranges, strict=True))


def nest(loops: Sequence[Var], buffer: Buffer, body: Stmt) -> Stmt:
    """Loops over a buffer's shape."""
    for var, extent in zip(reversed(loops), reversed(buffer.shape), strict=True):
        body = For(var, const(0, var.dtype), extent, SERIAL, body)
    return body
