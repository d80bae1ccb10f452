"""A small simulator of thread programs: every thread of a block, with barriers and shuffles.

It refuses what a device would get wrong silently: a barrier that some threads do not reach, and two
threads that touch one element of shared memory, one of them writing, without a barrier between.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)
from tileloom.expr.ops import get_op
from tileloom.tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    pre_order,
)

WARP = 32
Env = dict[Var, Any]
Event = tuple[Any, ...]


class SimulationError(AssertionError):
    """The program is wrong for a machine of threads."""


class Memory:
    """What one pointer points to; shared memory notes who touched what since the last barrier."""

    def __init__(self, array: np.ndarray, watched: bool = False) -> None:
        self.array = array
        self.watched = watched
        self.writers: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}

    def barrier(self) -> None:
        self.writers.clear()
        self.readers.clear()

    def view(self, buffer: Buffer) -> np.ndarray:
        kind = buffer.dtype.element.numpy
        return self.array if self.array.dtype == kind else self.array.view(kind)

    def touch(self, index: int, thread: int, write: bool, buffer: Buffer) -> None:
        array, name = self.view(buffer), buffer.name
        if not 0 <= index < len(array):
            raise SimulationError(f"{name}[{index}] is outside of {len(array)} elements")
        if self.watched:
            for byte in range(index * array.itemsize, (index + 1) * array.itemsize):
                self.note(byte, thread, write, f"{name}[{index}]")

    def note(self, index: int, thread: int, write: bool, name: str) -> None:
        others = {self.writers[index]} if index in self.writers else set()
        if write:
            others |= self.readers.get(index, set())
            self.writers[index] = thread
        else:
            self.readers.setdefault(index, set()).add(thread)
        if others - {thread}:
            raise SimulationError(f"threads {thread} and {others} race for {name}")


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, Div: operator.truediv,
    FloorDiv: operator.floordiv, FloorMod: operator.mod, EQ: operator.eq, NE: operator.ne,
    LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge,
    Min: np.minimum, Max: np.maximum,
}  # fmt: skip


class Thread:
    """One thread: `run` is a generator that yields at barriers and shuffles."""

    def __init__(self, block: Block, number: int, tags: dict[str, int], env: Env) -> None:
        self.block = block
        self.number = number
        self.tags = tags
        self.env = dict(env)
        self.own: dict[Var, Memory] = {}
        self.copies: list[Callable[[], None]] = []  # asynchronous, of no group yet
        self.groups: list[list[Callable[[], None]]] = []

    # ------------------------------------------------------------------ memory

    def memory(self, buffer: Buffer) -> Memory:
        for place in (self.own, self.block.shared, self.block.grid.memory):
            if buffer.data in place:
                return place[buffer.data]
        raise SimulationError(f"{buffer.name} has no memory")

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Any:
        values = [self.eval(i) for i in indices]
        flat = 0 if buffer.elem_offset is None else self.eval(buffer.elem_offset)
        step = 1
        shape = [self.eval(s) for s in buffer.shape]
        strides = [self.eval(s) for s in buffer.strides]
        for axis in reversed(range(len(shape))):
            flat = flat + values[axis] * (strides[axis] if strides else step)
            step *= shape[axis]
        return flat

    def load(self, expr: BufferLoad) -> Any:
        memory, at = self.memory(expr.buffer), self.place(expr.buffer, expr.indices)
        mask = None if expr.predicate is None else np.asarray(self.eval(expr.predicate))
        array = memory.view(expr.buffer)
        if isinstance(at, np.ndarray):
            result = np.zeros(len(at), array.dtype)
            for lane, index in enumerate(at):
                if mask is None or mask[lane]:
                    memory.touch(int(index), self.number, False, expr.buffer)
                    result[lane] = array[index]
            return result
        memory.touch(int(at), self.number, False, expr.buffer)
        return array[int(at)]

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Any, mask: Any) -> None:
        memory, at = self.memory(buffer), np.atleast_1d(self.place(buffer, indices))
        values = np.broadcast_to(value, at.shape)
        for lane, index in enumerate(at):
            if mask is None or np.atleast_1d(mask)[lane]:
                memory.touch(int(index), self.number, True, buffer)
                memory.view(buffer)[index] = values[lane]

    # ------------------------------------------------------------------ expressions

    def eval(self, expr: Expr) -> Any:
        match expr:
            case IntImm():
                return expr.value
            case FloatImm():
                return expr.dtype.numpy.type(expr.value)
            case Var():
                return self.env[expr]
            case BufferLoad():
                return self.load(expr)
            case And(a, b):
                return self.eval(a) and self.eval(b) if expr.dtype.lanes == 1 else self.both(expr)
            case Or(a, b):
                return self.eval(a) or self.eval(b)
            case Not(a):
                return not self.eval(a)
            case Select(c, a, b):
                return self.eval(a) if self.eval(c) else self.eval(b)
            case Cast(value=value):
                return np.asarray(self.eval(value)).astype(expr.dtype.element.numpy)[()]
            case Ramp(base, stride, lanes):
                return self.eval(base) + self.eval(stride) * np.arange(lanes)
            case Broadcast(value, lanes):
                return np.repeat(np.asarray(self.eval(value)), lanes)
            case Let(var, value, body):
                self.env[var] = self.eval(value)
                return self.eval(body)
            case Call(_, "tir.if_then_else", (c, a, b)):
                return self.eval(a) if self.eval(c) else self.eval(b)
            case Call(_, "tir.tvm_warp_activemask", _):
                return 0xFFFFFFFF
            case Call(_, op, args):
                function = get_op(op).evaluate
                assert function is not None, op
                return function(*(self.eval(a) for a in args))
            case _ if type(expr) in _BINARY:
                return _BINARY[type(expr)](*(self.eval(c) for c in expr.children))
        raise SimulationError(f"no value for {expr}")

    def both(self, expr: Expr) -> Any:
        a, b = (self.eval(c) for c in expr.children)
        return np.logical_and(a, b)

    # ------------------------------------------------------------------ statements

    def run(self, stmt: Stmt) -> Iterator[Event]:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    yield from self.run(part)
            case AttrStmt(node=IterVar() as axis) if axis.thread_tag:
                self.env[axis.var] = self.tags[axis.thread_tag]
                yield from self.run(stmt.body)
            case AttrStmt() | DeclBuffer():
                yield from self.run(stmt.body)
            case For() if stmt.thread_binding is not None:
                number = self.tags[stmt.thread_binding.thread_tag]
                self.env[stmt.loop_var] = self.env[stmt.thread_binding.var] = number
                if number < self.eval(stmt.extent):
                    yield from self.run(stmt.body)
            case For():
                low = self.eval(stmt.min)
                for k in range(low, low + self.eval(stmt.extent)):
                    self.env[stmt.loop_var] = k
                    yield from self.run(stmt.body)
            case While():
                while self.eval(stmt.condition):
                    yield from self.run(stmt.body)
            case IfThenElse():
                if self.eval(stmt.condition):
                    yield from self.run(stmt.then_case)
                elif stmt.else_case is not None:
                    yield from self.run(stmt.else_case)
            case LetStmt():
                self.env[stmt.var] = yield from self.value(stmt.value)
                yield from self.run(stmt.body)
            case Allocate():
                self.allocate(stmt)
                yield from self.run(stmt.body)
            case BufferStore():
                value = yield from self.value(stmt.value)
                mask = None if stmt.predicate is None else self.eval(stmt.predicate)
                self.store(stmt.buffer, stmt.indices, value, mask)
            case Evaluate():
                yield from self.value(stmt.value)
            case _:
                raise SimulationError(f"cannot run {type(stmt).__name__}")

    def value(self, expr: Expr) -> Iterator[Event]:
        if isinstance(expr, Call):
            if expr.op == "tir.tvm_storage_sync":
                yield ("sync", expr.args[0].value)
                return 0
            if expr.op.startswith("tir.tvm_warp_shuffle"):
                args = [self.eval(a) for a in expr.args[1:4]]
                return (yield ("shuffle", expr.op, *args))
            if expr.op == "tir.ptx_cp_async":
                self.copy_later(expr)
                return 0
            if expr.op == "tir.ptx_commit_group":
                self.groups.append(self.copies)
                self.copies = []
                return 0
            if expr.op == "tir.ptx_wait_group":
                while len(self.groups) > self.eval(expr.args[0]):
                    for copy in self.groups.pop(0):
                        copy()
                return 0
        return self.eval(expr)

    def copy_later(self, expr: Call) -> None:
        """An asynchronous copy arrives no sooner than it is waited for."""
        to, start, source, first, size = expr.args[:5]
        memory, given = self.block.shared[to], self.block.grid.memory[source].array
        unit, begin = memory.array.itemsize, self.eval(first)
        values = given[begin : begin + size.value // given.itemsize].copy()
        if len(expr.args) > 5 and not self.eval(expr.args[5]):
            values = np.zeros(size.value // given.itemsize, given.dtype)
        at = self.eval(start) * unit
        assert values.nbytes == size.value and at % size.value == 0, "an unaligned or wild copy"

        def arrive() -> None:
            for byte in range(at, at + size.value):
                memory.note(byte, self.number, True, to.name)
            memory.array.view(np.uint8)[at : at + size.value] = values.view(np.uint8)

        self.copies.append(arrive)

    def allocate(self, stmt: Allocate) -> None:
        size = 1
        for extent in stmt.extents:
            size *= self.eval(extent)
        scope = stmt.buffer_var.pointee[1] if stmt.buffer_var.pointee else "global"
        shared = scope.startswith("shared")
        place = self.block.shared if shared else self.own
        if shared and stmt.buffer_var in place:
            return
        array = np.zeros(size, stmt.dtype.element.numpy)
        if array.dtype.kind == "f":
            array[:] = np.nan
        place[stmt.buffer_var] = Memory(array, watched=shared)


class Block:
    """The threads of one block, advanced from barrier to barrier."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.shared: dict[Var, Memory] = {}

    def run(self, stmt: Stmt, blocks: dict[str, int], sizes: dict[str, int], env: Env) -> None:
        tags = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
        threads = []
        for number, at in enumerate(itertools.product(*(range(sizes.get(t, 1)) for t in tags))):
            place = {**blocks, **dict(zip(tags, at, strict=True))}
            thread = Thread(self, number, place, env)
            threads.append(thread.run(stmt))
        replies: list[Any] = [None] * len(threads)
        while True:
            events: list[Event | None] = []
            for thread, reply in zip(threads, replies, strict=True):
                try:
                    events.append(thread.send(reply))
                except StopIteration:
                    events.append(None)
            if all(event is None for event in events):
                return
            if None in events or len({event[:2] for event in events}) > 1:
                raise SimulationError(f"threads part at a barrier or shuffle: {set(events)}")
            if events[0][0] == "sync":
                for memory in self.shared.values():
                    memory.barrier()
                replies = [0] * len(threads)
            else:
                replies = [_shuffled(events, k) for k in range(len(events))]


