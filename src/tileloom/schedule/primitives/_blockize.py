"""Turning the loops around a block into a block of their own: what blockize and tensorize share.

Every value of the block is divided into `outer * extent + inner`, where the outer part uses only
loops that stay outside. The new block runs over the outer parts, the old one over the inner parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...base.dtype import DType
from ...expr import (
    SPATIAL,
    Analyzer,
    And,
    Division,
    Expr,
    IntImm,
    IterVar,
    Range,
    Var,
    binary,
    const,
    free_vars,
    free_vars_of,
    has_load,
    is_index,
    subspace_divide,
    substitute,
)
from ...tir import (
    Block,
    BlockRealize,
    BufferRegion,
    For,
    Stmt,
    StmtRewriter,
    substitute_stmt,
    undefined_vars,
    under_loops,
)
from ...tir.analysis_intervals import Intervals
from ..analysis.blocks import loaded_points
from ..analysis.order import repetition_fault
from ..analysis.reductions import check_statements
from ..analysis.scope import accessed_buffers
from ..analysis.tree import child_blocks, is_one, is_zero, loops_in_sight, only_child_chain
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState

_TRUE = const(True)


@dataclass(frozen=True)
class BlockAxes:
    """Iteration variables, the values that they are run for, and what these reach."""

    variables: tuple[IterVar, ...]
    values: tuple[Expr, ...]
    reached: tuple[Range, ...]

    def running(self) -> list[IterVar]:
        """The variables over just the values that they are run for."""
        pairs = zip(self.variables, self.reached, strict=True)
        return [IterVar(reached, axis.var, axis.iter_type) for axis, reached in pairs]


@dataclass(frozen=True)
class Divided:
    """The values of a block in two parts, and its condition in two."""

    parts: tuple[Division, ...]
    outer_predicate: Expr
    inner_predicate: Expr


# ---------------------------------------------------------------------------- dividing


def divide(
    realize: BlockRealize,
    outside: Sequence[For],
    inside: Sequence[For],
    preserve_unit_iters: bool,
    at: Sequence[StmtSRef],
) -> Divided:
    """Divide the values of a block by which loops they use; refuses where it is not possible."""
    direct = {loop.loop_var: loop for loop in outside}
    used = [direct[var] for var in undefined_vars(realize.block.body) if var in direct]
    if used:
        raise refuse(
            f"{name_of(realize.block)} uses {name_of(used[0])} directly, which a new block between "
            "them would hide",
            at=[*at, used[0]],
            hint="blockize what is inside of it",
        )
    loops = [*outside, *inside]
    domains = {loop.loop_var: loop.domain for loop in loops}
    inner = [loop.loop_var for loop in inside]
    found = subspace_divide(realize.iter_values, domains, inner, realize.predicate)
    if found:
        parts = found.divisions
        if preserve_unit_iters:
            pairs = zip(realize.iter_values, parts, strict=True)
            parts = tuple(_with_units(v, part, domains, frozenset(inner)) for v, part in pairs)
        return Divided(parts, found.outer_predicate, found.inner_predicate)
    simple = _one_sided(realize, frozenset(inner), frozenset(domains))
    if simple is None:
        raise refuse(
            f"the values of {name_of(realize.block)} cannot be divided into a part of the loops "
            "outside and a part of the loops inside"
            f": {found.errors[0]}",
            at=at,
            hint="split the loops so that the inner extents divide the outer ones",
            fast="The bindings of the inner block can not be blockized",
        )
    return Divided(simple, _TRUE, _TRUE)


def _one_sided(
    realize: BlockRealize, inner: frozenset[Var], loops: frozenset[Var]
) -> tuple[Division, ...] | None:
    """Values that are no affine maps, but use either outer or inner loops alone."""
    if not is_one(realize.predicate):
        return None
    parts = []
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        used, extent = free_vars(value) & loops, axis.domain.extent
        zero, one = const(0, value.dtype), const(1, value.dtype)
        if used.isdisjoint(inner):
            size = one if is_zero(value) and is_zero(axis.domain.min) else extent
            parts.append(Division(value, size, zero, one, axis.domain.min))
        elif used <= inner:
            parts.append(Division(zero, one, value, extent, None, axis.domain.min))
        else:
            return None
    return tuple(parts)


def _with_units(
    value: Expr, part: Division, domains: Mapping[Var, Range], inner: frozenset[Var]
) -> Division:
    """The division with loops of extent one, which add nothing, left in."""
    units = {v for v in free_vars(value) if v in domains and is_one(domains[v].extent)}
    if units <= free_vars(part.outer) | free_vars(part.inner):
        return part
    plain, known = Analyzer(), Analyzer(domains)
    starts: dict[Var, Expr] = {v: domains[v].min for v in inner if v in domains}
    outer = plain.simplify(substitute(value, starts) // part.inner_extent)
    if not known.can_prove_equal(outer, part.outer):
        return part
    if is_one(part.inner_extent):
        return replace(part, outer=outer)
    rest = plain.simplify(value - outer * part.inner_extent)
    is_inner = free_vars(rest) & domains.keys() <= inner
    if not is_inner or not known.can_prove_equal(rest, part.inner):
        rest = part.inner
    return replace(part, outer=outer, inner=rest)


# ---------------------------------------------------------------------------- variables


def _domain(own: Range, scale: Expr, value: Expr, reached: Range, kind: DType) -> Range:
    """What a part of an iteration variable runs over.

    It starts where the part of the whole domain starts, even if the loops start later: a reduction
    is initialised at the start of the domain only. Where what is outside decides on the start, it
    has the whole domain.
    """
    extent = reached.extent
    if is_zero(value) and (is_zero(own.min) or is_one(extent)):
        return Range(const(0, kind), extent.astype(kind))
    plain = Analyzer()
    start = plain.simplify(own.min // scale)
    late = plain.simplify(reached.min - start)
    if isinstance(late, IntImm):
        extent = plain.simplify(extent + max(late.value, 0))
    elif free_vars(late):
        extent = plain.simplify((own.min + own.extent - 1) // scale - start + 1)
    return Range(start.astype(kind), extent.astype(kind))


def _start(value: Expr | None, kind: DType) -> Expr:
    return const(0, kind) if value is None else value.astype(kind)


class LoopBinder:
    """Makes the outer and inner iteration variables for divided values.

    Blocks that go into one outer block share outer variables with equal values.
    """

    def __init__(self, loops: Sequence[For]) -> None:
        self.known = Analyzer({loop.loop_var: loop.domain for loop in loops})
        self.outer: list[IterVar] = []
        self.values: list[Expr] = []

    def bind(
        self, block: Block, parts: Sequence[Division], preserve_unit_iters: bool
    ) -> tuple[BlockAxes, dict[Var, Expr]]:
        """The inner variables, and what each old variable becomes."""
        shared = len(self.outer)
        inner: list[tuple[IterVar, Expr, Range]] = []
        renamed: dict[Var, Expr] = {}
        for i, (axis, part) in enumerate(zip(block.iter_vars, parts, strict=True)):
            kind, own = axis.var.dtype, axis.domain
            zero, one = const(0, kind), const(1, kind)
            reached = Range(_start(part.outer_start, kind), part.outer_extent)
            domain = _domain(own, part.inner_extent, part.outer, reached, kind)
            outer = self._outer(i, shared, axis, part.outer, domain).var
            size = part.inner_extent.astype(kind)
            if is_one(size):
                gone = is_one(domain.extent) and not preserve_unit_iters
                renamed[axis.var] = domain.min if gone else outer
                continue
            alone = is_one(part.outer_extent)
            reached = Range(_start(part.inner_start, kind), size)
            whole = own if alone else Range(zero, size)
            span = _domain(whole, one, part.inner, reached, kind)
            var = Var(f"{axis.var.name}_i", kind)
            inner.append((IterVar(span, var, axis.iter_type), part.inner, reached))
            renamed[axis.var] = var if alone else outer * size + var
        axes, values, ranges = zip(*inner, strict=True) if inner else ((), (), ())
        return BlockAxes(axes, values, ranges), renamed

    def _outer(self, i: int, shared: int, axis: IterVar, value: Expr, domain: Range) -> IterVar:
        for k in sorted(range(shared), key=lambda k: k != i):
            other = self.outer[k]
            if (
                other.iter_type == axis.iter_type
                and other.var.dtype is axis.var.dtype
                and self.known.can_prove_equal(self.values[k], value)
                and other.domain.min is domain.min
                and self.known.can_prove_equal(other.domain.extent, domain.extent)
            ):
                return other
        made = IterVar(domain, Var(f"{axis.var.name}_o", axis.var.dtype), axis.iter_type)
        self.outer.append(made)
        self.values.append(value)
        return made


class Renamed(StmtRewriter):
    """Values in place of iteration variables; indices are simplified, what is computed is not.

    Attributes:
        block_map: the blocks inside that had to change, for `ScheduleState.replace`.
    """

    def __init__(self, values: Mapping[Var, Expr], domains: Mapping[Var, Range]) -> None:
        self.values = values
        self.known = Analyzer(domains)
        self.block_map: dict[Block, Block] = {}

    def visit_expr(self, expr: Expr) -> Expr:
        if free_vars(expr).isdisjoint(self.values):
            return expr
        plain = is_index(expr.dtype.element) or expr.dtype.is_bool
        if plain and not has_load(expr):
            return self.known.simplify(substitute(expr, self.values))
        return expr.with_children([self.visit_expr(child) for child in expr.children])

    def visit_Block(self, stmt: Block) -> Block:
        new = super().visit_Block(stmt)
        if new is not stmt:
            self.block_map[stmt] = new
        return new


# ---------------------------------------------------------------------------- building


def loop_axes(loops: Sequence[For]) -> list[IterVar]:
    """Loops as variables, for regions of blocks that use them directly."""
    return [IterVar(loop.domain, loop.loop_var, SPATIAL) for loop in loops]


def relaxed(regions: Sequence[BufferRegion], inner: Sequence[IterVar]) -> tuple[BufferRegion, ...]:
    """The regions that are touched while the inner variables run."""
    intervals = Intervals()
    for axis in inner:
        intervals.run(axis.var, axis.domain)
    running = {axis.var for axis in inner}
    return tuple(
        BufferRegion(
            region.buffer,
            tuple(
                _relaxed_part(part, size, intervals, running)
                for part, size in zip(region.region, region.buffer.shape, strict=True)
            ),
        )
        for region in regions
    )


def _relaxed_part(part: Range, size: Expr, intervals: Intervals, running: set[Var]) -> Range:
    if (free_vars(part.min) | free_vars(part.extent)).isdisjoint(running):
        return part
    low = intervals.of(part.min).min_value
    high = intervals.of(part.min + part.extent - 1).max_value
    if low is None or high is None:
        return Range.from_extent(size)
    return Range(low, intervals.outside.simplify(high - low + 1))


def inner_block(block: Block, axes: BlockAxes) -> Block:
    """The block over its inner variables; what starts it has moved out, so it reads its result."""
    reads = block.reads if block.init is None else (*block.writes, *block.reads)
    return block.replace(iter_vars=axes.variables, init=None, reads=reads)


def outer_init(init: Stmt, inner: BlockRealize, loops: Sequence[For], name: str) -> Stmt:
    """A block that starts the results of the inner block, under copies of the loops it needs."""
    used = undefined_vars(init)
    renamed: dict[Var, Expr] = {}
    axes, values = [], []
    for axis, value in zip(inner.block.iter_vars, inner.iter_values, strict=True):
        if axis.iter_type == SPATIAL and axis.var in used:
            var = Var(f"{axis.var.name}_init", axis.var.dtype)
            renamed[axis.var] = var
            axes.append(IterVar(axis.dom, var, SPATIAL))
            values.append(value)
    needed = free_vars_of(values)
    kept = [loop for loop in loops if loop.loop_var in needed]
    gone = {loop.loop_var for loop in loops} - needed
    start = Block(tuple(axes), loaded_points(init), inner.block.writes, name, init)
    predicate = _without(inner.predicate, gone, needed, inner.block)
    stmt: Stmt = BlockRealize(tuple(values), predicate, start)
    for loop in reversed(kept):
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        renamed[loop.loop_var] = var
        stmt = loop.replace(loop_var=var, body=stmt)
    return substitute_stmt(stmt, renamed)


def _without(predicate: Expr, gone: set[Var], kept: frozenset[Var], block: Block) -> Expr:
    """The parts of a condition that do not speak of loops that only reduce."""
    if isinstance(predicate, And):
        parts = (_without(side, gone, kept, block) for side in (predicate.a, predicate.b))
        return binary(And, *parts)
    used = free_vars(predicate)
    if used.isdisjoint(gone):
        return predicate
    if used & kept:
        raise refuse(
            f"the condition {predicate} of {name_of(block)} ties its results to its reduction, "
            "so it cannot say where results are started",
            at=[block],
            hint="decompose_reduction first",
        )
    return _TRUE


# ---------------------------------------------------------------------------- one loop


def only_block_of(state: ScheduleState, loop: StmtSRef) -> StmtSRef:
    """The one block that a loop holds, with nothing but loops between."""
    blocks = child_blocks(state, loop)
    if len(blocks) != 1:
        raise refuse(
            f"{name_of(loop)} holds {len(blocks)} blocks; blockize needs exactly one",
            at=[loop, *blocks],
            hint="list the blocks instead: blockize([first, second])",
            fast="The loop has more than one child block",
        )
    if not only_child_chain(loop, blocks[0]):
        raise refuse(
            f"there are statements other than loops between {name_of(loop)} and "
            f"{name_of(blocks[0])}",
            at=[loop, blocks[0]],
        )
    return blocks[0]


def blockized(
    state: ScheduleState, loop: StmtSRef, preserve_unit_iters: bool
) -> tuple[BlockRealize, dict[Block, Block]]:
    """What runs the new block in place of a loop, and which blocks stand for which old ones."""
    block_sref = only_block_of(state, loop)
    realize = state.realize(block_sref)
    block = realize.block
    loops = [sref.loop for sref in loops_in_sight(block_sref)]
    cut = loops.index(loop.loop)
    outside, inside = loops[:cut], loops[cut:]
    if block.init is not None:
        check_statements(state, block_sref)
        _check_no_repetition(realize, outside, inside, [loop, block_sref])
    divided = divide(realize, outside, inside, preserve_unit_iters, [loop, block_sref])
    binder = LoopBinder(loops)
    axes, values = binder.bind(block, divided.parts, preserve_unit_iters)
    renamed = Renamed(values, {axis.var: axis.domain for axis in axes.variables})
    changed = renamed.visit_Block(block)
    inner = BlockRealize(axes.values, divided.inner_predicate, inner_block(changed, axes))
    inside = bounds_inside(inside, outside, binder, loop)
    init = None
    if changed.init is not None:
        init = outer_init(changed.init, inner, inside, f"{block.name_hint}_init")
    outer = Block(
        tuple(binder.outer),
        relaxed(changed.reads, [*axes.running(), *loop_axes(inside)]),
        relaxed(changed.writes, [*axes.running(), *loop_axes(inside)]),
        f"{block.name_hint}_o",
        under_loops(inside, inner),
        init,
    )
    check_tells(state, [block_sref], outer)
    block_map = {**renamed.block_map, block: inner.block}
    return BlockRealize(tuple(binder.values), divided.outer_predicate, outer), block_map


def check_tells(state: ScheduleState, blocks: Sequence[StmtSRef], outer: Block) -> None:
    """Refuse blocks that do not declare what they touch, where the one around them would hide it.

    What declares nothing at all is looked into.
    """
    if not (outer.iter_vars or outer.reads or outer.writes):
        return
    for block in blocks:
        for side, regions in zip(
            accessed_buffers(state, block.block), (outer.reads, outer.writes), strict=True
        ):
            hidden = next((b for b in side if not any(r.buffer is b for r in regions)), None)
            if hidden is not None and hidden not in outer.alloc_buffers:
                raise refuse(
                    f"{name_of(block)} does not declare what it touches of {hidden.name!r}, and "
                    "the block around it would hide that",
                    at=[block],
                    hint="blockize before loop_partition",
                )


def _check_no_repetition(
    realize: BlockRealize, outside: Sequence[For], inside: Sequence[For], at: Sequence[StmtSRef]
) -> None:
    """A loop that only repeats the block would go on with the results of its last iteration."""
    fault = repetition_fault(realize, outside, inside)
    if fault is not None:
        raise refuse(
            f"{fault}: with its T.init() outside, each repetition would add to the last one",
            at=at,
            hint="blockize a loop inside of those that repeat it",
        )


def bounds_inside(
    inside: Sequence[For], outside: Sequence[For], binder: LoopBinder, at: StmtSRef
) -> list[For]:
    """The inner loops with bounds that use outer variables of the new block, not outer loops."""
    known = {
        value: axis.var
        for value, axis in zip(binder.values, binder.outer, strict=True)
        if isinstance(value, Var)
    }
    fixed = {loop.loop_var for loop in outside}
    result = []
    for loop in inside:
        used = (free_vars(loop.min) | free_vars(loop.extent)) & fixed
        if used - known.keys():
            raise refuse(
                f"the bounds of {name_of(loop)} depend on the loop {min(v.name for v in used)!r} "
                "outside, which the new block has no variable for",
                at=[at],
            )
        if used:
            values = {var: known[var] for var in used}
            low, extent = substitute(loop.min, values), substitute(loop.extent, values)
            loop = loop.replace(min=low, extent=extent)
        result.append(loop)
    return result
