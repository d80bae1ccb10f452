"""What primitives share that change a buffer everywhere it is used in its scope."""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import Analyzer, Expr, IntImm, Var, const, rewrite
from ...tir import Block, Buffer, BufferLoad, BufferRewriter
from ..errors import ScheduleError, refuse
from ..sref import StmtSRef


def allocating_block(block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """The block around (or itself) that allocates a buffer; refuses parameters and aliases."""
    for place in (block, *block.ancestors()):
        if not place.is_block:
            continue
        if buffer in place.block.alloc_buffers:
            return place
        if any(match.buffer is buffer for match in place.block.match_buffers):
            raise refuse(
                f"the buffer {buffer.name!r} is another name for a part of a buffer",
                at=[place],
                fast="The buffer is defined by match_buffer",
            )
    raise refuse(
        f"the buffer {buffer.name!r} is a parameter of the function",
        at=[block],
        hint="use a buffer that a block allocates, such as one made by cache_read or cache_write",
        fast="The input buffer is not allocated by a block",
    )


def check_views(block: Block) -> None:
    """Refuse views that declare another type, rank, shape or strides than their sources have."""
    values: dict[Var, Expr] = {}
    for match in block.match_buffers:
        view, source = match.buffer, match.source.buffer
        if view.dtype is not source.dtype:
            raise _contradiction(view, source, "the type", view.dtype, source.dtype)
        lead = source.ndim - view.ndim
        if lead < 0:
            raise _contradiction(view, source, "the rank", view.ndim, source.ndim)
        extents = [part.extent for part in match.source.region[lead:]]
        strides = _strides(source)[lead:] if view.strides else []
        for what, mine, theirs in (
            ("the shape", view.shape, extents),
            ("the strides", view.strides, strides),
        ):
            for a, b in zip(mine, theirs, strict=True):
                known = values.setdefault(a, b) if isinstance(a, Var) else a
                difference = Analyzer().simplify(known.astype("int64") - b.astype("int64"))
                if isinstance(difference, IntImm) and difference.value:
                    raise _contradiction(view, source, what, known, b)


def _strides(buffer: Buffer) -> list[Expr]:
    if buffer.strides:
        return list(buffer.strides)
    found: list[Expr] = []
    step: Expr = const(1, "int64")
    for size in reversed(buffer.shape):
        found.insert(0, step)
        step = step * size.astype("int64")
    return found


def _contradiction(
    view: Buffer, source: Buffer, what: str, mine: object, theirs: object
) -> ScheduleError:
    return refuse(
        f"the view {view.name!r} declares {what} {mine}, but {source.name!r} has {theirs}",
        hint="declare variables in the view, as in strides=[s, 1]",
    )


class ReplaceBuffer(BufferRewriter):
    """Buffers in place of others, in accesses, regions and allocations; its views follow.

    Attributes:
        block_map: the blocks that changed, for `ScheduleState.replace`.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        self.buffers = dict(buffers)
        self.block_map: dict[Block, Block] = {}

    def _rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer in self.buffers:
            return BufferLoad(self.buffers[expr.buffer], expr.indices, expr.predicate)
        for old, new in self.buffers.items():
            if expr is old.data:
                return new.data
        return None

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._rule)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def visit_Block(self, stmt: Block) -> Block:
        for match in stmt.match_buffers:
            source = match.source.buffer
            if source in self.buffers:
                self.buffers[match.buffer] = _view_of(match.buffer, source, self.buffers[source])
        new = super().visit_Block(stmt)
        if new is not stmt:
            check_views(new)
            self.block_map[stmt] = new
        return new


def _view_of(view: Buffer, old: Buffer, new: Buffer) -> Buffer:
    """The view of a buffer with the type, the scope and the separators of another one."""
    if new.dtype is not old.dtype or new.scope != old.scope:
        data = Var(view.data.name, "handle", (str(new.dtype), new.scope))
        view = view.replace(data=data, dtype=new.dtype, scope=new.scope)
    if new.axis_separators != old.axis_separators:
        lead = new.ndim - view.ndim
        kept = tuple(k - lead for k in new.axis_separators if k >= lead)
        view = view.replace(axis_separators=kept)
    return view
