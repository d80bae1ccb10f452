"""Rows of an unknown length on GPUs, where the length is a multiple of what a thread reads at once.

Threads read 16 bytes at a time where rows begin at multiples of that. Whether they do is decided as
other questions about sizes are: where it is so, the kernel takes the number of vectors in a row
for another parameter, and all extents are multiples of their length for everybody to see.
"""

from __future__ import annotations

from ..base.polynomial import Number, Polynomial, quotient
from ..expr import Var
from ..expr.extents import EXTENT
from ..tir import PrimFunc
from .nodes import Tensor
from .partition.group import Group
from .symbols import hint, space_of

#: The attribute of a function with such parameters, which come before the symbols: of each the
#: symbol that it is a part of, and how large a part.
IN_VECTORS = "in_vectors"
#: Shorter and longer rows are reduced element by element, and where there are fewer elements
#: without reductions, they are made so; bytes that are read at once.
LEAST, MOST, ENOUGH, BYTES = 129, 8192, 1 << 18, 16


def in_whole_vectors(group: Group, blocks: PrimFunc) -> PrimFunc | None:
    """The blocks of a group over rows of whole vectors; None where it is decided that they are not.

    Args:
        blocks: of the group, over the symbols of its extents.
    """
    if group.kind not in ("elementwise", "reductions") or not _runs_along_rows(group):
        return None
    row = _row(group)
    space = space_of([row])
    if space is None:
        return None
    symbol = next((s for s in space.symbols.values() if s.name == str(row)), None)
    lanes = BYTES // max(1, max(t.dtype.bits for t in (*group.inputs, *group.outputs)) // 8)
    if symbol is None or lanes < 2 or not _pays(group, row, lanes) or not -(row % lanes) >= 0:
        return None
    vectors = Var(f"{symbol.name}_by_{lanes}")
    vectors.memo[EXTENT] = row // lanes
    made = blocks.specialize({symbol.var: vectors * lanes})
    made = made.replace(params=(*made.params, vectors))
    return made.with_attr(IN_VECTORS, [symbol.name, lanes])


def _runs_along_rows(group: Group) -> bool:
    """Whether neighbours in memory are of the same row."""
    if group.domain is None:
        return True
    shape, axes = group.domain
    return len(shape) - 1 in axes


def _pays(group: Group, row: int, lanes: int) -> bool:
    """Whether a schedule would have threads read by vectors."""
    if group.kind == "elementwise":
        return group.outputs[0].type.size >= ENOUGH
    return LEAST + lanes <= row <= MOST


def _row(group: Group) -> int:
    """The last extent of the largest tensor."""
    largest: Tensor = max(
        (t for t in (*group.inputs, *group.outputs) if t.shape), key=lambda t: hint(t.type.size)
    )
    return largest.shape[-1]


def parts_of(func: PrimFunc) -> tuple[Number, ...]:
    """The further parameters of a function, as size expressions."""
    if IN_VECTORS not in func.attrs:
        return ()
    name, lanes = func.attrs[IN_VECTORS]
    return (quotient(Polynomial.symbol(name), lanes),)
