"""Which part of an intrinsic a block's axes and loops could take.

Two questions: `tensorize_loop_mapping` asks for loops of the block that run over whole tiles of the
intrinsic as they are; `auto_tensorize_mapping` for axes that could be fused into those of the
intrinsic. `same_computation` asks about the statement alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from ...expr import Expr, FloatImm, IndexMap, IntImm, IterVar, Var, free_vars, simplify
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    SeqStmt,
    pre_order,
)
from ..sref import StmtSRef
from ..state import ScheduleState
from .blocks import simplified_indices
from .tree import is_zero, loops_above

# ---------------------------------------------------------------------------- loops


@dataclass(frozen=True)
class TensorizeInfo:
    """How the loops of a block stand for those of an intrinsic's description.

    Attributes:
        loop_map: from references to loops of the block to loops of the description, those of the
            description's last iteration variable first.
        desc_loop_indexer: from loops of the description to their numbers, outermost first.
        block_iter_paddings: what the domain of each iteration variable must become a multiple of;
            None where nothing has to be padded.
    """

    loop_map: Mapping[StmtSRef, For]
    desc_loop_indexer: Mapping[For, int]
    block_iter_paddings: Sequence[int] | None = None


def tensorize_loop_mapping(
    state: ScheduleState, sref: StmtSRef, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that could run an intrinsic, found from the innermost variable outwards.

    Each variable of the description is taken for the last one of the block that is left and of its
    kind. None where there is none, where no loop runs over it alone, or where the extent of that
    is no multiple of the description's (unless it may be padded).
    """
    realize = state.realize(sref)
    axes = realize.block.iter_vars
    loops, desc = _loops_of(desc_func)
    found: dict[StmtSRef, For] = {}
    paddings = [1] * len(axes)
    left = list(range(len(axes)))
    wanted = zip(desc.block.iter_vars, desc.iter_values, strict=True)
    for axis, value in reversed(list(wanted)):
        run = next((loop for loop in loops if loop.loop_var is value), None)
        match = next((k for k in reversed(left) if axes[k].iter_type == axis.iter_type), None)
        outer = None if match is None else _loop_of(sref, realize, match)
        if run is None or match is None or outer is None:
            return None
        extent, size = outer.loop.static_extent, run.static_extent
        if extent is None or size is None or (extent % size and not allow_padding):
            return None
        left.remove(match)
        found[outer] = run
        if extent % size:
            paddings[match] = size
    indexer = {loop: k for k, loop in enumerate(loops)}
    return TensorizeInfo(found, indexer, paddings if any(p > 1 for p in paddings) else None)


def _loops_of(func: PrimFunc) -> tuple[list[For], BlockRealize]:
    """The loops of a description, and the block in them."""
    nodes = list(pre_order(func.body))
    realizes = [node for node in nodes if isinstance(node, BlockRealize) and node.iter_values]
    return [node for node in nodes if isinstance(node, For)], realizes[-1]


def _loop_of(block: StmtSRef, realize: BlockRealize, k: int) -> StmtSRef | None:
    """The loop whose steps are those of an iteration variable, wherever it starts."""
    value = realize.iter_values[k]
    own = _own_loops(block)
    inside = {loop.loop.loop_var for loop in own}
    used = [loop for loop in own if loop.loop.loop_var in free_vars(value)]
    if len(used) != 1 or not is_zero(used[0].loop.min):
        return None
    var = used[0].loop.loop_var
    users = [other for other in realize.iter_values if var in free_vars(other)]
    if len(users) > 1 or (value is not var and free_vars(simplify(value - var)) & inside):
        return None
    return used[0]


def _own_loops(block: StmtSRef) -> list[StmtSRef]:
    """The loops that hold nothing but a block, innermost first."""
    found = []
    for loop in reversed(loops_above(block)):
        if isinstance(loop.loop.body, SeqStmt):
            break
        found.append(loop)
    return found


# ---------------------------------------------------------------------------- axes


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


def auto_tensorize_mapping(block: Block, desc_func: PrimFunc) -> AutoTensorizeMappingInfo | None:
    """How a block's axes could be fused into those of a description; None if it is another sum.

    Two axes take the same part where they are of one kind and index the same buffers. That the
    block can be tensorized then is not promised: its domains may not be divisible.
    """
    found = _matched(block, desc_func)
    if found is None:
        return None
    pairs, desc = found
    pairs.ours = {b: simplified_indices(block, at) for b, at in pairs.ours.items()}
    parts = _parts(pairs, block.iter_vars, desc.iter_vars)
    if parts is None:
        return None
    mapping = IndexMap([axis.var for axis in block.iter_vars], [_fused(part) for part in parts])
    buffers = {mine: other for other, mine in pairs.buffers.items()}
    return AutoTensorizeMappingInfo(
        (mapping,), buffers, pairs.theirs, block.iter_vars, desc.iter_vars
    )


def same_computation(block: Block, desc_func: PrimFunc) -> bool:
    """Whether a block stores what a description does, whatever the indices and the loops."""
    return _matched(block, desc_func) is not None


def _matched(block: Block, desc_func: PrimFunc) -> tuple[_Pairs, Block] | None:
    """The accesses that stand for each other, and the description's block."""
    wanted = [n for n in pre_order(desc_func.body) if isinstance(n, BlockRealize) and n.iter_values]
    if not wanted:
        return None
    desc = wanted[-1].block
    here, there = block.body, desc.body
    if not isinstance(here, BufferStore) or not isinstance(there, BufferStore):
        return None
    pairs = _Pairs()
    if not pairs.access(here, there) or not pairs.same(here.value, there.value):
        return None
    return pairs, desc


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
