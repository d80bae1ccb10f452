"""The padding of a new layout: what it holds, and a block that writes or promises it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import EQ, Call, Expr, IndexMap, Not, Or, cast, const, substitute
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    Stmt,
    parts_of,
    pre_order,
    seq,
)
from ..rewrite import index_vars, iter_vars, nest


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
    loops, axes = index_vars("axis", buffer.shape), index_vars("v_axis", buffer.shape)
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
        iter_vars(axes, buffer.shape),
        (point,) if assumed else (),
        () if assumed else (point,),
        f"buffer_{buffer.name}_{'assumptions' if assumed else 'padding'}",
        body,
    )
    stmt: Stmt = BlockRealize(tuple(loops), const(True) if assumed else around, block)
    return nest(list(zip(loops, buffer.shape, strict=True)), stmt)


def insert_fill(scope: Block, fill: Stmt, buffer: Buffer, first: bool) -> Block:
    """The filling before everything, or right after the last part that writes the buffer."""
    parts = parts_of(scope.body)
    if first:
        return scope.replace(body=seq(fill, *parts))
    last = max((k for k, part in enumerate(parts) if is_written(part, buffer)), default=-1)
    return scope.replace(body=seq(*parts[: last + 1], fill, *parts[last + 1 :]))
