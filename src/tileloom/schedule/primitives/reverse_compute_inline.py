"""reverse_compute_inline: compute what a block makes of its input where that input is made."""

from __future__ import annotations

from collections.abc import Callable

from ...expr import (
    GE,
    LT,
    Analyzer,
    And,
    Call,
    Expr,
    Range,
    Select,
    Var,
    binary,
    const,
    has_load,
    is_true,
    post_order,
    substitute,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    Stmt,
    pre_order,
    stmt_exprs,
)
from ..analysis.affine import affine_binding
from ..analysis.blocks import check_complete, complete_fault, holds_blocks, leaf_store
from ..analysis.cover import check_stage_pipeline
from ..analysis.regions import lower_bound
from ..analysis.scope import accessed_buffers, block_scope, consumers
from ..analysis.tree import child_blocks, domains_above, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import covers, runs_all
from ._cache import domains_around
from ._inline import Inliner, body_refusal, inlined, same_under, solved_for, without_loads

_FAST = (
    "The consumer block to be inlined is required to have only a single producer block, and the "
    "producer block should be a complete block who has only a single consumer"
)
_TRUE = const(True)


def _plan(state: ScheduleState, block: StmtSRef) -> tuple[StmtSRef, Block, dict[Block, Block]]:
    stmt, scope = block.block, scope_root(block)
    if stmt.init is not None:
        raise refuse(f"{name_of(block)} has T.init(), so it cannot be inlined", at=[block])
    check_stage_pipeline(state, scope)
    buffer = _only_input(state, block)
    check_complete(state, block)
    producer = _only_producer(state, block, buffer, scope)
    store = _consumer_store(state, block)
    made = _producer_store(producer)
    if made.buffer is not buffer:
        raise body_refusal(producer, f"it writes {buffer.name!r} through a view")
    back = _inverse(state, block, producer, store, made, buffer)
    value = _consumer_value(store, buffer, back, made)
    finish = _guard(block, producer, back)
    inliner = Inliner(
        buffer,
        stmt,
        lambda node: None,
        value,
        lambda new, old: finish(new) if old.block is producer.block else new,
    )
    return inlined(scope, block, inliner)


