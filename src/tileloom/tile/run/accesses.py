"""Rules of accesses to global memory: by pointers, by pointers to blocks, by descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import TensorType, as_tensor, element_type, pointee
from .interpreter import Interpreter, TensorDescriptor, executes
from .memory import ATOMIC_UPDATES, swap_if_equal
from .values import Array, dtype_of, poison


@dataclass(frozen=True, eq=False)
class BlockPointer:
    """A pointer to a block of a tensor in global memory: `tt.make_tensor_ptr`."""

    base: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]

    def addresses(self, type: TensorType) -> Array:
        """The addresses of the elements of the block."""
        size = dtype_of(type).itemsize
        total = np.full(type.shape, self.base, np.int64)
        for axis, index in enumerate(self.indices(type)):
            total = total + index * (self.strides[axis] * size)
        return total

    def indices(self, type: TensorType) -> list[Array]:
        """The block's places along each dimension, ready to be broadcast."""
        grids = np.ogrid[tuple(slice(extent) for extent in type.shape)]
        return [grid + offset for grid, offset in zip(grids, self.offsets, strict=True)]

    def inside(self, type: TensorType, axes: Sequence[int]) -> Array:
        """Which elements are in the tensor, as far as some dimensions are concerned."""
        found = np.ones(type.shape, bool)
        for axis, index in enumerate(self.indices(type)):
            if axis in axes:
                found = found & (index >= 0) & (index < self.shape[axis])
        return found


