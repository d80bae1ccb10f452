"""`get_auto_tensorize_mapping_info`: the axes of a block brought to those of an intrinsic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..... import schedule
from .....expr import Expr, FloatImm, IndexMap, IntImm, IterVar, Var, free_vars
from .....tir import BlockRealize, Buffer, BufferLoad, BufferStore, PrimFunc, pre_order


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """How the axes of a block could become those of an intrinsic's description.

    Attributes:
        mappings: the maps for `transform_block_layout`: axes of neither come first, then one for
            each of the description, fused from those that take its part.
        lhs_buffer_map: from buffers of the block to buffers of the description.
        rhs_buffer_indices: from buffers of the description to its indices of them.
        lhs_iters: the axes of the block.
        rhs_iters: the axes of the description.
    """

    mappings: Sequence[IndexMap]
    lhs_buffer_map: Mapping[Buffer, Buffer]
    rhs_buffer_indices: Mapping[Buffer, Sequence[Expr]]
    lhs_iters: Sequence[IterVar]
    rhs_iters: Sequence[IterVar]


def get_auto_tensorize_mapping_info(
    sch: schedule.Schedule, block: Any, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How a block's axes could be fused into those of a description; None if it is another sum.

    Two axes take the same part where they are of one kind and index the same buffers. That the
    block can be tensorized then is not promised: its domains may not be divisible.
    """
    sref = sch.get_sref(sch.get_block(block) if isinstance(block, str) else block)
    wanted = [n for n in pre_order(desc_func.body) if isinstance(n, BlockRealize) and n.iter_values]
    if not wanted:
        return None
    ours, theirs = sref.block, wanted[-1].block
    here, there = ours.body, theirs.body
    if not isinstance(here, BufferStore) or not isinstance(there, BufferStore):
        return None
    pairs = _Pairs()
    if not pairs.access(here, there) or not pairs.same(here.value, there.value):
        return None
    parts = _parts(pairs, ours.iter_vars, theirs.iter_vars)
    if parts is None:
        return None
    mapping = IndexMap([axis.var for axis in ours.iter_vars], [_fused(part) for part in parts])
    buffers = {mine: other for other, mine in pairs.buffers.items()}
    return AutoTensorizeMappingInfo(
        (mapping,), buffers, pairs.theirs, ours.iter_vars, theirs.iter_vars
    )


class _Pairs:
    """The buffers of a block and of a description that stand for each other, access by access."""

    def __init__(self) -> None:
        self.buffers: dict[Buffer, Buffer] = {}  # from those of the description
        self.ours: dict[Buffer, Sequence[Expr]] = {}
        self.theirs: dict[Buffer, Sequence[Expr]] = {}

    def access(self, here: BufferLoad | BufferStore, there: BufferLoad | BufferStore) -> bool:
        """Pair the buffers of two accesses; false where one has another partner already."""
        known = self.buffers.get(there.buffer)
        if known is None:
            if here.buffer in self.ours or here.buffer.dtype is not there.buffer.dtype:
                return False
            self.buffers[there.buffer] = here.buffer
            self.ours[here.buffer], self.theirs[there.buffer] = here.indices, there.indices
            return True
        places = zip(
            (*self.ours[known], *self.theirs[there.buffer]), (*here.indices, *there.indices)
        )
        return known is here.buffer and all(a is b for a, b in places)

    def same(self, here: Expr, there: Expr) -> bool:
        """Whether two values are the same computation, whatever the indices."""
        if type(here) is not type(there) or here.dtype is not there.dtype:
            return False
        match here, there:
            case BufferLoad(), BufferLoad():
                return self.access(here, there)
            case (IntImm(), _) | (FloatImm(), _):
                return here is there
            case Var(), _:
                return False  # an axis, or a number that only the block knows
        if getattr(here, "op", None) != getattr(there, "op", None):
            return False
        mine, its = here.children, there.children
        return len(mine) == len(its) and all(map(self.same, mine, its))

    def users(self, axis: IterVar, accesses: Mapping[Buffer, Sequence[Expr]]) -> frozenset[Buffer]:
        """Which buffers an axis indexes."""
        return frozenset(
            buffer
            for buffer, indices in accesses.items()
            if any(axis.var in free_vars(index) for index in indices)
        )


def _parts(
    pairs: _Pairs, ours: Sequence[IterVar], theirs: Sequence[IterVar]
) -> list[list[IterVar]] | None:
    """The block's axes by the axis that they make; None where one is made of none."""
    parts: dict[tuple[int, frozenset[Buffer]], list[IterVar]] = {}
    for axis in theirs:
        users = frozenset(pairs.buffers[b] for b in pairs.users(axis, pairs.theirs))
        parts[axis.iter_type, users] = []
    if len(parts) != len(theirs):
        return None  # two that cannot be told apart
    rest: list[list[IterVar]] = []
    for axis in ours:
        part = parts.get((axis.iter_type, pairs.users(axis, pairs.ours)))
        if part is None:
            rest.append([axis])
        else:
            part.append(axis)
    return [*rest, *parts.values()] if all(parts.values()) else None


def _fused(part: Sequence[IterVar]) -> Expr:
    """One index over several axes, the last running fastest."""
    terms: list[Expr] = []
    step: Expr | None = None
    for axis in reversed(part):
        terms.append(axis.var if step is None else axis.var * step)
        if axis.dom is not None:
            step = axis.dom.extent if step is None else step * axis.dom.extent
    return reduce(lambda total, term: total + term, reversed(terms))


__all__ = ["AutoTensorizeMappingInfo", "get_auto_tensorize_mapping_info"]
