"""A kernel that leaves parts and the one that puts them together become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from ..base.errors import VerifyError
from ..expr import (
    EQ,
    LT,
    Add,
    Call,
    Expr,
    IntImm,
    Min,
    Mul,
    Range,
    StringImm,
    Sub,
    Var,
    binary,
    const,
    post_order,
)
from ..tir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    make_buffer,
    pre_order,
    seq,
    stmt_children,
    stmt_exprs,
)
from ..tir.atomics import written_pointers
from .common import ADDRESS_OF, THREAD_EXTENT, Replacer, conjunction, has_load, on_body
from .eliminate_common_loads import exposed_pointers
from .hoist_barriers import under_condition
from .linear import linear
from .lower_opaque_block import allocate
from .thread_places import MANY, NOBODY, Array, Threads
from .threads import Kernel, kernels, storage_rank, sync

WANTED = "tir.merge_grid_reductions"
ZEROED = "zeroed"  # annotation of memory that is zero before a call, and again after it
_WARP = 32
_TAG = "blockIdx.x"
_SHUFFLES = ("tir.tvm_warp_shuffle", "tir.tvm_thread_allreduce", "tir.shfl")


def merge_grid_reductions(func: PrimFunc) -> PrimFunc:
    """Two launches, of which the second only puts together what the first leaves, become one.

    Every block leaves its part, and then takes a ticket from a counter that those share whose
    parts belong together. Who takes the last ticket knows that all parts are there, and goes on
    as a block of the second kernel. The order in which parts are put together does not depend on
    who was last. Parts are stored and loaded as atomic calls, which no cache of a processor keeps.

    Where the function has the attribute `tir.merge_grid_reductions`: the counters need memory that
    is zero before (annotation "zeroed" of its allocation) and is left zero.

    Needs: flat code whose thread loops are attributes, with its barriers, and "tir.noalias".
    Ensures: fewer launches; where a block of the second kernel does not need the parts of just so
    many neighbours in the first, or other things do not fit, both stay.
    """
    if not func.attrs.get(WANTED) or not func.attrs.get("tir.noalias"):
        return func
    known = {kernel.root: kernel for kernel in kernels(func.body)}
    return on_body(func.without_attr(WANTED), _Merge(known).visit)


class _Merge(StmtRewriter):
    def __init__(self, known: Mapping[AttrStmt, Kernel]) -> None:
        self.known = known

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        parts: list[Stmt] = []
        for part in stmt.seq:
            before = self.known.get(parts[-1]) if parts else None  # type: ignore[call-overload]
            after = self.known.get(part)  # type: ignore[call-overload]
            if before is not None and after is not None:
                merged = _merged(before, after)
                if merged is not None:
                    parts[-1] = merged
                    continue
            parts.append(part if after is not None else self.visit(part))
        same = len(parts) == len(stmt.seq) and all(
            a is b for a, b in zip(parts, stmt.seq, strict=True)
        )
        return stmt if same else seq(*parts)


def _merged(first: Kernel, second: Kernel) -> Stmt | None:
    """One kernel for both, if that is possible."""
    blocks, later = _blocks(first), _blocks(second)
    if blocks is None or later is None:
        return None
    made = written_pointers(first.root)
    needed = _loaded(second.root) & made
    after = written_pointers(second.root)
    if not needed or after & (made | _loaded(first.root)) or needed & _loaded(first.root):
        return None
    exposed = exposed_pointers(first.root) | exposed_pointers(second.root)
    if exposed & (needed | after) or not _can_be_atomic((first.root, second.root), needed):
        return None
    together = _blocks_of_a_part(first, second, needed)
    guard = _guard(first, second)
    if together is None or guard is None:
        return None
    try:
        return _joined(first, second, needed, together, guard)
    except VerifyError:
        return None  # a barrier of the second stands where some threads would not come by


def _blocks(kernel: Kernel) -> int | None:
    """The number of blocks of a kernel on one axis whose threads are counted."""
    tags = [tag for tag in kernel.threads if tag.startswith("blockIdx")]
    counted = all(isinstance(extent, IntImm) for _, extent in kernel.threads.values())
    return int(kernel.threads[_TAG][1]) if counted and tags == [_TAG] else None  # type: ignore[call-overload]


def _loaded(stmt: Stmt) -> set[Var]:
    exprs = (e for node in pre_order(stmt) for e in stmt_exprs(node) if has_load(e))
    nodes = (node for expr in exprs for node in post_order(expr))
    return {node.buffer.data for node in nodes if isinstance(node, BufferLoad)}


def _can_be_atomic(stmts: Sequence[Stmt], memory: Set[Var]) -> bool:
    """Whether single elements of 32 or 64 bits are what is stored and loaded there."""
    for stmt in stmts:
        for place in _places(stmt, memory, _Around()):
            kind = place.buffer.dtype
            if storage_rank(place.buffer.scope) != 0 or kind.lanes > 1 or kind.bits < 32:
                return False
            if len(place.indices) != 1 or place.indices[0].dtype.lanes > 1 or place.predicated:
                return False
    return True


# ---------------------------------------------------------------------------- who needs what


@dataclass(frozen=True, slots=True)
class _Around:
    """Loops and conditions around a statement."""

    loops: Mapping[Var, Range | None] = field(default_factory=dict)
    conditions: tuple[tuple[Expr, bool], ...] = ()

    def with_loop(self, var: Var, run: Range | None) -> _Around:
        return _Around({**self.loops, var: run}, self.conditions)

    def where(self, condition: Expr, holds: bool) -> _Around:
        return _Around(self.loops, (*self.conditions, (condition, holds)))


@dataclass(frozen=True, slots=True)
class _Place:
    """An access to memory of the device."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    around: _Around
    predicated: bool


