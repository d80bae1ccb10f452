"""The host's part of a function: its launches, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, UnsupportedError
from ..base.tensor_map import TensorMap
from ..expr import Expr, IntImm, Var
from ..expr.evaluate import evaluate
from ..lower.analysis.pointers import is_map, written_through
from ..lower.analysis.threads import GRID_TAGS, THREAD_TAGS, KernelBody, kernels
from ..lower.gpu import check_instructions
from ..target import Target
from ..tir import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..tir.atomics import written_pointers
from .fences import Fences, orders_blocks
from .granularity import granularity
from .independent_warps import WarpScheduler, needs_independent_warps, uses_engines
from .machine import Machine
from .memory import Allocation
from .thread_batch import WARP, Array, ThreadBatch

#: Threads that are run together: enough to keep NumPy's loops long.
TOGETHER = 1 << 16


def run_kernels(
    func: PrimFunc,
    *args: Any,
    check_initialised: bool = True,
    blocks: Sequence[int] | None = None,
    fast_math: int | None = None,
) -> int:
    """Run a function that was lowered for a GPU, in place, with every thread of every block.

    Args:
        func: flat code whose thread loops are attributes.
        args: an array for each buffer parameter, contiguous, of its type and size; a number for
            each scalar.
        check_initialised: whether reading what nobody wrote is a defect.
        blocks: which blocks of each grid to run, counted along x first; by default all.
        fast_math: have functions be off at random, by what `-fast-math` may make them be off: a
            number that says how. By default they are exact, whatever the target.

    Returns:
        How many statements all threads have run.

    Raises:
        KernelDefect: a thread does what a GPU would get wrong.

    >>> import numpy as np
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> from tileloom.lower import lower
    >>> from tileloom.plan import schedule_gpu
    >>> A, k = te.placeholder((3, 100), name="A"), te.reduce_axis((0, 100), name="k")
    >>> B = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> gpu = target("cuda -arch=sm_80")
    >>> flat = lower(schedule_gpu(te.create_prim_func([A, B]), gpu).mod["main"], gpu)
    >>> a, b = np.ones((3, 100), "float32"), np.zeros(3, "float32")
    >>> steps = run_kernels(flat, a, b)
    >>> b
    array([100., 100., 100.], dtype=float32)
    """
    with np.errstate(all="ignore"):
        return _Host(func, args, check_initialised, blocks, fast_math).run()


class EmulatedKernel:
    """A function for a GPU that is called like a compiled one, and runs on the emulator.

    Args:
        func: the lowered function.
        target: the GPU that it is for, which must have its instructions.
        sizes: what the last parameters are, which callers do not pass; see `sizes_of`.
    """

    def __init__(
        self,
        func: PrimFunc,
        target: Target | None = None,
        sizes: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> None:
        if target is not None:
            check_instructions(func, target)
        self.func = func
        self.sizes = sizes

    def __call__(self, *args: Any) -> None:
        """Run on arrays, in place; see `run_kernels`."""
        run_kernels(self.func, *args, *(self._size(places, args) for places in self.sizes))

    @staticmethod
    def _size(places: Sequence[tuple[int, int]], args: tuple[Any, ...]) -> int:
        shapes = [(np.shape(args[at]), axis) for at, axis in places if at < len(args)]
        found = {shape[axis] for shape, axis in shapes if axis < len(shape)}
        if len(found) != 1:
            raise ArgumentError(f"arguments have {sorted(found)} elements where one size is meant")
        return int(found.pop())

    def __repr__(self) -> str:
        return f"EmulatedKernel({self.func.name})"


def sizes_of(func: PrimFunc, passed: int) -> list[list[tuple[int, int]]]:
    """Where the sizes stand that the last parameters of a function are: (argument, axis) of each.

    Args:
        passed: how many parameters callers pass.

    Raises:
        UnsupportedError: one is the size of nothing.
    """
    result = []
    for size in func.params[passed:]:
        places = [
            (at, axis)
            for at, param in enumerate(func.params[:passed])
            if param in func.buffer_map
            for axis, extent in enumerate(func.buffer_map[param].shape)
            if extent is size
        ]
        if not places:
            raise UnsupportedError(f"no argument has {size.name!r} for an extent")
        result.append(places)
    return result


class _Host:
    def __init__(
        self,
        func: PrimFunc,
        args: tuple[Any, ...],
        starts_empty: bool,
        blocks: Sequence[int] | None,
        fast_math: int | None,
    ) -> None:
        self.func = func
        self.starts_empty = starts_empty
        self.blocks = blocks
        self.random = None if fast_math is None else np.random.default_rng(fast_math)
        self.bytes: dict[Var, Array] = {}
        self.env: dict[Var, Any] = {}
        self.steps = 0
        if len(args) != len(func.params):
            raise ArgumentError(f"{func.name} takes {len(func.params)} arguments, not {len(args)}")
        for param, given in zip(func.params, args, strict=True):
            buffer = func.buffer_map.get(param)
            if is_map(param):
                self.env[param] = _map(given, param.name)
            elif buffer is None:
                self.env[param] = param.dtype.numpy.type(given)
            else:
                self.bytes[buffer.data] = _bytes(given, buffer.name, buffer.dtype.element.numpy)
        self.units = granularity(func.body)
        self.roots = {kernel.root: kernel for kernel in kernels(func.body)}

    def run(self) -> int:
        self._stmt(self.func.body)
        return self.steps

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, AttrStmt) and stmt in self.roots:
            self._launch(self.roots[stmt])
            return
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self._stmt(part)
            case Allocate():
                size = prod(int(self._number(extent)) for extent in stmt.extents)
                bytes_ = size * stmt.dtype.element.numpy.itemsize * stmt.dtype.lanes
                self.bytes[stmt.buffer_var] = np.zeros(bytes_, np.uint8)
                self._stmt(stmt.body)
            case LetStmt():
                self.env[stmt.var] = self._number(stmt.value)
                self._stmt(stmt.body)
            case For():
                low = int(self._number(stmt.min))
                for k in range(int(self._number(stmt.extent))):
                    self.env[stmt.loop_var] = stmt.loop_var.dtype.numpy.type(low + k)
                    self._stmt(stmt.body)
            case AttrStmt() | DeclBuffer():
                self._stmt(stmt.body)
            case Evaluate(value=IntImm()):
                pass
            case _:
                raise UnsupportedError(
                    f"the emulator runs kernels; the host has a {type(stmt).__name__} of its own"
                )

    def _number(self, extent: Expr) -> Any:
        return evaluate(extent, self.env)

    def _launch(self, kernel: KernelBody) -> None:
        extents = {tag: int(self._number(n)) for tag, n in kernel.extents.items()}
        grid = [extents.get(tag, 1) for tag in GRID_TAGS]
        shape = [extents.get(tag, 1) for tag in reversed(THREAD_TAGS)]
        threads = prod(shape)
        warps = -(-threads // WARP) if needs_independent_warps(kernel.body) else 0
        engines = uses_engines(kernel.body)
        stored = written_pointers(kernel.body) | written_through(kernel.body)
        fences = Fences(threads, prod(grid)) if orders_blocks(kernel.body) else None
        memory = {
            data: Allocation(
                data.name,
                raw.reshape(1, -1),
                gcd(self.units.get(data, 1), max(1, raw.size)),
                None,
                starts_empty=False,
                watched=data in stored,
                warps=2 * warps + 1 if engines else warps,
                timed=fences is not None and data in stored,
            )
            for data, raw in self.bytes.items()
        }
        step = 1 if warps else max(1, TOGETHER // max(1, threads))
        numbers = self._numbers(prod(grid))
        for start in range(0, len(numbers), step):
            batch = ThreadBatch(threads, numbers[start : start + step], engines)
            batch.fences = fences
            env = dict(self.env)
            block, thread = batch.blocks[batch.block], batch.thread
            places = [(GRID_TAGS, grid, block), (tuple(reversed(THREAD_TAGS)), shape, thread)]
            for tags, counts, number in places:
                for tag, count in zip(tags, counts, strict=True):
                    if tag in kernel.threads:
                        var = kernel.threads[tag][0]
                        env[var] = (number % count).astype(var.dtype.numpy)
                    number = number // count
            machine = Machine(batch, memory, env, self.units, self.starts_empty, warps)
            machine.random = self.random
            if warps:
                WarpScheduler(machine).run(kernel.body)
            else:
                machine.run(kernel.body, machine.everyone)
            self.steps += machine.steps
            for known in memory.values():
                known.give_back()

    def _numbers(self, count: int) -> Array:
        """The blocks of a grid that are run."""
        if self.blocks is None:
            return np.arange(count)
        chosen = np.unique(np.asarray(self.blocks, np.int64))
        if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < count:
            raise ArgumentError(f"the grid has blocks 0 to {count - 1}, not {self.blocks}")
        return chosen


def _map(given: Any, name: str) -> TensorMap:
    if not isinstance(given, TensorMap):
        raise ArgumentError(f"argument {name!r} is a TensorMap, not {type(given).__name__}")
    return given


def _bytes(given: Any, name: str, kind: np.dtype[Any]) -> Array:
    """The bytes of an argument, to be read and written in place."""
    if not isinstance(given, np.ndarray) or given.dtype != kind:
        found = getattr(given, "dtype", type(given).__name__)
        raise ArgumentError(f"argument {name!r} is an array of {kind}, not {found}")
    if not given.flags.c_contiguous:
        raise ArgumentError(f"argument {name!r} is not contiguous")
    return given.reshape(-1).view(np.uint8)
