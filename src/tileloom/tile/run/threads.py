"""Runs programs of tile IR thread by thread: every tensor is spread over registers, lanes and
warps by its layout, and every operation works on what its thread has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import TensorType, Type, as_tensor
from ..layouts.encodings import BlockedEncoding
from .interpreter import Interpreter, complete_grid, fold_first, run_with
from .memory import GlobalMemory
from .placement import Placement, find_in_threads, placement_of
from .shared_bytes import OFFSET, SharedBytes
from .tensor import RULE_FILES
from .values import ELEMENTWISE, Array, ExecutionError, same_bits

__all__ = ["RULE_FILES", "run_threads"]
MAY_USE_UNFINISHED = ("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "scf.for", "scf.if")


class ThreadInterpreter(Interpreter):
    """The interpreter whose tensors are arrays of (warps, lanes, registers)."""

    copies_fill_with_other = False
    shared: SharedBytes

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.registers: dict[tuple[Operation, int], Array] = {}
        self.unfinished: list[Array] = []  # results of products on their way, oldest first

    def hold(self, tensor: Array, type: Type) -> Array:
        """The tensor, spread over threads."""
        return np.asarray(tensor).reshape(-1)[placement_of(as_tensor(type)).elements]

    def collect(self, value: Array, type: Type) -> Array:
        """The tensor that threads hold; copies of an element must be the same."""
        shape, placement = as_tensor(type).shape, placement_of(as_tensor(type))
        flat = value.reshape(-1)[placement.first]
        if placement.copies:
            same = same_bits(flat[placement.elements], value)
            if not np.all(same):
                _refuse_copies(placement, value, same, as_tensor(type))
        return flat.reshape(shape)

    def check_copies(self, op: Operation, operands: Sequence[Array]) -> None:
        """Refuses operands whose elements differ between the threads that hold them."""
        for value, operand in zip(operands, op.operands, strict=True):
            if isinstance(operand.type, TensorType) and placement_of(operand.type).copies:
                self.collect(value, operand.type)

    # Elements that move between registers of a thread.

    def rearrange(
        self,
        op: Operation,
        index: int,
        move: Callable[..., Array],
        values: Sequence[Array],
        result: TensorType,
    ) -> Array:
        """Result `index`, each element of which its thread must have in a register."""
        key = (op, index)
        if key not in self.registers:
            self.registers[key] = _registers(op, move, result)
        together = np.concatenate(values, axis=-1)
        return np.take_along_axis(together, self.registers[key], axis=-1)

    # Reductions.

    def fold(
        self, op: Operation, values: Sequence[Array], combine: Callable[..., Sequence[Array]]
    ) -> list[Array]:
        """The results of a reduction: over registers, then lanes, then warps."""
        axis = op.integer("axis")
        type = as_tensor(op.operands[0].type)
        rows = [
            np.moveaxis(self.collect(value, operand.type), axis, 0)
            for value, operand in zip(values, op.operands, strict=True)
        ]
        order, counts = _fold_order(type, axis)
        rows = [np.take_along_axis(row, order, 0) for row in rows]
        rows = [row.reshape(*counts, *row.shape[1:]) for row in rows]
        for depth in (2, 1, 0):
            rows = fold_first([np.moveaxis(row, depth, 0) for row in rows], combine)
        made = []
        for row, found in zip(rows, op.results, strict=True):
            if isinstance(found.type, TensorType):
                _check_reduced(type, axis, found.type)
                made.append(self.hold(row, found.type))
            else:
                made.append(row)
        return made

    def check_product(self, op: Operation) -> None:
        """Refuses a product whose operands are not where its results are computed."""
        _check_product(*(operand.type for operand in op.operands[:2]), op.results[0].type)

    # Operations.

    def results_of(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """The results; an operation on elements has operands and results of one layout."""
        if op.name in ELEMENTWISE or op.name in ("tt.load", "tt.store", "tt.addptr"):
            layouts = {v.type.encoding for v in op.operands if isinstance(v.type, TensorType)}
            layouts |= {v.type.encoding for v in op.results if isinstance(v.type, TensorType)}
            if len(layouts) > 1:
                raise ExecutionError(f"layouts differ: {', '.join(sorted(map(str, layouts)))}")
        if self.unfinished and op.name not in MAY_USE_UNFINISHED:
            self._check_finished(operands)
        if OFFSET in op.attributes and op.name != "ttg.local_alloc":
            self.shared.use_scratch(op)
        results = super().results_of(op, operands)
        if op.name == "ttng.warp_group_dot" and "isAsync" in op.attributes:
            if op.integer("isAsync"):
                self.unfinished.append(results[0])
        elif op.name == "ttng.warp_group_dot_wait":
            pendings = op.integer("pendings")
            self.unfinished = self.unfinished[-pendings:] if pendings else []
        return results

    def _check_finished(self, operands: Sequence[Any]) -> None:
        for operand in operands:
            if any(operand is array for array in self.unfinished):
                raise ExecutionError("uses the result of a product on its way, without a wait")


def _refuse_copies(placement: Placement, value: Array, same: Array, type: TensorType) -> None:
    warp, lane, register = (int(n) for n in np.argwhere(~same)[0])
    number = int(placement.elements[warp, lane, register])
    mine = value[warp, lane, register]
    other = value.reshape(-1)[placement.first[number]]
    raise ExecutionError(
        f"copies of element {_index(number, type)} of {type} differ: warp {warp}, lane {lane}, "
        f"register {register} has {mine}, another one has {other}"
    )


def _index(number: int, type: TensorType) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(number, type.shape))


def _registers(op: Operation, move: Callable[..., Array], result: TensorType) -> Array:
    """For every register of a result, the one of its thread, among those of all operands, that
    has its element. A reordering may instead keep every element where it is."""
    numbers, held, start = [], [], 0
    for operand in op.operands:
        type = as_tensor(operand.type)
        numbers.append(np.arange(start, start + type.size).reshape(type.shape))
        held.append(placement_of(type).elements + start)
        start += type.size
    together, target = np.concatenate(held, axis=-1), placement_of(result)
    wanted = move(*numbers).reshape(-1)[target.elements]
    if together.shape[:2] == wanted.shape[:2]:
        found = find_in_threads(together, wanted)
        if (found >= 0).all():
            return found
        if _may_reorder(op) and together.shape == wanted.shape and together.size == result.size:
            return np.broadcast_to(np.arange(wanted.shape[-1]), wanted.shape)
        warp, lane, register = (int(n) for n in np.argwhere(found < 0)[0])
        place = _index(int(target.elements[warp, lane, register]), result)
        detail = f"warp {warp}, lane {lane} is to have element {place}, which it has not got"
    else:
        detail = f"{together.shape[:2]} and {wanted.shape[:2]} warps and lanes"
    sources = ", ".join(str(operand.type) for operand in op.operands)
    raise ExecutionError(f"layouts are inconsistent: {sources} and {result}: {detail}")


def _may_reorder(op: Operation) -> bool:
    return op.name == "tt.cat" or "allow_reorder" in op.attributes


@cache
def _fold_order(type: TensorType, axis: int) -> tuple[Array, tuple[int, int, int]]:
    """The order in which elements along an axis are combined, and how many warps, lanes of each
    and registers of each have some."""
    placement = placement_of(type)
    _, lanes, registers = placement.elements.shape
    first = np.moveaxis(placement.first.reshape(type.shape), axis, 0)
    order = np.argsort(first, axis=0, kind="stable")
    places = np.take_along_axis(first, order, 0).reshape(len(first), -1)
    threads = places // registers
    in_thread = int((threads == threads[0]).sum(0).max())
    in_warp = int((threads // lanes == threads[0] // lanes).sum(0).max())
    counts = (len(first) // in_warp, in_warp // in_thread, in_thread)
    if int(np.prod(counts)) != len(first):  # a layout that is not even: any order will do
        counts = (1, 1, len(first))
    return order, counts


@cache
def _check_reduced(source: TensorType, axis: int, result: TensorType) -> None:
    """Refuses a layout of a reduction's result some thread of which has no part of a row."""
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    rows = np.arange(result.size).reshape(shape)
    rows = np.broadcast_to(np.expand_dims(rows, axis), source.shape).reshape(-1)
    held, wanted = placement_of(source).elements, placement_of(result).elements
    if held.shape[:2] != wanted.shape[:2] or (find_in_threads(rows[held], wanted) < 0).any():
        raise ExecutionError(f"layouts are inconsistent: {source}, reduced, and {result}")