def _places(stmt: Stmt, memory: Set[Var], around: _Around) -> Iterator[_Place]:
    """Where some memory is stored to or loaded from."""
    for expr in stmt_exprs(stmt):
        for node in post_order(expr) if has_load(expr) else ():
            if isinstance(node, BufferLoad) and node.buffer.data in memory:
                yield _Place(node.buffer, node.indices, around, node.predicate is not None)
    match stmt:
        case BufferStore(buffer=buffer) if buffer.data in memory:
            yield _Place(buffer, stmt.indices, around, stmt.predicate is not None)
        case For():
            run = Range(stmt.min, stmt.extent)
            yield from _places(stmt.body, memory, around.with_loop(stmt.loop_var, run))
        case LetStmt():
            yield from _places(stmt.body, memory, around.with_loop(stmt.var, None))
        case IfThenElse():
            yield from _places(stmt.then_case, memory, around.where(stmt.condition, True))
            if stmt.else_case is not None:
                yield from _places(stmt.else_case, memory, around.where(stmt.condition, False))
        case _:
            for child in stmt_children(stmt):
                yield from _places(child, memory, around)


def _owners(kernel: Kernel, data: Var) -> Array | None:
    """By element, the block that touches it; None where that is not known of each."""
    var, extent = kernel.threads[_TAG]
    crew = Threads({var: extent})
    threads = {v: (0, int(n)) for tag, (v, n) in kernel.threads.items() if tag != _TAG}  # type: ignore[call-overload]
    owners = np.full(0, NOBODY, np.int64)
    for place in _places(kernel.root, {data}, _Around()):
        loops = dict(threads)
        for loop, run in place.around.loops.items():
            if run is None or not isinstance(run.min, IntImm) or not isinstance(run.extent, IntImm):
                return None
            loops[loop] = run.min.value, run.extent.value
        index = linear(place.indices[0])
        found = crew.places(index, loops, place.around.conditions)
        if found is None or found.low < 0 or (found.owner == MANY).any():
            return None
        end = found.low + len(found.owner)
        if end > len(owners):
            owners = np.append(owners, np.full(end - len(owners), NOBODY, np.int64))
        here = owners[found.low : end]
        if ((here != NOBODY) & (found.owner != NOBODY) & (here != found.owner)).any():
            return None
        here[found.owner != NOBODY] = found.owner[found.owner != NOBODY]
    return owners


