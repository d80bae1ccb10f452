"""Views of buffer regions (`match_buffer` in a block) become the buffers themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import VerifyError
from ...expr import Expr, Range, Var, cast
from ...tir import Block, Buffer, BufferRegion, PrimFunc
from ..analysis import lanes
from ..analysis.linear import constant_difference
from ..analysis.row_major import flat_index, index_type, row_major_strides
from ..common import Access, Replacer, on_body


def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """An access to a view becomes an access to what it is a view of.

    Needs: blocks without iteration variables.
    Ensures: no block has match_buffers; the views' own variables (pointer, offset, strides, shape)
    are replaced by their values. Where a view promises more than its source keeps, VerifyError.
    """
    return on_body(func, _LowerMatch().visit)


class _LowerMatch(Replacer):
    def __init__(self) -> None:
        super().__init__({}, {})
        self.views: dict[Buffer, BufferRegion] = {}

    def visit_Block(self, stmt: Block) -> Block:
        for match in stmt.match_buffers:
            self._bind(match.buffer, self.visit_region(match.source))
        return super().visit_Block(stmt.replace(match_buffers=()) if stmt.match_buffers else stmt)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        parts = self.all(region.region, self.visit_range)
        outer = self.views.get(region.buffer)
        if outer is not None:
            return _compose(outer, parts)
        return region if parts is region.region else BufferRegion(region.buffer, parts)

    def _bind(self, view: Buffer, region: BufferRegion) -> None:
        source = region.buffer
        if view.dtype is not source.dtype:
            raise VerifyError(f"the view {view.name} of {source.name} has another element type")
        self.views[view] = region
        self._done = {}
        self._match(view, "pointer", view.data, source.data)
        kept = region.region[source.ndim - view.ndim :]
        for extent, part in zip(view.shape, kept, strict=True):
            self._match(view, "shape", extent, part.extent)
        kind = index_type(source)
        if view.strides:
            strides = row_major_strides(source, kind)[source.ndim - view.ndim :]
            for mine, theirs in zip(view.strides, strides, strict=True):
                self._match(view, "strides", mine, theirs)
        if view.elem_offset is not None:
            offset = flat_index(source, [part.min for part in region.region])
            self._match(view, "elem_offset", view.elem_offset, offset)

    def _match(self, view: Buffer, what: str, mine: Expr, theirs: Expr) -> None:
        if isinstance(mine, Var):
            known = self.values.get(mine)
            if known is None:
                value = theirs if mine.dtype.is_handle else cast(mine.dtype, theirs)
                self.define(mine, value)
                return
            mine = known
        else:
            mine = self.visit_expr(mine)
        if constant_difference(mine, theirs) not in (0, None):
            raise VerifyError(
                f"the view {view.name} declares {what} {mine}, but its source has {theirs}"
            )

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        region = self.views.get(buffer)
        if region is None:
            return super().access(buffer, indices)
        return region.buffer, shifted(region, indices)


def shifted(region: BufferRegion, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices into the source of an access to its view; leading axes are single elements."""
    skipped = len(region.region) - len(indices)
    first = [part.min for part in region.region[:skipped]]
    rest = [
        lanes.add(cast(index.dtype, part.min), index)
        for part, index in zip(region.region[skipped:], indices, strict=True)
    ]
    return (*first, *rest)


def _compose(outer: BufferRegion, parts: tuple[Range, ...]) -> BufferRegion:
    lows = shifted(outer, tuple(part.min for part in parts))
    skipped = outer.region[: len(lows) - len(parts)]
    extents = [part.extent for part in (*skipped, *parts)]
    return BufferRegion(outer.buffer, tuple(map(Range, lows, extents)))
