"""RewriteParallelVectorizeUnroll: the outer loops run on all cores, the inner ones in vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    SPATIAL,
    Add,
    Analyzer,
    Expr,
    IntImm,
    Mul,
    Var,
    post_order,
    substitute,
)
from ...schedule.analysis.tree import child_realizes, loops_above
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...tir import THREAD_BINDING, Block, BufferRegion, For, SeqStmt
from ..annotations import (
    PARALLEL,
    UNROLL_EXPLICIT,
    UNROLL_HERE,
    UNROLL_IMPLICIT,
    UNROLL_MAX_STEP,
    VECTORIZE,
)
from ..context import TuneContext
from ..rules.analysis import is_spatial
from ._common import accepted

_KEYS = (PARALLEL, VECTORIZE, UNROLL_EXPLICIT, UNROLL_IMPLICIT)
_LINEAR = (Add, Mul, Var, IntImm)
Strides = Mapping[Var, int]


@dataclass(frozen=True, slots=True)
class RewriteParallelVectorizeUnroll:
    """Carry out what a root block asks of the nests in it, each by itself.

    * "meta_schedule.parallel" (a number of iterations): outer data-parallel loops are fused until
      there are more iterations than that, and run in parallel.
    * "meta_schedule.vectorize" (a number of lanes): inner data-parallel loops with no more
      iterations than that are fused and run in vectors, as far as they go along adjoining elements.
      A nest of which all loops may be both becomes one loop, split by that number.
    * "meta_schedule.unroll_explicit" and "..._implicit" (a number of steps): the outermost loop of
      a nest that reduces gets the pragmas for unrolling.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((64, 256), name="A")
    >>> B = te.compute((64, 256), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.annotate("root", "meta_schedule.parallel", 160)
    >>> sch.annotate("root", "meta_schedule.vectorize", 64)
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> RewriteParallelVectorizeUnroll().apply(sch, context)
    True
    >>> [(loop.extent, loop.kind) for loop in map(sch.get, sch.get_loops("B"))]
    [(256, 'parallel'), (64, 'vectorized')]
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        return accepted(_rewrite, sch)


def _rewrite(sch: Schedule) -> None:
    for name in sch.mod.functions:
        root = sch.state.root(name).block
        limits = {key: int(root.annotations[key]) for key in _KEYS if key in root.annotations}
        if not limits:
            continue
        block = sch.get_block(root.name_hint, name)
        for key in limits:
            sch.unannotate(block, key)
        for child in sch.get_child_blocks(block):
            _rewrite_nest(sch, child, limits)


def _rewrite_nest(sch: Schedule, block: BlockRV, limits: Mapping[str, int]) -> None:
    loops = sch.get_loops(block)
    if not loops:
        return
    outer, inner = _Nest(sch.state, sch.get_sref(block)).counts(limits)
    if outer == inner == len(loops):
        parallel, lanes = sch.split(sch.fuse(*loops), [None, limits[VECTORIZE]])
        sch.parallel(parallel)
        sch.vectorize(lanes)
        loops[0] = parallel
    else:
        if outer:
            parallel = sch.fuse(*loops[:outer])
            sch.parallel(parallel)
            loops[0] = parallel
        if inner:
            lanes = sch.fuse(*loops[len(loops) - inner :])
            sch.vectorize(lanes)
            loops[len(loops) - inner :] = [lanes]
    _unroll(sch, sch.get(block), loops[0], limits)


def _unroll(sch: Schedule, block: Block, loop: LoopRV, limits: Mapping[str, int]) -> None:
    steps = limits.get(UNROLL_EXPLICIT, limits.get(UNROLL_IMPLICIT, 0))
    if steps > 0 and not is_spatial(block):
        sch.annotate(loop, UNROLL_MAX_STEP, steps)
        sch.annotate(loop, UNROLL_HERE, int(UNROLL_EXPLICIT in limits))


class _Nest:
    """The loops around a block, and what may become of them."""

    def __init__(self, state: ScheduleState, block: StmtSRef) -> None:
        self.loops = [sref.loop for sref in loops_above(block)]
        self.extents = [loop.static_extent for loop in self.loops]
        self.free = _rewritable(state, self.loops)
        self.realize = state.realize(block)

    def counts(self, limits: Mapping[str, int]) -> tuple[int, int]:
        """How many outer loops become one that runs in parallel, and how many inner ones lanes."""
        count, contiguous = len(self.loops), 0
        outer = self._parallel(limits[PARALLEL]) if PARALLEL in limits else None
        inner = None
        if VECTORIZE in limits:
            contiguous = self._contiguous()
            inner = self._vectorized(limits[VECTORIZE], contiguous)
        if outer is not None and inner is not None:
            if contiguous == count and all(self.free) and not any(map(_branches, self.loops)):
                return count, count
            outer = min(outer, count - inner)
        return outer or 0, inner or 0

    def _parallel(self, limit: int) -> int | None:
        """The outer loops to run in parallel; None if they have but one iteration."""
        number, iterations = 0, 1
        for loop, extent, free in zip(self.loops, self.extents, self.free, strict=True):
            if not free or extent is None:
                break
            number += 1
            iterations *= extent
            if iterations > limit or _branches(loop):
                break
        return None if iterations == 1 else number

    def _vectorized(self, limit: int, most: int) -> int | None:
        """The inner loops to run in vectors; None if they have but one iteration."""
        number, iterations = 0, 1
        for i in reversed(range(len(self.loops))):
            extent = self.extents[i]
            if number == most or not self.free[i] or extent is None or _branches(self.loops[i]):
                break
            iterations *= extent
            if iterations > limit:
                break
            number += 1
        return None if iterations == 1 else number

    def _contiguous(self) -> int:
        """How many inner loops go along adjoining elements in all accesses of the block."""
        block = self.realize.block
        values = {var: _strides(value) for var, value in self.realize.bindings.items()}
        return min(
            (self._contiguous_in(access, values) for access in (*block.reads, *block.writes)),
            default=len(self.loops) + 1,
        )

    def _contiguous_in(self, access: BufferRegion, values: Mapping[Var, Strides]) -> int:
        strides = self._access_strides(access, values)
        expected: int | None = None  # the stride of the next loop that moves the access
        for i, loop in enumerate(reversed(self.loops)):
            stride = strides.get(loop.loop_var, 0)
            if not stride:
                continue
            fits = stride == 1 or i == 0 if expected is None else stride == expected
            if not fits:
                return i
            expected = stride * (loop.static_extent or 0)
        return len(self.loops)

    def _access_strides(self, access: BufferRegion, values: Mapping[Var, Strides]) -> Strides:
        """How many elements further each loop moves an access, by the last index that it moves."""
        found: dict[Var, int] = {}
        row = 1
        shape = access.buffer.static_shape or (1,) * access.buffer.ndim
        for part, size in reversed(list(zip(access.region, shape, strict=True))):
            for var, stride in self._index_strides(part.min, values).items():
                found.setdefault(var, stride * row)
            row *= size
        return found

    def _index_strides(self, index: Expr, values: Mapping[Var, Strides]) -> Strides:
        if not all(isinstance(part, _LINEAR) for part in post_order(index)):
            return _strides(Analyzer().simplify(substitute(index, self.realize.bindings)))
        found: dict[Var, int] = {}
        for axis, factor in _strides(index).items():
            for var, stride in values.get(axis, {}).items():
                found[var] = min(found.get(var, stride * factor), stride * factor)
        return found


def _branches(loop: For) -> bool:
    """Whether a loop holds several statements."""
    return isinstance(loop.body, SeqStmt)


def _rewritable(state: ScheduleState, loops: Sequence[For]) -> list[bool]:
    """Which loops are data-parallel for all blocks in them, and neither bound nor annotated."""
    realizes = child_realizes(state, loops[0])
    others = {var for realize in realizes for var in realize.loops_of(SPATIAL, others=True)}
    return [
        loop.loop_var not in others and loop.kind != THREAD_BINDING and not loop.annotations
        for loop in loops
    ]


def _strides(expr: Expr) -> Strides:
    """By how much an expression grows with each variable, as far as it is plain to see.

    Variables under divisions and the like are left out: lanes are chosen as if they stood still.

    >>> x, y = Var("x"), Var("y")
    >>> _strides((x * 2 + 1) * 3 + y // 4)
    {x: 6}
    """
    match expr:
        case Var():
            return {expr: 1}
        case Mul(a=IntImm() as factor, b=of) | Mul(a=of, b=IntImm() as factor):
            return {var: stride * factor.value for var, stride in _strides(of).items()}
        case Add():
            first, second = _strides(expr.a), _strides(expr.b)
            return {
                var: min(part[var] for part in (first, second) if var in part)
                for var in {**first, **second}
            }
    return {}
