"""Stage II to stage III: sparse buffers become plain ones, and axes go.

Needs: sparse_tir_level 1. Ensures: level 0, no sparse buffers, no axes. A dimension of fixed extent
stays a dimension; a variable axis and the axes above it become one, in which element `i` below
position `p` of the parent is at `indptr[p] + i`. (SparseTIR flattens everything; its authors
proposed to keep fixed dimensions, so that blocks of a block-sparse matrix can be tensorized.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import UserError
from ..base.record import Record
from ..expr import Expr, IntImm, Range, cast, const, rewrite, simplify
from ..tir import (
    PLAIN,
    POSITIONS,
    Axis,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferRewriter,
    BufferStore,
    IRModule,
    MatchBufferRegion,
    PrimFunc,
    SparseBuffer,
    Stmt,
    make_buffer,
    sparse_level,
)
from ..tir.sparse import LEVEL
from .empty_sums import start_empty_reductions


def lower_sparse_buffer(mod: IRModule | PrimFunc, flatten: bool = False) -> IRModule:
    """Lower the sparse buffers of a module to plain buffers `<name>_data`.

    Functions at another level than 1 stay as they are. Reductions over a variable number of
    elements that still start with their first element are decomposed, so that results of no
    elements are started, too.

    Args:
        mod: the module, or a function, which is called "main" then.
        flatten: give every buffer one dimension, as SparseTIR does.

    Raises:
        UserError: a buffer is over an axis without its parent before it.
    """
    if isinstance(mod, PrimFunc):
        mod = IRModule({"main": mod})
    names = [name for name, f in mod.functions.items() if sparse_level(f) == POSITIONS]
    mod = start_empty_reductions(mod, names)
    functions = {n: _lowered(f, flatten) if n in names else f for n, f in mod.functions.items()}
    return mod.replace(functions=functions)


def _lowered(func: PrimFunc, flatten: bool) -> PrimFunc:
    layouts = _Layouts(func, flatten)
    walk = _Lowering(layouts)
    return func.replace(
        buffer_map={param: walk.visit_buffer(buffer) for param, buffer in func.buffer_map.items()},
        body=walk.visit(func.body),
        sp_axes=(),
        buffer_domains=(),
        attrs={**func.attrs, LEVEL: const(PLAIN)},
    )


class Dimension(Record):
    """A dimension of the plain buffer: some axes of the sparse one, counted as one."""

    axes: tuple[int, ...]
    extent: Expr


class BufferLayout(Record):
    """How the elements of a sparse buffer lie in a plain one."""

    source: SparseBuffer
    buffer: Buffer
    dimensions: tuple[Dimension, ...]
    is_flat: bool


class _Layouts:
    """The layouts of the buffers of a function."""

    def __init__(self, func: PrimFunc, flatten: bool) -> None:
        self.flatten = flatten
        self.known: dict[SparseBuffer, BufferLayout] = {}
        self._starts: dict[object, SparseBuffer] = {}
        for axis in func.sp_axes:
            starts = func.buffer_map.get(axis.indptr) if axis.indptr is not None else None
            if isinstance(starts, SparseBuffer):
                self._starts[axis.indptr] = starts

    def of(self, buffer: SparseBuffer) -> BufferLayout:
        """The layout of a buffer."""
        found = self.known.get(buffer)
        if found is None:
            is_flat = self.flatten or buffer.extra_storage is not None
            found = self.known[buffer] = _layout(buffer, is_flat)
        return found

    def indices(self, buffer: SparseBuffer, positions: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where the element at some positions is in the plain buffer."""
        layout = self.of(buffer)
        indices = [self.count(buffer, d.axes, positions) for d in layout.dimensions]
        if not layout.is_flat or len(indices) <= 1:
            return tuple(indices)
        return (_joined(indices, [d.extent for d in layout.dimensions]),)

    def count(
        self, buffer: SparseBuffer, members: Sequence[int], positions: Sequence[Expr]
    ) -> Expr:
        """The position on the last of some axes, counted along its chain of parents."""
        count = positions[members[0]]
        for k in members[1:]:
            axis = buffer.axes[k]
            local = positions[k]
            if axis.is_variable:
                count = self._start(axis, count) + local
            else:
                count = count * cast(count.dtype, axis.positions) + local
        return simplify(count)

    def _start(self, axis: Axis, count: Expr) -> Expr:
        count = simplify(count)
        if isinstance(count, IntImm) and count.value == 0:
            return const(0, axis.idtype)
        starts = self._starts.get(axis.indptr)
        if starts is None:
            raise UserError(f"axis {axis.name!r} has no buffer for its indptr")
        return BufferLoad(self.of(starts).buffer, (count,))


