"""A reduction whose loop is bound to threads: partial results, then one combination of them."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import UserError
from ...expr import (
    EQ,
    OPAQUE,
    REDUCE,
    Call,
    Expr,
    IntImm,
    IterVar,
    Var,
    binary,
    combined,
    conjunction,
    const,
    free_vars,
    substitute,
)
from ...tir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    loop_nest,
    seq,
    stores,
    under_loops,
)
from ..analysis.thread_reductions import ThreadReduction, recognise
from ..analysis.threads import (
    ALLREDUCE,
    REDUCE_SCOPE,
    combine_into,
    is_thread_loop,
    storage_rank,
    tag_of,
)
from ..common import conjuncts, fresh_copy, on_body

_ZERO, _TRUE = const(0), const(True)


def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """A block that reduces over threads becomes three: a part in each thread, all, write-back.

    Each thread reduces the iterations of its own loops into a local buffer (where there are such
    loops, or a predicate); `tvm_thread_allreduce` combines what the threads have; the thread
    number 0 of the reduction writes the result. Parts begin with the identity of the operation,
    and an init that is another value is combined in once, at the end.

    Needs: the blocks stage, first of all passes: it reads which loops feed the reduction.
    Ensures: no block with an init has a reduction variable that a thread runs.

    Of an arg-maximum, parts begin with the init, which may be chosen in any number of them.

    Raises:
        UserError: the reduction is no sum, product, minimum, maximum or choice, or other loops
            stand between those of the reduction and the block.
    """
    return on_body(func, _Lower().visit)


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.loops: list[For] = []

    def visit_For(self, stmt: For) -> Stmt:
        found = self._lowered(stmt)
        if found is not None:
            return found
        self.loops.append(stmt)
        result = super().visit_For(stmt)
        self.loops.pop()
        return result

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        return self._lowered(stmt) or super().visit_BlockRealize(stmt)

    def _lowered(self, stmt: For | BlockRealize) -> Stmt | None:
        """A reduction over threads, some of whose loops may be around other statements as well."""
        found = _thread_reduction(stmt, self.loops)
        if found is None:
            return None
        loops, realize = found
        around = [loop for loop in self.loops if loop.loop_var in realize.loops_of(REDUCE)]
        serial = next((loop for loop in around if not is_thread_loop(loop)), None)
        if serial is None:
            return _rewrite(around, loops, realize)
        raise UserError(
            f"block {realize.block.name_hint!r} reduces over threads, but its reduction loop"
            f" {serial.loop_var.name!r} is around other loops",
            hint="reorder the loops of the reduction innermost",
        )

    def visit_Block(self, stmt: Block) -> Block:
        outer, self.loops = self.loops, []  # values of a block are in terms of the loops in it
        result = super().visit_Block(stmt)
        self.loops = outer
        return result


def _thread_reduction(
    stmt: For | BlockRealize, around: Sequence[For]
) -> tuple[list[For], BlockRealize] | None:
    """Loops that all feed one reduction, and its block; some of them or of those around it are
    bound to threads."""
    loops, inner = loop_nest(stmt)
    if not isinstance(inner, BlockRealize) or inner.block.init is None:
        return None
    carriers = inner.loops_of(REDUCE)
    if loops and loops[0].loop_var not in carriers:
        return None  # what is around the loops of the reduction
    threads = [
        loop for loop in (*around, *loops) if is_thread_loop(loop) and loop.loop_var in carriers
    ]
    if not threads:
        return None
    loops, inner = _without_unit_loops(loops, inner)
    other = next((loop for loop in loops if loop.loop_var not in carriers), None)
    if other is not None:
        raise UserError(
            f"block {inner.block.name_hint!r} reduces over threads, but its loop"
            f" {other.loop_var.name!r} stands between those of the reduction and the block",
            hint="reorder the loops of the reduction innermost",
        )
    spatial = inner.loops_of(REDUCE, others=True)
    both = [loop.loop_var.name for loop in (*threads, *loops) if loop.loop_var in spatial]
    if both:
        raise UserError(
            f"block {inner.block.name_hint!r} reduces over threads, but its loop {both[0]!r} runs"
            " over results as well",
            hint="keep loops of results and of the reduction apart: do not fuse them",
        )
    tags = [tag_of(loop) for loop in threads if tag_of(loop).startswith("blockIdx")]
    if tags:
        raise UserError(
            f"block {inner.block.name_hint!r} reduces over {tags[0]}: blocks of threads"
            " cannot combine their results",
            hint="rfactor the loop, and reduce its result in another block",
        )
    return loops, inner


def _without_unit_loops(
    loops: Sequence[For], realize: BlockRealize
) -> tuple[list[For], BlockRealize]:
    """Serial loops of one iteration replaced by where they stand."""
    units = {
        loop.loop_var: loop.min
        for loop in loops
        if isinstance(loop.extent, IntImm) and loop.extent.value == 1 and not is_thread_loop(loop)
    }
    values = tuple(substitute(value, units) for value in realize.iter_values)
    predicate = substitute(realize.predicate, units)
    rest = [loop for loop in loops if loop.loop_var not in units]
    return rest, realize.replace(iter_values=values, predicate=predicate)


def _rewrite(around: Sequence[For], loops: Sequence[For], realize: BlockRealize) -> Stmt:
    update = recognise(realize.block)
    inner = [loop for loop in loops if is_thread_loop(loop)]
    threads = [*around, *inner]
    serial = [loop for loop in loops if not is_thread_loop(loop)]
    whole = update.locals("all")
    buffers, parts = list(whole), list[Stmt]()
    plain = isinstance(realize.predicate, IntImm) and realize.predicate.value
    if serial or not plain:
        own = update.locals("part")
        buffers += own
        parts += _own_part(own, update, serial, realize)
        across = _across(whole, update, [part[0] for part in own], threads, ())
    else:
        pairs = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
        across = _across(whole, update, update.sources, threads, pairs)
    body = seq(*parts, across, _write_back(whole, update, threads, realize))
    body = under_loops(inner, body)
    block = Block((), (), (), "", body, alloc_buffers=tuple(buffers))
    return BlockRealize((), _TRUE, block)


def _points(buffers: Sequence[Buffer]) -> tuple[BufferRegion, ...]:
    return tuple(BufferRegion.point(buffer, (_ZERO,)) for buffer in buffers)


def _own_part(
    own: Sequence[Buffer], update: ThreadReduction, loops: Sequence[For], realize: BlockRealize
) -> list[Stmt]:
    """What one thread reduces by itself."""
    block, points = realize.block, _points(own)
    first = stores(own, update.combiner.identity, [(_ZERO,)] * len(own))
    start = Block((), (), points, f"{block.name_hint}_start", first)
    step = block.replace(
        reads=tuple(r for r in block.reads if r.buffer not in update.targets),
        writes=points,
        name_hint=f"{block.name_hint}_part",
        body=combine_into(update.combiner, own, _ZERO, update.sources),
        init=None,
    )
    return [BlockRealize((), _TRUE, start), under_loops(loops, realize.replace(block=step))]


def _across(
    whole: Sequence[Buffer],
    update: ThreadReduction,
    values: Sequence[Expr],
    threads: Sequence[For],
    axes: Sequence[tuple[IterVar, Expr]],
) -> Stmt:
    """The combination over threads: a call under an attribute that holds the combiner."""
    numbers = [_number(loop) for loop in threads]
    results = [part[0] for part in whole]
    args = (const(len(whole), "uint32"), *values, _TRUE, *results, *(n.var for n in numbers))
    call = Evaluate(Call("handle", ALLREDUCE, args))
    block = Block(
        (*(axis for axis, _ in axes), *numbers),
        (),
        _points(whole),
        "cross_thread",
        AttrStmt(update.combiner, REDUCE_SCOPE, const(0), call),
    )
    given = (*(value for _, value in axes), *(loop.loop_var for loop in threads))
    return BlockRealize(given, _TRUE, block)


def _number(loop: For) -> IterVar:
    var = Var(f"v{tag_of(loop)[-1]}", loop.loop_var.dtype)
    return IterVar(loop.domain, var, OPAQUE)


def _write_back(
    whole: Sequence[Buffer], update: ThreadReduction, threads: Sequence[For], realize: BlockRealize
) -> Stmt:
    block, carriers = realize.block, realize.loops_of(REDUCE)
    pairs = zip(block.iter_vars, realize.iter_values, strict=True)
    axes = [(axis, value) for axis, value in pairs if axis.iter_type != REDUCE]
    values: list[Expr] = [part[0] for part in whole]
    same = zip(update.inits, update.combiner.identity, strict=True)
    if any(init is not neutral for init, neutral in same):
        values = combined(update.combiner, update.inits, values)
    holds = [p for p in conjuncts(realize.predicate) if free_vars(p).isdisjoint(carriers)]
    first = [binary(EQ, loop.loop_var, loop.min) for loop in threads]
    parts: list[Stmt] = []
    # Every thread has local targets of its own; others are written once.
    for own, condition in ((True, holds), (False, holds + first)):
        stores = [
            store.replace(value=value)
            for store, value in zip(update.stores, values, strict=True)
            if (storage_rank(store.buffer.scope) > 1) is own
        ]
        if not stores:
            continue
        targets = {store.buffer for store in stores}
        written = Block(
            tuple(axis for axis, _ in axes),
            _points(whole),
            tuple(region for region in block.writes if region.buffer in targets),
            f"{block.name_hint}_write_back",
            seq(*stores),
        )
        # The block's variables are those of the part before; each block defines its own.
        given = tuple(value for _, value in axes)
        copy: Block = fresh_copy(written, {})  # type: ignore[assignment]
        parts.append(BlockRealize(given, conjunction(condition), copy))
    return seq(*parts)