def _shuffled(events: list[Event], lane: int) -> Any:
    _, op, value, amount, width = events[lane]
    first = lane - lane % width
    if op.endswith("down"):
        other = lane + amount if lane + amount < first + width else lane
    elif op.endswith("up"):
        other = lane - amount if lane - amount >= first else lane
    else:
        other = first + amount % width
    return events[other][2] if other < len(events) else value


class Grid:
    """A function on arrays."""

    def __init__(self, func: PrimFunc, arrays: tuple[Any, ...]) -> None:
        self.memory: dict[Var, Memory] = {}
        env: Env = {}
        for param, array in zip(func.params, arrays, strict=True):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                env[param] = array
            else:
                self.memory[buffer.data] = Memory(array.reshape(-1))
        self.host = Thread(Block(self), 0, {}, env)
        self.host.own = {}
        for _ in self.run_host(func.body):
            raise SimulationError("a barrier outside of threads")

    def run_host(self, stmt: Stmt) -> Iterator[Event]:
        if _is_thread(stmt):
            self.launch(stmt)
        elif isinstance(stmt, SeqStmt):
            for part in stmt.seq:
                yield from self.run_host(part)
        elif isinstance(stmt, Allocate):
            self.host.allocate(stmt)
            self.memory.update(self.host.own)
            yield from self.run_host(stmt.body)
        elif isinstance(stmt, DeclBuffer | AttrStmt):
            yield from self.run_host(stmt.body)
        elif isinstance(stmt, For) and any(map(_is_thread, pre_order(stmt.body))):
            for k in range(self.host.eval(stmt.extent)):
                self.host.env[stmt.loop_var] = k + self.host.eval(stmt.min)
                yield from self.run_host(stmt.body)
        else:
            yield from self.host.run(stmt)

    def launch(self, stmt: Stmt) -> None:
        sizes: dict[str, int] = {}
        for node in pre_order(stmt):
            if isinstance(node, For) and node.thread_binding is not None:
                tag, extent = node.thread_binding.thread_tag, self.host.eval(node.extent)
                sizes[tag] = max(sizes.get(tag, 0), extent)
            elif isinstance(node, AttrStmt) and isinstance(node.node, IterVar):
                tag, extent = node.node.thread_tag, self.host.eval(node.value)
                if tag:
                    sizes[tag] = max(sizes.get(tag, 0), extent)
        tags = [tag for tag in sizes if not tag.startswith("threadIdx")]
        for at in itertools.product(*(range(sizes[tag]) for tag in tags)):
            place = dict(zip(tags, at, strict=True))
            Block(self).run(stmt, place, sizes, self.host.env)


def _is_thread(stmt: Stmt) -> bool:
    if isinstance(stmt, For):
        return stmt.thread_binding is not None
    return isinstance(stmt, AttrStmt) and isinstance(stmt.node, IterVar)


def simulate(func: PrimFunc, *arrays: Any) -> None:
    """Run a thread program on arrays, in place."""
    with np.errstate(all="ignore"):
        Grid(func, arrays)
