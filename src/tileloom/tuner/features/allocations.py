"""Where buffers are allocated, and how large they are there.

An allocation moves to the innermost scope around all accesses, outside of the loops of a reduction
that writes it, and keeps the part of the buffer that is accessed inside that scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...expr import Expr, IntImm
from ...expr.bounds import const_int_bound
from ...tir import Buffer
from .forms import difference
from .program import (
    AccessedRegion,
    AllocationScope,
    BlockAllocation,
    ElementAccess,
    Form,
    GatheredProgram,
    Nest,
)
from .spans import Span, Spans
from .threads import shares

_UNKNOWN = (1 << 63) - 1  # the bound of an extent of which nothing is known
_Start = tuple[Mapping[Expr, int], int]  # a sum of terms, and a number


@dataclass(slots=True, eq=False)
class PlacedBuffer:
    """A buffer as it is in memory.

    Attributes:
        buffer: as the program declares it.
        shape: what is kept of it, in elements.
        nest: the loops around its allocation; None for what nobody allocates.
        starts: the index of the first element that is kept, for each axis.
        name: by which buffers are sorted.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    nest: Nest | None = None
    starts: tuple[_Start, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or self.buffer.name

    def indices(self, access: ElementAccess) -> list[Form]:
        """The indices into what is kept."""
        if not self.starts:
            return list(access.indices)
        pairs = zip(access.indices, self.starts, strict=True)
        return [difference(form, terms, offset) for form, (terms, offset) in pairs]


def memory_of(buffer: Buffer, nest: Nest | None = None) -> PlacedBuffer:
    """A buffer that no block allocates."""
    return PlacedBuffer(buffer, shape_of(buffer), nest)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The extents as numbers: the greatest that they can be, one where that is not known."""
    return tuple(map(_extent, buffer.shape))


def _extent(extent: Expr) -> int:
    if isinstance(extent, IntImm):
        return extent.value
    most = const_int_bound(extent)[1]
    return most if 0 <= most < _UNKNOWN else 1


def allocated(program: GatheredProgram) -> dict[Buffer, PlacedBuffer]:
    """The buffers that blocks allocate, where they are needed and no larger."""
    result: dict[Buffer, PlacedBuffer] = {}
    for buffer, found in program.allocations.items():
        scope = found.scope
        if scope is None:
            continue
        if buffer.scope == "global":
            for grid in program.grids:
                scope = scope.common(grid)
        result[buffer] = _compacted(found, scope, program)
    return result


def _compacted(
    found: BlockAllocation, scope: AllocationScope, program: GatheredProgram
) -> PlacedBuffer:
    buffer = found.buffer
    tags = program.tags
    kept: set[Expr] = {
        var for var in scope.variables if not shares(buffer.scope, tags.get(var, ""))
    }
    plain = Spans(kept, program.ranges, {})
    regions = [None if region is None else _spans(region, plain) for region in found.regions]
    shape, starts = [], []
    for axis, extent in enumerate(shape_of(buffer)):
        size, start = _axis(
            extent, [None if region is None else region[axis] for region in regions]
        )
        shape.append(size)
        starts.append(start)
    return PlacedBuffer(buffer, tuple(shape), scope.nest, tuple(starts))


def _spans(region: AccessedRegion, plain: Spans) -> Sequence[Span | None]:
    """What an access reaches of each axis."""
    limits = region.limits
    spans = Spans(plain.kept, plain.bounds.facts, limits) if limits else plain
    return [spans.between(low, high) for low, high in region.axes]


def _axis(extent: int, spans: Iterable[Span | None]) -> tuple[int, _Start]:
    """How much is accessed of an axis, and from where on."""
    whole: tuple[int, _Start] = extent, ({}, 0)
    hull: Span | None = None
    for span in spans:
        if span is None or (hull is not None and span[0] != hull[0]):
            return whole
        hull = span if hull is None else (span[0], min(span[1], hull[1]), max(span[2], hull[2]))
    if hull is None:
        return whole
    terms, low, high = hull
    if high - low + 1 >= extent:
        return whole
    return high - low + 1, (terms, low if terms else max(low, 0))