def _blocks_of_a_part(first: Kernel, second: Kernel, needed: Set[Var]) -> int | None:
    """How many neighbouring blocks of the first kernel make what one of the second needs."""
    blocks, later = _blocks(first) or 0, _blocks(second) or 0
    reader = np.full(blocks, NOBODY, np.int64)
    for data in sorted(needed, key=lambda var: var.serial):
        made, used = _owners(first, data), _owners(second, data)
        if made is None or used is None:
            return None
        size = min(len(made), len(used))
        both = (made[:size] != NOBODY) & (used[:size] != NOBODY)
        makers, users = made[:size][both], used[:size][both]
        known = reader[makers]
        if ((known != NOBODY) & (known != users)).any():
            return None
        reader[makers] = users
        if (reader[makers] != users).any():
            return None
    together = int((reader == 0).sum())
    if together < 1 or -(-blocks // together) != later:
        return None
    expected = np.arange(blocks) // together
    return together if (reader == expected).all() else None


# ---------------------------------------------------------------------------- the kernel


def _guard(first: Kernel, second: Kernel) -> list[Expr] | None:
    """Which threads of the first kernel do what those of the second would; None if none can."""
    parts: list[Expr] = []
    warps = any(name in str(second.body) for name in _SHUFFLES)
    for tag, (var, extent) in first.threads.items():
        if tag == _TAG:
            continue
        have, want = int(extent), int(second.threads[tag][1]) if tag in second.threads else 1  # type: ignore[call-overload]
        if want > have or (want != have and warps and (tag != "threadIdx.x" or want % _WARP)):
            return None
        if want < have:
            parts.append(binary(LT, var, const(want, var.dtype)))
    return None if second.threads.keys() - first.threads.keys() else parts


def _joined(
    first: Kernel, second: Kernel, needed: Set[Var], together: int, guard: list[Expr]
) -> Stmt:
    block, blocks = first.threads[_TAG][0], _blocks(first) or 0
    kind = block.dtype
    part = block // const(together, kind)
    count = -(-blocks // together)
    sem = make_buffer((count,), "int32", "tickets", scope="global")
    ticket = make_buffer((1,), "int32", "ticket", scope="shared")
    zero, at = const(0), (const(0),)
    left = Sub(const(blocks, kind), Mul(part, const(together, kind)))
    number = const(together, kind) if blocks % together == 0 else Min(const(together, kind), left)
    one_thread = conjunction(
        binary(EQ, v, const(0, v.dtype)) for tag, (v, _) in first.threads.items() if tag != _TAG
    )
    place = Call("handle", ADDRESS_OF, (sem[part],))
    take = Call("int32", "tir.atomic_add", (place, const(1), StringImm("acq_rel")))
    reset = Evaluate(Call("int32", "tir.atomic_store", (place, zero)))
    fence = Evaluate(Call("int32", "tir.memory_fence", (StringImm("gpu"),)))
    values: dict[Var, Expr] = {second.threads[_TAG][0]: part}
    for tag, (var, _) in second.threads.items():
        if tag != _TAG:
            values[var] = first.threads[tag][0]
    rest = _Loads(values, needed).visit(second.root)
    if guard:
        rest = under_condition(conjunction(guard), rest)
    last = binary(EQ, Add(ticket[0], const(1)), number)
    tail = seq(
        fence,  # after it, all that this thread has stored is there for those that it tells
        sync("shared"),
        IfThenElse(one_thread, BufferStore(ticket, take, at)),
        sync("shared"),
        IfThenElse(last, seq(IfThenElse(one_thread, reset), fence, rest)),
    )
    body = _append(_Stores(needed).visit(first.root), allocate(ticket, tail))
    memory = allocate(sem, body)
    return memory.replace(annotations={ZEROED: True})


def _append(stmt: Stmt, tail: Stmt) -> Stmt:
    """A kernel with a statement at its end."""
    if isinstance(stmt, AttrStmt) and stmt.attr_key == THREAD_EXTENT:
        return stmt.replace(body=_append(stmt.body, tail))
    if any(isinstance(n, AttrStmt) and n.attr_key == THREAD_EXTENT for n in pre_order(stmt)):
        return stmt.replace(body=_append(stmt.body, tail))  # type: ignore[attr-defined]
    return seq(stmt, tail)


def _address(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    return Call("handle", ADDRESS_OF, (BufferLoad(buffer, indices),))


class _Stores(StmtRewriter):
    """Stores to some memory as atomic calls."""

    def __init__(self, memory: Set[Var]) -> None:
        self.memory = memory

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        if stmt.buffer.data not in self.memory:
            return stmt
        place = _address(stmt.buffer, stmt.indices)
        return Evaluate(Call("int32", "tir.atomic_store", (place, stmt.value)), span=stmt.span)


class _Loads(Replacer):
    """Loads from some memory as atomic calls, and variables of threads replaced."""

    def __init__(self, values: Mapping[Var, Expr], memory: Set[Var]) -> None:
        super().__init__(values, {})
        self.memory = memory

    def load(self, expr: BufferLoad) -> Expr:
        if expr.buffer.data not in self.memory:
            return super().load(expr)
        return Call(expr.dtype, "tir.atomic_load", (_address(expr.buffer, expr.indices),))

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == THREAD_EXTENT:
            return self.visit(stmt.body)
        return super().visit_AttrStmt(stmt)


__all__ = ["WANTED", "ZEROED", "merge_grid_reductions"]