@executes("tt.addptr")
def _add(_machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    pointed = element_type(pointee(op.results[0].type))
    size = np.int64(dtype_of(pointed).itemsize)
    return operands[0] + operands[1].astype(np.int64) * size


# Pointers to elements.


@executes("tt.load")
def _load(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    result = op.results[0].type
    if isinstance(operands[0], BlockPointer):
        return machine.hold(_load_block(machine, op, operands[0]), result)
    mask, other = _optional(machine, op, "mask"), _optional(machine, op, "other")
    loaded = machine.memory.load(operands[0], dtype_of(result), mask)
    if other is not None and mask is not None:
        loaded = np.where(mask, loaded, other)
    return loaded if isinstance(result, TensorType) else loaded[()]


def _optional(machine: Interpreter, op: Operation, name: str) -> Any:
    found = op.operand(name)
    return None if found is None else machine.values[found]


@executes("tt.store")
def _store(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    pointer, value = operands[:2]
    type = op.operands[1].type
    if isinstance(pointer, BlockPointer):
        block = as_tensor(type)
        mask = pointer.inside(block, _checked_axes(op))
        machine.memory.store(pointer.addresses(block), machine.collect(value, block), mask)
        return
    machine.check_copies(op, operands)
    machine.memory.store(pointer, np.asarray(value), _optional(machine, op, "mask"))


@executes("tt.atomic_rmw")
def _update(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    update = ATOMIC_UPDATES[op.enum("atomic_rmw_op") or ""]
    pointer, value, *mask = _collected(machine, op, operands)
    old = machine.memory.exchange(pointer, (value,), update, mask[0] if mask else None)
    return _given_back(machine, op, old)


@executes("tt.atomic_cas")
def _swap(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    pointer, expected, value = _collected(machine, op, operands)
    old = machine.memory.exchange(pointer, (expected, value), swap_if_equal)
    return _given_back(machine, op, old)


def _collected(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Array]:
    """Whole tensors: each element is changed once, however many threads hold it."""
    pairs = zip(operands, op.operands, strict=True)
    return [
        machine.collect(value, operand.type)
        if isinstance(operand.type, TensorType)
        else np.asarray(value)
        for value, operand in pairs
    ]


def _given_back(machine: Interpreter, op: Operation, old: Array) -> Array:
    type = op.results[0].type
    return machine.hold(old, type) if isinstance(type, TensorType) else old[()]


# Pointers to blocks.


@executes("tt.make_tensor_ptr")
def _make_block_pointer(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    shape, strides, offsets = (
        tuple(map(int, machine.read(op.operand_group(name))))
        for name in ("shape", "strides", "offsets")
    )
    return BlockPointer(operands[0], shape, strides, offsets)


@executes("tt.advance")
def _advance(_machine: Interpreter, _op: Operation, operands: Sequence[Any]) -> Any:
    pointer, *steps = operands
    moved = (offset + int(step) for offset, step in zip(pointer.offsets, steps, strict=True))
    return replace(pointer, offsets=tuple(moved))


def _checked_axes(op: Operation) -> Sequence[int]:
    found = op.attributes.get("boundaryCheck")
    return () if found is None else found.values  # type: ignore[attr-defined]


def _load_block(machine: Interpreter, op: Operation, pointer: BlockPointer) -> Array:
    type = as_tensor(op.results[0].type)
    mask = pointer.inside(type, _checked_axes(op))
    loaded = machine.memory.load(pointer.addresses(type), dtype_of(type), mask)
    padding = op.enum("padding") if "padding" in op.attributes else None
    if padding is None:
        return loaded
    return np.where(mask, loaded, padding_value(dtype_of(type), padding == "pad_nan"))


def padding_value(dtype: np.dtype[Any], nan: bool) -> Array:
    """What stands for elements outside of the tensor."""
    return poison(dtype) if nan else np.zeros((), dtype)


# Descriptors: all dimensions are checked, and what is outside is zero.


@executes("tt.make_tensor_descriptor")
def _make_descriptor(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Any:
    shape, strides = (machine.read(op.operand_group(name)) for name in ("shape", "strides"))
    return TensorDescriptor(operands[0], shape, strides)


def _described_block(descriptor: Any, indices: Sequence[Any], type: TensorType) -> BlockPointer:
    """The pointer to a block of a described tensor, which may have more dimensions, in front."""
    offsets = tuple(map(int, indices))
    extra = len(offsets) - type.rank
    before = sum(o * s for o, s in zip(offsets[:extra], descriptor.strides, strict=False))
    base = descriptor.base + before * dtype_of(type).itemsize
    shape, strides = tuple(descriptor.shape[extra:]), tuple(descriptor.strides[extra:])
    return BlockPointer(base, shape, strides, offsets[extra:])


def load_described(
    machine: Interpreter, descriptor: TensorDescriptor, indices: Sequence[Any], type: TensorType
) -> Array:
    """A block of a described tensor, with zeros outside of it."""
    pointer = _described_block(descriptor, indices, type)
    mask = pointer.inside(type, range(type.rank))
    loaded = machine.memory.load(pointer.addresses(type), dtype_of(type), mask)
    return np.where(mask, loaded, np.zeros((), loaded.dtype))


def store_described(
    machine: Interpreter,
    descriptor: TensorDescriptor,
    indices: Sequence[Any],
    tensor: Array,
    type: TensorType,
) -> None:
    """Stores a block of a described tensor; nothing is stored outside of it."""
    pointer = _described_block(descriptor, indices, type)
    inside = pointer.inside(type, range(type.rank))
    machine.memory.store(pointer.addresses(type), tensor, inside)


@executes("tt.experimental_descriptor_load", "tt.descriptor_load")
def _load_descriptor(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    type = as_tensor(op.results[0].type)
    return machine.hold(load_described(machine, operands[0], operands[1:], type), type)


@executes("tt.experimental_descriptor_store", "tt.descriptor_store")
def _store_descriptor(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> None:
    descriptor, value, *indices = operands
    type = as_tensor(op.operands[1].type)
    store_described(machine, descriptor, indices, machine.collect(value, type), type)


@executes("ttg.global_scratch_alloc")
def _scratch(machine: Interpreter, op: Operation, _operands: Sequence[Any]) -> Array:
    name = f"the scratch memory of {op.integer('nbytes')} bytes"
    return np.int64(machine.memory.allocate(op.integer("nbytes"), name))
