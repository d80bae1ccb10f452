"""What the tactics of a group share: looking at its blocks, and their loops over rows and depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..expr import REDUCE, Cast, Mul
from ..schedule.analysis.blocks import is_output, leaf_store
from ..schedule.analysis.cover import check_stage_pipeline
from ..schedule.library._common import fused
from ..schedule.rv import BlockRV, LoopRV
from ..schedule.schedule import Schedule
from ..tir import Block, BufferLoad
from .domain import Domain, GroupRefused, blocks_by_name


@contextmanager
def checked_once(sch: Schedule) -> Iterator[None]:
    """Check that the function is a stage pipeline, which inlining leaves as it is."""
    check_stage_pipeline(sch.state, sch.get_sref(sch.get_block("root")))
    before, sch.state.enable_check = sch.state.enable_check, False
    try:
        yield
    finally:
        sch.state.enable_check = before


def reduces(block: Block) -> bool:
    """Whether a block reduces."""
    return any(axis.iter_type == REDUCE for axis in block.iter_vars)


def factors(block: Block) -> Iterator[BufferLoad]:
    """The elements that are multiplied in what a block adds up, if it does."""
    store = leaf_store(block)
    stack = [(store.value, False)] if store is not None else []
    while stack:
        node, inside = stack.pop()
        if isinstance(node, BufferLoad):
            if inside and store is not None and node.buffer is not store.buffer:
                yield node
        elif isinstance(node, Mul):
            stack += [(node.a, True), (node.b, True)]
        else:
            stack += [(child, inside and isinstance(node, Cast)) for child in node.children]


def writes_output(sch: Schedule, rv: BlockRV | Block) -> bool:
    """Whether a block writes a parameter of the function."""
    return is_output(sch.state, sch.get_sref(rv))


def rows_and_depth(
    sch: Schedule, rv: BlockRV, name: str, domain: Domain
) -> tuple[LoopRV, LoopRV | None]:
    """One loop over the rows and one over the reduction axes (None where there are none)."""
    loops = sch.get_loops(rv)
    axes = domain.axes[name]
    if len(loops) != len(axes):
        raise GroupRefused(f"block {name!r} has {len(loops)} loops for {len(axes)} axes")
    by_axis = {axis: loop for axis, loop in zip(axes, loops, strict=True) if axis is not None}
    if any(axis not in by_axis for axis in domain.spatial):
        raise GroupRefused(f"block {name!r} does not run over all rows of the group")
    units = [loop for axis, loop in zip(axes, loops, strict=True) if axis is None]
    rows = [by_axis[axis] for axis in domain.spatial]
    depth = [by_axis[axis] for axis in domain.reduced if axis in by_axis]
    if depth and len(depth) < len(domain.reduced):
        raise GroupRefused(f"block {name!r} runs over some of the reduction axes only")
    if not rows:
        rows = [sch.add_unit_loop(loops[0] if loops else rv)]
    order = [*rows, *units, *depth]
    if [sch.get(loop) for loop in order] != [sch.get(loop) for loop in sch.get_loops(rv)]:
        sch.reorder(*order)
    return fused(sch, rows), fused(sch, depth) if depth else None


__all__ = [
    "blocks_by_name", "checked_once", "fused", "reduces", "rows_and_depth", "writes_output",
]  # fmt: skip
