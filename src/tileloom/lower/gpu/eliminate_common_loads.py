"""What a thread has read from global memory it does not read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from ...expr import (
    Call,
    Expr,
    IntImm,
    Ramp,
    Var,
    const,
    free_vars,
    has_load,
    post_order,
    rewrite,
    substitute,
)
from ...tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    all_exprs,
    make_buffer,
    seq,
)
from ...tir.atomics import has_atomic, written_pointers
from ..analysis.pointers import loaded_pointers
from ..analysis.threads import KernelBody, is_global, storage_rank
from ..blocks import allocate
from ..common import (
    ADDRESS_OF,
    IF_THEN_ELSE,
    THREAD_EXTENT,
    conjuncts,
    defined_vars,
    replaced,
    unlikely_free,
)
from .kernels import on_kernels

#: Bytes that a thread keeps: of the values of one load over its loops, and of all of a kernel. More
#: registers for a thread mean fewer threads, and a second read mostly comes from a cache.
EACH, ALL = 64, 128
_WRAPPERS = (Allocate, AttrStmt, DeclBuffer)


def eliminate_common_loads(func: PrimFunc) -> PrimFunc:
    """Equal loads of one thread become one; the others read an array of its own.

    Loads are equal if they are of the same elements in the same loops (up to the names of loop
    variables): `for k: s += A[t + 8 * k]`, later `for k: B[..] = A[t + 8 * k]`. Loops have
    constant extents, and few iterations, for the array is to live in registers. A load under
    conditions is kept for loads under the same ones, or more. A choice, `if_then_else(inside,
    A[i], 0)`, is kept as a whole, as A[i] may not be there to read.

    Only memory that the kernel never writes is read once: then no store, barrier or other thread
    comes between. Without "tir.noalias" a kernel that writes global memory stays as it is.

    Needs: flat code whose thread loops are attributes.
    Ensures: the same values; at most `ALL` bytes more for each thread.
    """
    noalias = bool(func.attrs.get("tir.noalias"))

    def transform(kernel: KernelBody) -> Stmt:
        written = written_pointers(kernel.root)
        if not noalias and any(is_global(data) for data in written):
            return kernel.root
        sources = _loaded(kernel.root) - written - exposed_pointers(kernel.root)
        return _Eliminate(sources).visit(kernel.root) if sources else kernel.root

    return on_kernels(func, transform)


def _loaded(stmt: Stmt) -> set[Var]:
    """The global memory that is read element by element."""
    return {data for data in loaded_pointers(stmt) if is_global(data)}


def exposed_pointers(stmt: Stmt) -> set[Var]:
    """Memory whose pointer a call gets, which may do with it what it likes."""
    found: set[Var] = set()
    for expr in all_exprs(stmt):
        found.update(var for var in free_vars(expr) if var.dtype.is_handle)
        for node in post_order(expr) if has_load(expr) else ():
            if isinstance(node, Call) and node.op == ADDRESS_OF:
                found.update(a.buffer.data for a in node.args if isinstance(a, BufferLoad))
    return found


_Runs = tuple[tuple[int, int], ...]  # first values and counts of loops
_Key = tuple[Expr, _Runs]  # what is read, and the loops it is read in


@dataclass(frozen=True, slots=True)
class _Path:
    """How a statement is reached inside a region: small loops and conditions around it."""

    loops: tuple[For, ...] = ()
    guards: tuple[Expr, ...] = ()

    def numbered(self, expr: Expr) -> Expr:
        """The expression with loop variables by position, so that equal ones can be told."""
        return substitute(expr, {v.loop_var: n for v, n in zip(self.loops, _NUMBERS, strict=False)})

    @property
    def runs(self) -> _Runs:
        return tuple((_constant(loop.min), _constant(loop.extent)) for loop in self.loops)

    @property
    def conditions(self) -> frozenset[Expr]:
        return frozenset(unlikely_free(self.numbered(guard)) for guard in self.guards)


_NUMBERS = tuple(Var(f"k{n}") for n in range(8))


@dataclass(slots=True)
class _Kept:
    """An array of what a load gives, and the statement that fills it."""

    buffer: Buffer
    at: BufferStore


class _Eliminate(StmtRewriter):
    def __init__(self, sources: Set[Var]) -> None:
        self.sources = sources
        self.left = ALL

    # Regions are the bodies of the kernel and of its large loops, and both sides of a branch that
    # has two. What is inside a region is reached by small loops and conditions alone.

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        body = stmt.body
        if isinstance(body, AttrStmt) and body.attr_key == THREAD_EXTENT:
            return self.update(stmt, body=self.visit_AttrStmt(body))
        return self.update(stmt, body=self.region(body))

    def region(self, stmt: Stmt) -> Stmt:
        sites: list[tuple[BufferStore, _Path]] = []
        inner: list[Stmt] = []
        _collect(stmt, _Path(), sites, inner)
        # What stands in two places has two paths to it; passes make few such statements.
        times = Counter([*inner, *(node for node, _ in sites)])
        sites = [(node, path) for node, path in sites if times[node] == 1]
        kept, uses = self.choose(stmt, sites)
        changed: dict[Stmt, Stmt] = {}
        for store, path in sites:
            if store in uses:
                changed[store] = _rewritten(store, path, uses[store], kept)
        for node in inner:
            if times[node] == 1:
                changed[node] = self.nested(node)
        body = replaced(stmt, changed)
        for entry in kept.values():
            body = allocate(entry.buffer, body)
        return body

    def nested(self, stmt: Stmt) -> Stmt:
        """A statement that is no part of the region around it."""
        if isinstance(stmt, IfThenElse):
            yes = self.region(stmt.then_case)
            no = None if stmt.else_case is None else self.region(stmt.else_case)
            return self.update(stmt, then_case=yes, else_case=no)
        body = getattr(stmt, "body", None)
        return stmt if body is None else self.update(stmt, body=self.region(body))

    def choose(
        self, region: Stmt, sites: list[tuple[BufferStore, _Path]]
    ) -> tuple[dict[_Key, _Kept], dict[BufferStore, dict[Expr, _Key]]]:
        """The loads to keep, and for each statement those that it has in common with others."""
        defined = defined_vars(region)
        found: dict[_Key, list[tuple[BufferStore, Expr, frozenset[Expr]]]] = {}
        for node, path in sites:
            allowed = {loop.loop_var for loop in path.loops}
            for unit in _units(node.value, self.sources):
                if free_vars(unit).isdisjoint(defined - allowed):
                    key = path.numbered(unit), path.runs
                    found.setdefault(key, []).append((node, unit, path.conditions))
        kept: dict[_Key, _Kept] = {}
        uses: dict[BufferStore, dict[Expr, _Key]] = {}
        for key, places in found.items():
            first, _, conditions = places[0]
            same = [(n, unit) for n, unit, there in places if conditions <= there]
            size = _elements(key) * key[0].dtype.element.bytes
            if len(same) < 2 or size > min(EACH, self.left):
                continue
            self.left -= size
            kept[key] = _Kept(_array(key), first)
            for node, unit in same:
                uses.setdefault(node, {})[unit] = key
        return kept, uses


def _collect(
    stmt: Stmt, path: _Path, sites: list[tuple[BufferStore, _Path]], inner: list[Stmt]
) -> None:
    match stmt:
        case SeqStmt():
            for part in stmt.seq:
                _collect(part, path, sites, inner)
        case BufferStore() if storage_rank(stmt.buffer.scope) != 1:
            sites.append((stmt, path))
        case For() if _is_small(stmt, path):
            _collect(stmt.body, replace(path, loops=(*path.loops, stmt)), sites, inner)
        case IfThenElse(else_case=None) if not has_load(stmt.condition):
            guards = (*path.guards, *conjuncts(stmt.condition))
            _collect(stmt.then_case, replace(path, guards=guards), sites, inner)
        case _ if isinstance(stmt, _WRAPPERS):
            _collect(stmt.body, path, sites, inner)
        case BufferStore() | Evaluate():
            pass  # a plain copy to shared memory may become one that the thread does not wait for
        case _:
            inner.append(stmt)


def _is_small(loop: For, path: _Path) -> bool:
    if len(path.loops) == len(_NUMBERS) or not isinstance(loop.min, IntImm):
        return False
    count = _constant(loop.extent)
    for _, extent in path.runs:
        count *= extent
    return 0 < count <= EACH and loop.thread_binding is None


def _constant(expr: Expr) -> int:
    return expr.value if isinstance(expr, IntImm) else 0


def _units(expr: Expr, sources: Set[Var]) -> Iterator[Expr]:
    """The loads, and choices with loads, that could be kept: all parts of them are constant."""
    if not has_load(expr) or has_atomic(expr):
        return
    if isinstance(expr, BufferLoad):
        if expr.buffer.data in sources and not any(map(has_load, expr.children)):
            yield expr
        return
    if isinstance(expr, Call) and expr.op == IF_THEN_ELSE:
        if _is_constant(expr, sources):
            yield expr
        return
    if expr.dtype.is_bool or (isinstance(expr, Call) and expr.op == ADDRESS_OF):
        return  # `a and b` does not evaluate b where a is false
    for child in expr.children:
        yield from _units(child, sources)


def _is_constant(expr: Expr, sources: Set[Var]) -> bool:
    loads = [node for node in post_order(expr) if isinstance(node, BufferLoad)]
    return all(n.buffer.data in sources and not any(map(has_load, n.children)) for n in loads)


def _elements(key: _Key) -> int:
    count = key[0].dtype.lanes
    for _, extent in key[1]:
        count *= extent
    return count


def _array(key: _Key) -> Buffer:
    return make_buffer((_elements(key),), str(key[0].dtype.element), "kept", scope="local")


def _rewritten(
    stmt: BufferStore, path: _Path, uses: Mapping[Expr, _Key], kept: Mapping[_Key, _Kept]
) -> Stmt:
    """A statement that reads what is kept, and before it fills what it is the first to read."""
    table: dict[Expr, Expr] = {}
    fills: list[Stmt] = []
    for unit, key in uses.items():
        entry = kept[key]
        at = _position(path, key[0].dtype.lanes)
        table[unit] = BufferLoad(entry.buffer, (at,))
        if entry.at is stmt:
            fills.append(BufferStore(entry.buffer, unit, (at,)))
    return seq(*fills, stmt.replace(value=rewrite(stmt.value, table.get)))


def _position(path: _Path, lanes: int) -> Expr:
    at: Expr | None = None
    for loop in path.loops:
        step = loop.loop_var - loop.min
        at = step if at is None else at * loop.extent + step
    at = const(0) if at is None else at
    return at if lanes == 1 else Ramp(at * lanes, const(1, at.dtype), lanes)
