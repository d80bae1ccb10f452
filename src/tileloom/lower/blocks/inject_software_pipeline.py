"""Software pipelines: a loop whose statements work on different iterations at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import UserError
from ...expr import (
    GE,
    LT,
    And,
    Call,
    Expr,
    FloorMod,
    IntImm,
    Range,
    Var,
    binary,
    cast,
    const,
    free_vars,
)
from ...tir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    parts_of,
    pre_order,
    seq,
    stmt_exprs,
)
from ..analysis.pointers import POINTERS, bare_pointers, redirected
from ..analysis.row_major import row_major_strides
from ..common import Access, Replacer, branch, fresh_copy, loaded_buffers, on_body
from .lower_init_block import PIPELINE_STAGE as STAGE
from .lower_opaque_block import DOUBLE_BUFFER

ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"
COMMIT, WAIT = "async_commit_queue_scope", "async_wait_queue_scope"
IN_FLIGHT, ASYNC_SCOPE = "async_wait_inflight_count", "async_scope"
_TRUE = const(True)


def inject_software_pipeline(func: PrimFunc) -> PrimFunc:
    """A loop annotated with stages becomes prologue, body and epilogue.

    `software_pipeline_stage` gives each statement of the body how many iterations it lags behind,
    `software_pipeline_order` where it stands in the new body. What one statement hands to a later
    stage gets several versions, used in turn; a block's "double_buffer_scope" (the number of its
    write) asks for two at least. With `software_pipeline_async_stages` the statements
    of those stages are marked asynchronous, and what reads their results waits for them
    (`async_commit_queue_scope`, `async_wait_queue_scope`), which `inject_ptx_async_copy` takes.

    Needs: blocks without iteration variables and views; buffers placed.
    Ensures: the same results; the annotations are gone.

    Raises:
        UserError: the annotations do not fit the body, or a statement would read what is not yet
            written.
    """
    return on_body(func, _Inject().visit)


class _Inject(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        if isinstance(result, For) and STAGE in result.annotations:
            return _Pipeline(result).result()
        return result


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement of the body: its place in the program, stage, order, and what it touches."""

    place: int
    stmt: Stmt
    stage: int
    order: int
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    pointers: frozenset[Var]  # that cannot be redirected
    doubled: frozenset[Buffer]  # for which two versions are asked


