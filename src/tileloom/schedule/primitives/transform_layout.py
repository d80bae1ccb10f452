"""transform_layout: the elements of a buffer in another order, everywhere it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import UserError
from ...expr import Analyzer, Expr, IndexMap, PaddedInverse, Var, post_order, rewrite
from ...expr.evaluate import round_to
from ...tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    MatchBufferRegion,
    PrimFunc,
    Stmt,
    StmtRewriter,
)
from ..analysis.scope import accessed_buffers
from ..analysis.tree import child_blocks, loops_above
from ..errors import name_of, refuse
from ..index_maps import as_index_map, renewed_map
from ..instruction import Arguments, BlockRef, MapRef, Text, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._layout_padding import LayoutPadding, fill_block, insert_fill, is_written
from ._padded_writer import pad_writers
from ._threads import check_not_own

_READ, _WRITE = 0, 1
_SIDES = ("read", "write")


def _front(
    state: ScheduleState,
    block: BlockRef,
    buffer: Any,
    index_map: Any,
    pad_value: Any = None,
    *,
    assume_injective_transform: bool = False,
) -> dict[str, Any]:
    access = find_access(block, buffer)
    region = accessed_region(block, **access)
    given = as_index_map(index_map, region.buffer.ndim)
    return {
        **access,
        "index_map": given,
        "pad_value": pad_padding(pad_value, given, region.buffer),
        "assume_injective_transform": assume_injective_transform,
    }


def accessed_region(block: StmtSRef, buffer_index: int, buffer_index_type: int) -> BufferRegion:
    """The region that an access of a block is declared by."""
    return (block.block.reads, block.block.writes)[buffer_index_type][buffer_index]


def find_access(block: StmtSRef, buffer: Any) -> dict[str, int]:
    """The arguments that tell an access: its index, and whether it is read (0) or written (1).

    Args:
        buffer: ("read" or "write", index), the buffer's name, or the buffer.
    """
    sides = (block.block.reads, block.block.writes)
    if isinstance(buffer, (tuple, list)) and len(buffer) == 2 and buffer[0] in _SIDES:
        side = _SIDES.index(buffer[0])
        if isinstance(buffer[1], int) and 0 <= buffer[1] < len(sides[side]):
            return {"buffer_index": buffer[1], "buffer_index_type": side}
        raise refuse(
            f"{name_of(block)} has {len(sides[side])} {buffer[0]} regions, there is no {buffer[1]}",
            at=[block],
        )
    for side in (_WRITE, _READ):
        for index, region in enumerate(sides[side]):
            if region.buffer is buffer or region.buffer.name == buffer:
                return {"buffer_index": index, "buffer_index_type": side}
    names = sorted({region.buffer.name for side in sides for region in side})
    raise refuse(
        f"{name_of(block)} does not access {buffer!r}",
        at=[block],
        hint=f"it accesses {', '.join(names)}",
    )


def pad_padding(value: Any, index_map: IndexMap, buffer: Buffer) -> Any:
    """The value of padding as a number, or as an index map for one that depends on the place."""
    if value is None or isinstance(value, (int, float, IndexMap)):
        return value
    if callable(value):
        return IndexMap.from_func(value, len(index_map.final_indices))
    if isinstance(value, Expr):
        if value.dtype.element is not buffer.dtype.element:
            raise refuse(f"the padding {value} is {value.dtype}, the buffer {buffer.dtype}")
        return getattr(value, "value", value)
    raise refuse(f"padding must be a number or a function, got {type(value).__name__}")


def shown_access(arguments: Arguments) -> Arguments:
    """The arguments with the access as Python text, as `find_access` takes it."""
    rest = dict(arguments)
    block, index, side = (rest.pop(key) for key in ("block", "buffer_index", "buffer_index_type"))
    return {"block": block, "buffer": Text(f'("{_SIDES[side]}", {index})'), **rest}


def _shown(arguments: Arguments) -> Arguments:
    pad = arguments["pad_value"]
    return {
        **shown_access(arguments),
        "pad_value": Text("None") if pad is None else pad,
    }


@primitive("TransformLayout", front=_front, shown=_shown)
def transform_layout(
    state: ScheduleState,
    block: BlockRef,
    buffer_index: int,
    buffer_index_type: int,
    index_map: MapRef,
    pad_value: Any,
    assume_injective_transform: bool = False,
) -> None:
    """Store a buffer in another order of elements: every access is rewritten.

    Args:
        block: a block that accesses the buffer.
        buffer: which one: ("read" or "write", index), its name, or the buffer.
        index_map: a function from old indices to new ones.
        pad_value: what places hold that no element goes to: a number, a function from the place to
            its value, or None where there are no such places. Nests that write all elements in
            order write it as well; else a block after the writers does. Of parameters that the
            function only reads it is assumed.
        assume_injective_transform: take the map for injective without a proof, and leave places
            that no element goes to alone.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] * 2.0, name="B")
    >>> C = te.compute((8, 8), lambda i, j: B[i, j] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> sch.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4))
    >>> sch.get(sch.get_block("B")).writes[0].buffer.shape
    (2, 8, 4)
    """
    old = accessed_region(block, buffer_index, buffer_index_type).buffer
    owner, is_param = _owner(state, block, old)
    index_map = renewed_map(index_map).fitting(old.shape)
    padding = _padding(block, old, index_map, pad_value, assume_injective_transform)
    new = old.replace(
        data=Var(old.data.name, "handle", (str(old.dtype), old.scope)),
        shape=_new_shape(index_map, old, padding),
        strides=(),
    )
    filling = None
    if padding is not None:
        back = IndexMap(padding.outputs, padding.back)
        filling = LayoutPadding(back, padding.outside, pad_value)
    assumed = is_param and not is_written(owner.block, old)
    padded = None
    if filling is not None and not assumed:
        padded = pad_writers(owner.block, old, new, filling)
    scope, block_map = padded or (owner.block, {})
    rewriter = _Relayout(old, new, index_map)
    changed = rewriter.visit_Block(scope)
    if filling is not None and padded is None:
        for writer in child_blocks(state, owner):
            if old in accessed_buffers(state, writer.block)[1]:
                why = "a block outside would write the padding"
                check_not_own(state, writer, loops_above(writer), [old], why)
        fill = rewriter.visit(fill_block(new, filling, assumed))
        changed = insert_fill(changed, fill, new, first=assumed)
    name = state.function_of(owner)
    state.replace(owner, changed, {**block_map, **rewriter.block_map, owner.block: changed})
    if is_param:
        func = state.mod[name]
        state.update_function(name, _with_buffer(func, old, new))


def _owner(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> tuple[StmtSRef, bool]:
    """The block that allocates the buffer; the root block for a parameter."""
    top = block
    for place in (block, *block.ancestors()):
        if place.is_block:
            top = place
            if buffer in place.block.alloc_buffers:
                return place, False
            if any(match.buffer is buffer for match in place.block.match_buffers):
                raise refuse(
                    f"{buffer.name!r} is another name for a part of a buffer",
                    at=[place],
                    fast="The buffer is defined by match_buffer",
                )
    return top, True


def _padding(
    block: StmtSRef, buffer: Buffer, index_map: IndexMap, pad_value: Any, assumed: bool
) -> PaddedInverse | None:
    """The map back and the condition for a place to be padding; None where there is none."""
    if assumed:
        return None
    try:
        padding = index_map.padded_inverse(buffer.shape)
        if padding is None:
            index_map.inverse(buffer.shape)
            return None
    except UserError as error:
        raise refuse(
            f"the index map sends two elements of {buffer.name!r} to one place, or its inverse "
            f"is not found: {error.message}",
            at=[block],
            hint="say assume_injective_transform=True if it is injective all the same",
            fast="The index map is not injective",
        ) from None
    if pad_value is None:
        raise refuse(
            f"the new layout of {buffer.name!r} has places that no element goes to: "
            f"{padding.outside}",
            at=[block],
            hint="give pad_value, or a map that fills its shape",
            fast="The transformation would introduce padding",
        )
    _check_pad(block, buffer, pad_value)
    return padding


def _new_shape(
    index_map: IndexMap, buffer: Buffer, padding: PaddedInverse | None
) -> tuple[Expr, ...]:
    try:
        return tuple(index_map.map_shape(buffer.shape))
    except UserError:
        if padding is None:
            raise
        return padding.shape


def _check_pad(block: StmtSRef, buffer: Buffer, pad_value: Any) -> None:
    if isinstance(pad_value, IndexMap):
        for node in post_order(pad_value.final_indices[0]):
            if isinstance(node, BufferLoad) and node.buffer is not buffer:
                raise refuse(
                    f"the padding may read {buffer.name!r} alone, not {node.buffer.name!r}",
                    at=[block],
                )
    elif not _holds(buffer, pad_value):
        raise refuse(
            f"the padding {pad_value} does not fit {buffer.dtype}",
            at=[block],
            hint="give a number that elements of the buffer can hold",
        )


def _holds(buffer: Buffer, value: int | float) -> bool:
    """Whether elements of a buffer hold a number: an int exactly, a float rounded."""
    if isinstance(value, float):
        return buffer.dtype.is_float
    try:
        return bool(round_to(value, buffer.dtype) == value)
    except OverflowError:
        return False


class _Relayout(StmtRewriter):
    """Accesses of one buffer through an index map."""

    def __init__(self, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        self.old, self.new, self.index_map = old, new, index_map
        self.analyzer = Analyzer()
        self.block_map: dict[Block, Block] = {}

    def _map(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(self.index_map.map_indices(indices, self.analyzer))

    def _rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is self.old:
            return BufferLoad(self.new, self._map(expr.indices), expr.predicate)
        if expr is self.old.data:
            raise refuse(f"the pointer of {self.old.name!r} is used: its layout must stay")
        return None

    def visit_expr(self, expr: Expr) -> Expr:
        changes = any(
            (isinstance(node, BufferLoad) and node.buffer is self.old) or node is self.old.data
            for node in post_order(expr)
        )
        return rewrite(expr, self._rule) if changes else expr

    def visit_For(self, stmt: For) -> Stmt:
        self.analyzer.bind(stmt.loop_var, stmt.domain)
        return super().visit_For(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if isinstance(new, BufferStore) and new.buffer is self.old:
            return new.replace(buffer=self.new, indices=self._map(new.indices))
        return new

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        if region.buffer is not self.old:
            return super().visit_region(region)
        parts = self.index_map.map_ranges(region.region, self.analyzer)
        return BufferRegion(self.new, tuple(parts))

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        if match.source.buffer is self.old:
            raise refuse(
                f"a part of {self.old.name!r} has another name, {match.buffer.name!r}",
                fast="The buffer is used by match_buffer",
            )
        return super().visit_match(match)

    def visit_Block(self, stmt: Block) -> Block:
        for axis in stmt.iter_vars:
            self.analyzer.bind(axis.var, axis.domain)
        new = super().visit_Block(stmt)
        if self.old in new.alloc_buffers:
            kept = tuple(self.new if b is self.old else b for b in new.alloc_buffers)
            new = new.replace(alloc_buffers=kept)
        if new is not stmt:
            self.block_map[stmt] = new
        return new


def _with_buffer(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    buffers = {param: new if b is old else b for param, b in func.buffer_map.items()}
    return func.replace(buffer_map=buffers)
