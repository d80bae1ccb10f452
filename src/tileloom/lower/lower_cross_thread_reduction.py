"""A reduction whose loop is bound to threads: partial results, then one combination of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..base import DType
from ..base.errors import UserError
from ..expr import (
    EQ,
    OPAQUE,
    REDUCE,
    Add,
    BinaryOp,
    Call,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Range,
    Var,
    binary,
    const,
    free_vars,
)
from ..expr.bounds import type_range
from ..tir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    make_buffer,
    seq,
)
from .common import conjunction, conjuncts, fresh_copy, on_body
from .threads import ALLREDUCE, REDUCE_SCOPE, is_thread_loop, storage_rank, tag_of

_ZERO, _TRUE = const(0), const(True)


def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """A block that reduces over threads becomes three: a part in each thread, all, write-back.

    Each thread reduces the iterations of its own loops into a local buffer (where there are such
    loops, or a predicate); `tvm_thread_allreduce` combines what the threads have; the thread
    number 0 of the reduction writes the result. Parts begin with the identity of the operation,
    and an init that is another value is combined in once, at the end.

    Needs: the blocks stage, first of all passes: it reads which loops feed the reduction.
    Ensures: no block with an init has a reduction variable that a thread runs.

    Raises:
        UserError: the reduction is no sum, product, minimum or maximum of one buffer, or other
            loops stand between those of the reduction and the block.
    """
    return on_body(func, _Lower().visit)


@dataclass(frozen=True, slots=True)
class _Update:
    """`target = op(target, source)`, `init` before it."""

    op: type[BinaryOp]
    store: BufferStore
    source: Expr
    init: Expr


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.loops: list[For] = []

    def visit_For(self, stmt: For) -> Stmt:
        found = _thread_reduction(stmt)
        if found is not None:
            loops, realize = found
            carriers = _carriers(realize)
            mixed = [loop for loop in self.loops if loop.loop_var in carriers]
            if not mixed:
                return _rewrite(loops, realize)
            raise UserError(
                f"block {realize.block.name_hint!r} reduces over threads, but its reduction loop"
                f" {mixed[0].loop_var.name!r} is around other loops",
                hint="reorder the loops of the reduction innermost",
            )
        self.loops.append(stmt)
        result = super().visit_For(stmt)
        self.loops.pop()
        return result

    def visit_Block(self, stmt: Block) -> Stmt:
        outer, self.loops = self.loops, []  # values of a block are in terms of the loops in it
        result = super().visit_Block(stmt)
        self.loops = outer
        return result


def _carriers(realize: BlockRealize) -> set[Var]:
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return set().union(*(free_vars(value) for axis, value in pairs if axis.iter_type == REDUCE))


def _thread_reduction(stmt: For) -> tuple[list[For], BlockRealize] | None:
    """Loops that all feed one reduction, some of them bound to threads, and its block."""
    loops: list[For] = []
    inner: Stmt = stmt
    while isinstance(inner, For):
        loops.append(inner)
        inner = inner.body
    if not isinstance(inner, BlockRealize) or inner.block.init is None:
        return None
    carriers = _carriers(inner)
    if not any(is_thread_loop(loop) and loop.loop_var in carriers for loop in loops):
        return None
    if not all(loop.loop_var in carriers for loop in loops):
        return None
    if any(tag_of(loop).startswith("blockIdx") for loop in loops):
        raise UserError(
            f"block {inner.block.name_hint!r} reduces over {tag_of(loops[0])}: blocks of threads"
            " cannot combine their results",
            hint="rfactor the loop, and reduce its result in another block",
        )
    return loops, inner


def _rewrite(loops: Sequence[For], realize: BlockRealize) -> Stmt:
    update = _update(realize.block)
    target = update.store.buffer
    threads = [loop for loop in loops if is_thread_loop(loop)]
    serial = [loop for loop in loops if not is_thread_loop(loop)]
    whole = make_buffer((1,), target.dtype, f"{target.name}_all", scope="local")
    buffers, parts = [whole], []
    plain = isinstance(realize.predicate, IntImm) and realize.predicate.value
    if serial or not plain:
        own = make_buffer((1,), target.dtype, f"{target.name}_part", scope="local")
        buffers.append(own)
        parts += _own_part(own, update, serial, realize)
        across = _across(whole, update, own[0], threads, ())
    else:
        pairs = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
        across = _across(whole, update, update.source, threads, pairs)
    body = seq(*parts, across, _write_back(whole, update, threads, realize))
    for loop in reversed(threads):
        body = loop.replace(body=body)
    block = Block((), (), (), "", body, alloc_buffers=tuple(buffers))
    return BlockRealize((), _TRUE, block)


def _own_part(
    own: Buffer, update: _Update, loops: Sequence[For], realize: BlockRealize
) -> list[Stmt]:
    """What one thread reduces by itself."""
    block, kind, point = realize.block, own.dtype, BufferRegion.point(own, (_ZERO,))
    start = Block(
        (),
        (),
        (point,),
        f"{block.name_hint}_start",
        BufferStore(own, identity(update.op, kind), (_ZERO,)),
    )
    step = block.replace(
        reads=tuple(r for r in block.reads if r.buffer is not update.store.buffer),
        writes=(point,),
        name_hint=f"{block.name_hint}_part",
        body=BufferStore(own, binary(update.op, own[0], update.source), (_ZERO,)),
        init=None,
    )
    nest: Stmt = realize.replace(block=step)
    for loop in reversed(loops):
        nest = loop.replace(body=nest)
    return [BlockRealize((), _TRUE, start), nest]


def _across(
    whole: Buffer,
    update: _Update,
    value: Expr,
    threads: Sequence[For],
    axes: Sequence[tuple[IterVar, Expr]],
) -> Stmt:
    """The combination over threads: a call under an attribute that holds the combiner."""
    numbers = [
        IterVar(
            Range(loop.min, loop.extent), Var(f"v{tag_of(loop)[-1]}", loop.loop_var.dtype), OPAQUE
        )
        for loop in threads
    ]
    kind = whole.dtype
    x, y = Var("x", kind), Var("y", kind)
    combiner = CommReducer((x,), (y,), (binary(update.op, x, y),), (identity(update.op, kind),))
    args = (const(1, "uint32"), value, _TRUE, whole[0], *(axis.var for axis in numbers))
    call = Evaluate(Call("handle", ALLREDUCE, args))
    block = Block(
        (*(axis for axis, _ in axes), *numbers),
        (),
        (BufferRegion.point(whole, (_ZERO,)),),
        "cross_thread",
        AttrStmt(combiner, REDUCE_SCOPE, const(0), call),
    )
    values = (*(given for _, given in axes), *(loop.loop_var for loop in threads))
    return BlockRealize(values, _TRUE, block)


def _write_back(
    whole: Buffer, update: _Update, threads: Sequence[For], realize: BlockRealize
) -> Stmt:
    block, carriers = realize.block, _carriers(realize)
    pairs = zip(block.iter_vars, realize.iter_values, strict=True)
    axes = [(axis, value) for axis, value in pairs if axis.iter_type != REDUCE]
    value: Expr = whole[0]
    if update.init is not identity(update.op, whole.dtype):
        value = binary(update.op, update.init, value)
    written = Block(
        tuple(axis for axis, _ in axes),
        (BufferRegion.point(whole, (_ZERO,)),),
        block.writes,
        f"{block.name_hint}_write_back",
        update.store.replace(value=value),
    )
    parts = [p for p in conjuncts(realize.predicate) if free_vars(p).isdisjoint(carriers)]
    first = [binary(EQ, loop.loop_var, loop.min) for loop in threads]
    if storage_rank(update.store.buffer.scope) > 1:
        first = []  # every thread has a target of its own
    # The block's variables are those of the part before; each block defines its own.
    copy = fresh_copy(written, {})
    values = tuple(value for _, value in axes)
    return BlockRealize(values, conjunction(parts + first), copy)  # type: ignore[arg-type]


def _update(block: Block) -> _Update:
    store, init = block.body, block.init
    if isinstance(store, BufferStore) and isinstance(init, BufferStore):
        own = BufferLoad(store.buffer, store.indices)
        value = store.value
        if isinstance(value, Add | Mul | Min | Max) and store.buffer is init.buffer:
            for mine, source in ((value.a, value.b), (value.b, value.a)):
                if mine is own:
                    return _Update(type(value), store, source, init.value)
    raise UserError(
        f"block {block.name_hint!r} reduces over threads, but not by a sum, product, minimum or"
        " maximum of one buffer",
        hint="bind another loop, or rfactor the reduction first",
    )


def identity(op: type[BinaryOp], kind: DType) -> Expr:
    """The value that an operation leaves others unchanged with.

    >>> from tileloom.base import dtype
    >>> identity(Max, dtype("float32")), identity(Mul, dtype("int8")), identity(Min, dtype("int8"))
    (T.float32("-inf"), T.int8(1), T.int8(127))
    """
    if op in (Add, Mul):
        return const(int(op is Mul), kind)
    if kind.is_float:
        return const(float("inf") if op is Min else float("-inf"), kind)
    low, high = type_range(kind)
    return const(high if op is Min else low, kind)
