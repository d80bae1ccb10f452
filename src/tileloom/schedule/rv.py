"""Random variables: the names that a trace has for blocks, loops, iterations and numbers."""

from __future__ import annotations

from typing import Any, TypeGuard

from ..expr import Var


class BlockRV:
    """A block, as the steps of a trace call it."""

    __slots__ = ()


class LoopRV:
    """A loop, as the steps of a trace call it."""

    __slots__ = ()


class SparseIterationRV:
    """A sparse iteration, as the steps of a trace call it."""

    __slots__ = ()


#: A number, as the steps of a trace call it: a variable that expressions can be made of.
ExprRV = Var
RV = BlockRV | LoopRV | SparseIterationRV | Var


def expr_rv() -> Var:
    """A new number variable."""
    return Var("v", "int32")


def new_rv(role: str) -> RV:
    """A new variable for what a step defines: "block", "loop", "iteration" or a number, "int"."""
    match role:
        case "int":
            return expr_rv()
        case "block":
            return BlockRV()
        case "iteration":
            return SparseIterationRV()
    return LoopRV()


def is_rv(value: Any) -> TypeGuard[RV]:
    """Whether a value is a random variable."""
    return isinstance(value, (BlockRV, LoopRV, SparseIterationRV, Var))
