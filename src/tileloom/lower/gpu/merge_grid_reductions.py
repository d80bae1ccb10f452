"""A kernel that leaves parts and the one that puts them together become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ...base.errors import VerifyError
from ...expr import (
    EQ,
    LT,
    Add,
    Call,
    Expr,
    Min,
    Mul,
    StringImm,
    Sub,
    Var,
    binary,
    conjunction,
    const,
)
from ...tir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    make_buffer,
    pre_order,
    seq,
)
from ...tir.atomics import written_pointers
from ..analysis.pointers import loaded_pointers
from ..analysis.threads import KernelBody, kernels, storage_rank, sync
from ..blocks import allocate
from ..common import ADDRESS_OF, THREAD_EXTENT, Replacer, on_body
from .eliminate_common_loads import exposed_pointers
from .grid_parts import GRID_TAG, Around, blocks_of, blocks_of_a_part, places
from .hoist_barriers import under_condition
from .kernels import FENCE, needs_whole_warps

WANTED = "tir.merge_grid_reductions"
ZEROED = "zeroed"  # annotation of memory that is zero before a call, and again after it
_WARP = 32


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
    def __init__(self, known: Mapping[AttrStmt, KernelBody]) -> None:
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


def _merged(first: KernelBody, second: KernelBody) -> Stmt | None:
    """One kernel for both, if that is possible."""
    blocks, later = blocks_of(first), blocks_of(second)
    if blocks is None or later is None:
        return None
    made = written_pointers(first.root)
    before, needed = loaded_pointers(first.root), loaded_pointers(second.root) & made
    after = written_pointers(second.root)
    if not needed or after & (made | before) or needed & before:
        return None
    exposed = exposed_pointers(first.root) | exposed_pointers(second.root)
    if exposed & (needed | after) or not _can_be_atomic((first.root, second.root), needed):
        return None
    together = blocks_of_a_part(first, second, needed)
    guard = _guard(first, second)
    if together is None or guard is None:
        return None
    try:
        return _joined(first, second, needed, together, guard)
    except VerifyError:
        return None  # a barrier of the second stands where some threads would not come by


def _can_be_atomic(stmts: Sequence[Stmt], memory: Set[Var]) -> bool:
    """Whether single elements of 32 or 64 bits are what is stored and loaded there."""
    for stmt in stmts:
        for place in places(stmt, memory, Around()):
            kind = place.buffer.dtype
            if storage_rank(place.buffer.scope) != 0 or kind.lanes > 1 or kind.bits < 32:
                return False
            if len(place.indices) != 1 or place.indices[0].dtype.lanes > 1 or place.predicated:
                return False
    return True


# ---------------------------------------------------------------------------- the kernel


def _guard(first: KernelBody, second: KernelBody) -> list[Expr] | None:
    """Which threads of the first kernel do what those of the second would; None if none can."""
    parts: list[Expr] = []
    warps = needs_whole_warps(second.body)
    for tag, (var, extent) in first.threads.items():
        if tag == GRID_TAG:
            continue
        have, want = int(extent), int(second.threads[tag][1]) if tag in second.threads else 1  # type: ignore[call-overload]
        if want > have or (want != have and warps and (tag != "threadIdx.x" or want % _WARP)):
            return None
        if want < have:
            parts.append(binary(LT, var, const(want, var.dtype)))
    return None if second.threads.keys() - first.threads.keys() else parts


def _joined(
    first: KernelBody, second: KernelBody, needed: Set[Var], together: int, guard: list[Expr]
) -> Stmt:
    block, blocks = first.threads[GRID_TAG][0], blocks_of(first) or 0
    kind = block.dtype
    part = block // const(together, kind)
    count = -(-blocks // together)
    sem = make_buffer((count,), "int32", "tickets", scope="global")
    ticket = make_buffer((1,), "int32", "ticket", scope="shared")
    zero, at = const(0), (const(0),)
    left = Sub(const(blocks, kind), Mul(part, const(together, kind)))
    number = const(together, kind) if blocks % together == 0 else Min(const(together, kind), left)
    one_thread = conjunction(
        binary(EQ, v, const(0, v.dtype)) for tag, (v, _) in first.threads.items() if tag != GRID_TAG
    )
    place = Call("handle", ADDRESS_OF, (sem[part],))
    take = Call("int32", "tir.atomic_add", (place, const(1), StringImm("acq_rel")))
    reset = Evaluate(Call("int32", "tir.atomic_store", (place, zero)))
    fence = Evaluate(Call("int32", FENCE, (StringImm("gpu"),)))
    values: dict[Var, Expr] = {second.threads[GRID_TAG][0]: part}
    for tag, (var, _) in second.threads.items():
        if tag != GRID_TAG:
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
