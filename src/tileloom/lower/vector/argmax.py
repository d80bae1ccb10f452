"""Loops that choose one of their iterations, as an arg-maximum does, in vectors.

Each lane chooses among its own iterations, beginning with what there was before the loop; then the
lanes' choices are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import (
    CommReducer,
    Expr,
    IntImm,
    Ramp,
    Var,
    broadcast_to,
    combined,
    conjunction,
    const,
    free_vars,
)
from ...tir import (
    BufferLoad,
    BufferStore,
    For,
    Stmt,
    make_buffer,
    seq,
    stores,
    under_loops,
    under_names,
)
from ..analysis.thread_reductions import recognise_choice
from ..blocks import allocate
from ..common import replace_vars
from .accumulators import with_plain_indices
from .body import Vectorizer
from .strips import LANES, Strips, choose


def vectorized_argmax(chain: Sequence[For]) -> Stmt | None:
    """The loops of a chain whose innermost one chooses, that one in vectors; None for others."""
    *outer, loop = chain
    loop = loop.replace(body=with_plain_indices(loop.body))
    found = recognise_choice(loop.body)
    if found is None or (isinstance(loop.extent, IntImm) and loop.extent.value < 2):
        return None
    stores = found[0]
    if any(loop.loop_var in free_vars(index) for s in stores for index in s.indices):
        return None  # each iteration has a place of its own
    strips = _ArgmaxStrips(loop, *found)
    stmt = strips.with_accumulators(strips.loops())
    return under_loops(outer, stmt)


class _ArgmaxStrips(Strips):
    """The loops over the vectors of a loop that chooses."""

    def __init__(
        self,
        loop: For,
        stores: Sequence[BufferStore],
        sources: Sequence[Expr],
        combiner: CommReducer,
    ) -> None:
        self.loop = loop
        self.kind = loop.loop_var.dtype
        self.width = int(loop.annotations[LANES])
        if isinstance(loop.extent, IntImm):
            self.width = min(self.width, 1 << max(0, loop.extent.value - 1).bit_length())
        self.parts, self.copies = 1, 0
        self.accumulators, self.columns = {}, {}
        self.stores, self.sources, self.combiner = stores, sources, combiner
        self.partial = [
            make_buffer((self.width,), s.value.dtype, "choices", scope="local") for s in stores
        ]

    def placed(self, slot: Expr, valid: Sequence[Expr]) -> Stmt:
        """A step of one lane."""
        old = [BufferLoad(buffer, (slot,)) for buffer in self.partial]
        return self._step(old, self.sources, [slot] * len(old), conjunction(valid), bool(valid))

    def _step(
        self,
        old: Sequence[Expr],
        new: Sequence[Expr],
        places: Sequence[Expr],
        condition: Expr,
        conditional: bool,
    ) -> Stmt:
        # Names first: what one of them guards would be loaded under a mask.
        before = [Var("before", value.dtype) for value in old]
        comes = [Var("comes", value.dtype) for value in new]
        chosen = combined(self.combiner, before, comes)
        if conditional:
            new = [choose(condition, n, const(0, n.dtype)) for n in new]
            chosen = [choose(condition, c, o) for c, o in zip(chosen, before, strict=True)]
        names = [Var("chosen", value.dtype) for value in chosen]
        stmt = stores(self.partial, names, [(place,) for place in places])
        bound = [*zip(before, old), *zip(comes, new), *zip(names, chosen)]
        return under_names(bound, stmt)

    def with_accumulators(self, body: Stmt) -> Stmt:
        """The loops between what there was and what is chosen at last."""
        stmts: list[Stmt] = []
        for store, buffer in zip(self.stores, self.partial, strict=True):
            before = BufferLoad(store.buffer, store.indices)
            stmts.append(BufferStore(buffer, broadcast_to(before, self.width), (self._at(0),)))
        stmts.append(body)
        width = self.width
        while width > 1:
            width //= 2
            stmts.append(self._halved(width))
        for store, buffer in zip(self.stores, self.partial, strict=True):
            stmts.append(store.replace(value=BufferLoad(buffer, (const(0, self.kind),))))
        stmt = seq(*stmts)
        for buffer in self.partial:
            stmt = allocate(buffer, stmt)
        return stmt

    def _halved(self, width: int) -> Stmt:
        """The choices of so many lanes compared with those of the next ones."""
        lane = Var("lane", self.kind)
        mine, others = (
            [BufferLoad(buffer, (at,)) for buffer in self.partial]
            for at in (lane, lane + const(width, self.kind))
        )
        stmt = self._step(mine, others, [lane] * len(mine), const(True), False)
        if width == 1:
            return replace_vars(stmt, {lane: const(0, self.kind)})
        ramp = Ramp(const(0, self.kind), const(1, self.kind), width)
        return Vectorizer(lane, ramp).visit(stmt)
