"""RewriteCooperativeFetch: the threads of a block share the work of a copy into shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...base.errors import UserError
from ...expr import post_order
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import Block, pre_order, stmt_exprs
from ..annotations import COOPERATIVE_FETCH, WARP_EXECUTION
from ..context import TuneContext
from ._common import accepted

_LARGEST = 32  # bits of a value that is copied with others in one instruction


@dataclass(frozen=True, slots=True)
class RewriteCooperativeFetch:
    """Carry out "meta_schedule.cooperative_fetch": a copy's loop goes over all threads.

    The innermost loop of an annotated block (rules have fused the loops of the copy) is split into
    iterations, threads of y if there are any, threads of x, and elements that a thread takes at a
    time. The numbers of threads are those of the last `bind` steps before the annotation. Where the
    elements that a thread is to take do not divide the loop, or one has more than four bytes, each
    thread takes one at a time.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((32, 64), name="A")
    >>> B = te.compute((32, 64), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops("B")
    >>> sch.bind(i, "blockIdx.x"); sch.bind(j, "threadIdx.x")
    >>> copy = sch.cache_read("B", 0, "shared")
    >>> sch.compute_at(copy, i)
    >>> sch.annotate(copy, "meta_schedule.cooperative_fetch", 4)
    >>> RewriteCooperativeFetch().apply(sch, TuneContext(sch.mod, target("cuda -arch=sm_70")))
    True
    >>> [(loop.extent, loop.kind) for loop in map(sch.get, sch.get_loops(copy))]
    [(32, 'thread_binding'), (1, 'serial'), (64, 'thread_binding'), (4, 'vectorized')]
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        return accepted(_rewrite, sch, context.target)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A copy to share."""

    block: BlockRV
    elements: int
    threads: dict[str, int]


def _rewrite(sch: Schedule, target: Target) -> None:
    for fetch in list(_fetches(sch, target)):
        _share(sch, fetch)


def _fetches(sch: Schedule, target: Target) -> Iterator[_Fetch]:
    """The copies that steps have annotated, with the threads that earlier steps have bound."""
    threads: dict[str, int] = {}
    for inst in [] if sch.trace is None else sch.trace.insts:
        if inst.kind.name == "Bind" and inst.attrs[0] in ("threadIdx.x", "threadIdx.y"):
            extent = sch.get(inst.inputs[0]).static_extent
            if extent is None:
                raise UserError(f"the number of threads of {inst.attrs[0]} is not known")
            threads[inst.attrs[0]] = extent
        elif inst.kind.name == "Annotate" and inst.attrs[0] == WARP_EXECUTION:
            threads["threadIdx.x"] = target.warp_size
        elif inst.kind.name == "Annotate" and inst.attrs[0] == COOPERATIVE_FETCH:
            yield _Fetch(inst.inputs[0], int(sch.get(inst.inputs[1])), dict(threads))


def _share(sch: Schedule, fetch: _Fetch) -> None:
    sch.unannotate(fetch.block, COOPERATIVE_FETCH)
    loop = sch.get_loops(fetch.block)[-1]
    extent = sch.get(loop).static_extent
    if extent is None:
        return
    elements = fetch.elements
    if extent % elements or _has_large_values(sch.get(fetch.block)):
        elements = 1
    if "threadIdx.x" not in fetch.threads:
        raise UserError("a copy is to be shared by threads, but none have been bound before")
    # Outermost first; the steps that follow go from the inside out.
    axes = [axis for axis in ("threadIdx.y", "threadIdx.x") if axis in fetch.threads]
    lanes = [elements] if elements > 1 else []
    _, *parts = sch.split(loop, [None, *(fetch.threads[axis] for axis in axes), *lanes])
    if lanes:
        sch.vectorize(parts.pop())
    for axis, part in reversed(list(zip(axes, parts, strict=True))):
        sch.bind(part, axis)


def _has_large_values(block: Block) -> bool:
    """Whether a value in a block has more than four bytes."""
    return any(
        part.dtype.bits > _LARGEST
        for stmt in pre_order(block.body)
        for expr in stmt_exprs(stmt)
        for part in post_order(expr)
    )
