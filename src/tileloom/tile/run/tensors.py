"""Rules of operations on whole tensors: constants, shapes, reductions, scans, lookups, output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import IntegerType, MemDescType, TensorType, as_tensor, element_type
from .interpreter import Interpreter, executes
from .values import Array, ExecutionError, constant_array, dtype_of, poison, shape_of, unsigned

AXES = "xyz"


@executes("arith.constant")
def _constant(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Array:
    type = op.results[0].type
    value = constant_array(op.attributes["value"], type)
    return machine.hold(value, type) if isinstance(type, TensorType) else value[()]


@executes("ub.poison")
def _poison(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Array:
    type = op.results[0].type
    value = poison(dtype_of(type), shape_of(type))
    return machine.hold(value, type) if isinstance(type, TensorType) else value[()]


@executes("builtin.unrealized_conversion_cast")
def _cast(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    pairs = zip(operands, op.operands, op.results, strict=True)
    return [_converted(machine, value, old.type, new.type) for value, old, new in pairs]


def _converted(machine: Interpreter, value: Any, source: Any, target: Any) -> Any:
    if isinstance(source, TensorType) and isinstance(target, TensorType):
        return machine.hold(machine.collect(value, source), target)
    return value


@executes("ttg.convert_layout")
def _convert_layout(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    return _converted(machine, operands[0], op.operands[0].type, op.results[0].type)


@executes("tt.get_program_id", "tt.get_num_programs")
def _program(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Array:
    sizes = machine.program if op.name == "tt.get_program_id" else machine.grid
    return np.int32(sizes[AXES.index(op.enum("axis") or "x")])


@executes("tt.make_range")
def _range(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Array:
    numbers = np.arange(op.integer("start"), op.integer("end"), dtype=np.int32)
    return machine.hold(numbers, op.results[0].type)


# Shapes.


@executes("tt.splat")
def _splat(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    type = op.results[0].type
    return machine.hold(np.full(shape_of(type), operands[0]), type)


@executes("tt.unsplat")
def _unsplat(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    return machine.collect(operands[0], op.operands[0].type).reshape(-1)[0]


def _mover(op: Operation) -> list[Callable[..., Array]]:
    """For each result, which elements of the operands it has."""
    shape = shape_of(op.results[0].type)
    match op.name:
        case "tt.expand_dims":
            return [lambda a: np.expand_dims(a, op.integer("axis"))]
        case "tt.broadcast":
            return [lambda a: np.broadcast_to(a, shape)]
        case "tt.reshape":
            return [lambda a: a.reshape(shape)]
        case "tt.trans":
            order = op.attributes["order"].values  # type: ignore[attr-defined]
            return [lambda a: np.transpose(a, order)]
        case "tt.join":
            return [lambda a, b: np.stack([a, b], axis=-1)]
        case "tt.cat":
            return [lambda a, b: np.concatenate([a, b])]
    return [lambda a: a[..., 0], lambda a: a[..., 1]]


@executes(
    *("tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans", "tt.join", "tt.cat"),
    "tt.split",
)
def _move(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    if isinstance(op.results[0].type, MemDescType):  # `tt.trans` of a view, as Triton 3.2 has it
        order = op.attributes["order"].values  # type: ignore[attr-defined]
        return [machine.shared.transpose(op, operands[0], order)]
    return [
        machine.rearrange(op, index, move, operands, as_tensor(op.results[index].type))
        for index, move in enumerate(_mover(op))
    ]


# Reductions and scans.


@executes("tt.reduce")
def _reduce(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Array]:
    return machine.fold(op, operands, machine.combiner(op.regions[0]))


@executes("tt.scan")
def _scan(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Array]:
    types = [operand.type for operand in op.operands]
    tensors = [machine.collect(*pair) for pair in zip(operands, types, strict=True)]
    axis = op.integer("axis")
    rows = [np.moveaxis(tensor, axis, 0) for tensor in tensors]
    backward = "reverse" in op.attributes and bool(op.integer("reverse"))
    combine = machine.combiner(op.regions[0])
    scanned = scan_first([row[::-1] for row in rows] if backward else rows, combine)
    made = [np.moveaxis(row[::-1] if backward else row, 0, axis) for row in scanned]
    return [machine.hold(*pair) for pair in zip(made, types, strict=True)]


def scan_first(arrays: Sequence[Array], combine: Callable[..., Sequence[Array]]) -> Sequence[Array]:
    """The inclusive scan along the first axis, in a logarithmic number of steps."""
    count, step = len(arrays[0]), 1
    while step < count:
        made = combine(*(a[:-step] for a in arrays), *(a[step:] for a in arrays))
        pairs = zip(arrays, made, strict=True)
        arrays = [np.concatenate([old[:step], new]) for old, new in pairs]
        step *= 2
    return arrays


@executes("tt.histogram")
def _histogram(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    result = op.results[0].type
    bins = shape_of(result)[0]
    numbers = machine.collect(operands[0], op.operands[0].type)
    counts = np.bincount(numbers[(numbers >= 0) & (numbers < bins)], minlength=bins)
    return machine.hold(counts.astype(dtype_of(result)), result)


@executes("tt.gather")
def _gather(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    source, indices = (
        machine.collect(value, operand.type)
        for value, operand in zip(operands, op.operands, strict=True)
    )
    axis = op.integer("axis")
    if ((indices < 0) | (indices >= source.shape[axis])).any():
        raise ExecutionError(f"an index is outside of the {source.shape[axis]} elements of an axis")
    return machine.hold(np.take_along_axis(source, indices, axis), op.results[0].type)


# Output and checks.


@executes("tt.print")
def _print(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    prefix = op.attributes["prefix"].value  # type: ignore[attr-defined]
    place = f"pid ({', '.join(map(str, machine.program))})"
    if not operands:
        machine.output(f"{place}{prefix}")
    for value, operand in zip(operands, op.operands, strict=True):
        tensor = _whole(machine, value, operand.type)
        machine.output(f"{place}{prefix}{_shown(tensor, op, operand.type)}")


def _whole(machine: Interpreter, value: Array, type: Any) -> Array:
    return machine.collect(value, type) if isinstance(type, TensorType) else value


def _shown(tensor: Array, op: Operation, type: Any) -> str:
    if "hex" in op.attributes and op.integer("hex") and isinstance(element_type(type), IntegerType):
        width = 2 * tensor.dtype.itemsize
        show: Any = {"int": lambda number: f"0x{number:0{width}x}"}
        return np.array2string(np.asarray(unsigned(tensor)), formatter=show)
    return str(tensor)


@executes("tt.assert", "cf.assert")
def _assert(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    if not np.all(operands[0]):
        name = "message" if op.name == "tt.assert" else "msg"
        raise ExecutionError(f"fails: {op.attributes[name].value}")  # type: ignore[attr-defined]


@executes("gpu.barrier")
def _barrier(machine: Interpreter, _op: Operation, _operands: Sequence[Any]) -> None:
    machine.shared.synchronize()


@executes("ttng.fence_async_shared", "ttng.cluster_arrive", "ttng.cluster_wait")
def _nothing(_machine: Interpreter, _op: Operation, _operands: Sequence[Any]) -> None:
    """Says something of the order of threads alone."""
