"""A judge of small programs by brute force: runs them on symbolic values and logs what happens.

It shares nothing with `tileloom.schedule.verify` but the nodes. Values are trees: of sums, products
and maxima as multisets of operands, so that the order of a reduction does not matter. Buffers that
are used inside an unordered loop alone are new in each of its iterations, as lowering makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from tileloom.tir import (
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    used_buffers,
)

UNDEFINED = ("undefined",)
NUMERIC = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: bool(a and b),
    Or: lambda a, b: bool(a or b),
}
UNORDERED = ("parallel", "vectorized")


@dataclass(frozen=True)
class Event:
    """Something wrong: in which block, for which loops, at which element."""

    kind: str
    block: str
    loops: tuple[tuple[str, int], ...]
    buffer: str = ""
    element: tuple[int, ...] = ()


@dataclass
class Outcome:
    """What a run gave."""

    outputs: dict[Any, Any] = field(default_factory=dict)
    events: set[Event] = field(default_factory=set)
    races: set[frozenset[Event]] = field(default_factory=set)
    runs: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.events and not self.races

    def kinds(self) -> set[str]:
        return {event.kind for event in self.events} | ({"race"} if self.races else set())


class Oracle:
    """Runs one function."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.outcome = Outcome()
        self.memory: dict[Buffer, dict[tuple[int, ...], Any]] = {}
        self.env: dict[Var, int] = {}
        self.loops: list[tuple[str, int]] = []
        self.blocks: list[str] = [""]
        self.watch: list[tuple[set[Buffer], dict[Any, list[tuple[int, bool, Event]]]]] = []
        self.inside: dict[Buffer, set[Stmt]] = {}
        self.find_owners(func.body, ())

    def find_owners(self, stmt: Stmt, loops: tuple[Stmt, ...]) -> None:
        """Which unordered loops hold every access to a buffer."""
        if isinstance(stmt, For) and stmt.kind in UNORDERED:
            loops = (*loops, stmt)
        children: list[Stmt] = []
        match stmt:
            case SeqStmt():
                children = list(stmt.seq)
            case BlockRealize():
                children = [s for s in (stmt.block.init, stmt.block.body) if s is not None]
            case IfThenElse():
                children = [s for s in (stmt.then_case, stmt.else_case) if s is not None]
            case For():
                children = [stmt.body]
            case BufferStore():
                for buffer in used_buffers(stmt):
                    known = self.inside.get(buffer)
                    self.inside[buffer] = set(loops) if known is None else known & set(loops)
        for child in children:
            self.find_owners(child, loops)

    def run(self) -> Outcome:
        for k, buffer in enumerate(self.func.buffers):
            self.memory[buffer] = {}
            for element in grid(buffer.static_shape or ()):
                self.memory[buffer][element] = ("in", k, element)
        self.stmt(self.func.body)
        for k, buffer in enumerate(self.func.buffers):
            for element, value in self.memory[buffer].items():
                self.outcome.outputs[k, element] = value
        return self.outcome

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.stmt(part)
            case For():
                self.loop(stmt)
            case IfThenElse():
                if self.number(stmt.condition):
                    self.stmt(stmt.then_case)
                elif stmt.else_case is not None:
                    self.stmt(stmt.else_case)
            case BlockRealize():
                if self.number(stmt.predicate):
                    self.block(stmt)
            case BufferStore():
                value = self.value(stmt.value)
                element = tuple(self.number(i) for i in stmt.indices)
                if self.touch(stmt.buffer, element, True):
                    self.memory[stmt.buffer][element] = value
            case _:
                raise NotImplementedError(type(stmt))

    def loop(self, stmt: For) -> None:
        low, extent = self.number(stmt.min), self.number(stmt.extent)
        unordered = stmt.kind in UNORDERED
        private = {b for b in self.memory if stmt in self.inside.get(b, ()) and self.is_local(b)}
        if unordered:
            self.watch.append((private, {}))
        for k in range(low, low + extent):
            if unordered:
                for buffer in private:
                    self.clear(buffer)
            self.env[stmt.loop_var] = k
            self.loops.append((stmt.loop_var.name, k))
            if unordered:
                self.watch[-1][1]["now"] = k  # type: ignore[assignment]
            self.stmt(stmt.body)
            self.loops.pop()
        if unordered:
            self.find_races(self.watch.pop()[1])

    def find_races(self, log: dict[Any, Any]) -> None:
        log.pop("now", None)
        for accesses in log.values():
            if not any(write for _, write, _ in accesses):
                continue
            for a in accesses:
                for b in accesses:
                    if a[0] < b[0] and (a[1] or b[1]):
                        self.outcome.races.add(frozenset((a[2], b[2])))

    def is_local(self, buffer: Buffer) -> bool:
        return buffer not in self.func.buffers

    def clear(self, buffer: Buffer) -> None:
        self.memory[buffer] = dict.fromkeys(grid(buffer.static_shape or ()), UNDEFINED)

    def block(self, realize: BlockRealize) -> None:
        block = realize.block
        self.blocks.append(block.name_hint)
        values = [self.number(value) for value in realize.iter_values]
        starts = True
        for axis, value in zip(block.iter_vars, values, strict=True):
            low, extent = self.number(axis.domain.min), self.number(axis.domain.extent)
            if not low <= value < low + extent:
                self.event("over-run")
            self.env[axis.var] = value
            starts &= axis.iter_type != 2 or value == low
        key = (block.name_hint, tuple(values))
        self.outcome.runs[key] = self.outcome.runs.get(key, 0) + 1
        for buffer in block.alloc_buffers:
            self.clear(buffer)
        if block.init is not None and starts:
            self.stmt(block.init)
        self.stmt(block.body)
        self.blocks.pop()

    # ------------------------------------------------------------------ memory

    def event(self, kind: str, buffer: str = "", element: tuple[int, ...] = ()) -> Event:
        event = Event(kind, self.blocks[-1], tuple(self.loops), buffer, element)
        if kind != "access":
            self.outcome.events.add(event)
        return event

    def touch(self, buffer: Buffer, element: tuple[int, ...], write: Any) -> bool:
        if element not in self.memory[buffer]:
            self.event("out-of-bounds", buffer.name, element)
            return False
        for private, log in self.watch:
            if buffer not in private:
                event: Any = self.event("access", buffer.name, element)
                log.setdefault((buffer, element), []).append((log["now"], write, event))  # type: ignore[arg-type]
        return True

    # ------------------------------------------------------------------ expressions

    def number(self, expr: Expr) -> Any:
        match expr:
            case IntImm():
                return expr.value
            case Var():
                return self.env[expr]
            case Not(a):
                return not self.number(a)
            case Cast(_, value) | Call(_, "tir.likely", (value,)):
                return self.number(value)
            case Select(c, a, b) | Call(_, "tir.if_then_else", (c, a, b)):
                return self.number(a) if self.number(c) else self.number(b)
            case _:
                return NUMERIC[type(expr)](self.number(expr.a), self.number(expr.b))  # type: ignore

    def value(self, expr: Expr) -> Any:
        match expr:
            case BufferLoad():
                element = tuple(self.number(i) for i in expr.indices)
                if not self.touch(expr.buffer, element, False):
                    return ("outside",)
                value = self.memory[expr.buffer][element]
                if value == UNDEFINED:
                    self.event("uncovered", expr.buffer.name, element)
                return value
            case FloatImm() | IntImm():
                return ("const", expr.value)
            case Call(_, "tir.if_then_else", (c, a, b)):
                return self.value(a) if self.number(c) else self.value(b)
            case Add(a, b) | Max(a, b):
                name = type(expr).__name__
                return bag(name, self.value(a), self.value(b))
            case Call():
                return (expr.op, *(self.value(a) for a in expr.args))
            case _:
                return (type(expr).__name__, *(self.value(child) for child in expr.children))


def bag(name: str, a: Any, b: Any) -> Any:
    """An associative, commutative combination."""
    neutral = {"Add": ("const", 0.0), "Max": ("const", float("-inf"))}[name]
    parts: list[Any] = []
    for value in (a, b):
        if value[0] == name:
            parts.extend(value[1:])
        elif value != neutral:
            parts.append(value)
    return (name, *sorted(parts, key=repr)) if len(parts) != 1 else parts[0]


def grid(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    points: list[tuple[int, ...]] = [()]
    for extent in shape:
        points = [(*point, k) for point in points for k in range(extent)]
    return points


def judge(func: PrimFunc) -> Outcome:
    """What happens when the function runs."""
    return Oracle(func).run()
