"""Stage I to stage II: iterations become loops and blocks, coordinates become positions.

Needs: sparse_tir_level 2. Ensures: level 1, no `SparseIteration`, every index of a sparse buffer is
a position below the parent, index arrays are buffers. Source: SparseTIR, "sparse iteration
lowering"; elements that are not stored have the buffer's default value here, and each result is
started once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import REDUCE, SPATIAL, Var, cast, const
from ..tir import (
    COORDINATES,
    POSITIONS,
    Block,
    BlockRealize,
    Buffer,
    IRModule,
    PrimFunc,
    SparseIteration,
    SpIterVar,
    Stmt,
    StmtRewriter,
    seq,
    sparse_level,
)
from ..tir.sparse import LEVEL, MERGED, FusedAxis
from .access import Translator
from .index_arrays import IndexArrays
from .iterated import IteratedAxes
from .merge import merged_loop
from .nest import GuardedStmt, LoopOver, Nest, Start, block_name, grouped
from .searches import Searches
from .spec import verify
from .starts import resolve_starts, start_apart, stored_vars


def lower_sparse_iter(
    mod: IRModule | PrimFunc, check_invalid_binary_search: bool = True
) -> IRModule:
    """Lower the sparse iterations of a module to loops and blocks over positions.

    Functions at another level than 2 stay as they are.

    Args:
        mod: the module, or a function, which is called "main" then.
        check_invalid_binary_search: accepted for the sake of SparseTIR's users: an element that is
            not found always has the default value of its buffer.

    Raises:
        VerifyError: a function is not legal at its level (`sparse.spec`).
    """
    if isinstance(mod, PrimFunc):
        mod = IRModule({"main": mod})
    for func in mod.functions.values():
        if sparse_level(func) == COORDINATES:
            verify(func)
    functions = {
        name: _lowered(func) if sparse_level(func) == COORDINATES else func
        for name, func in mod.functions.items()
    }
    return mod.replace(functions=functions)


def _lowered(func: PrimFunc) -> PrimFunc:
    arrays = IndexArrays(func)
    searches = Searches(arrays)
    body = resolve_starts(func)
    body = _Lowering(arrays, searches, IteratedAxes(arrays)).visit(body)
    stmts, buffers = searches.needed_by(body)
    return func.replace(
        body=_in_root(body, stmts, buffers),
        buffer_map=arrays.buffer_map,
        sp_axes=tuple(arrays.axes),
        buffer_domains=tuple(arrays.domains),
        attrs={**func.attrs, LEVEL: const(POSITIONS)},
    )


def _in_root(body: Stmt, first: Sequence[Stmt], buffers: Sequence[Buffer]) -> Stmt:
    """Searches before everything else, in a root block."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        root = body.block
        inner = root.replace(
            body=seq(*first, root.body), alloc_buffers=(*root.alloc_buffers, *buffers)
        )
        return body.replace(block=inner)
    root = Block((), (), (), "root", seq(*first, body), alloc_buffers=tuple(buffers))
    return BlockRealize((), const(True), root)


class _Lowering(StmtRewriter):
    """Replaces iterations by nests, outside in."""

    def __init__(self, arrays: IndexArrays, searches: Searches, places: IteratedAxes) -> None:
        self.arrays = arrays
        self.searches = searches
        self.places = places

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        apart = start_apart(stmt)
        if apart is not None:
            return seq(*map(self.visit_SparseIteration, apart))
        return _Iteration(self.arrays, self.searches, self.places, stmt).lowered()


class _Iteration:
    """One iteration on its way to a nest."""

    def __init__(
        self, arrays: IndexArrays, searches: Searches, outer: IteratedAxes, stmt: SparseIteration
    ) -> None:
        self.arrays = arrays
        self.searches = searches
        self.stmt = stmt
        self.places = IteratedAxes(arrays, outer)
        merged = [k for k, i in enumerate(stmt.sp_iter_vars) if isinstance(i.axis, MERGED)]
        plain = len(stmt.sp_iter_vars) if not merged else merged[0]
        self.merged = stmt.sp_iter_vars[plain:]
        self.kept_apart = stored_vars(stmt)
        self.loops = self._loops(stmt.sp_iter_vars[:plain])

    def _loops(self, items: Sequence[SpIterVar]) -> list[LoopOver]:
        """Loops over the positions of plain axes, whose places are entered."""
        loops = []
        k = 0
        while k < len(items):
            axis = items[k].axis
            width = len(axis.group) if isinstance(axis, FusedAxis) else 1
            last = items[k + width - 1]
            var = Var(block_name(last.var.name), last.axis.idtype)
            if isinstance(axis, FusedAxis):
                extent = cast(var.dtype, last.axis.positions)
                self.searches.enter_fused(self.places, items[k : k + width], var)
            else:
                extent = cast(var.dtype, self.arrays.extent(axis, self.places.above(axis)))
                self.places.enter(last, var)
            kinds = {self._kind(item) for item in items[k : k + width]}
            loops.append(LoopOver(var, last.axis, extent, max(kinds)))
            k += width
        return loops

    def _kind(self, item: SpIterVar) -> int:
        """Data-parallel, unless the results do not tell the instances of the variable apart."""
        apart = self.kept_apart is None or item.var in self.kept_apart
        return SPATIAL if apart and not item.is_reduction else REDUCE

    def lowered(self) -> Stmt:
        """The nest."""
        stmt = self.stmt
        groups = grouped(self.loops) if self.loops else [[]]
        nest = Nest(stmt.name, groups, stmt.annotations)
        if self.merged:
            leaf = merged_loop(self.arrays, self.places, self.merged, stmt.body, self._leaf)
            if groups[-1]:
                groups.append([])
            return nest.around(leaf)
        start = None
        if stmt.init is not None:
            number = next(k for k, g in enumerate(groups) if any(x.kind == REDUCE for x in g))
            start = Start(number, self._leaf_of(stmt.init, self.places))
        return nest.around(self._leaf(self.places), start)

    def _leaf(self, places: IteratedAxes) -> GuardedStmt:
        return self._leaf_of(self.stmt.body, places)

    def _leaf_of(self, stmt: Stmt, places: IteratedAxes) -> GuardedStmt:
        inner = _Lowering(self.arrays, self.searches, places)
        return Translator(self.arrays, self.searches, places, inner.visit).leaf(stmt)
