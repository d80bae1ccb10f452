"""What statements access of buffers, through views and pointers too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...expr import Expr, Var, free_vars, has_load, substitute
from ...lower.analysis.known_ranges import analyzer_of
from ...tir import Block, Buffer, BufferRegion, MatchBufferRegion, PrimFunc
from .counts import summary
from .forms import Forms
from .guards import written_form
from .program import (
    AccessedRegion,
    AllocationScope,
    BlockAllocation,
    Bounds,
    ElementAccess,
    Form,
    GatheredProgram,
)


class AccessReader:
    """Notes accesses with the allocations that they are to."""

    def __init__(self, func: PrimFunc) -> None:
        self.program = GatheredProgram()
        self.forms = Forms(self.program.ranges, lambda: analyzer_of(func.body))
        self.scope = AllocationScope(None, (), frozenset())
        self.views: dict[Buffer, tuple[Buffer, list[Form]]] = {}
        self.blocks: list[Block] = []
        self.bindings: Mapping[Var, Expr] = {}  # of the block that we are in
        self.limits: Bounds = {}  # what its predicate says
        self.pointers: dict[Var, BlockAllocation] = {}

    def read(self, expr: Expr) -> None:
        """Note what an expression that is not the value of a store reads."""
        if has_load(expr):
            for load in summary(expr).loads:
                self.access(load.buffer, load.indices)

    def point(self, expr: Expr) -> None:
        """Note what an expression accesses through pointers."""
        for var in free_vars(expr):
            found = self.pointers.get(var)
            if found is not None:
                found.access(self.scope, self._declared(found.buffer))

    def _declared(self, buffer: Buffer) -> AccessedRegion | None:
        """The region of a buffer that the block around declares to access."""
        for block in reversed(self.blocks):
            for region in (*block.reads, *block.writes):
                if region.buffer is buffer:
                    return AccessedRegion(list(self._ends_of(region)), {})
        return None

    def _ends_of(self, region: BufferRegion) -> Iterator[tuple[Form, Form]]:
        for part in region.region:
            low = self.forms.of(part.min)
            yield low, low.shifted(self._most(part.extent) - 1)

    def access(self, buffer: Buffer, indices: Sequence[Expr]) -> ElementAccess:
        source, forms = self._place(buffer, self.forms.all(indices))
        found = self.program.allocations.get(source)
        if found is not None:
            found.access(self.scope, self._region(source is buffer, indices, forms))
        return ElementAccess(source, forms)

    def _region(
        self, direct: bool, indices: Sequence[Expr], forms: Sequence[Form]
    ) -> AccessedRegion:
        """What an access reaches, limited by the predicate of the block around."""
        limits = self.limits
        if not limits or not direct:
            return AccessedRegion([(form, form) for form in forms], {})
        written = [self.forms.in_loops(substitute(index, self.bindings)) for index in indices]
        return AccessedRegion([(form, form) for form in map(written_form, written)], limits)

    def _place(self, buffer: Buffer, forms: list[Form]) -> tuple[Buffer, list[Form]]:
        """The buffer under a view, and the indices into it."""
        view = self.views.get(buffer)
        if view is None:
            return buffer, forms
        source, first = view
        skipped = len(first) - len(forms)
        rest = [low.plus(form) for low, form in zip(first[skipped:], forms, strict=True)]
        return source, [*first[:skipped], *rest]

    def match(self, match: MatchBufferRegion) -> None:
        lows = [self.forms.of(part.min) for part in match.source.region]
        source, first = self._place(match.source.buffer, lows)
        self.views[match.buffer] = source, first
        found = self.program.allocations.get(source)
        if found is not None:
            skipped = len(first) - len(lows)
            sizes = [0] * skipped + [self._most(p.extent) - 1 for p in match.source.region]
            pairs = zip(first, sizes, strict=True)
            axes = [(low, low.shifted(size)) for low, size in pairs]
            found.access(self.scope, AccessedRegion(axes, {}))

    def _most(self, extent: Expr) -> int:
        return self.forms.bounds.of(self.forms.in_loops(extent))[1]
