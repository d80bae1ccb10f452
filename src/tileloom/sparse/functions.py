"""The functions of a module, which passes over sparse programs take one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..base.errors import ArgumentError, UnsupportedError
from ..expr import const
from ..tir import Block, BlockRealize, Buffer, IRModule, PrimFunc, Stmt, parts_of

Program = TypeVar("Program", PrimFunc, IRModule)


def map_functions(mod: Program, change: Callable[[PrimFunc], PrimFunc]) -> Program:
    """A function after a pass, or a module of such functions."""
    if isinstance(mod, PrimFunc):
        return change(mod)
    if not isinstance(mod, IRModule):
        raise ArgumentError(f"a function or a module of functions is needed, got {mod!r}")
    functions = {name: change(func) for name, func in mod.functions.items()}
    return mod.replace(functions=functions)


def root_parts(func: PrimFunc) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...]]:
    """The statements of a function one after the other, and the buffers its root block allocates.

    Raises:
        UnsupportedError: the root block is more than a place for these.
    """
    body = func.body
    if not (isinstance(body, BlockRealize) and not body.block.iter_vars):
        return parts_of(body), ()
    root = body.block
    if root.match_buffers or root.init is not None:
        raise UnsupportedError(f"the root block of {func.name!r} does more than hold statements")
    return parts_of(root.body), root.alloc_buffers


def with_root(func: PrimFunc, body: Stmt, allocated: tuple[Buffer, ...]) -> PrimFunc:
    """The function with other statements in its root block, and other buffers of their own."""
    old = func.body
    if isinstance(old, BlockRealize) and not old.block.iter_vars:
        root = old.block.replace(body=body, alloc_buffers=allocated, reads=(), writes=())
        return func.with_body(old.replace(block=root))
    root = Block((), (), (), "root", body, alloc_buffers=allocated)
    return func.with_body(BlockRealize((), const(True), root))
