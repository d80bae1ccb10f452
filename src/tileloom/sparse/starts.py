"""Where the results of an iteration are started (`T.init`): once for each, before any update."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.errors import UserError
from ..expr import IntImm, Range, Var, const, detect_iter_map, free_vars, post_order
from ..tir import (
    BufferLoad,
    BufferStore,
    PrimFunc,
    SparseIteration,
    SpIterVar,
    Stmt,
    StmtRewriter,
    collect,
    seq,
    substitute_stmt,
)
from ..tir.sparse import MERGED, Axis, FusedAxis
from .index_arrays import structure

#: An iteration with this annotation leaves the start of its results to the one that it names.
INITIALIZED_BY = "initialized_by"
#: A function with this attribute runs its iterations as one launch.
HORIZONTAL_FUSE = "horizontal_fuse"


def resolve_starts(func: PrimFunc) -> Stmt:
    """The body of a function in which each iteration starts the results that it has an init for.

    The parts of a decomposed iteration leave that to an iteration before them, except where all run
    as one launch: there is nothing before them then, so each starts its own.
    """
    iterations = collect(func.body, SparseIteration)
    wanted = {str(part.annotations[INITIALIZED_BY]) for part in iterations if _leaves_it(part)}
    missing = sorted(wanted - {part.name for part in iterations})
    horizontal = bool(func.attrs.get(HORIZONTAL_FUSE, False))
    if missing and not horizontal:
        raise UserError(f"no iteration is called {missing[0]!r}, which starts results of others")
    return _Starts(wanted, horizontal).visit(func.body)


def _leaves_it(stmt: SparseIteration) -> bool:
    return INITIALIZED_BY in stmt.annotations


class _Starts(StmtRewriter):
    def __init__(self, by: set[str], horizontal: bool) -> None:
        self.by = by
        self.horizontal = horizontal

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        if self.horizontal and stmt.name in self.by:
            return seq()
        if not _leaves_it(stmt):
            return super().visit_SparseIteration(stmt)
        rest = {k: v for k, v in stmt.annotations.items() if k != INITIALIZED_BY}
        init = stmt.init if self.horizontal else None
        return super().visit_SparseIteration(stmt.replace(init=init, annotations=rest))


def start_apart(stmt: SparseIteration) -> tuple[SparseIteration, SparseIteration] | None:
    """The start of the results as an iteration of its own, where no block can do it.

    A block starts each result once only if its data-parallel variables tell the results apart and
    the start needs no variable of a block inside.
    """
    if stmt.init is None or _block_can_start(stmt, stmt.init):
        return None
    used = _free(stmt.init)
    needed = with_parents(stmt, [item for item in stmt.sp_iter_vars if item.var in used])
    items = tuple(item.replace(is_reduction=False) for item in needed)
    start = SparseIteration(items, f"{stmt.name}_init", stmt.init, None, stmt.annotations)
    return _renewed(start), stmt.replace(init=None)


def _renewed(stmt: SparseIteration) -> SparseIteration:
    """The iteration over variables of its own."""
    fresh = {item.var: Var(item.var.name, item.var.dtype) for item in stmt.sp_iter_vars}
    items = tuple(item.replace(var=fresh[item.var]) for item in stmt.sp_iter_vars)
    return stmt.replace(sp_iter_vars=items, body=substitute_stmt(stmt.body, dict(fresh)))


def _block_can_start(stmt: SparseIteration, init: Stmt) -> bool:
    items = stmt.sp_iter_vars
    if any(isinstance(item.axis, MERGED) for item in items):
        return False
    if not any(item.is_reduction for item in items):
        return False
    if any(len({item.is_reduction for item in group}) > 1 for group in _fused(items)):
        return False
    own, used = {item.var for item in items}, _free(init)
    if any(item.is_reduction and item.var in used for item in items):
        return False
    return (used & own) <= _first_block_with_reduction(items) and _tells_apart(stmt, init)


def _fused(items: Iterable[SpIterVar]) -> list[list[SpIterVar]]:
    """The variables of fused axes, by group."""
    groups: dict[tuple[Axis, ...], list[SpIterVar]] = {}
    for item in items:
        if isinstance(item.axis, FusedAxis):
            groups.setdefault(item.axis.group, []).append(item)
    return list(groups.values())


def _first_block_with_reduction(items: Iterable[SpIterVar]) -> set[Var]:
    """The variables up to the end of the first block that reduces."""
    known: set[Var] = set()
    block: set[Axis] = set()
    reduces = False
    for item in items:
        axis = item.axis
        if axis.is_variable and axis.parent in block:
            if reduces:
                break
            block = set()
        block.add(axis.base if isinstance(axis, FusedAxis) else axis)
        known.add(item.var)
        reduces = reduces or item.is_reduction
    return known


def _tells_apart(stmt: SparseIteration, init: Stmt) -> bool:
    """Whether each point of the data-parallel variables stores to an element of its own."""
    spatial = [item for item in stmt.sp_iter_vars if not item.is_reduction]
    own = {item.var for item in stmt.sp_iter_vars}
    for store in collect(init, BufferStore):
        plain = {index for index in store.indices if isinstance(index, Var)}
        rest = [item for item in spatial if item.var not in plain and not _is_one(item.axis)]
        if not rest:
            continue
        ranges = {item.var: Range(const(0, item.var.dtype), _length(item)) for item in rest}
        used = [index for index in store.indices if free_vars(index) & own and index not in plain]
        if any((free_vars(index) & own) - set(ranges) for index in used):
            return False
        if not detect_iter_map(used, ranges, check_level="bijective"):
            return False
    return True


def _length(item: SpIterVar) -> object:
    axis = item.axis
    length = axis.base.length if isinstance(axis, FusedAxis) else axis.length
    return length.astype(item.var.dtype)


def _is_one(axis: Axis) -> bool:
    base = axis.base if isinstance(axis, FusedAxis) else axis
    return isinstance(base.length, IntImm) and base.length.value == 1


def with_parents(stmt: SparseIteration, used: Iterable[SpIterVar]) -> list[SpIterVar]:
    """Variables and those that run over the axes above, in the order of the iteration."""
    items = stmt.sp_iter_vars
    by_axis: dict[Axis, SpIterVar] = {}
    for item in items:
        axis = item.axis
        by_axis[axis.base if isinstance(axis, FusedAxis) else axis] = item
        by_axis.setdefault(structure(axis), item)
    found: set[SpIterVar] = set()
    waiting = list(used)
    while waiting:
        item = waiting.pop()
        if item in found:
            continue
        found.add(item)
        axes = item.axis.group if isinstance(item.axis, FusedAxis) else (item.axis.parent,)
        waiting += [by_axis[axis] for axis in axes if axis is not None and axis in by_axis]
    return [item for item in items if item in found]


def stored_vars(stmt: SparseIteration) -> set[Var] | None:
    """The variables that tell the elements apart that an iteration adds to.

    None where it does not read what it stores, so that nothing is combined.
    """
    stores = collect(stmt.body, BufferStore)
    stored = {store.buffer for store in stores}
    parts = (part for store in stores for part in post_order(store.value))
    if not any(isinstance(part, BufferLoad) and part.buffer in stored for part in parts):
        return None
    found = {item.var for item in stmt.sp_iter_vars}
    for store in stores:
        used = {var for index in store.indices for var in free_vars(index)}
        if any(item.var in used for item in stmt.sp_iter_vars):
            found &= used | {i.var for i in stmt.sp_iter_vars if _is_one(i.axis)}
    return found


def _free(stmt: Stmt) -> set[Var]:
    found: set[Var] = set()
    for store in collect(stmt, BufferStore):
        for expr in (store.value, *store.indices):
            found |= free_vars(expr)
    return found
