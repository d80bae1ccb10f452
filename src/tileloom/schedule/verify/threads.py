"""What each thread of a kernel runs: blocks that stand in no loop over threads, though others do.

Every thread runs such a block. That matters where it makes what each thread has for itself; there
the loop that the launch stands for is written down, so that memory has an owner everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...expr import REDUCE, Var
from ...tir import THREAD_BINDING, Block, BlockRealize, Buffer, For, PrimFunc, Stmt, collect
from ...tir.walk import StmtRewriter, stmt_children

_LANES = "threadIdx."


def name_threads(func: PrimFunc) -> PrimFunc:
    """The function, where blocks that write memory local to a thread stand in a loop over threads.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     two = T.alloc_buffer((1,), scope="local")
    ...     for b in T.thread_binding(2, "blockIdx.x"):
    ...         with T.block("two"):
    ...             two[0] = T.float32(2)
    ...         for t in T.thread_binding(4, "threadIdx.x"):
    ...             with T.block("B"):
    ...                 v = T.axis.spatial(8, b * 4 + t)
    ...                 B[v] = A[v] * two[0]
    >>> str(name_threads(double)).count("threadIdx.x")
    2
    """
    return func.replace(body=_Kernels().visit(func.body))


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A block without blocks inside, and the loops over threads around it, by their tags."""

    realize: BlockRealize
    threads: Mapping[str, For]

    @property
    def local(self) -> set[Buffer]:
        """What it accesses of its threads' own memory."""
        block = self.realize.block
        return {r.buffer for r in (*block.reads, *block.writes) if r.buffer.scope == "local"}

    @property
    def written(self) -> set[Buffer]:
        """What it writes."""
        return {region.buffer for region in self.realize.block.writes}

    @property
    def reducing(self) -> set[str]:
        """The threads that reduce together."""
        reduced = self.realize.loops_of(REDUCE)
        return {tag for tag, loop in self.threads.items() if loop.loop_var in reduced}


class _Kernels(StmtRewriter):
    """Rewrites each kernel: a loop bound to threads or thread blocks, in no other such loop."""

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != THREAD_BINDING:
            return super().visit_For(stmt)
        places = list(_places(stmt, {}))
        lanes: dict[str, For] = {}
        for place in places:
            for tag, loop in place.threads.items():
                if lanes.setdefault(tag, loop).extent is not loop.extent:
                    return stmt
        loops: dict[BlockRealize, list[For]] = {}
        for place, tag in _run_by_all(places):
            loops.setdefault(place.realize, []).append(lanes[tag])
        return _InLoops(loops).visit(stmt) if loops else stmt


def _run_by_all(places: list[_Place]) -> list[tuple[_Place, str]]:
    """The blocks to put into loops, with the threads that they lack.

    A buffer belongs to a thread only if all that access it know which. Threads that reduce
    together have the result in common.
    """
    found = [
        (place, tag)
        for place in places
        if all(buffer.scope == "local" for buffer in place.written)
        for tag in sorted({t for p in places if p.local & place.local for t in p.threads})
        if tag not in place.threads
    ]
    while True:
        kept = [
            (place, tag)
            for place, tag in found
            if all(
                (tag in p.threads and tag not in p.reducing) or (p, tag) in found
                for p in places
                if p.local & place.written
            )
        ]
        if len(kept) == len(found):
            return found
        found = kept


class _InLoops(StmtRewriter):
    """Puts blocks into loops over threads."""

    def __init__(self, loops: Mapping[BlockRealize, list[For]]) -> None:
        self.loops = loops

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        made: Stmt = stmt if stmt in self.loops else super().visit_BlockRealize(stmt)
        for loop in self.loops.get(stmt, ()):
            var = Var(loop.loop_var.name, loop.loop_var.dtype)
            made = loop.replace(loop_var=var, body=made)
        return made


def _places(stmt: Stmt, threads: Mapping[str, For]) -> Iterator[_Place]:
    if isinstance(stmt, For) and stmt.thread_binding is not None:
        tag = stmt.thread_binding.thread_tag
        if tag.startswith(_LANES):
            threads = {**threads, tag: stmt}
    if isinstance(stmt, BlockRealize) and not collect(stmt.block.body, Block):
        yield _Place(stmt, threads)
        return
    for child in stmt_children(stmt):
        yield from _places(child, threads)
