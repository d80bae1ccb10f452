"""Where an intermediate must live, decided exactly: by what threads store and what they load.

An access of a scheduled program relates threads to cells of a buffer. Where every thread has
stored what it loads, a register will do. Else, if its block has stored it, shared memory; else
blocks would have to wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ...expr import REDUCE, Expr, IntImm, Range, Var, const, substitute
from ...schedule.analysis.tree import loops_above
from ...schedule.integer_sets import Integers
from ...schedule.schedule import Schedule
from ...tir import BlockRealize, Buffer
from ..domain import accesses

#: Who must see a buffer: each thread what is its own, a block, or all blocks.
Reach = Literal["thread", "block", "grid"]
SCOPES: dict[Reach, str] = {"thread": "local", "block": "shared", "grid": "global"}

_GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def reach_of(sch: Schedule, buffer: Buffer) -> Reach | None:
    """Who must see an intermediate of the function that is worked on.

    Returns:
        None if an index is not quasi-affine: then nothing is proven.

    Raises:
        UnsupportedError: the package islpy is not installed.
    """
    return _Reach(sch, buffer).find()


class _Reach:
    def __init__(self, sch: Schedule, buffer: Buffer) -> None:
        self.sch = sch
        self.buffer = buffer
        self.integers = Integers(max_operations=1_000_000)
        self.extents: dict[str, Expr] = {}
        self.blocks = [
            sch.state.realize(sch.get_sref(rv))
            for rv in sch.get_child_blocks(sch.get_block("root"))
        ]
        for realize in self.blocks:
            for tag, _, extent in self._bound(realize):
                self.extents.setdefault(tag, extent)

    def find(self) -> Reach | None:
        with self.integers.limited():
            stores = self._union(True)
            loads = self._union(False)
            if stores is None or loads is None:
                return None
            if loads.is_subset(stores):
                return "thread"
            threads = sum(tag in self.extents for tag in _THREADS)
            by_block = [self._without_threads(cells, threads) for cells in (loads, stores)]
            return "block" if by_block[0].is_subset(by_block[1]) else "grid"

    def _tags(self) -> list[str]:
        return [tag for tag in (*_GRID, *_THREADS) if tag in self.extents]

    def _without_threads(self, cells: Any, threads: int) -> Any:
        grid = len(self._tags()) - threads
        return cells.project_out(self.integers.set_dim, grid, threads)

    def _bound(self, realize: BlockRealize) -> Iterator[tuple[str, Var, Expr]]:
        for sref in loops_above(self.sch.get_sref(realize.block)):
            loop = sref.loop
            if loop.thread_binding is not None:
                yield loop.thread_binding.thread_tag, loop.loop_var, loop.extent

    def _union(self, stores: bool) -> Any | None:
        """All (block, thread, cell) for which a thread stores a cell, or loads one."""
        total = None
        for realize in self.blocks:
            block = realize.block
            if stores != (self.buffer in {region.buffer for region in block.writes}):
                continue
            for buffer, indices in accesses(block):
                if buffer is self.buffer:
                    part = self._cells(realize, indices, stores)
                    if part is None:
                        return None
                    total = part if total is None else total.union(part)
        if total is None:
            return None
        return total.coalesce()

    def _cells(self, realize: BlockRealize, indices: Sequence[Expr], stores: bool) -> Any | None:
        loops = [sref.loop for sref in loops_above(self.sch.get_sref(realize.block))]
        domains: dict[Var, Range] = {loop.loop_var: loop.domain for loop in loops}
        tags = {tag: var for tag, var, _ in self._bound(realize)}
        values, reduced = realize.bindings, realize.loops_of(REDUCE)
        numbers: list[Expr] = []
        for tag in self._tags():
            var = tags.get(tag)
            if var is None or (stores and var in reduced):
                # Every thread of the tag does it, or gets the result of those that share in it.
                var = Var(tag, "int32")
                domains[var] = Range(const(0), self.extents[tag])
            numbers.append(var)
        space = self.integers.space(list(domains))
        points = space.universe
        for var, domain in domains.items():
            within = space.between(domain.min, space.number(var), domain.extent)
            if within is None:
                return None
            points = points.intersect(within)
        predicate = realize.predicate
        if not (isinstance(predicate, IntImm) and predicate.value):
            holds = space.condition(substitute(predicate, values))
            if holds is None:
                return None
            points = points.intersect(holds)
        found = [space.number(e) for e in (*numbers, *(substitute(i, values) for i in indices))]
        if any(number is None for number in found):
            return None
        return space.map(found).intersect_domain(points).range()
