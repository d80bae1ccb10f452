"""Rules of shared memory, of asynchronous copies and of their barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import MemDescType, TensorType, as_tensor
from .accesses import load_described, store_described
from .interpreter import Interpreter, executes
from .values import Array, ExecutionError, dtype_of


def _view_type(op: Operation, index: int = 0) -> MemDescType:
    type = op.operands[index].type
    if not isinstance(type, MemDescType):
        raise ExecutionError(f"{type} is no view of shared memory")
    return type


def _result_type(op: Operation) -> MemDescType:
    type = op.results[0].type
    if not isinstance(type, MemDescType):
        raise ExecutionError(f"{type} is no view of shared memory")
    return type


@executes("ttg.local_alloc")
def _allocate(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    view = machine.shared.allocate(op, _result_type(op))
    if operands:
        machine.shared.write(op, view, machine.collect(operands[0], op.operands[0].type))
    return view


@executes("ttg.local_dealloc")
def _free(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    machine.shared.free(op, operands[0])


@executes("ttg.memdesc_subview")
def _subview(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    offsets = [int(offset) for offset in operands[1:]]
    return machine.shared.subview(op, operands[0], offsets, _result_type(op))


@executes("ttg.memdesc_index", "ttg.memdesc_subslice")
def _index(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    """The one buffer of several at an index; or a part, at constant offsets."""
    view, type = _view_type(op), _result_type(op)
    if op.name == "ttg.memdesc_index":
        offsets = [int(operands[1]), *[0] * (view.rank - 1)]
    else:
        offsets = list(op.attributes["offsets"].values)  # type: ignore[attr-defined]
    return machine.shared.subview(op, operands[0], offsets, type)


@executes("ttg.memdesc_reshape")
def _reshape(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    return machine.shared.reshape(op, operands[0], _result_type(op))


@executes("ttg.memdesc_trans")
def _transpose(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    order = op.attributes["order"].values  # type: ignore[attr-defined]
    return machine.shared.transpose(op, operands[0], order)


@executes("ttg.local_load")
def _load(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    tensor = machine.shared.read(op, operands[0], _view_type(op))
    return machine.hold(tensor, op.results[0].type)


@executes("ttg.local_store")
def _store(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    machine.shared.write(op, operands[1], machine.collect(operands[0], op.operands[0].type))


# Asynchronous copies.


@executes("ttg.async_copy_global_to_local")
def _copy(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    pointer = as_tensor(op.operands[0].type)
    mask, other = op.operand("mask"), op.operand("other")
    given = None if mask is None else machine.values[mask]
    element = dtype_of(_view_type(op, 1))
    loaded = machine.memory.load(operands[0], element, given)
    if given is not None:
        rest = np.zeros((), element)
        if other is not None and machine.copies_fill_with_other:
            rest = machine.values[other]
        loaded = np.where(given, loaded, rest)
    tensor = machine.collect(loaded, pointer)
    machine.shared.copy_asynchronously(op, operands[1], tensor)
    return (None,)


@executes("ttg.async_commit_group")
def _commit(machine: Interpreter, _op: Operation, _operands: Sequence[Any]) -> Sequence[Any]:
    machine.shared.commit()
    return (None,)


@executes("ttg.async_wait")
def _wait(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Sequence[Any]:
    machine.shared.wait(op.integer("num") if "num" in op.attributes else 0)
    return (None,)


# Copies of blocks by descriptors, and barriers that count their bytes.


@executes("ttng.async_tma_copy_global_to_local")
def _copy_block(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> None:
    result, barrier, predicate = (_named(machine, op, n) for n in ("result", "barrier", "pred"))
    if not predicate:
        return
    view = op.operand_group("result")[0].type
    type = TensorType(view.shape, view.element)  # type: ignore[attr-defined]
    coordinates = machine.read(op.operand_group("coord"))
    tensor = load_described(machine, _named(machine, op, "desc"), coordinates, type)
    machine.shared.copy_asynchronously(op, result, tensor, barrier)


def _named(machine: Interpreter, op: Operation, name: str) -> Any:
    return machine.values[op.operand_group(name)[0]]


@executes("ttng.async_tma_copy_local_to_global")
def _store_block(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    source = op.operand_group("src")[0]
    view = _view_type(op, len(operands) - 1)
    tensor = machine.shared.read(op, machine.values[source], view)
    coordinates = machine.read(op.operand_group("coord"))
    type = TensorType(view.shape, view.element)
    store_described(machine, operands[0], coordinates, tensor, type)


@executes("ttng.wait_barrier")
def _wait_barrier(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    machine.shared.wait_for_barrier(op, operands[0], int(operands[1]))


@executes(
    *("ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect"),
    "ttng.async_tma_store_wait",
)
def _nothing(_machine: Interpreter, _op: Operation, _operands: Sequence[Any]) -> None:
    """Says when a copy is done, which the model of shared memory sees by itself."""
