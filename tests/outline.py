"""The loops of a function in few lines: what planners decided, without what each block computes.

    32 parallel,
      1024 vector_lanes=16, max
      1024 vector_lanes=16,
        exp
        sum

A line is a block or a store behind the loops that hold nothing else, the outermost first. Loops
that hold several things stand on a line of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileloom.expr import IntImm
from tileloom.tir import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
)


def outline(func: PrimFunc) -> list[str]:
    """The lines."""
    return list(_lines(func.body, "", ""))


def _lines(stmt: Stmt, around: str, indent: str) -> Iterator[str]:
    if isinstance(stmt, SeqStmt):
        if around:
            yield f"{indent}{around.rstrip()}"
            indent += "  "
        for part in stmt.seq:
            yield from _lines(part, "", indent)
    elif isinstance(stmt, IfThenElse):
        yield f"{indent}{around}if {stmt.condition}"
        yield from _lines(stmt.then_case, "", indent + "  ")
        if stmt.else_case is not None:
            yield f"{indent}else"
            yield from _lines(stmt.else_case, "", indent + "  ")
    elif isinstance(stmt, BlockRealize):
        yield from _block(stmt, around, indent)
    elif isinstance(stmt, For):
        yield from _lines(stmt.body, around + _loop(stmt), indent)
    elif isinstance(stmt, BufferStore):
        yield f"{indent}{around}{stmt.buffer.name}"
    elif isinstance(stmt, Evaluate):
        yield f"{indent}{around}{str(stmt.value)[:60]}"
    else:
        if isinstance(stmt, Allocate):
            sizes = ", ".join(map(str, stmt.extents))
            yield f"{indent}{around}allocate {stmt.buffer_var.name}({sizes})"
            indent, around = indent + "  " * bool(around), ""
        yield from _lines(stmt.body, around, indent)  # type: ignore[attr-defined]


def _block(realize: BlockRealize, around: str, indent: str) -> Iterator[str]:
    block = realize.block
    where = "" if isinstance(realize.predicate, IntImm) else f" where {realize.predicate}"
    kept = "".join(f" {_buffer(buffer)}" for buffer in block.alloc_buffers)
    notes = "".join(f" {key}={value}" for key, value in sorted(block.annotations.items()))
    inside = list(_inside(block, indent + "  "))
    yield f"{indent}{around}{block.name_hint}{where}{notes}{kept}"
    yield from inside


def _inside(block: Block, indent: str) -> Iterator[str]:
    if not isinstance(block.body, BufferStore):
        yield from _lines(block.body, "", indent)


def _buffer(buffer: Buffer) -> str:
    return f"{buffer.scope}:{buffer.name}({','.join(map(str, buffer.shape))})"


def _loop(loop: For) -> str:
    notes = "".join(f" {key}={value}" for key, value in sorted(loop.annotations.items()))
    if loop.thread_binding is not None:
        return f"{loop.extent} {loop.thread_binding.thread_tag}{notes}, "
    if isinstance(loop.extent, IntImm) and loop.extent.value == 1 and not notes:
        return ""
    kind = "" if loop.kind == "serial" else f" {loop.kind}"
    return f"{loop.extent}{kind}{notes}, "
