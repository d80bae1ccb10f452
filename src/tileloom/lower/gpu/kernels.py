"""What passes share that work on the kernels of a function one by one."""

from __future__ import annotations

from collections.abc import Callable

from ...tir import AttrStmt, PrimFunc, Stmt, StmtRewriter
from ..analysis.threads import KernelBody, kernel_of
from ..common import THREAD_EXTENT, on_body


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
