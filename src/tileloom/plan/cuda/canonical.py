"""Blocks with one variable for rows and one for the position in a row.

Conditions then bound one variable each, whatever the extents are, so that tiles need not divide
them.
"""

from __future__ import annotations

from ...expr import REDUCE, Expr, Var
from ...schedule.rv import LoopRV
from ...schedule.schedule import Schedule
from ..domain import Domain, GroupAxis
from ..loops import rows_and_depth


def normalise(
    sch: Schedule, name: str, domain: Domain, vector: int = 1
) -> tuple[LoopRV, LoopRV | None]:
    """Give a block a loop over the rows of its domain, and one over positions in a row.

    Rows and positions count along the axes of the domain in its order. There is no second loop for
    what is made once a row.

    Args:
        vector: of how many positions a third loop has the last value.
    """
    rv = sch.get_block(name)
    block = sch.get(rv)
    axes = domain.axes[name]
    if not sch.get_loops(rv):  # of a single number
        return sch.add_unit_loop(rv), None
    if not all(axis is None or axis.extent for axis in axes):
        return _of_nothing(sch, name, domain)
    reducing = [axis.iter_type == REDUCE for axis in block.iter_vars]
    full = any(axis is not None and axis.reduced for axis in axes)
    # Extents of 1 go along with what is of their kind.
    units_of_depth = full and any(r for r, axis in zip(reducing, axes, strict=True) if axis)
    rest = [r for r, axis in zip(reducing, axes, strict=True) if r and axis is None]

    def index_map(*index: Var) -> list[Expr]:
        def position(kept: list[GroupAxis]) -> Expr | None:
            total: Expr | None = None
            for axis in kept:
                if axis in axes:
                    value: Expr = index[axes.index(axis)]
                    total = value if total is None else total * axis.base + value
            return total

        def with_units(total: Expr | None, of_kind: bool) -> Expr | None:
            for var, reduces, axis in zip(index, reducing, axes, strict=True):
                if axis is None and reduces == of_kind:
                    total = var if total is None else total + var
            return total

        row = with_units(position(domain.spatial), False)
        depth = position(domain.reduced) if full else None
        if units_of_depth or (rest and not full):
            depth = with_units(depth, True)
        parts = [part for part in (row, depth) if part is not None]
        if full and vector > 1:
            parts[-1:] = [parts[-1] // vector, parts[-1] % vector]
        return parts

    if len(axes) > 0 and not (vector == 1 and _is_normal(domain, axes, full)):
        sch.transform_block_layout(rv, index_map)
    loops = sch.get_loops(rv)
    has_row = any(not r and not (axis is not None and axis.reduced)
                  for r, axis in zip(reducing, axes, strict=True))  # fmt: skip
    if not has_row:
        loops = [sch.add_unit_loop(loops[0] if loops else rv), *loops]
    return loops[0], loops[1] if full else None


def _of_nothing(sch: Schedule, name: str, domain: Domain) -> tuple[LoopRV, LoopRV | None]:
    """The same where an extent is 0, so that numbers have no digits."""
    rv = sch.get_block(name)
    loops = sch.get_loops(rv)
    axes = domain.axes[name]
    rows = [loop for axis, loop in zip(axes, loops, strict=True) if axis in domain.spatial]
    depth = [loop for axis, loop in zip(axes, loops, strict=True) if axis in domain.reduced]
    if depth and domain.depth == 0:  # the loops run not once, in whatever threads
        row = rows[0] if len(rows) == 1 else sch.add_unit_loop(loops[0])
        return row, None
    return rows_and_depth(sch, rv, name, domain)


def _is_normal(domain: Domain, axes: list[GroupAxis | None], full: bool) -> bool:
    """Whether there is one variable for rows, and one for positions if there are any."""
    wanted: list[GroupAxis | None] = [*domain.spatial, *(domain.reduced if full else ())]
    return len(domain.spatial) == 1 and len(domain.reduced) <= 1 and axes == wanted
