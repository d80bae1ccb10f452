"""What it takes to move a consumer into the loops of its producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...expr import (
    LT,
    REDUCE,
    SPATIAL,
    Analyzer,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    Range,
    Var,
    const,
    detect_iter_map,
    free_vars,
    free_vars_of,
    is_pure_op,
    is_true,
    post_order,
)
from ...expr.nodes import Div, Mod
from ...tir import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    While,
    pre_order,
    stmt_exprs,
)
from ..analysis.additions import ATOMIC, added_to, addition_of, commutes
from ..analysis.affine import where_running
from ..analysis.blocks import is_output
from ..analysis.order import repetition_fault, start_fault
from ..analysis.regions import conjuncts
from ..analysis.scope import accessed_buffers, is_seen_outside, producers
from ..analysis.tree import child_blocks, is_one, loops_above, lowest_common_ancestor
from ..errors import ScheduleError, name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import accessed_box, runs_all
from ._rebuild import index_in

#: Reductions, and the loops along which each reduces.
Carriers = dict[StmtSRef, list[StmtSRef]]


def check_reads_declared(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a consumer of what is not declared: it might run for what is not made yet."""
    stmt = block.block
    declared = {region.buffer for region in stmt.reads}
    hidden = next((b for b in accessed_buffers(state, stmt)[0] if b not in declared), None)
    if hidden is not None:
        raise refuse(
            f"{name_of(block)} does not declare what it reads of {hidden.name!r}, so it is not "
            "known which loop makes that",
            at=[block],
            hint="move blocks before loop_partition",
        )
    for giver in producers(state, block):
        known = {region.buffer for region in giver.block.writes}
        silent = next((b for b in accessed_buffers(state, giver.block)[1] if b not in known), None)
        if silent is not None:
            raise refuse(
                f"{name_of(giver)} does not declare what it writes of {silent.name!r}",
                at=[block, giver],
                hint="move blocks before loop_partition",
            )


def check_commuting(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    givers: Sequence[StmtSRef],
    takers: Sequence[StmtSRef],
) -> tuple[list[StmtSRef], list[StmtSRef]]:
    """Who gives to and takes from a block that adds, by more than what it adds to.

    Refuses others between the loop and the block that use what it adds to, if they do not add.
    """
    if any(axis.iter_type != SPATIAL for axis in block.block.iter_vars):
        raise refuse(f"{name_of(block)} has variables that are not data-parallel", at=[block])
    added = added_to(state, block.block)
    top = lowest_common_ancestor([block, loop])
    first, last = sorted((index_in(top, loop), index_in(top, block)))
    for other in child_blocks(state, top):
        used = any(added in side for side in accessed_buffers(state, other.block))
        between = first <= index_in(top, other) <= last and other is not block
        if used and between and not commutes(state, other.block, block.block):
            raise refuse(
                f"{name_of(block)} cannot be moved before {name_of(other)}, which uses what it "
                "adds to",
                at=[block, loop, other],
            )

    def by_more(writer: StmtSRef, reader: StmtSRef) -> bool:
        made = accessed_buffers(state, writer.block)[1]
        used = accessed_buffers(state, reader.block)[0]
        return any(buffer in used for buffer in made if buffer is not added)

    return (
        [giver for giver in givers if by_more(giver, block)],
        [taker for taker in takers if by_more(block, taker)],
    )


