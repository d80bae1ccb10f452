"""Extents that expressions were made of: what counts as a number and may not be one yet.

Whoever makes such an extent (`graph.symbols`) leaves it in the memo of its expression. It can be
computed with and compared like a number (comparisons may be decisions), and tells what is known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from .nodes import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var
from .walk import free_vars

#: Under this name the memo of an expression holds the extent that it was made of.
EXTENT = "extent"


def known_extent(size: Expr) -> int | None:
    """A size as a number, or as what counts as one: what it was made of, or computed from that.

    None if it is neither.

    >>> from tileloom.expr import Var, const
    >>> known_extent(const(3)), known_extent(Var("n"))
    (3, None)
    """
    if isinstance(size, IntImm):
        return size.value
    known: int | None = size.memo.get(EXTENT)
    operation = _OPERATIONS.get(type(size))
    if known is not None or operation is None:
        return known
    a, b = map(known_extent, size.children)
    return None if a is None or b is None else operation(a, b)


_OPERATIONS: dict[type[Expr], Callable[[int, int], int]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
}  # fmt: skip


def is_number(extent: int) -> bool:
    """Whether an extent is a number for all sizes."""
    return isinstance(extent, int)


def usual(extent: int) -> int:
    """A value of an extent that may well occur, if what was decided so far holds."""
    return int(getattr(extent, "usual", extent))


def limits(extent: int) -> tuple[int, int]:
    """The least and the greatest value of an extent, if what was decided so far holds."""
    found: tuple[int, int] = getattr(extent, "limits", (extent, extent))
    return found


def limits_of_variables(size: Expr) -> dict[Var, tuple[int, int]]:
    """What is known of the variables of a size.

    One that can only have one value still counts as a variable: simplified to a number in one
    place it would not look the same as in another.
    """
    known = {var: var.memo.get(EXTENT) for var in free_vars(size)}
    found = {var: limits(extent) for var, extent in known.items() if extent is not None}
    return {var: (least, max(most, least + 1)) for var, (least, most) in found.items()}
