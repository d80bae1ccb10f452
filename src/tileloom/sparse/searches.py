"""The binary searches of a function: each in loops of its own before all else, and done once.

What a search finds is kept for each position of the variables that it depends on (`mid_0`, ...),
so that it can be split off and run once for many calls (`extract_preprocess`). There is no such
array where these are positions of merged axes, or of an axis below the coordinates of another, and
where data decide what is looked for: the search stands in the statement that needs it then.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import UserError
from ..expr import SPATIAL, Expr, Var, cast, conjunction, const, free_vars, post_order, substitute
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    IfThenElse,
    SparseBuffer,
    SpIterVar,
    Stmt,
    make_buffer,
    seq,
    used_buffers,
)
from ..tir.sparse import MERGED, AttachedAxis, FusedAxis, make_sparse_buffer
from .index_arrays import IndexArrays, Path, path_of_count
from .iterated import IteratedAxes, IteratedAxis
from .nest import GuardedStmt, LoopOver, Nest, grouped
from .search import ABSENT, find_coordinate, find_row, store_at

Key = tuple[object, ...]


class Inline:
    """Searches that stand before the statement that needs what they find."""

    def __init__(self) -> None:
        self.stmts: list[Stmt] = []
        self.buffers: list[Buffer] = []
        self.known: dict[Key, Expr] = {}


class Searches:
    """Collects the searches of a function."""

    def __init__(self, arrays: IndexArrays) -> None:
        self.arrays = arrays
        self._found: list[tuple[SparseBuffer, Stmt]] = []
        self._known: dict[Key, Expr] = {}
        self._variables: dict[tuple[Axis, bool, str], Var] = {}

    # ------------------------------------------------------------------------ coordinates

    def position(
        self,
        places: IteratedAxes,
        axis: Axis,
        above: Path,
        wanted: Expr,
        conditions: Sequence[Expr],
        inline: Inline,
    ) -> Expr:
        """The position of a coordinate below a position of the parent, `ABSENT` if it has none.

        Args:
            conditions: where one does not hold, nothing is looked for.
        """
        if not axis.sorted:
            raise UserError(
                f"coordinates are looked up on axis {axis.name!r}, whose indices are not sorted",
                hint="sort them and declare the axis with sorted=True, or iterate over this axis",
            )
        exprs = (*above, wanted, *conditions)
        loops = self._loops(places, exprs)
        if loops is None:
            return self._inline((axis, *exprs), axis, above, wanted, conditions, inline)
        shared = {loop.var: self._variable(loop.axis, loop.var) for loop in loops}
        key = (axis, *(substitute(expr, shared) for expr in exprs))
        known = self._known.get(key)
        if known is None:
            mid, indices = self._memory(places, loops, axis.idtype)
            fresh = {loop.var: Var(loop.var.name, loop.var.dtype) for loop in loops}
            write = store_at(mid, [substitute(i, fresh) for i in indices])
            stmt, scratch = find_coordinate(
                self.arrays,
                axis,
                tuple(substitute(part, fresh) for part in above),
                substitute(wanted, fresh),
                write,
            )
            if conditions:
                test = conjunction(substitute(c, fresh) for c in conditions)
                stmt = IfThenElse(test, stmt, write(const(ABSENT, axis.idtype)))
            self._add(mid, loops, fresh, GuardedStmt(stmt, (), scratch))
            found = substitute(BufferLoad(mid, indices), shared)
            known = self._known[key] = found
        return substitute(known, {shared[var]: var for var in shared})

    def _variable(self, axis: Axis, var: Var) -> Var:
        """What stands for the position on an axis where searches are compared."""
        own = axis.base if isinstance(axis, FusedAxis) else axis
        return self._variables.setdefault((own, isinstance(axis, FusedAxis), var.dtype), var)

    def _inline(
        self,
        key: Key,
        axis: Axis,
        above: Path,
        wanted: Expr,
        conditions: Sequence[Expr],
        inline: Inline,
    ) -> Expr:
        known = inline.known.get(key)
        if known is None:
            mid = make_buffer((1,), axis.idtype, "mid", scope="local")
            zero = const(0, "int32")
            write = store_at(mid, (zero,))
            stmt, scratch = find_coordinate(self.arrays, axis, above, wanted, write)
            if conditions:
                stmt = IfThenElse(conjunction(conditions), stmt, write(const(ABSENT, axis.idtype)))
            inline.stmts.append(stmt)
            inline.buffers += [mid, *scratch]
            known = inline.known[key] = BufferLoad(mid, (zero,))
        return known

    # ------------------------------------------------------------------------ fused axes

    def enter_fused(self, places: IteratedAxes, items: Sequence[SpIterVar], var: Var) -> None:
        """Enter the variables of fused axes; `var` is the position on the last."""
        axes = [item.axis.base for item in items if isinstance(item.axis, FusedAxis)]
        rows: dict[int, Expr] = {}
        count: Expr = var
        for k in range(len(axes) - 1, 0, -1):
            axis = axes[k]
            if axis.is_variable:
                count = rows[k - 1] = self._row(items[-1], axis, count, var)
            else:
                count = count // cast(count.dtype, axis.positions)
        places.enter_fused(items, var, rows)

    def _row(self, last: SpIterVar, axis: Axis, count: Expr, var: Var) -> Expr:
        shared = {var: self._variable(last.axis, var)}
        key = (axis, substitute(count, shared))
        known = self._known.get(key)
        if known is None:
            base = last.axis.base if isinstance(last.axis, FusedAxis) else last.axis
            chain = (*base.ancestors, base)
            mid = make_sparse_buffer(self._name(), chain, axis.idtype)
            fresh = Var(var.name, var.dtype)
            write = store_at(mid, path_of_count(base, fresh))
            stmt, scratch = find_row(self.arrays, axis, substitute(count, {var: fresh}), write)
            loop = LoopOver(var, last.axis, cast(var.dtype, last.axis.positions), SPATIAL)
            self._add(mid, [loop], {var: fresh}, GuardedStmt(stmt, (), scratch))
            found = substitute(BufferLoad(mid, path_of_count(base, var)), shared)
            known = self._known[key] = found
        return substitute(known, {shared[var]: var})

    # ------------------------------------------------------------------------ blocks

    def needed_by(self, body: Stmt) -> tuple[list[Stmt], list[Buffer]]:
        """The searches that a statement uses the results of, and the memory of the results."""
        used = set(used_buffers(body))
        stmts: list[Stmt] = []
        buffers: list[Buffer] = []
        for mid, stmt in reversed(self._found):
            if mid in used:
                used.update(used_buffers(stmt))
                stmts.insert(0, stmt)
                buffers.insert(0, mid)
        return stmts, buffers

    def _loops(self, places: IteratedAxes, exprs: Sequence[Expr]) -> list[LoopOver] | None:
        """Loops over all variables that expressions depend on; None where there are no such."""
        if any(self._may_change(expr) for expr in exprs):
            return None
        used = {var for expr in exprs for var in free_vars(expr)}
        for place in reversed(places.all):
            if place.var in used:
                used |= {var for part in place.path for var in free_vars(part)}
        found = []
        for place in places.all:
            if place.var is None or place.var not in used:
                continue
            axis = place.item.axis
            if isinstance(axis, (AttachedAxis, *MERGED)):
                return None
            extent = self._extent(places, place)
            found.append(LoopOver(place.var, axis, extent, SPATIAL))
        known = {loop.var for loop in found}
        positions = {place.var for place in places.all}
        inner = {var for var in used if var not in known and var in positions}
        return None if inner or not found else found

    def _may_change(self, expr: Expr) -> bool:
        """Whether an expression depends on more than index arrays and what was searched."""
        fixed = {*self.arrays.buffers, *(mid for mid, _ in self._found)}
        return any(
            isinstance(part, BufferLoad) and part.buffer not in fixed for part in post_order(expr)
        )

    def _extent(self, places: IteratedAxes, place: IteratedAxis) -> Expr:
        axis = place.item.axis
        if isinstance(axis, FusedAxis):
            return cast(axis.idtype, axis.positions)
        return cast(axis.idtype, self.arrays.extent(axis, places.above(axis)))

    def _memory(
        self, places: IteratedAxes, loops: Sequence[LoopOver], idtype: str
    ) -> tuple[SparseBuffer, Path]:
        """A buffer over the axes of loops, and where in it they are."""
        axes: list[Axis] = []
        indices: list[Expr] = []
        for loop in loops:
            if isinstance(loop.axis, FusedAxis):
                base = loop.axis.base
                axes += [*base.ancestors, base]
                indices += path_of_count(base, loop.var)
            else:
                axes.append(loop.axis)
                indices.append(loop.var)
        return make_sparse_buffer(self._name(), axes, idtype), tuple(indices)

    def _name(self) -> str:
        return f"mid_{len(self._found)}"

    def _add(
        self,
        mid: SparseBuffer,
        loops: Sequence[LoopOver],
        fresh: dict[Var, Var],
        leaf: GuardedStmt,
    ) -> None:
        own = [
            loop.replace(var=fresh[loop.var], extent=substitute(loop.extent, fresh))
            for loop in loops
        ]
        name = f"binary_search_block_{len(self._found)}_"
        nest = Nest(name, grouped(own), {"preprocess": True})
        self._found.append((mid, seq(nest.around(leaf))))
