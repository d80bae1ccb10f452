"""Random programs over shared memory, and what happens when they run.

`some_program` writes one; `run` goes along one path of it and lists what happens in memory. Neither
knows anything of the analyses that they test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tileloom.tile.dialects.cf import block_operands
from tileloom.tile.dialects.functions import callee_of, symbol_name
from tileloom.tile.ir.attributes import integer_value
from tileloom.tile.ir.core import Block, Operation, Value
from tileloom.tile.ir.types import MemDescType

HEAD = """
#l = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
  order = [1, 0]}>
#k = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4],
  order = [1, 0]}>
#s = #ttg.swizzled_shared<{vec = 2, perPhase = 2, maxPhase = 4, order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
  "ttg.threads-per-warp" = 32 : i32} {
"""
SIZES = (8, 16, 32)


def tensor(size: int, layout: str = "#l") -> str:
    """The type of a square tensor."""
    return f"tensor<{size}x{size}xf16, {layout}>"


def view(size: int, mutable: bool = False) -> str:
    """The type of a view of a square tensor."""
    return f"!ttg.memdesc<{size}x{size}xf16, #s, #ttg.shared_memory{', mutable' * mutable}>"


@dataclass(frozen=True)
class ProgramOptions:
    """What a program may have in it."""

    structured: bool = True
    copies: bool = True
    scratch: bool = True
    calls: bool = True
    length: int = 8


class _Writer:
    """Writes a function of random operations."""

    def __init__(self, random: Random, options: ProgramOptions) -> None:
        self.random = random
        self.options = options
        self.lines: list[str] = []
        self.count = 0
        self.views: list[tuple[str, int]] = []  # names and sizes, immutable ones
        self.callee = ""

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def some_view(self) -> tuple[str, int] | None:
        return self.random.choice(self.views) if self.views else None

    def step(self, depth: int) -> None:
        """Writes an operation, or several."""
        options = self.options
        kinds = ["alloc"] * 3 + ["load"] * 5
        kinds += ["convert"] * (2 * options.scratch) + ["copy"] * options.copies
        kinds += ["call"] * bool(self.callee)
        if options.structured and depth < 3:
            kinds += ["for", "if"]
        getattr(self, f"write_{self.random.choice(kinds)}")(depth)

    def write_alloc(self, _depth: int) -> None:
        size, name = self.random.choice(SIZES), self.fresh()
        self.lines.append(f"{name} = ttg.local_alloc %x{size} : ({tensor(size)}) -> {view(size)}")
        self.views.append((name, size))

    def write_load(self, _depth: int) -> None:
        found = self.some_view()
        if found is not None:
            name, size = found
            self.lines.append(
                f"{self.fresh()} = ttg.local_load {name} : {view(size)} -> {tensor(size)}"
            )

    def write_convert(self, _depth: int) -> None:
        size = self.random.choice(SIZES[1:])
        self.lines.append(
            f"{self.fresh()} = ttg.convert_layout %x{size} : {tensor(size)} -> {tensor(size, '#k')}"
        )

    def write_copy(self, _depth: int) -> None:
        """A copy to a buffer of its own, a wait, and what reads the buffer."""
        size, name, token = self.random.choice(SIZES), self.fresh(), self.fresh()
        type = view(size, True)
        self.lines += [
            f"{name} = ttg.local_alloc : () -> {type}",
            f"{token} = ttg.async_copy_global_to_local %p{size}, {name} : "
            f"tensor<{size}x{size}x!tt.ptr<f16>, #l> -> {type}",
            f"{self.fresh()} = ttg.async_commit_group {token}",
        ]
        if self.random.random() < 0.5:
            self.step(3)
        self.lines.append(f"{self.fresh()} = ttg.async_wait {{num = 0 : i32}}")
        for _ in range(self.random.randrange(3)):
            self.step(3)
        self.lines.append(f"{self.fresh()} = ttg.local_load {name} : {type} -> {tensor(size)}")
        if self.random.random() < 0.3:
            self.lines.append(f"ttg.local_store %x{size}, {name} : {tensor(size)} -> {type}")
            self.lines.append(f"{self.fresh()} = ttg.local_load {name} : {type} -> {tensor(size)}")

    def write_call(self, _depth: int) -> None:
        self.lines.append(f"tt.call {self.callee}(%x8, %x16, %x32) : {CALLED} -> ()")

    def body(self, depth: int, results: list[int]) -> None:
        """Writes a region that yields views of some sizes."""
        outer = list(self.views)
        for _ in range(self.random.randrange(1, 5)):
            self.step(depth + 1)
        names = []
        for size in results:
            fitting = [name for name, of in self.views if of == size]
            if not fitting or self.random.random() < 0.3:
                name = self.fresh()
                self.lines.append(
                    f"{name} = ttg.local_alloc %x{size} : ({tensor(size)}) -> {view(size)}"
                )
                fitting = [name]
            names.append(self.random.choice(fitting))
        if results:
            types = ", ".join(map(view, results))
            self.lines.append(f"scf.yield {', '.join(names)} : {types}")
        self.views = outer

    def write_for(self, depth: int) -> None:
        inits = self.random.sample(self.views, min(len(self.views), self.random.randrange(3)))
        name, iv = self.fresh(), self.fresh()
        arguments = [(self.fresh(), size) for _, size in inits]
        head = f"{name}:{len(inits)} = " if inits else ""
        pairs = ", ".join(f"{a} = {i}" for (a, _), (i, _) in zip(arguments, inits, strict=True))
        sizes = [size for _, size in inits]
        types = ", ".join(map(view, sizes))
        carried = f" iter_args({pairs}) -> ({types})" if inits else ""
        self.lines.append(f"{head}scf.for {iv} = %n to %n step %n{carried} : i32 {{")
        outer = list(self.views)
        self.views += arguments
        self.body(depth, sizes)
        self.lines.append("}")
        self.views = outer + [(f"{name}#{k}", size) for k, size in enumerate(sizes)]

    def write_if(self, depth: int) -> None:
        sizes = [self.random.choice(SIZES) for _ in range(self.random.randrange(2))]
        name = self.fresh()
        types = ", ".join(map(view, sizes))
        head = f"{name}:{len(sizes)} = " if sizes else ""
        self.lines.append(f"{head}scf.if %c{f' -> ({types})' if sizes else ''} {{")
        self.body(depth, sizes)
        if sizes or self.random.random() < 0.5:
            self.lines.append("} else {")
            self.body(depth, sizes)
        self.lines.append("}")
        self.views += [(f"{name}#{k}", size) for k, size in enumerate(sizes)]

    def branched(self) -> None:
        """Writes blocks that branch to each other, each with a view as argument."""
        count = self.random.randrange(2, 6)
        self.write_alloc(0)
        self.write_alloc(0)
        common = [(name, size) for name, size in self.views if size == self.views[0][1]]
        size = common[0][1]
        for block in range(count):
            if block:
                argument = self.fresh()
                self.lines.append(f"^b{block}({argument}: {view(size)}):")
                self.views = [*common, (argument, size)]
            for _ in range(self.random.randrange(1, 4)):
                self.step(3)
            if block == count - 1:
                self.lines.append("tt.return")
                break
            given = [name for name, of in self.views if of == size]
            targets = [self.random.choice((self.random.randrange(1, count), block + 1))]
            targets.append(block + 1)
            first, second = (
                f"^b{target}({self.random.choice(given)} : {view(size)})" for target in targets
            )
            self.lines.append(f"cf.cond_br %c, {first}, {second}")


CALLED = f"({', '.join(tensor(size) for size in SIZES)})"


def some_program(seed: int, options: ProgramOptions | None = None, branched: bool = False) -> str:
    """The text of a random program: a function `@main`, which may call another."""
    random = Random(seed)
    options = options if options is not None else ProgramOptions()
    text = HEAD
    callee = ""
    if options.calls and random.random() < 0.4:
        callee = "@helper"
        arguments = ", ".join(f"%x{size}: {tensor(size)}" for size in SIZES)
        helper = _Writer(random, ProgramOptions(False, False, options.scratch, False))
        for _ in range(random.randrange(1, 5)):
            helper.step(3)
        body = "\n".join(helper.lines)
        text += f"tt.func private @helper({arguments}) {{\n{body}\ntt.return\n}}\n"
    writer = _Writer(random, options)
    writer.callee = callee
    if branched:
        writer.branched()
    else:
        for _ in range(options.length):
            writer.step(0)
        writer.lines.append("tt.return")
    arguments = ", ".join(
        [f"%x{size}: {tensor(size)}" for size in SIZES]
        + [f"%p{size}: tensor<{size}x{size}x!tt.ptr<f16>, #l>" for size in SIZES]
    )
    body = "\n".join(writer.lines)
    return f"{text}tt.func public @main({arguments}, %c: i1, %n: i32) {{\n{body}\n}}\n}}"


# Running a program.


@dataclass(frozen=True)
class MemoryEvent:
    """`kind` is claim, write, read, scratch, copy, commit, wait or barrier."""

    kind: str
    start: int = 0
    end: int = 0
    owner: int = 0
    op: Operation | None = None


@dataclass(frozen=True)
class Instance:
    """A buffer at run time."""

    owner: int
    start: int
    end: int


class ProgramRun:
    """One path through a program: conditions and counts of iterations are random."""

    def __init__(self, module: Operation, random: Random, sizes: dict[Operation, int]) -> None:
        """Runs `@main`; `sizes` has the bytes of scratch memory of operations."""
        self.functions = {symbol_name(op): op for op in module.body}
        self.random = random
        self.sizes = sizes
        self.owners = 0
        self.left = 300
        self.events: list[MemoryEvent] = []
        self.call(self.functions["main"], 0)

    def call(self, function: Operation, base: int) -> None:
        values: dict[Value, Any] = {}
        block: Block | None = function.body
        while block is not None:
            block = self.block(block, values, base)

    def block(self, block: Block, values: dict[Value, Any], base: int) -> Block | None:
        """Runs a block; the block to go to."""
        for op in block:
            if self.left <= 0:
                return None
            self.left -= 1
            if op.successors:
                index = self.random.randrange(len(op.successors))
                target = op.successors[index]
                given = [values.get(value) for value in block_operands(op, index)]
                values.update(zip(target.arguments, given, strict=True))
                return target
            self.operation(op, values, base)
        return None

    def region(self, op: Operation, index: int, values: dict[Value, Any], base: int) -> list[Any]:
        """Runs a region of an operation; what it yields."""
        block = op.regions[index].blocks[0]
        self.block(block, values, base)
        return [values.get(value) for value in block.terminator.operands]

    def operation(self, op: Operation, values: dict[Value, Any], base: int) -> None:
        if op.name == "scf.for":
            carried = [values.get(value) for value in op.operands[3:]]
            for _ in range(self.random.choice((0, 1, 2, 3))):
                values.update(zip(op.body.arguments[1:], carried, strict=True))
                carried = self.region(op, 0, values, base)
            values.update(zip(op.results, carried, strict=True))
        elif op.name == "scf.if":
            index = self.random.randrange(2)
            if op.regions[index].blocks:
                given = self.region(op, index, values, base)
                values.update(zip(op.results, given, strict=True))
        elif op.name == "tt.call":
            offset = integer_value(op.attributes.get("allocation.offset")) or 0
            self.note("call", op=op)
            self.call(self.functions[callee_of(op)], base + offset)
        else:
            self.leaf(op, values, base)

    def leaf(self, op: Operation, values: dict[Value, Any], base: int) -> None:
        offset = integer_value(op.attributes.get("allocation.offset"))
        if op.name == "ttg.local_alloc":
            self.owners += 1
            type = op.results[0].type
            size = 2 * type.size if isinstance(type, MemDescType) else 0
            start = base + (offset or 0)
            values[op.results[0]] = Instance(self.owners, start, start + size)
            self.note("write" if op.operands else "claim", values[op.results[0]], op)
        elif op.name == "ttg.local_load":
            self.note("read", values.get(op.operands[0]), op)
        elif op.name == "ttg.local_store":
            self.note("write", values.get(op.operands[1]), op)
        elif op.name == "ttg.async_copy_global_to_local":
            self.note("copy", values.get(op.operands[1]), op)
        elif op.name in EVENTS:
            self.note(EVENTS[op.name], op=op)
        elif offset is not None:
            self.owners += 1
            start = base + offset
            self.note("scratch", Instance(self.owners, start, start + self.sizes[op]), op)

    def note(self, kind: str, place: Instance | None = None, op: Operation | None = None) -> None:
        """Lists an event; not after the end of a run that was too long."""
        if place is None:
            place = Instance(0, 0, 0)
        if self.left > 0:
            self.events.append(MemoryEvent(kind, place.start, place.end, place.owner, op))


EVENTS = {"gpu.barrier": "barrier", "ttg.async_commit_group": "commit", "ttg.async_wait": "wait"}


def overwritten(run: ProgramRun) -> MemoryEvent | None:
    """The first read of a buffer in whose place something else was written meanwhile. An operation
    has one place: what it made in the last iteration does not outlive what it makes in this."""
    memory: dict[int, int] = {}
    makers: dict[int, Operation | None] = {}
    for event in run.events:
        places = range(event.start, event.end, 8)
        if event.kind == "read":
            found = {memory.get(place, 0) for place in places}
            if {makers.get(owner) for owner in found} != {makers[event.owner]}:
                return event
        elif event.end:
            makers.setdefault(event.owner, event.op)
            memory.update((place, event.owner) for place in places)
    return None


def race(run: ProgramRun, ignored: Operation | None = None) -> tuple[MemoryEvent, ...] | None:
    """The first two accesses that race: both in one place, one a write, no barrier between them.
    A copy takes place between its start and the wait for it, which is for the own thread only.

    Args:
        ignored: a barrier that is taken as not there.
    """
    done: list[MemoryEvent] = []  # since the last barrier
    copies: list[MemoryEvent] = []
    for event in run.events:
        if event.kind == "barrier":
            done = [] if event.op is not ignored else done
        elif event.kind == "wait":
            done += copies
            copies = []
        else:
            found = next((each for each in done if _conflict(each, event)), None)
            if found is not None:
                return found, event
            if event.kind == "scratch":  # writes, waits for the others, reads
                done = [MemoryEvent("read", event.start, event.end, event.owner, event.op)]
            elif event.kind == "copy":
                copies.append(event)
            else:
                done.append(event)
    return None


def _conflict(one: MemoryEvent, other: MemoryEvent) -> bool:
    overlap = one.start < other.end and other.start < one.end
    return overlap and not {one.kind, other.kind} & {"claim"} and {one.kind, other.kind} != {"read"}


def barriers_of(module: Operation) -> Iterator[Operation]:
    """The barriers of a module."""
    return (op for op in module.walk() if op.name == "gpu.barrier")
