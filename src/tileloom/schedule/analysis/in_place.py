"""Blocks that update buffers in place: each instance its own element."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...expr import SPATIAL, Expr, IntImm, Var
from ...expr.itermap import detect_iter_map
from ...tir import Block, Buffer, buffer_accesses, pre_order


def updated_in_place(block: Block) -> set[Buffer]:
    """The buffers of which each instance of a block accesses one element that no other one does.

    Instances may run in any order then, though the block both reads and writes them.
    """
    if any(axis.iter_type != SPATIAL for axis in block.iter_vars):
        return set()
    live = {
        axis.var
        for axis in block.iter_vars
        if not (isinstance(axis.domain.extent, IntImm) and axis.domain.extent.value == 1)
    }
    places: dict[Buffer, set[tuple[Expr, ...]]] = {}
    if any(isinstance(stmt, Block) for stmt in pre_order(block.body)):
        return _declared_as_own(block, live)
    for buffer, indices in buffer_accesses(block.body):
        places.setdefault(buffer, set()).add(tuple(indices))
    return {
        buffer
        for buffer, found in places.items()
        if len(found) == 1 and _is_own(next(iter(found)), live, block)
    }


def _declared_as_own(block: Block, live: Set[Var]) -> set[Buffer]:
    """The buffers of which a block that holds others declares one element, its own."""
    places: dict[Buffer, set[tuple[Expr, ...]]] = {}
    for region in (*block.reads, *block.writes):
        single = all(
            isinstance(part.extent, IntImm) and part.extent.value == 1 for part in region.region
        )
        place = tuple(part.min for part in region.region) if single else ()
        places.setdefault(region.buffer, set()).add(place)
    return {
        buffer
        for buffer, found in places.items()
        if len(found) == 1 and _is_own(next(iter(found)), live, block)
    }


def _is_own(indices: Sequence[Expr], live: Set[Var], block: Block) -> bool:
    """Whether no two instances have the same indices."""
    if live <= {index for index in indices if isinstance(index, Var)}:
        return True
    domains = {axis.var: axis.domain for axis in block.iter_vars}
    return bool(detect_iter_map(indices, domains, check_level="bijective"))
