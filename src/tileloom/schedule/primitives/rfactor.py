"""rfactor: a reduction loop becomes an axis of an intermediate buffer."""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import (
    LE,
    LT,
    REDUCE,
    SPATIAL,
    Analyzer,
    And,
    Expr,
    IterVar,
    Var,
    binary,
    const,
    free_vars,
    substitute,
)
from ...tir import (
    SERIAL,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    For,
    Stmt,
    infer_block_access,
    make_buffer,
    parts_of,
    seq,
    stores,
    stores_at_once,
)
from ..analysis.blocks import check_reduction
from ..analysis.cover import check_stage_pipeline
from ..analysis.order import repetition_fault
from ..analysis.regions import conjuncts
from ..analysis.starts import check_starts
from ..analysis.tree import child_blocks, is_one, loops_above, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, LoopRef, primitive
from ..rewrite import under_copies
from ..sref import StmtSRef
from ..state import ScheduleState
from ._rebuild import rebuilt
from ._reducers import Reduction, reduction_in_parts


@primitive("RFactor")
def rfactor(state: ScheduleState, loop: LoopRef, factor_axis: int) -> BlockRef:
    """Reduce each iteration of a loop by itself, then combine the iterations.

    The partial results go to a buffer `<name>.rf` with one more axis, written by the block
    `<name>_rf`; the block itself then reduces over that axis.

    Args:
        loop: a serial reduction loop around one reduction block, which starts its results at the
            neutral value (a maximum, minimum or arg-maximum at any).
        factor_axis: where the new axis stands in the buffer; negative ones count from the end.

    Returns:
        The block of the partial results.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A"); k = te.reduce_axis((0, 8), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> i, k = sch.get_loops("B")
    >>> outer, inner = sch.split(k, [2, None])
    >>> partial = sch.rfactor(outer, factor_axis=0)
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    ['B_rf', 'B']
    """
    return _RFactor(state, loop, factor_axis).run()


