"""`tvm_thread_allreduce` becomes shuffles within warps and a few elements of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...base.errors import UserError, VerifyError
from ...expr import EQ, LT, Call, CommReducer, Expr, IntImm, Var, binary, const, free_vars_of
from ...tir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    make_buffer,
    seq,
)
from ..analysis.threads import ALLREDUCE, REDUCE_SCOPE, THREAD_TAGS, combine_into, is_uniform, sync
from ..blocks import allocate
from ..common import THREAD_EXTENT, on_body

WARP = 32
#: Parts that every thread combines for itself: reading them costs less than more barriers.
EVERYONE = 16
_MASK, _SHUFFLE = "tir.tvm_warp_activemask", "tir.tvm_warp_shuffle"
_ZERO = const(0)


def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    """Every thread of a reduction gets the combination of what all of them have.

    Up to a warp of neighbouring threads (a power of two) exchange values by shuffles; whole warps
    reduce themselves so and leave one value each in shared memory, which every warp combines
    again; any other set of threads combines in a tree in shared memory down to a few parts.

    Needs: flat code whose thread loops are attributes.
    Ensures: no `tvm_thread_allreduce` is left. The barriers are in place.

    Raises:
        VerifyError: not all threads may reach the call that have to take part: a warp for shuffles,
            the block where there are barriers.
    """
    return on_body(func, _Lower().visit)


@dataclass(frozen=True, slots=True)
class _Group:
    """The threads that reduce together, by their numbers.

    `count` threads; `index` is a thread's number among them, `group` that of its set of them.
    `adjoining` says that they are neighbours in the order of the hardware.
    """

    count: int
    index: Expr
    groups: int
    group: Expr
    adjoining: bool

    @property
    def by_shuffles(self) -> bool:
        """Whether they exchange values without shared memory."""
        return self.adjoining and self.count <= WARP and _is_power(self.count)


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.threads: dict[str, tuple[Var, Expr]] = {}
        self.loops = 0
        self.conditions: tuple[Expr, ...] = ()

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        outer = self.conditions
        self.conditions = (*outer, stmt.condition)
        result = super().visit_IfThenElse(stmt)
        self.conditions = outer
        return result

    def visit_For(self, stmt: For) -> Stmt:
        self.loops += 1
        result = super().visit_For(stmt)
        self.loops -= 1
        return result

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == REDUCE_SCOPE and isinstance(stmt.node, CommReducer):
            return self._reduction(stmt.node, stmt.body)
        if stmt.attr_key != THREAD_EXTENT:
            return super().visit_AttrStmt(stmt)
        outer = dict(self.threads)
        self.threads[stmt.node.thread_tag] = stmt.node.var, stmt.value
        result = super().visit_AttrStmt(stmt)
        self.threads = outer
        return result

    def _reduction(self, combiner: CommReducer, stmt: Stmt) -> Stmt:
        call = stmt.value if isinstance(stmt, Evaluate) else None
        if not isinstance(call, Call) or call.op != ALLREDUCE:
            return self.visit(stmt)
        n = len(combiner.lhs)
        values, condition = call.args[1 : 1 + n], call.args[1 + n]
        results, axes = call.args[2 + n : 2 + 2 * n], call.args[2 + 2 * n :]
        if not isinstance(condition, IntImm):
            pairs = zip(values, combiner.identity, strict=True)
            choice = "tir.if_then_else"
            values = tuple(Call(v.dtype, choice, (condition, v, i)) for v, i in pairs)
        group = self._group(free_vars_of(axes))
        self._check(group, stmt)
        return _Emitter(combiner, group, self.loops > 0).emit(values, results)

    def _check(self, group: _Group, stmt: Stmt) -> None:
        """Refuse conditions around a reduction that split those who make it."""
        extents = {tag: extent for tag, (_, extent) in self.threads.items()}
        apart = {v for tag, (v, _) in self.threads.items() if tag in THREAD_TAGS}
        neighbours = extents.get(THREAD_TAGS[-1])
        if group.by_shuffles and isinstance(neighbours, IntImm) and neighbours.value % WARP == 0:
            apart = {self.threads[THREAD_TAGS[-1]][0]}  # other numbers are those of a whole warp
        for condition in self.conditions:
            if group.count > 1 and not is_uniform(condition, apart):
                raise VerifyError(
                    "a reduction over threads stands under a condition that they take differently:"
                    f" {condition} ({str(stmt).splitlines()[0]})",
                    hint="put the condition on the values that are reduced",
                )

    def _group(self, reduced: frozenset[Var]) -> _Group:
        count = groups = 1
        index: Expr = _ZERO
        group: Expr = _ZERO
        adjoining = True
        for tag in reversed(THREAD_TAGS):  # the fastest first
            if tag not in self.threads:
                continue
            var, extent = self.threads[tag]
            if not isinstance(extent, IntImm):
                raise UserError(f"a reduction over threads needs a constant extent of {tag}")
            if var in reduced:
                index = index + var * count
                adjoining = adjoining and (groups == 1 or extent.value == 1)
                count *= extent.value
            else:
                group = group + var * groups
                groups *= extent.value
        return _Group(count, index, groups, group, adjoining)


class _Emitter:
    """Writes one reduction: `own` holds what a thread has so far, `other` what it is told."""

    def __init__(self, combiner: CommReducer, group: _Group, repeated: bool) -> None:
        self.combiner = combiner
        self.group = group
        self.repeated = repeated
        kinds = [var.dtype for var in combiner.lhs]
        self.own = [make_buffer((1,), kind, "own", scope="local") for kind in kinds]
        self.other = [make_buffer((1,), kind, "other", scope="local") for kind in kinds]
        self.stage: list[Buffer] = []
        self.done: list[Stmt] = []

    def emit(self, values: Sequence[Expr], results: Sequence[Expr]) -> Stmt:
        group = self.group
        self.set(self.own, values)
        if group.by_shuffles:
            self.warp(group.count)
        elif group.adjoining and group.count % WARP == 0 and group.count <= WARP * WARP:
            self.warps()
        elif group.count > 1:
            self.tree()
        for result, own in zip(results, self.own, strict=True):
            if not isinstance(result, BufferLoad):
                raise UserError(f"a reduction over threads needs an element to write, not {result}")
            self.done.append(BufferStore(result.buffer, own[0], result.indices))
        body = seq(*self.done)
        for buffer in (*self.own, *self.other, *self.stage):
            body = allocate(buffer, body)
        return body

    def set(self, targets: Sequence[Buffer], values: Sequence[Expr], at: Expr = _ZERO) -> None:
        pairs = zip(targets, values, strict=True)
        self.done.extend(BufferStore(target, value, (at,)) for target, value in pairs)

    def shuffle(self, kind: str, amount: Expr, width: int) -> list[Expr]:
        mask = Call("uint32", _MASK, ())
        sizes = const(width), const(WARP)
        return [
            Call(own.dtype, _SHUFFLE + kind, (mask, own[0], amount, *sizes)) for own in self.own
        ]

    def warp(self, width: int) -> None:
        """Segments of `width` lanes, a power of two: all lanes get the combination."""
        if width == 1:
            return
        step = width // 2
        while step:
            self.set(self.other, self.shuffle("_down", const(step), width))
            others = [other[0] for other in self.other]
            self.done.append(combine_into(self.combiner, self.own, _ZERO, others))
            step //= 2
        self.set(self.other, self.shuffle("", _ZERO, width))
        self.set(self.own, [other[0] for other in self.other])

    def warps(self) -> None:
        """Whole warps: one value of each goes through shared memory, and every warp reads all."""
        group = self.group
        warps = group.count // WARP
        self.warp(WARP)
        if warps == 1:
            return
        self.stage = self.shared(group.groups * warps)
        lane = group.index % WARP
        row = group.group * warps
        store = seq(*(
            BufferStore(stage, own[0], (row + group.index // WARP,))
            for stage, own in zip(self.stage, self.own, strict=True)
        ))  # fmt: skip
        self.done += [IfThenElse(binary(EQ, lane, _ZERO), store), sync("shared")]
        width = 1 << (warps - 1).bit_length()
        position = group.index % width
        parts = [stage[row + position] for stage in self.stage]
        if width != warps:
            inside = binary(LT, position, const(warps))
            pairs = zip(parts, self.combiner.identity, strict=True)
            parts = [Call(p.dtype, "tir.if_then_else", (inside, p, i)) for p, i in pairs]
        self.set(self.own, parts)
        self.warp(width)
        if self.repeated:
            self.done.append(sync("shared"))

    def tree(self) -> None:
        """Any threads: halves are added onto halves in shared memory; the last few by everyone.

        Threads of one number lie side by side, so that neighbours read from different banks.
        """
        group = self.group
        self.stage = self.shared(group.groups * group.count)
        at = group.index * group.groups + group.group
        self.set(self.stage, [own[0] for own in self.own], at)
        self.done.append(sync("shared"))
        rest = group.count
        while rest > EVERYONE:
            half = 1 << ((rest - 1).bit_length() - 1)  # the largest power of two below
            others = [stage[at + half * group.groups] for stage in self.stage]
            step = combine_into(self.combiner, self.stage, at, others)
            condition = binary(LT, group.index, const(rest - half))
            self.done += [IfThenElse(condition, step), sync("shared")]
            rest = half
        self.set(self.own, [stage[group.group] for stage in self.stage])
        for k in range(1, rest):
            others = [stage[group.group + k * group.groups] for stage in self.stage]
            self.done.append(combine_into(self.combiner, self.own, _ZERO, others))
        if self.repeated:
            self.done.append(sync("shared"))

    def shared(self, size: int) -> list[Buffer]:
        kinds = [var.dtype for var in self.combiner.lhs]
        return [make_buffer((size,), kind, "stage", scope="shared") for kind in kinds]


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0
