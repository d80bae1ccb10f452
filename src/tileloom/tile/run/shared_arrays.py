"""Shared memory as the interpreter of whole tensors has it.

A buffer is an array, a view of it an array that shares its elements, and an asynchronous copy is
done at once. `shared_bytes.py` has the memory of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import MemDescType
from .values import Array, ExecutionError, dtype_of, poison


class SharedArrays:
    """Shared memory whose buffers are arrays of elements."""

    def start_program(self) -> None:
        """Forgets all buffers."""

    def finish_program(self) -> None:
        """Looks at what is left."""

    def allocate(self, op: Operation, type: MemDescType) -> Any:
        """A buffer of undefined elements."""
        return poison(dtype_of(type), type.shape)

    def free(self, op: Operation, view: Any) -> None:
        """Ends a buffer's life."""

    def subview(self, op: Operation, view: Any, offsets: Sequence[int], type: MemDescType) -> Any:
        """A part of a view, which may have fewer dimensions."""
        return view[part_of(np.shape(view), offsets, type.shape)]

    def transpose(self, op: Operation, view: Any, order: Sequence[int]) -> Any:
        """A view with its dimensions in another order."""
        return view.transpose(order)

    def reshape(self, op: Operation, view: Any, type: MemDescType) -> Any:
        """A view with its elements, row by row, in another shape."""
        reshaped = view.view()
        reshaped.shape = type.shape  # unlike `reshape`, never a copy
        return reshaped

    def synchronize(self) -> None:
        """All threads wait for one another."""

    def use_scratch(self, op: Operation) -> None:
        """An operation exchanges elements between threads through memory of its own."""

    def read(self, op: Operation, view: Any, type: MemDescType) -> Array:
        """The elements of a view."""
        return view.copy()

    def write(self, op: Operation, view: Any, tensor: Array) -> None:
        """Changes the elements of a view."""
        view[...] = tensor

    def copy_asynchronously(
        self, op: Operation, view: Any, tensor: Array, barrier: Any = None
    ) -> None:
        """Copies elements to a view, some time before a wait for it."""
        self.write(op, view, tensor)

    def commit(self) -> None:
        """Makes the copies since the last commit a group."""

    def wait(self, pending: int) -> None:
        """Waits until at most so many groups are left."""

    def wait_for_barrier(self, op: Operation, view: Any, phase: int) -> None:
        """Waits for the copies that a barrier counts."""

    def read_asynchronously(self, op: Operation, operands: Sequence[Any]) -> None:
        """Notes that a product reads views until a wait for it."""

    def wait_for_products(self, pending: int) -> None:
        """Waits until at most so many products are left."""


def part_of(shape: Sequence[int], offsets: Sequence[int], part: Sequence[int]) -> Any:
    """The index of a part: leading dimensions that it does not have are single elements."""
    skipped = len(shape) - len(part)
    sizes = [1] * skipped + list(part)
    if len(offsets) != len(shape):
        raise ExecutionError(f"{len(offsets)} offsets for a view of {len(shape)} dimensions")
    for extent, offset, size in zip(shape, offsets, sizes, strict=True):
        if not 0 <= offset <= extent - size:
            raise ExecutionError(f"the view at {list(offsets)} is outside of {list(shape)}")
    ends = zip(offsets[skipped:], part, strict=True)
    return (*offsets[:skipped], *(slice(offset, offset + size) for offset, size in ends))