class _RFactor:
    def __init__(self, state: ScheduleState, loop: StmtSRef, factor_axis: int) -> None:
        self.state = state
        self.loop = loop
        self.block = _only_block(state, loop)
        self.scope = scope_root(self.block)
        self.loops = loops_above(self.block)
        self.realize = state.realize(self.block)
        if state.enable_check:
            check_stage_pipeline(state, self.scope)
            check_reduction(state, self.block, masked=True)
        self._check_loops()
        self.reduction: Reduction = reduction_in_parts(self.block.block)
        ranks = {store.buffer.ndim for store in self.reduction.stores}
        rank = max(ranks)
        if not -(rank + 1) <= factor_axis <= rank:
            raise refuse(
                f"factor_axis {factor_axis} is out of range for results of {rank} dimensions",
                at=[self.block],
                hint=f"between {-(rank + 1)} and {rank}",
                fast="The input factor_axis is out of range",
            )
        self.axis = factor_axis % (rank + 1)
        for store in self.reduction.stores if state.enable_check else ():
            check_starts(state, self.block, store.buffer, "rfactor")

    def _check_loops(self) -> None:
        node = self.loop.loop
        if node.kind != SERIAL:
            raise refuse(
                f"{name_of(self.loop)} is {node.kind}; rfactor takes a serial loop",
                at=[self.loop],
                fast="The input loop is required to be serial",
            )
        spatial, reduced = self.realize.loops_of(SPATIAL), self.realize.loops_of(REDUCE)
        if node.loop_var in spatial:
            raise refuse(
                f"{name_of(self.loop)} places results, it does not reduce",
                at=[self.loop],
                fast="The rfactor loop is touched by data-parallel block iterators",
            )
        for outer in self.loops:
            if outer.loop.loop_var in spatial & reduced:
                raise refuse(f"{name_of(outer)} both places results and reduces", at=[outer])
            unbound = outer.loop.loop_var not in spatial | reduced
            if unbound and not is_one(outer.loop.extent):
                raise refuse(
                    f"{name_of(outer)} is used by no iteration variable of {name_of(self.block)}",
                    at=[outer],
                )
        fault = repetition_fault(self.realize, [], [outer.loop for outer in self.loops])
        if fault is not None:
            raise refuse(
                f"{fault}, and each time would become a part of the result",
                at=[self.block, self.loop],
            )
        self._check_siblings(reduced)

    def _check_siblings(self, reduced: frozenset[Var]) -> None:
        """The partial results go before all loops: nothing in the loops may come before them."""
        inside: list[Stmt] = [*(outer.loop for outer in self.loops[1:]), self.realize]
        reducing: StmtSRef | None = None
        for outer, child in zip(self.loops, inside, strict=True):
            if outer.loop.loop_var in reduced:
                reducing = outer
            body = outer.loop.body
            parts = parts_of(body)
            if parts[0] is not child:
                raise refuse(
                    f"{name_of(self.block)} is not the first block in {name_of(outer)}; "
                    "rfactor puts the partial results before it",
                    at=[self.block, outer],
                    fast="The reduction block is not the first child block of the outermost loop",
                )
            if len(parts) > 1 and reducing is not None:
                raise refuse(
                    f"{name_of(reducing)} also runs other blocks than {name_of(self.block)}",
                    at=[self.block, reducing],
                )

    def run(self) -> StmtSRef:
        buffers = [self._buffer(store.buffer) for store in self.reduction.stores]
        partial = self._partial(buffers)
        final = self._final(buffers)
        top = self.loops[0]
        skipped = self.realize.loops_of(REDUCE) - {self.loop.loop.loop_var}
        back = _rebuild(self.loops, self.realize, final, skipped)
        new_top = seq(partial, back)
        scope = self.scope.block
        body = rebuilt(scope.body, (), {top.loop: new_top})
        allocated = (*scope.alloc_buffers, *buffers)
        changed = scope.replace(alloc_buffers=allocated, body=body)
        self.state.replace(self.scope, changed, {scope: changed, self.block.block: final.block})
        return self.state.sref(self._rf_block)

    def _buffer(self, buffer: Buffer) -> Buffer:
        shape: list[Expr] = list(buffer.shape)
        shape.insert(self.axis, self.loop.loop.extent)
        return make_buffer(shape, buffer.dtype, f"{buffer.name}.rf", scope=buffer.scope)

    def _place(self, indices: tuple[Expr, ...], at: Expr) -> tuple[Expr, ...]:
        return (*indices[: self.axis], at, *indices[self.axis :])

    # ------------------------------------------------------------------ the partial results

    def _partial(self, buffers: list[Buffer]) -> Stmt:
        """Loops and block that reduce each iteration of the loop by itself."""
        own = self._iter_var(self.loop.loop, SPATIAL)
        axes: list[IterVar] = [own]
        values: list[Expr] = [self.loop.loop.loop_var]
        of_loop: dict[Var, Expr] = {self.loop.loop.loop_var: own.var}
        renamed: dict[Var, Expr] = {}
        taken = self._taken_apart()
        block = self.realize.block
        for axis, value in zip(block.iter_vars, self.realize.iter_values, strict=True):
            if axis.iter_type == SPATIAL or not free_vars(value) & taken:
                copy = IterVar(axis.dom, Var(axis.var.name, axis.var.dtype), axis.iter_type)
                axes.append(copy)
                values.append(value)
                renamed[axis.var] = copy.var
                continue
            for outer in self.loops:
                place = outer.loop.loop_var
                if place in free_vars(value) and place not in of_loop:
                    added = self._iter_var(outer.loop, REDUCE)
                    axes.append(added)
                    values.append(place)
                    of_loop[place] = added.var
            renamed[axis.var] = substitute(value, of_loop)
        self._rf_block = self._partial_block(buffers, axes, own.var, renamed)
        realize = BlockRealize(tuple(values), self.realize.predicate, self._rf_block)
        return under_copies([outer.loop for outer in self.loops], realize)

    def _taken_apart(self) -> set[Var]:
        """The loops of iteration variables that depend on the loop, or share a loop with such."""
        taken = {self.loop.loop.loop_var}
        pairs = zip(self.realize.block.iter_vars, self.realize.iter_values, strict=True)
        used = [free_vars(value) for axis, value in pairs if axis.iter_type == REDUCE]
        while True:
            more = {var for part in used if part & taken for var in part} - taken
            if not more:
                return taken
            taken |= more

    def _iter_var(self, loop: For, kind: int) -> IterVar:
        var = Var(f"v{loop.loop_var.name}", loop.loop_var.dtype)
        return IterVar(loop.domain, var, kind)

    def _partial_block(
        self, buffers: list[Buffer], axes: list[IterVar], at: Var, renamed: Mapping[Var, Expr]
    ) -> Block:
        r = self.reduction
        places = [
            self._place(tuple(substitute(i, renamed) for i in store.indices), at)
            for store in r.stores
        ]
        old = [BufferLoad(b, p) for b, p in zip(buffers, places, strict=True)]
        new = [substitute(value, renamed) for value in r.new]
        if any(axis.iter_type == REDUCE for axis in axes):
            start = [substitute(value, renamed) for value in r.start]
            init = stores(buffers, start, places)
            body = stores_at_once(buffers, r.combine(old, new), places)
        else:  # a single value each, which the final block combines with the start
            init, body = None, stores_at_once(buffers, new, places)
        old_block = self.realize.block
        mine = set(buffers)
        bare = Block(
            tuple(axes), (), (), f"{old_block.name_hint}_rf", body, init,
            annotations=dict(old_block.annotations),
        )  # fmt: skip
        reads, writes = infer_block_access(bare)
        return bare.replace(
            reads=tuple(region for region in reads if region.buffer not in mine), writes=writes
        )

    # ------------------------------------------------------------------ the combination

    def _final(self, buffers: list[Buffer]) -> BlockRealize:
        """The block that combines the iterations of the loop."""
        r, block = self.reduction, self.realize.block
        own = self._iter_var(self.loop.loop, REDUCE)
        axes: list[IterVar] = [own]
        values: list[Expr] = [self.loop.loop.loop_var]
        renamed: dict[Var, Expr] = {}
        for axis, value in zip(block.iter_vars, self.realize.iter_values, strict=True):
            if axis.iter_type == SPATIAL:
                copy = IterVar(axis.dom, Var(axis.var.name, axis.var.dtype), SPATIAL)
                axes.append(copy)
                values.append(value)
                renamed[axis.var] = copy.var
        places = [tuple(substitute(i, renamed) for i in s.indices) for s in r.stores]
        targets = [store.buffer for store in r.stores]
        old = [BufferLoad(b, p) for b, p in zip(targets, places, strict=True)]
        new: list[Expr] = [
            BufferLoad(b, self._place(p, own.var)) for b, p in zip(buffers, places, strict=True)
        ]
        start = [substitute(value, renamed) for value in r.start]
        init = stores(targets, start, places)
        body = stores_at_once(targets, r.combine(old, new), places)
        one = [BufferRegion.point(b, p) for b, p in zip(targets, places, strict=True)]
        final = Block(
            tuple(axes),
            tuple(
                BufferRegion.point(b, self._place(p, own.var))
                for b, p in zip(buffers, places, strict=True)
            ),
            tuple(one),
            block.name_hint,
            body,
            init,
            annotations=dict(block.annotations),
        )
        predicate = self._without_inner_loops()
        return BlockRealize(tuple(values), predicate, final)

    def _without_inner_loops(self) -> Expr:
        """Whether a partial result exists: whether the first of the iterations it reduces runs."""
        ranges = {outer.loop.loop_var: outer.loop for outer in self.loops}
        gone = (self.realize.loops_of(REDUCE) - {self.loop.loop.loop_var}) & ranges.keys()
        first = {var: ranges[var].min for var in gone}
        known = Analyzer({v: loop.domain for v, loop in ranges.items()})
        predicate = const(True)
        for part in conjuncts(self.realize.predicate):
            start = substitute(part, first)
            if known.can_prove(start):
                continue
            if free_vars(part) & gone and not _grows(known, part, start):
                raise refuse(
                    f"the condition {part} of {name_of(self.block)} may hold in a later iteration "
                    "of a reduction loop although it does not hold in the first one",
                    at=[self.block],
                )
            predicate = binary(And, predicate, start)
        return predicate


def _grows(known: Analyzer, part: Expr, start: Expr) -> bool:
    """Whether `part` is some `a < b`, and `a - b` is never less than it is at the start."""
    if not isinstance(part, LT | LE) or not isinstance(start, LT | LE):
        return False
    return known.can_prove(start.a - start.b <= part.a - part.b)


def _only_block(state: ScheduleState, loop: StmtSRef) -> StmtSRef:
    blocks = child_blocks(state, loop)
    if len(blocks) != 1:
        raise refuse(
            f"{name_of(loop)} holds {len(blocks)} blocks; rfactor needs exactly one",
            at=[loop, *blocks],
            fast="The loop is required to have exactly one child block",
        )
    return blocks[0]


def _rebuild(loops: list[StmtSRef], old: Stmt, inner: Stmt, skipped: frozenset[Var]) -> Stmt:
    """The loops around the block again, without those that only reduced."""
    stmt = inner
    for outer in reversed(loops):
        loop = outer.loop
        if loop.loop_var not in skipped:
            stmt = loop.replace(body=rebuilt(loop.body, (), {old: stmt}))
        old = loop
    return stmt
