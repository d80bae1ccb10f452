"""Blocks that come to stand in place of an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.core import Block, Operation, Value
from ..ir.rewriter import PATTERNS, PatternRewriter, Rewrite


def inline_before(
    op: Operation, block: Block, values: Sequence[Value], rewriter: PatternRewriter
) -> list[Value]:
    """Moves the operations of a block before another operation, with values for its arguments.
    What its terminator gives is returned; the terminator stays behind."""
    for argument, value in zip(block.arguments, values, strict=True):
        rewriter.replace_value(argument, value)
    for inner in list(block.before_terminator()):
        inner.move_before(op)
        rewriter.push(inner)
    return list(block.terminator.operands)


def patterns_of(*names: str) -> Mapping[str, Sequence[Rewrite]]:
    """The registered rewrites of the operations of some names."""
    return {name: PATTERNS.get(name, ()) for name in names}
