"""What a GPU kernel will do, counted without running it.

Every access is evaluated for all threads of a block at once. Of long axes only some blocks and
iterations are evaluated, which stand for all others: the first, the last, and others evenly
between. Counts are exact where neighbours are alike, as in tiled code with a guard at its rim.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError
from ..expr import Call, Expr, IntImm, Var, post_order
from ..lower.analysis.threads import (
    THREAD_TAGS,
    KernelBody,
    is_sync,
    kernels,
    scope_of,
    storage_rank,
)
from ..lower.gpu import allocated_bytes, element_bytes
from ..target import Target
from ..tir import (
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
    collect,
    stmt_exprs,
)
from .instruction_cost import multiplications, pieces
from .machine import Machine
from .thread_batch import ThreadBatch

#: Bytes that memory moves together, banks of shared memory, and bytes of a bank.
SECTOR, BANKS, BANK = 32, 32, 4

#: Positions of an axis that are evaluated.
SAMPLES = 18

#: Calls that the special function unit, or a routine on top of it, computes.
TRANSCENDENTAL = frozenset(
    f"tir.{name}"
    for name in (
        "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf",
        "silu", "gelu", "gelu_tanh", "erfc", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
        "sinh", "cosh", "asinh", "acosh", "atanh", "pow", "sqrt", "rsqrt", "cbrt", "fmod",
    )
)  # fmt: skip

# What a multiprocessor holds, by architecture: threads, KiB of shared memory, blocks where they
# are not 32, registers. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability".
_SM_THREADS = {70: 2048, 75: 1024, 80: 2048, 86: 1536, 87: 1536, 89: 1536, 90: 2048, 100: 2048}
_SM_SHARED = {70: 96, 75: 64, 80: 164, 86: 100, 87: 164, 89: 100, 90: 228, 100: 228}
_SM_BLOCKS = {75: 16, 86: 16, 87: 16, 89: 24}
_SM_REGISTERS = 65536


@dataclass
class MemoryTraffic:
    """Accesses to one kind of memory.

    Attributes:
        elements: how many elements threads access.
        bytes: their bytes.
        requests: instructions of whole warps.
        moves: sectors of 32 bytes that they touch (global), or passes over the banks (shared).
        ideal: moves if neighbours were accessed together.
    """

    elements: int = 0
    bytes: int = 0
    requests: int = 0
    moves: int = 0
    ideal: int = 0

    @property
    def efficiency(self) -> float:
        """The share of what is moved that is wanted; 1 for no accesses."""
        return self.ideal / self.moves if self.moves else 1.0


@dataclass
class KernelCost:
    """Counts for one launch, over all of its threads.

    Attributes:
        grid, block: extents by thread tag.
        loads, stores: by memory: "global", "shared" or "local".
        calls: how often threads evaluate each transcendental function.
        products: multiplications that matrix units do.
        syncs: barriers that one block passes.
        shared_bytes: of a block. `local_bytes`: of a thread's arrays.
        registers: an estimate, for one thread.
        occupancy: the share of a multiprocessor's threads that fit, by that estimate.
        unknown: accesses whose place depends on data; they are counted, but not their moves.
    """

    grid: dict[str, int]
    block: dict[str, int]
    loads: dict[str, MemoryTraffic] = field(default_factory=dict)
    stores: dict[str, MemoryTraffic] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    products: int = 0
    syncs: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    registers: int = 0
    occupancy: float = 0.0
    unknown: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(list(self.block.values()), dtype=np.int64))

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(list(self.grid.values()), dtype=np.int64))

    def __str__(self) -> str:
        lines = [f"{self.blocks} blocks of {self.threads} threads"]
        for word, table in (("loads", self.loads), ("stores", self.stores)):
            for scope, t in table.items():
                what = "sectors" if scope == "global" else "passes"
                moved = f", {t.moves} {what} ({t.efficiency:.0%})" if scope != "local" else ""
                lines.append(f"{scope} {word}: {t.elements} elements, {t.bytes} bytes{moved}")
        lines += [f"{name}: {count}" for name, count in sorted(self.calls.items())]
        if self.products:
            lines.append(f"multiplications by matrix units: {self.products}")
        lines.append(f"barriers in a block: {self.syncs}")
        lines.append(f"shared memory of a block: {self.shared_bytes} bytes")
        lines.append(f"registers of a thread: about {self.registers}")
        lines.append(f"occupancy: about {self.occupancy:.0%}")
        return "\n".join(lines)


def kernel_costs(func: PrimFunc, target: Target) -> list[KernelCost]:
    """The cost of each kernel that a function launches.

    Args:
        func: lowered for a GPU, with constant extents.
        target: the GPU.
    """
    return [_Counter(kernel, target).count() for kernel in kernels(func.body)]


class _Unknown(Exception):
    """A value that depends on data."""


class _Places(Machine):
    """The threads of one block, where nothing is known of data."""

    def __init__(self, threads: int) -> None:
        super().__init__(ThreadBatch(threads, np.zeros(1, np.int64)), {}, {}, {})

    def of(self, expr: Expr) -> Any:
        """The value of an expression in every thread.

        Raises:
            _Unknown: it depends on data.
        """
        try:
            return self.value(expr, self.everyone)
        except UnsupportedError:
            raise _Unknown from None

    def bind(self, var: Var, value: Any) -> None:
        """Let a name mean a value; None if that is unknown."""
        self.env[var] = value

    def value(self, expr: Expr, lanes: Any) -> Any:
        """The value of an expression in some of the threads."""
        if isinstance(expr, BufferLoad) or (isinstance(expr, Var) and self.env.get(expr) is None):
            raise _Unknown
        return super().value(expr, lanes)


class _Counter:
    def __init__(self, kernel: KernelBody, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        extents = {tag: _number(extent) for tag, extent in kernel.extents.items()}
        grid = {tag: n for tag, n in extents.items() if tag.startswith("blockIdx")}
        block = {tag: extents[tag] for tag in reversed(THREAD_TAGS) if tag in extents}
        self.cost = KernelCost(grid, block)
        self.warp = target.warp_size or 32
        self.scopes: dict[Var, str] = {}
        self.places = _Places(self.cost.threads)
        for var, at in self._threads().items():
            self.places.bind(var, at)

    def count(self) -> KernelCost:
        cost, body = self.cost, self.kernel.body
        for stmt in collect(self.kernel.root, Allocate):
            size = allocated_bytes(stmt) or 0
            rank = storage_rank(scope_of(stmt))
            self.scopes[stmt.buffer_var] = ("global", "shared", "shared", "local")[rank]
            if rank == 1:
                cost.shared_bytes += size
            elif rank == 3:
                cost.local_bytes += size
        for place, weight in self._blocks():
            for var, at in place.items():
                self.places.bind(var, at)
            self._stmt(body, np.full(cost.threads, True), weight)
        cost.syncs //= max(1, cost.blocks)
        cost.registers = min(255, 18 + cost.local_bytes // 4 + _pressure(body))
        cost.occupancy = self._occupancy()
        return cost

    def _threads(self) -> dict[Var, Any]:
        """The thread variables, for all threads of a block in the order of their numbers."""
        tags = [tag for tag in THREAD_TAGS if tag in self.cost.block]  # the fastest is last
        shape = [self.cost.block[tag] for tag in tags]
        places = np.indices(shape).reshape(len(shape), self.cost.threads)
        return {self.kernel.threads[tag][0]: at for tag, at in zip(tags, places, strict=True)}

    def _blocks(self) -> Iterator[tuple[dict[Var, Any], int]]:
        """Blocks that stand for others, and for how many."""
        tags = list(self.cost.grid)
        for choice in itertools.product(*(list(_samples(self.cost.grid[tag])) for tag in tags)):
            place = {
                self.kernel.threads[tag][0]: at for tag, (at, _) in zip(tags, choice, strict=True)
            }
            weight = 1
            for _, many in choice:
                weight *= many
            yield place, weight

    def _occupancy(self) -> float:
        cost, sm = self.cost, self.target.sm
        if not cost.threads:
            return 0.0
        warps = -(-cost.threads // self.warp)
        most = _SM_THREADS.get(sm, 2048)
        fits = [
            most // (warps * self.warp),
            _SM_BLOCKS.get(sm, 32),
            _SM_REGISTERS // (-(-cost.registers // 8) * 8 * warps * self.warp),
        ]
        if cost.shared_bytes:
            fits.append(_SM_SHARED.get(sm, 96) * 1024 // cost.shared_bytes)
        return min(fits) * warps * self.warp / most

    # ------------------------------------------------------------------ statements

    def _stmt(self, stmt: Stmt, active: Any, weight: int) -> None:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self._stmt(part, active, weight)
            case For():
                self._loop(stmt, active, weight)
            case IfThenElse():
                self._branch(stmt, active, weight)
            case LetStmt():
                self._exprs(stmt, active, weight)
                self.places.bind(stmt.var, self._known(stmt.value))
                self._stmt(stmt.body, active, weight)
            case Allocate() | DeclBuffer() | AttrStmt():
                self._stmt(stmt.body, active, weight)
            case BufferStore():
                self._exprs(stmt, active, weight)
                table = self.cost.stores
                self._access(table, stmt.buffer, stmt.indices, active, weight)
            case Evaluate() if is_sync(stmt):
                self.cost.syncs += weight
            case _:
                self._exprs(stmt, active, weight)

    def _loop(self, stmt: For, active: Any, weight: int) -> None:
        try:
            low, extent = (int(np.max(self.places.of(e))) for e in (stmt.min, stmt.extent))
        except _Unknown:
            self.cost.unknown += 1
            return
        for at, many in _samples(extent):
            self.places.bind(stmt.loop_var, np.int64(low + at))
            self._stmt(stmt.body, active, weight * many)

    def _branch(self, stmt: IfThenElse, active: Any, weight: int) -> None:
        self._exprs(stmt, active, weight)
        condition = self._known(stmt.condition)
        if condition is None:
            self.cost.unknown += 1
            condition = True
        holds = np.broadcast_to(np.asarray(condition, bool), active.shape)
        for part, mask in ((stmt.then_case, active & holds), (stmt.else_case, active & ~holds)):
            if part is not None and mask.any():
                self._stmt(part, mask, weight)

    # ------------------------------------------------------------------ expressions

    def _known(self, expr: Expr) -> Any:
        """The value of an expression in every thread; None if it depends on data."""
        try:
            return self.places.of(expr)
        except _Unknown:
            return None

    def _exprs(self, stmt: Stmt, active: Any, weight: int) -> None:
        threads = int(active.sum())
        for expr in stmt_exprs(stmt):
            for node in post_order(expr):
                if isinstance(node, BufferLoad):
                    table = self.cost.loads
                    self._access(table, node.buffer, node.indices, active, weight)
                elif isinstance(node, Call) and node.op in TRANSCENDENTAL:
                    name = node.op.removeprefix("tir.")
                    self.cost.calls[name] += threads * node.dtype.lanes * weight
                elif isinstance(node, Call):
                    self._instruction(node, active, weight)

    def _instruction(self, call: Call, active: Any, weight: int) -> None:
        """What an instruction of a warp does to memory, and what it multiplies."""
        self.cost.products += int(active.sum()) * multiplications(call) // self.warp * weight
        for piece in pieces(call):
            table = self.cost.stores if piece.is_store else self.cost.loads
            there = active & (np.arange(active.size) % self.warp < piece.lanes)
            self._access(table, piece.buffer, (piece.index,), there, weight)

    def _access(
        self,
        table: dict[str, MemoryTraffic],
        buffer: Buffer,
        indices: tuple[Expr, ...],
        active: Any,
        weight: int,
    ) -> None:
        scope = self.scopes.get(buffer.data, "global")
        traffic = table.setdefault(scope, MemoryTraffic())
        index, lanes = indices[-1], indices[-1].dtype.lanes
        threads, size = int(active.sum()), element_bytes(buffer.dtype)
        traffic.elements += threads * lanes * weight
        traffic.bytes += threads * lanes * size * weight
        if scope == "local" or not threads:
            return
        at = self._known(index)
        if at is None:
            self.cost.unknown += 1
            return
        places = np.broadcast_to(
            np.reshape(at, (-1, np.shape(at)[-1] if lanes > 1 else 1)), (active.size, lanes)
        )
        count = _sectors if scope == "global" else _passes
        for start in range(0, active.size, self.warp):
            here = active[start : start + self.warp]
            if here.any():
                wanted = places[start : start + self.warp][here] * size
                moves, ideal = count(wanted, size)
                traffic.requests += weight
                traffic.moves += moves * weight
                traffic.ideal += ideal * weight


def _sectors(places: Any, size: int) -> tuple[int, int]:
    """Sectors of global memory under these bytes, and how few would hold as many elements."""
    distinct = np.unique(places)
    sectors = len(np.unique(np.concatenate([distinct // SECTOR, (distinct + size - 1) // SECTOR])))
    return sectors, min(sectors, -(-len(distinct) * size // SECTOR))


def _passes(places: Any, size: int) -> tuple[int, int]:
    """Passes over the banks of shared memory: words of one bank wait for each other."""
    words = np.unique(places // BANK)
    most = int(np.bincount(words % BANKS).max())
    return most, min(most, -(-len(words) // BANKS))


def _samples(extent: int) -> Iterator[tuple[int, int]]:
    """Positions that stand for all of an axis, and for how many: all, or some of a long one."""
    if extent <= SAMPLES:
        yield from ((at, 1) for at in range(extent))
        return
    inner = SAMPLES - 2
    yield 0, 1
    for k in range(inner):
        low, high = (1 + (extent - 2) * n // inner for n in (k, k + 1))
        yield low, high - low
    yield extent - 1, 1


def _number(extent: Expr) -> int:
    return extent.value if isinstance(extent, IntImm) else 1


def _pressure(stmt: Stmt) -> int:
    """Values that are likely to be alive together, beyond arrays: a guess by the widest store."""
    widest = 0
    for store in collect(stmt, BufferStore):
        loads = {node for node in post_order(store.value) if isinstance(node, BufferLoad)}
        widest = max(widest, sum(max(1, load.dtype.lanes) for load in loads))
    return widest