@cache
def _check_product(a: Type, b: Type, result: TensorType) -> None:
    """Refuses a product whose warps (with tensor cores; else threads) have not got all of the rows
    and columns of their results. What is in shared memory all warps have."""
    by_thread = isinstance(result.encoding, BlockedEncoding)
    for operand, outer in ((a, -2), (b, -1)):
        if not isinstance(operand, TensorType):
            continue
        complete = _complete_lines(operand, outer, by_thread)
        needed = _lines(result, outer, by_thread)
        if complete.shape != needed.shape or (needed & ~complete).any():
            raise ExecutionError(f"layouts are inconsistent: an operand {operand} of {result}")


def _owners(type: TensorType, by_thread: bool) -> Array:
    """The elements that every warp, or every thread, has."""
    elements = placement_of(type).elements
    return (
        elements.reshape(-1, elements.shape[-1])
        if by_thread
        else elements.reshape(len(elements), -1)
    )


def _has(type: TensorType, by_thread: bool) -> Array:
    owners = _owners(type, by_thread)
    found = np.zeros((len(owners), type.size), bool)
    found[np.arange(len(owners))[:, None], owners] = True
    return found.reshape(-1, *type.shape)


def _lines(type: TensorType, outer: int, by_thread: bool) -> Array:
    """The rows (or columns) of which a warp, or a thread, has elements, by batch."""
    return _has(type, by_thread).any(-1 if outer == -2 else -2)


def _complete_lines(type: TensorType, outer: int, by_thread: bool) -> Array:
    """The rows (or columns) that a warp, or a thread, has all of."""
    return _has(type, by_thread).all(-1 if outer == -2 else -2)


def run_threads(
    module: Operation,
    function: str,
    arguments: Sequence[Any],
    grid: Sequence[int] = (1, 1, 1),
    *,
    output: Callable[[str], None] = print,
    limit: int = 10_000_000,
    barriers: bool = False,
) -> list[np.ndarray[Any, Any]]:
    """Runs a function as threads do; arguments and results are those of `run`.

    With `barriers`, threads are in step at barriers alone: `gpu.barrier`, and those that an
    operation with scratch memory has. Without, after every operation.

    Every tensor needs a layout. It is an error if an element is not in the thread that needs it,
    if copies of an element differ, or if shared memory is read before it is filled, or written
    while it is in use (`shared_bytes.py`).
    """
    memory = GlobalMemory()
    machine = ThreadInterpreter(
        module, memory, SharedBytes(barriers), complete_grid(grid), output, limit
    )
    return run_with(machine, function, arguments)
