"""The init part of a reduction becomes ordinary code."""

from __future__ import annotations

from ..expr import EQ, REDUCE, Var, binary, free_vars
from ..tir import (
    PARALLEL,
    SERIAL,
    Block,
    BlockRealize,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    pre_order,
    seq,
    stmt_exprs,
)
from .common import conjunction, conjuncts, fresh_copy, loaded_buffers, on_body


def lower_init_block(func: PrimFunc) -> PrimFunc:
    """No block has an init.

    Needs: the blocks stage.
    Ensures: where a reduction's loops hold nothing but its block, the init stands as a block of its
    own before the outermost of them (so that the hot loop has no branch, and an empty reduction
    still yields its identity); elsewhere it is an `if` on the reduction variables, at the head of
    the body.
    """
    return on_body(func, _LowerInit().visit)


class _LowerInit(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        hoisted = _hoist(stmt)
        return StmtRewriter.visit_For(self, stmt) if hoisted is None else hoisted

    def visit_Block(self, stmt: Block) -> Stmt:
        result = StmtRewriter.visit_Block(self, stmt)
        if not isinstance(result, Block) or result.init is None:
            return result
        starts = [
            binary(EQ, axis.var, axis.domain.min)
            for axis in result.iter_vars
            if axis.iter_type == REDUCE
        ]
        init = result.init
        guarded = IfThenElse(conjunction(starts), init) if starts else init
        return result.replace(init=None, body=seq(guarded, result.body))


def _hoist(top: For) -> Stmt | None:
    """Init and update apart, if `top` is the outermost reduction loop of a lone chain of loops."""
    loops: list[For] = []
    stmt: Stmt = top
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize) or stmt.block.init is None:
        return None
    reduced = _reduction_loops(loops, stmt)
    if reduced is None or top not in reduced or any(loop.thread_binding for loop in loops):
        return None
    init = _init_nest(loops, reduced, stmt)
    if init is None:
        return None
    block = stmt.block.replace(init=None)
    update: Stmt = stmt.replace(block=block)
    for loop in reversed(loops):
        update = loop.replace(body=update)
    return seq(init, update)


def _reduction_loops(loops: list[For], realize: BlockRealize) -> list[For] | None:
    """The loops that feed reduction variables; None if they do more than that."""
    in_reduce: set[Var] = set()
    in_others: set[Var] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        (in_reduce if axis.iter_type == REDUCE else in_others).update(free_vars(value))
    bounds = [free_vars(bound) for loop in loops for bound in (loop.min, loop.extent)]
    parts = [free_vars(part) for part in conjuncts(realize.predicate)]
    mixed = any(not part.isdisjoint(in_reduce) and not part.isdisjoint(in_others) for part in parts)
    if mixed or not in_reduce.isdisjoint(in_others.union(*bounds)):
        return None
    return [loop for loop in loops if loop.loop_var in in_reduce]


def _init_nest(loops: list[For], reduced: list[For], realize: BlockRealize) -> Stmt | None:
    gone = {loop.loop_var for loop in reduced}
    block = realize.block
    if block.init is None or block.alloc_buffers or block.match_buffers:
        return None
    axes = [
        (axis, value)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type != REDUCE
    ]
    parts = [p for p in conjuncts(realize.predicate) if free_vars(p).isdisjoint(gone)]
    read = _read_by(block.init)
    init = Block(
        tuple(axis for axis, _ in axes),
        tuple(region for region in block.reads if region.buffer in read),
        block.writes,
        f"{block.name_hint}_init",
        block.init,
        span=block.span,
    )
    nest: Stmt = BlockRealize(tuple(value for _, value in axes), conjunction(parts), init)
    for loop in reversed(loops):
        if loop not in reduced:
            kind = SERIAL if loop.kind == PARALLEL else loop.kind
            nest = loop.replace(kind=kind, body=nest, annotations={})
    return fresh_copy(nest, {})


def _read_by(stmt: Stmt) -> set[Buffer]:
    exprs = (expr for node in pre_order(stmt) for expr in stmt_exprs(node))
    return set().union(*(loaded_buffers(expr) for expr in exprs))