def check_runs_all(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that runs only some of its instances: moved, it might run more of them."""
    stmt = block.block
    places = not is_output(state, block) and all(a.iter_type == SPATIAL for a in stmt.iter_vars)
    if places and (is_one(state.realize(block).predicate) or _stays_inside(stmt)):
        return  # more elements of a buffer that only later blocks look at
    if runs_all(state, block):
        return
    raise refuse(
        f"the loops around {name_of(block)} may leave out some of its instances, which would run "
        "under another loop",
        at=[block],
        hint="let the loops and the predicate run the whole domain of its iteration variables",
    )


def _stays_inside(block: Block) -> bool:
    """Whether all instances of a block access elements that there are."""
    domains, known = {axis.var: axis.domain for axis in block.iter_vars}, Analyzer()
    return all(
        low is not None
        and high is not None
        and known.can_prove(low >= 0)
        and known.can_prove(high < size)
        for region in (*block.reads, *block.writes)
        for (low, high), size in zip(
            accessed_box(region.region, domains, const(True), {}), region.buffer.shape, strict=True
        )
    )


@dataclass(frozen=True)
class Consumer:
    """A block on its way under a loop of its producers.

    Attributes:
        realize: what will run it there.
        loops: the loops that will be made for that.
        outer: the ranges of the loops around that place.
    """

    state: ScheduleState
    block: StmtSRef
    loop: StmtSRef
    realize: BlockRealize
    loops: Sequence[tuple[Var, Expr]]
    outer: dict[Var, Range]

    @property
    def around(self) -> list[StmtSRef]:
        """The loops around the place, with more than one iteration."""
        found = [*loops_above(self.loop), self.loop]
        return [sref for sref in found if not is_one(sref.loop.extent)]

    def domains(self) -> dict[Var, Range]:
        """The ranges of all loops that will be around the block."""
        inside = {var: Range(const(0, var.dtype), extent) for var, extent in self.loops}
        return {**self.outer, **inside}

    def check_all_reached(self) -> None:
        """Refuse where instances that take nothing, as those of a padding's rim, would be lost."""
        block = self.block
        before = {s.loop.loop_var: s.loop.domain for s in loops_above(block)}
        old, new = Analyzer(before), Analyzer(self.domains())
        was_values = self.state.realize(block).iter_values
        values = zip(was_values, self.realize.iter_values, strict=True)
        needed = 1
        for axis, (was, now) in zip(block.block.iter_vars, values, strict=True):
            first = new.const_int_bound(axis.domain.min).max_value
            last = new.const_int_bound(axis.domain.min + axis.domain.extent - 1).min_value
            ran, runs = old.const_int_bound(was), new.const_int_bound(now)
            begun = runs.min_value <= max(ran.min_value, first)
            if not begun or self._most(now, new) < min(ran.max_value, last):
                raise self._loses(repr(axis.var.name))
            needed *= max(1, min(ran.max_value, last) - max(ran.min_value, first) + 1)
        runs_at_most = _iterations(self.realize.iter_values, self.domains(), new)
        if is_true(self.state.realize(block).predicate):
            needed = min(needed, _iterations(was_values, before, old))
        elif not runs_all(self.state, block):
            return
        if runs_at_most < needed:
            raise self._loses("its instances")

    def _loses(self, what: str) -> ScheduleError:
        return refuse(
            f"under {name_of(self.loop)}, {name_of(self.block)} would run only where it takes "
            f"something that is made there, not for all of {what}",
            at=[self.block, self.loop],
            hint="keep a block that pads outside of the loops of what it pads",
        )

    def _most(self, value: Expr, analyzer: Analyzer) -> int:
        """The greatest that a value can be where the block runs, or more than that."""
        most = analyzer.const_int_bound(value).max_value
        for part in conjuncts(self.realize.predicate):
            if isinstance(part, LT) and analyzer.can_prove_equal(part.a, value):
                most = min(most, analyzer.const_int_bound(part.b).max_value - 1)
        return most

    def check_apart(self) -> None:
        """Refuse where iterations of a parallel loop would write the same, seen outside of it.

        Where conditions leave out parts of what is made, the block runs for more than that, and
        may take what another iteration makes. Threads may all write the same, from the same.
        """
        realize = self.realize
        used = free_vars_of(realize.iter_values)
        inside = [For(var, const(0), extent, SERIAL, realize) for var, extent in self.loops]
        for k, sref in enumerate(self.around):
            if sref.loop.kind in (SERIAL, UNROLLED):
                continue
            if sref.loop.kind == THREAD_BINDING and sref.loop.loop_var not in used:
                continue
            loops = [outer.loop for outer in self.around[k:] if outer.loop.loop_var in used]
            outside = [outer.loop for outer in self.around[:k]]
            apart = sref.loop.loop_var in used and (
                repetition_fault(realize, outside, [*loops, *inside]) is None
            )
            for region in () if apart else self.block.block.writes:
                if is_seen_outside(self.state, sref, region.buffer):
                    raise refuse(
                        f"{name_of(sref)} is {sref.loop.kind}, and its iterations would write the "
                        f"same elements of {region.buffer.name!r}",
                        at=[self.block, sref],
                    )

    # ------------------------------------------------------------------ sums

    def check_once(self) -> None:
        """Refuse a reduction that would take some of its steps twice, or in any order.

        Threads of a block may take some each, and combine what they have: as `bind` makes it.
        """
        reduced = self._reduced()
        used = free_vars_of(reduced)
        if used.isdisjoint(self.outer):
            extents = [extent for var, extent in self.loops if var in used]
            if not free_vars_of(extents).isdisjoint(self.outer):
                raise refuse(
                    f"under {name_of(self.loop)}, {name_of(self.block)} would add up only what is "
                    "made in an iteration, and begin anew in the next one",
                    at=[self.block, self.loop],
                    hint="choose a loop outside of those that the producer reduces over",
                )
            return
        self._check_bijective("add up some elements")
        inside = [For(var, const(0), extent, SERIAL, self.realize) for var, extent in self.loops]
        fault = start_fault(self.realize, [*(s.loop for s in self.around), *inside])
        if fault is not None:
            raise refuse(
                f"under {name_of(self.loop)}, what starts a result of {name_of(self.block)} may "
                f"not come first: {fault}",
                at=[self.block, self.loop],
            )
        carrying = free_vars_of(reduced)
        for sref in [self.loop, *loops_above(self.loop)]:
            if sref.loop.loop_var in carrying and not _may_reduce(sref.loop):
                kind = "parallel" if sref.loop.kind == PARALLEL else sref.loop.kind
                raise refuse(
                    f"{name_of(sref)} is {kind}, so {name_of(self.block)} cannot be reduced along "
                    "it",
                    at=[self.block, sref],
                )

    def check_added_once(self) -> None:
        """Refuse to add to elements more than once, or not atomically where others do as well."""
        self._check_bijective("add to some elements")
        found = addition_of(self.state, self.block.block)
        for sref in self.around:
            if sref.loop.kind not in (SERIAL, UNROLLED) and not (found and found.atomic):
                raise refuse(
                    f"{name_of(sref)} is {sref.loop.kind}, and its iterations may add to the same "
                    "elements",
                    at=[self.block, sref],
                    hint=f"annotate {name_of(self.block)} with {ATOMIC!r} first",
                )

    def _check_bijective(self, what: str) -> None:
        """Refuse loops that would run an instance of the block more than once."""
        found = detect_iter_map(
            self.realize.iter_values,
            self.domains(),
            self.realize.predicate,
            "bijective",
            where_running(self.domains().values()),
        )
        if not found:
            raise refuse(
                f"under {name_of(self.loop)}, {name_of(self.block)} would {what} more than once "
                f"({found.errors[0]})",
                at=[self.block, self.loop],
                hint="choose a loop that no other block runs again, or one outside of the "
                "reduction",
            )

    def _reduced(self) -> list[Expr]:
        """The values of the block's reduction variables."""
        axes = self.block.block.iter_vars
        pairs = zip(axes, self.realize.iter_values, strict=True)
        return [value for axis, value in pairs if axis.iter_type == REDUCE]

    def check_unfinished(self, givers: Sequence[StmtSRef]) -> None:
        """Refuse to take sums that are not finished, unless that is made good.

        A block that runs after each step of a reduction takes unfinished sums, and in the end the
        finished ones. That changes nothing if it computes everything anew each time.
        """
        unfinished: Carriers = {}
        for giver in givers:
            found = self._unfinished(giver)
            self._check_taken_whole(giver, found)
            unfinished.update(found)
        if not unfinished:
            self._check_made(givers)
            return
        giver, (carrier, *_) = next(iter(unfinished.items()))
        why = f"{name_of(giver)} reduces along {name_of(carrier)}"
        kinds = {sref.loop.kind for carriers in unfinished.values() for sref in carriers}
        where = [self.loop, giver, self.block]
        hint = "choose a loop outside of its reduction loops"
        if not kinds <= {SERIAL, UNROLLED}:
            kind = "parallel" if PARALLEL in kinds else carrier.loop.kind
            text = f"{why}, which is {kind}: {name_of(self.block)} would take unfinished results"
            raise refuse(text, at=where, hint=hint)
        loops = {sref.loop.loop_var for sref in self.around}
        if not free_vars_of(self._reduced()).isdisjoint(loops):
            text = f"{why}: {name_of(self.block)} would add up unfinished results"
            raise refuse(text, at=where, hint=hint)
        buffers = {region.buffer for sref in givers for region in sref.block.writes}
        fault = _repeat_fault(self.block, buffers)
        if fault is not None:
            raise refuse(f"{why}, and {name_of(self.block)} {fault}", at=where, hint=hint)

    def _check_made(self, givers: Sequence[StmtSRef]) -> None:
        """Refuse to use as an index what a condition may leave out of an iteration."""
        partial = [g for g in givers if not is_one(self.state.realize(g).predicate)]
        fault = _index_fault(self.block, {r.buffer for g in partial for r in g.block.writes})
        if fault is not None:
            raise refuse(
                f"{name_of(partial[0])} runs under a condition, and {name_of(self.block)} {fault}",
                at=[self.loop, partial[0], self.block],
            )

    def _check_taken_whole(self, giver: StmtSRef, unfinished: Carriers) -> None:
        """Refuse where the last time that an instance runs is not when a sum it takes is finished.

        The block runs for all that takes what the giver makes in an iteration, but for the
        variables that other givers decide.
        """
        carrying = {sref.loop.loop_var for found in unfinished.values() for sref in found}
        stmt, made = self.block.block, {region.buffer for region in giver.block.writes}
        taken = [part.min for r in stmt.reads if r.buffer in made for part in r.region]
        told = free_vars_of([i for i in taken if not any(map(_is_modulo, post_order(i)))])
        for axis, value in zip(stmt.iter_vars, self.realize.iter_values, strict=True):
            if axis.var in told or free_vars(value).isdisjoint(carrying):
                continue
            source, (carrier, *_) = next(iter(unfinished.items()))
            raise refuse(
                f"{name_of(source)} reduces along {name_of(carrier)}, which also decides "
                f"{axis.var.name!r} of {name_of(self.block)}: it would take unfinished results",
                at=[self.loop, source, self.block],
                hint="choose a loop outside of its reduction loops",
            )

    def _unfinished(self, giver: StmtSRef) -> Carriers:
        """Of a giver and what it is made from, the blocks with results that are not final in each
        iteration around, and the loops along which these reduce."""
        loops = {sref.loop.loop_var: sref for sref in self.around}
        found: Carriers = {}
        work, seen = [giver], {giver}
        while work:
            giver = work.pop()
            realize = self.state.realize(giver)
            for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
                carrying = [loops[v] for v in free_vars(value) if v in loops]
                if axis.iter_type == REDUCE and carrying:
                    found.setdefault(giver, []).extend(carrying)
            # What is made of unfinished results is not finished either.
            for source in producers(self.state, giver):
                if source not in seen:
                    seen.add(source)
                    work.append(source)
        return found


def _may_reduce(loop: For) -> bool:
    if loop.kind == THREAD_BINDING and loop.thread_binding is not None:
        return loop.thread_binding.thread_tag.startswith("threadIdx")
    return loop.kind in (SERIAL, UNROLLED)


def _is_modulo(expr: Expr) -> bool:
    """A digit, which leaves open what is above it."""
    return isinstance(expr, (FloorMod, Mod))


def _repeat_fault(block: StmtSRef, unfinished: set[Buffer]) -> str | None:
    """Why running a block for preliminary values first would not be the same; None if it is."""
    for node in pre_order(block.block.body):
        if isinstance(node, (Evaluate, AssertStmt, While)):
            return "does more than to compute values, so it cannot run on unfinished results"
        for expr in stmt_exprs(node):
            for part in post_order(expr):
                if isinstance(part, Call) and not is_pure_op(part.op):
                    return f"calls {part.op!r}, which may not be repeated"
    return _index_fault(block, unfinished)


def _index_fault(block: StmtSRef, early: set[Buffer]) -> str | None:
    """Whether a block uses buffers as indices or divisors, which go wrong with other values."""
    for node in pre_order(block.block.body):
        critical = list(node.indices) if isinstance(node, BufferStore) else []
        for expr in stmt_exprs(node):
            for part in post_order(expr):
                if isinstance(part, BufferLoad):
                    critical += part.indices
                elif isinstance(part, (FloorDiv, FloorMod, Div, Mod)) and not part.dtype.is_float:
                    critical.append(part.b)
        for load in (n for expr in critical for n in post_order(expr)):
            if isinstance(load, BufferLoad) and load.buffer in early:
                return (
                    f"uses {load.buffer.name!r} as an index or a divisor, which it may not be "
                    "before it is finished"
                )
    return None


def _iterations(values: Sequence[Expr], domains: Mapping[Var, Range], analyzer: Analyzer) -> int:
    """How many iterations the loops have, at most, that values depend on."""
    used = [var for var in free_vars_of(values) if var in domains]
    return prod(analyzer.const_int_bound(domains[var].extent).max_value for var in used)
