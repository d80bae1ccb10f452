"""What passes share that work on the kernels of a function one by one."""

from __future__ import annotations

from collections.abc import Callable

from ...expr import Call, is_pure, post_order
from ...expr.ops import is_pure_op
from ...tir import AttrStmt, PrimFunc, Stmt, StmtRewriter, pre_order, stmt_exprs
from ...tir.atomics import is_atomic
from ..analysis.threads import SYNC, KernelBody, kernel_of
from ..common import THREAD_EXTENT, on_body

FENCE = "tir.memory_fence"
_EACH_BY_ITSELF = (SYNC, FENCE)  # calls with an effect for which no warp has to be complete


def on_kernels(func: PrimFunc, transform: Callable[[KernelBody], Stmt]) -> PrimFunc:
    """`func` with each of its kernels, its thread attributes included, transformed."""
    return on_body(func, _OnKernels(transform).visit)


class _OnKernels(StmtRewriter):
    def __init__(self, transform: Callable[[KernelBody], Stmt]) -> None:
        self.transform = transform

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        kernel = kernel_of(stmt)
        return super().visit_AttrStmt(stmt) if kernel is None else self.transform(kernel)


def inside_threads(kernel: Stmt, wrap: Callable[[Stmt], Stmt]) -> Stmt:
    """A kernel with what is inside its outermost thread attributes wrapped."""
    if isinstance(kernel, AttrStmt) and kernel.attr_key == THREAD_EXTENT:
        return kernel.replace(body=inside_threads(kernel.body, wrap))
    return wrap(kernel)


def needs_whole_warps(stmt: Stmt) -> bool:
    """Whether a call inside may be one that all threads of a warp make together."""
    return any(map(_may_need_a_warp, pre_order(stmt)))


def _may_need_a_warp(stmt: Stmt) -> bool:
    calls = (n for e in stmt_exprs(stmt) if not is_pure(e) for n in post_order(e))
    return any(
        isinstance(node, Call)
        and not is_pure_op(node.op)
        and not is_atomic(node)
        and node.op not in _EACH_BY_ITSELF
        for node in calls
    )