@primitive("ReverseComputeInline", check=_plan)
def reverse_compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Put what a block computes into the one block that makes its input.

    Args:
        block: a complete block whose body is one store, which reads one element of one buffer that
            is made in the scope, at indices that tell all its iteration variables.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C])); sch.reverse_compute_inline("C")
    >>> print(sch.get(sch.get_block("B")).body)
    C[v_i] = (A[v_i] + T.float32(1.0)) * T.float32(2.0)
    """
    state.replace(*_plan(state, block))


# ---------------------------------------------------------------------------- who takes part


def _only_input(state: ScheduleState, block: StmtSRef) -> Buffer:
    """The one buffer that the block reads and the scope writes."""
    writers = block_scope(state, scope_root(block).block).writers
    found = list(dict.fromkeys(r.buffer for r in block.block.reads if r.buffer in writers))
    if len(found) != 1:
        names = ", ".join(repr(b.name) for b in found) or "none"
        regions = len(block.block.reads)
        raise refuse(
            f"{name_of(block)} must read one buffer that is made in its scope, but reads {names}",
            at=[block],
            fast="The block is only allowed to read a single buffer region, "
            f"but it reads {regions} region(s)",
        )
    return found[0]


def _only_producer(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, scope: StmtSRef
) -> StmtSRef:
    """The leaf block that makes the buffer; nobody but `block` may read it."""
    if buffer not in scope.block.alloc_buffers:
        raise refuse(f"{buffer.name!r} is a result of the scope, so it must stay", at=[block])
    found = _leaf_writers(state, scope, buffer)
    if len(found) != 1:
        raise refuse(
            f"{len(found)} blocks make {buffer.name!r}, not one", at=[block, *found], fast=_FAST
        )
    fault = complete_fault(state, found[0], scope_root(found[0]))
    if fault is not None:
        raise refuse(
            f"{name_of(found[0])}, which makes {buffer.name!r}, is not a complete block: {fault}",
            at=[found[0], block],
            fast=_FAST,
        )
    if found[0].block.init is not None:
        raise body_refusal(found[0], "it adds to what its T.init() stores")
    outer = next(s for s in (found[0], *found[0].ancestors()) if _is_in(s, scope))
    _check_only_stored(outer, buffer, block)
    others = [
        reader
        for reader in consumers(state, outer)
        if reader is not block and buffer in accessed_buffers(state, reader.block)[0]
    ]
    if others:
        raise refuse(
            f"{name_of(others[0])} reads {buffer.name!r} too", at=[block, *others], fast=_FAST
        )
    return found[0]


def _check_only_stored(outer: StmtSRef, buffer: Buffer, block: StmtSRef) -> None:
    """Refuse where what makes the buffer reads it as well, or stores it in several places."""
    inside = [*pre_order(outer.block.body)]
    if outer.block.init is not None:
        inside += pre_order(outer.block.init)
    stores = [stmt for stmt in inside if isinstance(stmt, BufferStore) and stmt.buffer is buffer]
    loads = (
        part
        for stmt in inside
        for expr in stmt_exprs(stmt)
        for part in post_order(expr)
        if isinstance(part, BufferLoad) and part.buffer is buffer
    )
    if len(stores) > 1 or next(loads, None) is not None:
        what = "stores to it in several places" if len(stores) > 1 else "reads it as well"
        raise refuse(
            f"{name_of(outer)}, which makes {buffer.name!r}, {what}", at=[outer, block], fast=_FAST
        )


def _is_in(sref: StmtSRef, scope: StmtSRef) -> bool:
    return sref.is_block and scope_root(sref) is scope


def _leaf_writers(state: ScheduleState, scope: StmtSRef, buffer: Buffer) -> list[StmtSRef]:
    found: list[StmtSRef] = []
    for child in child_blocks(state, scope):
        if buffer in accessed_buffers(state, child.block)[1]:
            inner = _leaf_writers(state, child, buffer) if holds_blocks(child.block) else []
            found += inner or [child]
    return found


def _consumer_store(state: ScheduleState, block: StmtSRef) -> BufferStore:
    realize = state.realize(block)
    if not is_true(realize.predicate):
        raise body_refusal(block, f"it runs under the condition {realize.predicate}")
    if not affine_binding(state, block):
        raise body_refusal(block, "its iterations are not affine in the loops around it")
    store = leaf_store(block.block)
    if store is None or store.predicate is not None:
        raise body_refusal(block, "its body is not one store")
    return store


def _producer_store(producer: StmtSRef) -> BufferStore:
    body: Stmt = producer.block.body
    if isinstance(body, IfThenElse) and body.else_case is None:
        body = body.then_case
    if not isinstance(body, BufferStore) or body.predicate is not None:
        raise body_refusal(producer, "its body is not one store")
    return body


# ---------------------------------------------------------------------------- what is computed


def _inverse(
    state: ScheduleState,
    block: StmtSRef,
    producer: StmtSRef,
    store: BufferStore,
    made: BufferStore,
    buffer: Buffer,
) -> dict[Var, Expr]:
    """The consumer's iteration variables in terms of the producer's."""
    stmt = block.block
    loads = {
        node.indices
        for expr in (store.value, *store.indices)
        for node in post_order(expr)
        if isinstance(node, BufferLoad) and node.buffer is buffer
    }
    if len(loads) != 1:
        raise body_refusal(block, f"it reads {len(loads)} different elements of {buffer.name!r}")
    (indices,) = loads
    back = solved_for(stmt.iter_vars, indices, made.indices, "none")
    if back is None:
        raise body_refusal(block, "the element it reads does not tell its iterations")
    # What it reads must tell the iteration, ...
    again = solved_for(stmt.iter_vars, indices, indices, "none") or {}
    mine = Analyzer({axis.var: axis.domain for axis in stmt.iter_vars})
    if not same_under(mine, [(var, value) for var, value in again.items()]):
        raise body_refusal(block, "several of its iterations read one element")
    # ... and every element that is made must be read by the iteration it tells.
    theirs = Analyzer({axis.var: axis.domain for axis in producer.block.iter_vars})
    with theirs.constraint(_in_domain(stmt, back, theirs)):
        pairs = [(substitute(i, back), made_at) for i, made_at in zip(indices, made.indices)]
        if not same_under(theirs, pairs):
            raise body_refusal(block, f"it does not read all elements of {buffer.name!r}")
    _check_covered(block, producer, back)
    if _is_chosen(store.value, buffer):
        _check_all_run(state, block, producer, back)
    return back


def _is_chosen(value: Expr, buffer: Buffer) -> bool:
    """Whether an expression takes an element of a buffer only where a condition holds."""
    sides: tuple[Expr, ...] = ()
    if isinstance(value, Select) or (isinstance(value, Call) and value.op == "tir.if_then_else"):
        sides = tuple(value.children[1:])
    chosen = any(
        isinstance(node, BufferLoad) and node.buffer is buffer
        for side in sides
        for node in post_order(side)
    )
    return chosen or any(_is_chosen(child, buffer) for child in value.children)


def _check_all_run(
    state: ScheduleState, block: StmtSRef, producer: StmtSRef, back: dict[Var, Expr]
) -> None:
    """The producer must run for each iteration of a consumer that does not always need it."""
    points = [Range(back[axis.var], const(1, axis.var.dtype)) for axis in block.block.iter_vars]
    own = [axis.domain for axis in block.block.iter_vars]
    domains = {axis.var: axis.domain for axis in producer.block.iter_vars}
    box = lower_bound(points, domains, _TRUE, Analyzer())
    direct = scope_root(producer) is scope_root(block)
    plain = isinstance(producer.block.body, BufferStore)
    if not (direct and plain and covers(box, own, Analyzer()) and runs_all(state, producer)):
        raise refuse(
            f"{name_of(producer)} may not run for everything that {name_of(block)} makes, which "
            "needs it only where a condition holds",
            at=[block, producer],
            hint="keep a block that pads behind the one that it pads",
        )


def _check_covered(block: StmtSRef, producer: StmtSRef, back: dict[Var, Expr]) -> None:
    """The producer, in blocks around it or not, must run for every iteration of the consumer."""
    scope = scope_root(block)
    inside = [s for s in (producer, *producer.ancestors()) if s.is_block and s is not scope]
    domains: dict[Var, Range] = {a.var: a.domain for s in inside for a in s.block.iter_vars}
    analyzer = Analyzer()
    for axis in block.block.iter_vars:
        low, high = analyzer.int_set(back[axis.var], domains)
        last = axis.domain.min + axis.domain.extent - 1
        if (low is not None and analyzer.can_prove(low > axis.domain.min)) or (
            high is not None and analyzer.can_prove(high < last)
        ):
            raise refuse(
                f"{name_of(producer)} does not make everything that {name_of(block)} reads",
                at=[block, producer],
            )


def _consumer_value(
    store: BufferStore, buffer: Buffer, back: dict[Var, Expr], made: BufferStore
) -> Callable[[BufferStore], Stmt]:
    def changed(new: BufferStore) -> Stmt:
        # First the consumer's variables, then the producer's value, which has variables alike.
        placeholder = Var("made", made.value.dtype)

        def inlined(expr: Expr) -> Expr:
            taken = substitute(without_loads(expr, buffer, placeholder), back)
            return substitute(taken, {placeholder: new.value})

        indices = tuple(map(inlined, store.indices))
        return BufferStore(store.buffer, inlined(store.value), indices, span=new.span)

    return changed


def _in_domain(block: Block, back: dict[Var, Expr], analyzer: Analyzer) -> Expr:
    """Where the consumer has an iteration for what the producer makes."""
    condition: Expr = _TRUE
    for axis in block.iter_vars:
        value, domain = back[axis.var], axis.domain
        condition = binary(And, condition, binary(GE, value, domain.min))
        condition = binary(And, condition, binary(LT, value, domain.min + domain.extent))
    return analyzer.simplify(condition)


def _guard(
    block: StmtSRef, producer: StmtSRef, back: dict[Var, Expr]
) -> Callable[[BlockRealize], BlockRealize]:
    """Runs the producer only where the consumer has an iteration for it."""
    analyzer = Analyzer(domains_around(producer))
    condition = _in_domain(block.block, back, analyzer)
    if has_load(condition):
        raise body_refusal(producer, "what memory holds decides which elements it makes")
    around = Analyzer(domains_above(producer))

    def finish(new: BlockRealize) -> BlockRealize:
        if is_true(condition):
            return new
        axes = (axis.var for axis in new.block.iter_vars)
        here = substitute(condition, dict(zip(axes, new.iter_values, strict=True)))
        return new.replace(predicate=around.simplify(binary(And, here, new.predicate)))

    return finish
