"""decompose_padding: filling with a constant, and copying what is inside, as two blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    SPATIAL,
    Analyzer,
    And,
    Call,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Range,
    Var,
    binary,
    const,
    detect_iter_map,
    free_vars,
    is_pure,
    substitute,
)
from ...tir import Block, BlockRealize, BufferRegion, BufferStore, For, Stmt, seq
from ..analysis.blocks import check_complete
from ..analysis.tree import is_ancestor, is_one, is_zero, loops_above, require_around
from ..errors import name_of, refuse
from ..instruction import BlockRef, LoopRef, primitive
from ..rewrite import under_copies
from ..sref import StmtSRef
from ..state import ScheduleState
from ._rebuild import paths_to, rebuilt

_TRUE = const(True)


@dataclass(frozen=True)
class Padding:
    """What a padding block does.

    Attributes:
        value: the constant outside.
        inside: what is stored inside, over the iteration variables.
        box: for each iteration variable, where inside is, over the loops.
        condition: what holds inside, over the loops.
    """

    value: Expr
    inside: Expr
    box: tuple[Range, ...]
    condition: Expr


def _checked(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> Padding:
    check_complete(state, block)
    require_around(loop, block)
    _chain(block, loop)
    realize = state.realize(block)
    loops = [sref.loop for sref in loops_above(block)]
    return _padding(realize, loops, block)


@primitive("DecomposePadding", check=_checked)
def decompose_padding(state: ScheduleState, block: BlockRef, loop: LoopRef) -> BlockRef:
    """Fill a buffer with the padding before a loop, so that the block copies what is inside only.

    Args:
        block: stores `T.if_then_else(condition, value, constant)`, the condition a box.
        loop: a loop around it; the new block `<name>_pad_const` goes before it.

    Returns:
        The new block.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((7,), name="A")
    >>> B = te.compute((8,), lambda i: te.if_then_else(i >= 1, A[i - 1], 0.0), name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> pad = sch.decompose_padding("B", sch.get_loops("B")[0])
    >>> print(sch.get(sch.get_block("B")).body)
    B[v_i + 1] = A[v_i]
    """
    padding = _checked(state, block, loop)
    realize = state.realize(block)
    inside = [sref.loop for sref in loops_above(block) if sref is loop or is_ancestor(loop, sref)]
    chain = _chain(block, loop)
    fill, filled = _fill(realize, padding, inside)
    copy, copied = _copy(realize, padding, chain)
    changed = rebuilt(loop.loop, paths_to([block]), {chain[0]: copy})
    state.replace(loop, seq(fill, changed), {block.block: copied})
    return state.sref(filled)


def _chain(block: StmtSRef, loop: StmtSRef) -> list[For]:
    """The loops around a block, from `loop` inwards, that hold nothing but the block."""
    found: list[For] = []
    held: Stmt = block.block
    for sref in block.ancestors():
        if not sref.is_loop:
            break
        body = sref.loop.body
        if (body.block if isinstance(body, BlockRealize) else body) is not held:
            break
        found.insert(0, sref.loop)
        held = sref.loop
        if sref is loop:
            break
    if not found:
        raise refuse(
            f"{name_of(block)} is not the only thing in the loop around it",
            at=[block],
            hint="use a loop that holds the block alone, or compute_at elsewhere first",
        )
    return found


# ---------------------------------------------------------------------------- the pattern


def _no_padding(block: StmtSRef, why: str) -> Exception:
    return refuse(
        f"{name_of(block)} does not fill up with a constant: {why}",
        at=[block],
        hint="the block stores T.if_then_else(condition, value, constant) and nothing else",
        fast="decompose_padding expect the block to match padding pattern",
    )


def _padding(realize: BlockRealize, loops: Sequence[For], at: StmtSRef) -> Padding:
    block = realize.block
    store = block.body
    if not isinstance(store, BufferStore) or store.predicate is not None or block.init is not None:
        raise _no_padding(at, "its body is more than one store")
    choice = store.value
    if not isinstance(choice, Call) or choice.op != "tir.if_then_else":
        raise _no_padding(at, "the value is no T.if_then_else")
    condition, inside, value = choice.args
    if not isinstance(value, (IntImm, FloatImm)):
        raise _no_padding(at, f"outside it stores {value}, which is no constant")
    if not is_pure(inside):
        raise _no_padding(at, f"what it stores inside has effects: {inside}")
    domains = {loop.loop_var: loop.domain for loop in loops}
    known = Analyzer(domains)
    whole = _TRUE
    for part in _conditions(
        binary(And, substitute(condition, realize.bindings), realize.predicate)
    ):
        part = known.simplify(part)
        if not is_one(part):
            whole = part if is_one(whole) else binary(And, whole, part)
    if is_one(whole):
        raise _no_padding(at, "the condition always holds")
    return Padding(value, inside, _box(realize, domains, whole, known, at), whole)


def _conditions(condition: Expr) -> list[Expr]:
    if isinstance(condition, And):
        return _conditions(condition.a) + _conditions(condition.b)
    if isinstance(condition, Call) and condition.op == "tir.likely":
        return _conditions(condition.args[0])
    return [condition]


def _box(
    realize: BlockRealize,
    domains: Mapping[Var, Range],
    condition: Expr,
    known: Analyzer,
    at: StmtSRef,
) -> tuple[Range, ...]:
    """Where the condition holds, for each iteration variable."""
    found = detect_iter_map(realize.iter_values, domains, condition, "surjective", known)
    if not found:
        raise _no_padding(at, f"the condition is no box: {found.errors[0]}")
    box = []
    for total in found.indices:
        if not total.args:
            box.append(Range(total.base, const(1, total.base.dtype)))
            continue
        if len(total.args) != 1 or not is_one(total.args[0].scale):
            raise _no_padding(at, f"{total} has strides")
        extent = known.simplify(total.args[0].extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            raise _no_padding(at, "nothing is inside")
        box.append(Range(total.base, extent))
    return tuple(box)


# ---------------------------------------------------------------------------- two blocks


def _fresh(axis: IterVar) -> Var:
    return Var(axis.var.name, axis.var.dtype)


def _region(region: BufferRegion, values: Mapping[Var, Expr], known: Analyzer) -> BufferRegion:
    parts = (
        Range(known.simplify(substitute(r.min, values)), substitute(r.extent, values))
        for r in region.region
    )
    return BufferRegion(region.buffer, tuple(parts))


def _fill(realize: BlockRealize, padding: Padding, loops: Sequence[For]) -> tuple[Stmt, Block]:
    """The block that stores the constant everywhere, under copies of the loops."""
    block, known = realize.block, Analyzer()
    axes = tuple(IterVar(axis.dom, _fresh(axis), SPATIAL) for axis in block.iter_vars)
    values: dict[Var, Expr] = {
        old.var: new.var for old, new in zip(block.iter_vars, axes, strict=True)
    }
    store = block.body
    if not isinstance(store, BufferStore):
        raise refuse(f"{name_of(block)} is no single store")
    indices = tuple(substitute(i, values) for i in store.indices)
    filled = Block(
        axes,
        (),
        tuple(_region(region, values, known) for region in block.writes),
        f"{block.name_hint}_pad_const",
        BufferStore(store.buffer, padding.value, indices),
    )
    return under_copies(loops, realize.replace(block=filled), plain=True), filled


def _copy(realize: BlockRealize, padding: Padding, loops: Sequence[For]) -> tuple[Stmt, Block]:
    """The block over what is inside; loops that are iteration variables get shorter."""
    block = realize.block
    ranges = {loop.loop_var: loop.domain for loop in loops}
    known = Analyzer()
    shorter: set[Var] = set()
    of_loops: dict[Var, Expr] = {}
    of_axes: dict[Var, Expr] = {}
    axes: list[IterVar] = []
    values: list[Expr] = []
    for axis, value, part in zip(block.iter_vars, realize.iter_values, padding.box, strict=True):
        var, zero = _fresh(axis), const(0, axis.var.dtype)
        domain = Range(zero, part.extent.astype(axis.var.dtype))
        axes.append(IterVar(domain, var, SPATIAL))
        known.bind(var, domain)
        of_axes[axis.var] = var if is_zero(part.min) else var + part.min
        alone = isinstance(value, Var) and realize.iter_values.count(value) == 1
        if isinstance(value, Var) and alone and value in ranges:
            ranges[value] = Range(const(0, value.dtype), part.extent)
            of_loops[value] = value if is_zero(part.min) else value + part.min
            shorter.add(value)
            values.append(value)
        else:
            values.append(value if is_zero(part.min) else value - part.min)
    for var, domain in ranges.items():
        known.bind(var, domain)
    store = block.body
    if not isinstance(store, BufferStore):
        raise refuse(f"{name_of(block)} is no single store")
    body = BufferStore(
        store.buffer,
        _simple(substitute(padding.inside, of_axes), known),
        tuple(known.simplify(substitute(i, of_axes)) for i in store.indices),
    )
    copied = block.replace(
        iter_vars=tuple(axes),
        reads=tuple(_region(region, of_axes, known) for region in block.reads),
        writes=tuple(_region(region, of_axes, known) for region in block.writes),
        body=body,
    )
    values = [v if v in shorter else known.simplify(v) for v in values]
    condition = known.simplify(substitute(padding.condition, of_loops))
    stmt: Stmt = BlockRealize(tuple(values), condition, copied)
    for loop in reversed(loops):
        domain = ranges[loop.loop_var]
        stmt = loop.replace(min=domain.min, extent=domain.extent, body=stmt)
    return stmt, copied


def _simple(value: Expr, known: Analyzer) -> Expr:
    """A value with its indices simplified."""
    children = value.children
    if not free_vars(value):
        return value
    if not children or value.dtype.is_int:
        return known.simplify(value)
    return value.with_children([_simple(child, known) for child in children])