class _Pipeline:
    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.allocated, parts = _body(loop)
        stages, orders = _numbers(loop, STAGE), _numbers(loop, ORDER)
        if not len(stages) == len(orders) == len(parts) or sorted(orders) != list(
            range(len(parts))
        ):
            raise UserError(
                f"loop {loop.loop_var.name!r} has {len(parts)} statements; its annotations"
                f" {STAGE} {stages} and {ORDER} {orders} need one number for each, the orders all"
                " different"
            )
        lowest = min(stages)
        self.steps = [_step(k, part, stages[k] - lowest, orders[k]) for k, part in enumerate(parts)]
        self.last = max(step.stage for step in self.steps)
        self.asynchronous = {s - lowest for s in _numbers(loop, ASYNC)}
        self._check()
        self.versions = {buffer: self._versions(buffer) for buffer in self.allocated}
        self.table = {b: _versioned(b, n) for b, n in self.versions.items()}

    # ------------------------------------------------------------------ legality and versions

    def _check(self) -> None:
        """What depends on an earlier statement must not overtake it."""
        for a in self.steps:
            for b in self.steps[a.place + 1 :]:
                shared = (a.writes & (b.reads | b.writes)) | (a.reads & b.writes)
                if not shared:
                    continue
                name = next(iter(shared)).name
                if b.stage < a.stage or (b.stage == a.stage and b.order < a.order):
                    raise UserError(
                        f"statement {b.place} of the pipeline over {self.loop.loop_var.name!r}"
                        f" would overtake statement {a.place}, which it depends on by {name!r}"
                    )
                if b.stage > a.stage and not shared <= set(self.allocated):
                    raise UserError(
                        f"statements {a.place} and {b.place} of the pipeline over"
                        f" {self.loop.loop_var.name!r} share {name!r} across stages, but it is"
                        " allocated outside of the loop, so it cannot have versions"
                    )

    def _versions(self, buffer: Buffer) -> int:
        writers = [step for step in self.steps if buffer in step.writes]
        users = [step for step in self.steps if buffer in step.reads | step.writes]
        if not writers:
            return 1
        first = min(step.stage for step in writers)
        last = max(step.stage for step in users)
        count = last - first + 1
        late = [step for step in users if step.stage == last]
        early = [step for step in writers if step.stage == first]
        if count > 1 and max(s.order for s in late) < min(s.order for s in early):
            # The last use of a version comes before the first write of the next. Asynchronous
            # copies get another one all the same, for threads would need a barrier in between.
            count -= first not in self.asynchronous
        if any(buffer in step.doubled for step in self.steps):
            count = max(count, 2)
        if count > 1 and any(buffer.data in step.pointers for step in self.steps):
            raise UserError(f"{buffer.name!r} is used by its pointer and cannot have versions")
        return count

    # ------------------------------------------------------------------ the three parts

    def result(self) -> Stmt:
        loop, kind = self.loop, self.loop.loop_var.dtype
        fixed = loop.static_extent
        depth = const(self.last, kind)
        parts = [self._instant(const(k, kind), k, fixed) for k in range(self.last)]
        if fixed is None or fixed > self.last:
            var = loop.loop_var.with_name(loop.loop_var.name)
            notes = {k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
            body = seq(*self._steps(var, lambda step: _TRUE, None))
            parts.append(
                loop.replace(
                    loop_var=var,
                    min=depth,
                    extent=loop.extent - depth,
                    body=body,
                    annotations=notes,
                )
            )
        for late in range(self.last):
            time = loop.extent + const(late, kind)
            parts.append(self._instant(time, None if fixed is None else fixed + late, fixed, late))
        allocated = tuple(self.table[buffer] for buffer in self.allocated)
        block = Block((), (), (), "pipeline", seq(*parts), alloc_buffers=allocated)
        return BlockRealize((), _TRUE, block)

    def _instant(
        self, time: Expr, known: int | None, fixed: int | None, late: int | None = None
    ) -> Stmt:
        """One step of the prologue, or of the epilogue `late` steps after the loop's end."""
        if known is not None and fixed is not None and late is not None and known < self.last:
            return seq()  # the prologue has been there

        def condition(step: _Step) -> Expr:
            item = time - const(step.stage, time.dtype)
            if late is None:
                if known is not None and known < step.stage:
                    return const(False)
                return binary(LT, item, self.loop.extent)
            if late >= step.stage:
                return const(False)
            begun = binary(GE, time, const(self.last, time.dtype))
            return binary(And, binary(GE, item, const(0, time.dtype)), begun)

        return seq(*self._steps(time, condition, late))

    def _steps(self, time: Expr, condition: Any, late: int | None) -> list[Stmt]:
        """The statements at one time, in their order, each for its own iteration."""
        result: list[Stmt] = []
        group: list[Stmt] = []
        stage = -1
        for step in sorted(self.steps, key=lambda step: step.order):
            item = time - const(step.stage, time.dtype)
            done = branch(condition(step), self._waiting(step, self._copy(step, item), late))
            if done is None:
                continue
            if group and step.stage != stage:
                result.append(_committed(group, stage))
                group = []
            if step.stage in self.asynchronous:
                group, stage = [*group, done], step.stage
            else:
                result.append(done)
        if group:
            result.append(_committed(group, stage))
        return result

    def _copy(self, step: _Step, item: Expr) -> Stmt:
        """A statement for the iteration number `item`, counted from zero."""
        slots = {
            buffer: binary(FloorMod, item, const(count, item.dtype))
            for buffer, count in self.versions.items()
            if count > 1
        }
        value = self.loop.min + item
        copied = fresh_copy(step.stmt, {self.loop.loop_var: value})
        return _Versions(self.table, slots).visit(copied)

    def _waiting(self, step: _Step, stmt: Stmt, late: int | None) -> Stmt:
        """The statement, waiting for what it reads of asynchronous stages."""
        for stage in sorted(self.asynchronous - {step.stage}):
            makers = [s for s in self.steps if s.stage == stage and s.writes & step.reads]
            if not makers:
                continue
            behind = all(maker.order > step.order for maker in makers)
            flying = step.stage - stage - behind
            if late is not None:
                flying = min(flying, step.stage - 1 - late)
            inner = AttrStmt(const(0), IN_FLIGHT, const(max(flying, 0)), stmt)
            stmt = AttrStmt(const(0), WAIT, const(stage), inner)
        return stmt


def _committed(group: Sequence[Stmt], stage: int) -> Stmt:
    inner = AttrStmt(const(0), ASYNC_SCOPE, const(1), seq(*group))
    return AttrStmt(const(0), COMMIT, const(stage), inner)


def _numbers(loop: For, key: str) -> list[int]:
    value = loop.annotations.get(key, ())
    return [int(part) for part in value] if isinstance(value, list | tuple) else [int(value)]


def _body(loop: For) -> tuple[list[Buffer], list[Stmt]]:
    """The buffers that an iteration allocates, and its statements."""
    allocated: list[Buffer] = []
    stmt = loop.body
    while isinstance(stmt, BlockRealize) and isinstance(stmt.block.body, SeqStmt | BlockRealize):
        if not (isinstance(stmt.predicate, IntImm) and stmt.predicate.value):
            break
        allocated.extend(stmt.block.alloc_buffers)
        stmt = stmt.block.body
    return allocated, list(parts_of(stmt))


def _step(place: int, stmt: Stmt, stage: int, order: int) -> _Step:
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    pointers: set[Var] = set()
    doubled: set[Buffer] = set()
    indexed: set[Var] = set()  # pointers with an index beside them
    blocks: list[Block] = []
    for node in pre_order(stmt):
        if isinstance(node, BufferStore):
            writes.add(node.buffer)
        if isinstance(node, Block):
            blocks.append(node)
            if DOUBLE_BUFFER in node.annotations:
                doubled.add(node.writes[int(node.annotations[DOUBLE_BUFFER])].buffer)
            continue  # its regions declare what the statements inside do
        for expr in stmt_exprs(node):
            reads |= loaded_buffers(expr)
            pointers |= bare_pointers(expr)
            indexed.update(var for var in free_vars(expr) if var.dtype.is_handle)
    for block in blocks:  # which say what is done through a pointer
        reads |= {region.buffer for region in block.reads if region.buffer.data in indexed}
        writes |= {region.buffer for region in block.writes if region.buffer.data in indexed}
    accessed = frozenset(reads), frozenset(writes), frozenset(pointers), frozenset(doubled)
    return _Step(place, stmt, stage, order, *accessed)


def _versioned(buffer: Buffer, count: int) -> Buffer:
    if count == 1:
        return buffer
    leading = const(count, buffer.shape[0].dtype if buffer.shape else "int32")
    strides = buffer.strides and (buffer.strides[0] * buffer.shape[0], *buffer.strides)
    return buffer.replace(shape=(leading, *buffer.shape), strides=strides)


class _Versions(Replacer):
    """Directs accesses to one version of a buffer."""

    def __init__(self, table: Mapping[Buffer, Buffer], slots: Mapping[Buffer, Expr]) -> None:
        super().__init__({}, {})
        self.table = table
        self.slots = slots
        self.pointers = {buffer.data: buffer for buffer in slots}

    def concerns(self, expr: Expr) -> bool:
        return super().concerns(expr) or not free_vars(expr).isdisjoint(self.pointers)

    def visit_expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.op in POINTERS:
            expr = redirected(expr, self._moved)
        return super().visit_expr(expr)

    def _moved(self, data: Var, index: Expr) -> tuple[Expr, Expr] | None:
        buffer = self.pointers.get(data)
        if buffer is None:
            return None
        size = row_major_strides(self.table[buffer], index.dtype)[0]
        return data, index + cast(index.dtype, self.slots[buffer]) * size

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        slot = self.slots.get(buffer)
        return None if slot is None else (self.table[buffer], (slot, *indices))

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        result = super().visit_region(region)
        slot = self.slots.get(region.buffer)
        if slot is None:
            return result
        one = Range(slot, const(1, slot.dtype))
        return BufferRegion(self.table[region.buffer], (one, *result.region))