def _joined(indices: Sequence[Expr], extents: Sequence[Expr]) -> Expr:
    total = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        total = total * cast(total.dtype, extent) + index
    return simplify(total)


def _layout(buffer: SparseBuffer, is_flat: bool) -> BufferLayout:
    dimensions: list[Dimension] = []
    for k, axis in enumerate(buffer.axes):
        above = [] if not axis.is_variable else _above(buffer, axis)
        merged = [d for d in dimensions if set(d.axes) & set(above)]
        members = [m for d in merged for m in d.axes]
        dimensions = [d for d in dimensions if d not in merged]
        extent = axis.nnz if axis.is_variable else axis.positions
        dimensions.append(Dimension((*members, k), simplify(extent)))
    extents = [d.extent for d in dimensions]
    if is_flat:
        total = extents[0] if extents else const(1)
        for extent in extents[1:]:
            total = total * extent
        if buffer.extra_storage is not None:
            total = total + cast(total.dtype, buffer.extra_storage)
        extents = [simplify(total)]
    plain = make_buffer(
        extents, buffer.dtype, f"{buffer.name}_data", scope=buffer.scope, data=buffer.data
    )
    return BufferLayout(buffer, plain, tuple(dimensions), is_flat)


def _above(buffer: SparseBuffer, axis: Axis) -> list[int]:
    number = {part: k for k, part in enumerate(buffer.axes)}
    missing = [part for part in axis.ancestors if part not in number]
    if missing:
        raise UserError(
            f"buffer {buffer.name!r} is over axis {axis.name!r} without {missing[0].name!r}, below "
            "which its positions are counted"
        )
    return [number[part] for part in axis.ancestors]


class _Lowering(BufferRewriter):
    def __init__(self, layouts: _Layouts) -> None:
        self.layouts = layouts

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self.layouts.of(buffer).buffer if isinstance(buffer, SparseBuffer) else buffer

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._load)

    def _load(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, BufferLoad) or not isinstance(expr.buffer, SparseBuffer):
            return None
        indices = self.layouts.indices(expr.buffer, expr.indices)
        return BufferLoad(self.visit_buffer(expr.buffer), indices, expr.predicate)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        if not isinstance(stmt.buffer, SparseBuffer):
            return super().visit_BufferStore(stmt)
        positions = self.all(stmt.indices, self.visit_expr)
        return stmt.replace(
            buffer=self.visit_buffer(stmt.buffer),
            value=self.visit_expr(stmt.value),
            indices=self.layouts.indices(stmt.buffer, positions),
        )

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        buffer = region.buffer
        if not isinstance(buffer, SparseBuffer):
            return super().visit_region(region)
        ranges = self.all(region.region, self.visit_range)
        plain = self.visit_buffer(buffer)
        if all(_is_point(part) for part in ranges):
            return BufferRegion.point(
                plain, self.layouts.indices(buffer, [part.min for part in ranges])
            )
        if self.layouts.of(buffer).is_flat:
            if not all(_is_point(part) for part in ranges[:-1]):
                return BufferRegion.full(plain)
            (first,) = self.layouts.indices(buffer, [part.min for part in ranges])
            return BufferRegion(plain, (Range(first, cast(first.dtype, ranges[-1].extent)),))
        parts = [self._range(buffer, d, ranges) for d in self.layouts.of(buffer).dimensions]
        return BufferRegion(plain, tuple(parts))

    def _range(self, buffer: SparseBuffer, dimension: Dimension, ranges: Sequence[Range]) -> Range:
        members = dimension.axes
        if len(members) == 1:
            return ranges[members[0]]
        if all(_is_point(ranges[k]) for k in members[:-1]):
            # The elements below one position of the parent lie next to each other.
            positions = [part.min for part in ranges]
            last = ranges[members[-1]]
            start = self.layouts.count(buffer, members, positions)
            return Range(start, cast(start.dtype, last.extent))
        return Range.from_extent(dimension.extent)

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        source = match.source.buffer
        if isinstance(source, SparseBuffer):
            for dimension in self.layouts.of(source).dimensions:
                inner = [match.source.region[k] for k in dimension.axes]
                if len(inner) > 1 and not all(_is_point(part) for part in inner):
                    raise UserError(
                        f"{match.buffer.name!r} matches a region of {source.name!r} over the "
                        f"variable axis {source.axes[dimension.axes[-1]].name!r}",
                        hint="match a region over axes of fixed extent",
                    )
        return super().visit_match(match)

    def visit_Block(self, stmt: Block) -> Block:
        block = super().visit_Block(stmt)
        keep = {k: v for k, v in block.annotations.items() if k != "sparse"}
        return block if len(keep) == len(block.annotations) else block.replace(annotations=keep)


def _is_point(part: Range) -> bool:
    return isinstance(part.extent, IntImm) and part.extent.value == 1
