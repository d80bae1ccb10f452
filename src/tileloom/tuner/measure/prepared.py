"""What a program does once for constant inputs, apart from what it does in every call.

`RewriteLayout` copies inputs whose layout is free into the order in which they are read, in blocks
of their own. Who runs the program often with the same weights runs these once; so do measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...expr import Var
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    PrimFunc,
    SeqStmt,
    Stmt,
    collect,
    collect_exprs,
    seq,
)
from ..annotations import LAYOUT_FREE_BUFFERS, LAYOUT_REWRITE

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class InputRewrite:
    """What is done once.

    Attributes:
        argument: the number of the argument that it is done to.
        func: takes the argument, and writes what takes its place.
    """

    argument: int
    func: PrimFunc


def without_layout_rewrites(func: PrimFunc) -> tuple[PrimFunc, tuple[InputRewrite, ...]]:
    """A program that takes inputs in the layouts that `RewriteLayout` has chosen for them.

    Args:
        func: a program with a schedule.

    Returns:
        The program without the blocks that change layouts, and these, each as a function of its
        own; a block stays where its input is used elsewhere, too.
    """
    if not isinstance(func.body, BlockRealize) or LAYOUT_FREE_BUFFERS not in func.attrs:
        return func, ()
    found: list[InputRewrite] = []
    block = func.body.block
    stmts = block.body.seq if isinstance(block.body, SeqStmt) else ()
    for stmt in stmts:
        rewrite = _rewrite(stmt)
        if rewrite is None:
            continue
        source, made = rewrite
        rest = [part for part in _stmts(block) if part is not stmt]
        handle = next((var for var, buffer in func.buffer_map.items() if buffer is source), None)
        if handle is None or any(_uses(part, source) for part in rest):
            continue
        found.append(InputRewrite(func.params.index(handle), _alone(stmt, source, made, func.body)))
        kept = tuple(buffer for buffer in block.alloc_buffers if buffer is not made)
        block = block.replace(body=seq(*rest), alloc_buffers=kept)
        func = func.replace(
            body=func.body.replace(block=block), buffer_map={**func.buffer_map, handle: made}
        )
    return func, tuple(found)


def _stmts(block: Block) -> tuple[Stmt, ...]:
    return block.body.seq if isinstance(block.body, SeqStmt) else (block.body,)


def _rewrite(stmt: Stmt) -> tuple[Buffer, Buffer] | None:
    """What a statement reads and writes, if it changes a layout and does nothing else."""
    blocks = collect(stmt, Block)
    if len(blocks) != 1 or LAYOUT_REWRITE not in blocks[0].annotations:
        return None
    return blocks[0].reads[0].buffer, blocks[0].writes[0].buffer


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return any(load.buffer.data is buffer.data for load in collect_exprs(stmt, BufferLoad))


def _alone(stmt: Stmt, source: Buffer, made: Buffer, root: BlockRealize) -> PrimFunc:
    handles = Var(f"{source.name}_handle", "handle"), Var(f"{made.name}_handle", "handle")
    block = root.block.replace(body=stmt, alloc_buffers=(), annotations={})
    buffers = dict(zip(handles, (source, made), strict=True))
    return PrimFunc(handles, root.replace(block=block), buffers)


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel for inputs in layouts of its own, called with inputs as they were.

    Attributes:
        main: the kernel.
        before: the number of an argument, what brings it into its layout, and where that writes.
    """

    main: Callable[..., Any]
    before: Sequence[tuple[int, Callable[..., Any], Array]]

    def __call__(self, *arguments: Any) -> None:
        """All of the program."""
        self.main(*self.prepared(arguments))

    def prepared(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments for the kernel."""
        found = list(arguments)
        for k, kernel, made in self.before:
            kernel(arguments[k], made)
            found[k] = made
        return found
