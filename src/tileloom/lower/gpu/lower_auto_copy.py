"""Blocks that copy a region (`read_at`, `write_at`) are spread over the threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ...base.errors import UserError
from ...expr import LT, Expr, FloorDiv, FloorMod, IntImm, IterVar, Range, Var, binary, const
from ...tir import (
    SERIAL,
    THREAD_BINDING,
    VECTORIZED,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    make_buffer,
    pre_order,
    seq,
    under_loops,
)
from ..analysis.threads import THREAD_TAGS, is_thread_loop, storage_rank, tag_of
from ..common import likely, on_body, replace_vars
from .merge_shared_memory import element_bytes

AUTO_COPY, VECTOR_BYTES, LOCAL_STAGE = "auto_copy", "vector_bytes", "local_stage"
_ZERO = const(0)
# What to do for an element: the round, the lane, its indices.
_Action = Callable[[Expr, Expr, Sequence[Expr]], Stmt]


def lower_auto_copy(func: PrimFunc) -> PrimFunc:
    """A block annotated `auto_copy` copies with all threads, neighbours next to each other.

    A copy between global and shared memory outside of thread loops: its elements, in row-major
    order, are distributed over the threads that the kernel has, `vector_bytes` at a time, in as
    many rounds as it takes. With `local_stage` a thread first loads all its elements into
    registers, then stores them. Other copies, one thread's own, keep their loops; the innermost is
    vectorised if `vector_bytes` asks for it.

    Needs: blocks without iteration variables; buffers compacted; thread loops not yet unified.
    Ensures: the annotations are gone.

    Raises:
        UserError: the block is no copy of one buffer to another in loops of constant extents.
    """
    return on_body(func, _Lower().visit)


@dataclass(frozen=True, slots=True)
class _Copy:
    loops: tuple[For, ...]
    store: BufferStore
    load: BufferLoad
    lanes: int  # elements at a time

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(int(loop.extent) for loop in self.loops)  # type: ignore[call-overload]


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.threads: dict[str, int] = {}  # of the kernel we are in
        self.inside = 0  # thread loops around
        self.in_kernel = False

    def visit_For(self, stmt: For) -> Stmt:
        if not is_thread_loop(stmt):
            return super().visit_For(stmt)
        outermost, threads = not self.in_kernel, self.threads
        if outermost:
            self.in_kernel, self.threads = True, _thread_counts(stmt)
        mine = tag_of(stmt).startswith("threadIdx")
        self.inside += mine
        result = super().visit_For(stmt)
        self.inside -= mine
        if outermost:
            self.in_kernel, self.threads = False, threads
        return result

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        block = stmt.block
        if not block.annotations.get(AUTO_COPY):
            return super().visit_BlockRealize(stmt)
        copy = _copy(block)
        used = {storage_rank(b.scope) for b in (copy.store.buffer, copy.load.buffer)}
        local: tuple[Buffer, ...] = ()
        if used == {0, 1} and self.threads and not self.inside:
            if block.annotations.get(LOCAL_STAGE):
                local, body = _through_registers(copy, self.threads)
            else:
                body = _dealt_out(copy, self.threads)
        else:
            body = _in_vectors(copy)
        own = (AUTO_COPY, VECTOR_BYTES, LOCAL_STAGE)
        notes = {key: value for key, value in block.annotations.items() if key not in own}
        allocated = (*block.alloc_buffers, *local)
        return stmt.replace(
            block=block.replace(body=body, annotations=notes, alloc_buffers=allocated)
        )


def _thread_counts(kernel: Stmt) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in pre_order(kernel):
        if isinstance(node, For) and is_thread_loop(node) and isinstance(node.extent, IntImm):
            tag = tag_of(node)
            if tag.startswith("threadIdx"):
                counts[tag] = max(counts.get(tag, 1), node.extent.value)
    return counts


def _copy(block: Block) -> _Copy:
    loops: list[For] = []
    stmt = block.body
    while True:
        if isinstance(stmt, For) and isinstance(stmt.extent, IntImm):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, BlockRealize) and not stmt.block.alloc_buffers:
            stmt = stmt.block.body
        else:
            break
    if not loops or not isinstance(stmt, BufferStore) or not isinstance(stmt.value, BufferLoad):
        raise UserError(
            f"block {block.name_hint!r} is annotated {AUTO_COPY!r}, but does not copy one buffer"
            " to another in loops of constant extents"
        )
    wanted = int(block.annotations.get(VECTOR_BYTES, 0))
    lanes = 1 << max(0, (wanted // element_bytes(stmt.buffer.dtype)).bit_length() - 1)
    innermost = int(loops[-1].extent)  # type: ignore[call-overload]
    while innermost % lanes:
        lanes //= 2
    return _Copy(tuple(loops), stmt, stmt.value, lanes)


def _in_vectors(copy: _Copy) -> Stmt:
    body: Stmt = copy.store
    *outer, last = copy.loops
    if copy.lanes > 1:
        lane = Var("lane", last.loop_var.dtype)
        place = last.min + last.loop_var * copy.lanes + lane
        body = replace_vars(body, {last.loop_var: place})
        body = For(lane, const(0, lane.dtype), const(copy.lanes, lane.dtype), VECTORIZED, body)
        count = int(last.extent) // copy.lanes  # type: ignore[call-overload]
        last = last.replace(min=const(0, lane.dtype), extent=const(count, lane.dtype))
    body = last.replace(body=body)
    return under_loops(outer, body)


def _dealt_out(copy: _Copy, threads: dict[str, int]) -> Stmt:
    return _rounds(copy, threads, lambda step, lane, places: _placed(copy, places))


def _through_registers(copy: _Copy, threads: dict[str, int]) -> tuple[tuple[Buffer, ...], Stmt]:
    total = prod(copy.extents) // copy.lanes
    steps = -(-total // prod(threads.values()))
    kind = copy.store.value.dtype
    local = make_buffer((steps, copy.lanes), kind, f"{copy.store.buffer.name}_local", scope="local")

    def fetch(step: Expr, lane: Expr, places: Sequence[Expr]) -> Stmt:
        value = _placed(copy, places).value
        return BufferStore(local, value, (step, lane))

    def give(step: Expr, lane: Expr, places: Sequence[Expr]) -> Stmt:
        return _placed(copy, places).replace(value=BufferLoad(local, (step, lane)))

    return (local,), seq(_rounds(copy, threads, fetch), _rounds(copy, threads, give))


def _placed(copy: _Copy, places: Sequence[Expr]) -> BufferStore:
    values = {
        loop.loop_var: loop.min + place.astype(loop.loop_var.dtype)
        for loop, place in zip(copy.loops, places, strict=True)
    }
    result = replace_vars(copy.store, values)
    if not isinstance(result, BufferStore):
        raise UserError(f"a copy became {result}")
    return result


def _rounds(copy: _Copy, threads: dict[str, int], action: _Action) -> Stmt:
    """`action` for every element: rounds of all threads, each a vector at a time."""
    total, count = prod(copy.extents) // copy.lanes, prod(threads.values())
    step, lane = Var("step"), Var("lane")
    axes = [
        (tag, Var(tag.replace(".", "_")), threads[tag]) for tag in THREAD_TAGS if tag in threads
    ]
    number: Expr = step
    for _, var, extent in axes:
        number = number * extent + var
    places = _unravelled(number * copy.lanes + lane, copy.extents)
    body = action(step, lane, places)
    if copy.lanes > 1:
        body = For(lane, _ZERO, const(copy.lanes), VECTORIZED, body)
    else:
        body = replace_vars(body, {lane: _ZERO})
    if total % count:
        body = IfThenElse(likely(binary(LT, number, const(total))), body)
    body = For(step, _ZERO, const(-(-total // count)), SERIAL, body)
    for tag, var, extent in reversed(axes):
        axis = IterVar(Range(0, extent), var, 1, tag)
        body = For(var, _ZERO, const(extent), THREAD_BINDING, body, axis)
    return body


def _unravelled(index: Expr, extents: Sequence[int]) -> list[Expr]:
    """The indices, outermost first, of an element counted in row-major order."""
    places: list[Expr] = []
    for extent in reversed(extents[1:]):
        places.append(binary(FloorMod, index, const(extent)))
        index = binary(FloorDiv, index, const(extent))
    return [index, *reversed(places)]
