"""Elementwise blocks with operands broadcast along the innermost axes: a scale for each channel.

Flat positions would ask for the operand's index again and again. So what it is constant along
becomes a row, which threads walk along; they read the operand, and compute what depends on it
alone, once. (CINN calls it TileBroadcast.)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...expr import IntImm, Var
from ...expr.extents import is_number, usual
from ...schedule.schedule import Schedule
from ..domain import Domain, GroupAxis, accesses
from ..loops import reduces
from .choose import vector_of
from .fusion_groups import TiledGroup
from .tile import Tile, next_power, trim
from .transposed import transposed_reads

#: Threads of a block, vectors that each reads, and positions below which it does not pay.
THREADS, EACH, LEAST = 256, 4, 1 << 16


def along_broadcasts(sch: Schedule, fusion: TiledGroup) -> Domain | None:
    """The domain with rows along which some operands are constant; None if that does not pay."""
    domain = fusion.domain
    if domain.reduced or len(domain.spatial) < 2 or usual(domain.rows) < LEAST:
        return None
    blocks = fusion.blocks(sch).values()
    if any(reduces(block) or transposed_reads(block, domain) for block in blocks):
        return None
    most = len(domain.spatial)
    count = min((n for n in _constant_along(sch, fusion) if 0 < n < most), default=0)
    low = prod(axis.extent for axis in domain.spatial[most - count :])
    if count == 0 or not is_number(low) or (low % 32 and low < 4 * THREADS):
        return None
    new = {axis: replace(axis, reduced=k >= most - count) for k, axis in enumerate(domain.spatial)}
    rows = [axis for axis in new.values() if not axis.reduced]
    return Domain(
        rows,
        [axis for axis in new.values() if axis.reduced],
        {n: [None if a is None else new[a] for a in axes] for n, axes in domain.axes.items()},
    )


def _constant_along(sch: Schedule, fusion: TiledGroup) -> list[int]:
    """Of each operand, along how many of the innermost axes it is constant."""
    found = []
    for name, block in fusion.blocks(sch).items():
        by_var: dict[Var, GroupAxis | None] = dict(
            zip((i.var for i in block.iter_vars), fusion.domain.axes[name], strict=True)
        )
        for _, indices in accesses(block):
            if all(isinstance(i, (Var, IntImm)) for i in indices):
                used = {by_var.get(i) for i in indices if isinstance(i, Var)}
                inner = 0
                for axis in reversed(fusion.domain.spatial):
                    if axis in used:
                        break
                    inner += 1
                found.append(inner)
    return found


def broadcast_tile(domain: Domain, bits: int) -> Tile:
    """Threads along a row; several rows in a block, or several blocks for a row."""
    length, inner = domain.reduced[-1].extent, domain.depth
    vector = vector_of(length, min(inner, 16), bits)
    vectors = -(-domain.depth // vector)
    threads = min(THREADS, next_power(vectors))
    most = THREADS // threads
    together = trim(domain.rows, 1, most) if is_number(domain.rows) else most
    each = min(EACH, -(-vectors // threads))
    parts = -(-vectors // (threads * each))
    return Tile(together, 1, threads, each * vector, "none", vector, parts)
