"""compute_inline: compute the elements of a buffer where they are read, and drop the buffer."""

from __future__ import annotations

from ...expr import Expr, Var, is_pure, substitute
from ...tir import Block, Buffer, BufferLoad, BufferStore
from ..analysis.blocks import check_complete, check_not_output, leaf_store
from ..analysis.cover import check_stage_pipeline
from ..analysis.scope import consumers
from ..analysis.tree import is_one, is_zero, loops_above, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._inline import Inliner, Rule, body_refusal, inlined, solved_for
from ._threads import check_private


def _plan(state: ScheduleState, block: StmtSRef) -> tuple[StmtSRef, Block, dict[Block, Block]]:
    stmt = block.block
    scope = scope_root(block)
    if stmt.init is not None:
        raise refuse(f"{name_of(block)} has T.init(), so it cannot be inlined", at=[block])
    if len(stmt.writes) != 1:
        raise refuse(f"{name_of(block)} writes {len(stmt.writes)} buffers, not one", at=[block])
    check_stage_pipeline(state, scope)
    check_not_output(state, block)
    check_complete(state, block)
    buffer = stmt.writes[0].buffer
    for reader in consumers(state, block):
        check_private(state, block, loops_above(reader))
    variables, value = _as_function(block)
    inliner = Inliner(buffer, stmt, _load_rule(buffer, variables, value))
    return inlined(scope, block, inliner)


@primitive("ComputeInline", check=_plan)
def compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Put what a block computes into all blocks that read it.

    Args:
        block: a complete block without T.init(), whose body is one store at indices that tell all
            its iteration variables, and whose buffer is not seen outside of the scope.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C])); sch.compute_inline("B")
    >>> print(sch.get(sch.get_block("C")).body)
    C[v_i] = (A[v_i] + T.float32(1.0)) * T.float32(2.0)
    """
    state.replace(*_plan(state, block))


def _load_rule(buffer: Buffer, variables: list[Var], value: Expr) -> Rule:
    """Puts the element's value in place of a load."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            pairs = zip(variables, node.indices, strict=True)  # an index may be a narrower number
            return substitute(value, {var: index.astype(var.dtype) for var, index in pairs})
        return None

    return rule


def _as_function(block: StmtSRef) -> tuple[list[Var], Expr]:
    """The element at some indices: variables for the indices, and the value in terms of them."""
    stmt = block.block
    store = leaf_store(stmt)
    if store is None or store.predicate is not None:
        raise body_refusal(block, "its body is not one store")
    if not is_pure(store.value):
        raise body_refusal(block, "what it stores has side effects")
    if _is_trivial(stmt, store):
        return [axis.var for axis in stmt.iter_vars], store.value
    variables = [Var(f"ph_{i}", index.dtype) for i, index in enumerate(store.indices)]
    found = solved_for(stmt.iter_vars, store.indices, variables, "bijective")
    if found is None:
        raise body_refusal(
            block, "the indices of what it stores are not a bijective affine map of its iterations"
        )
    return variables, substitute(store.value, found)


def _is_trivial(block: Block, store: BufferStore) -> bool:
    """Whether the indices are the iteration variables in order, or 0 for those of one value."""
    if len(block.iter_vars) != len(store.indices):
        return False
    for axis, index in zip(block.iter_vars, store.indices, strict=True):
        unit = is_zero(index) and is_zero(axis.domain.min) and is_one(axis.domain.extent)
        if index is not axis.var and not unit:
            return False
    return True
