"""Atomic calls of many threads at once: all of them land, in the order of the threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UnsupportedError
from ..expr import Call
from ..tir import make_buffer
from ..tir.atomics import atomic_order, atomic_place, atomic_values
from ..tir.run_support import ATOMIC_MEANINGS
from .memory import ThreadAccess
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine


def run_atomic(machine: Machine, call: Call, lanes: Array) -> Any:
    """What was in memory before each thread's call, which has happened."""
    place = atomic_place(call)
    memory, stmt = machine.memory.get(place.data), machine.stmt
    if memory is None or stmt is None or place.index is None:
        raise UnsupportedError(f"the emulator knows no memory for {call}")
    values = [
        np.broadcast_to(np.asarray(machine.value(v, lanes)), lanes.shape)
        for v in atomic_values(call)
    ]
    index = np.asarray(machine.value(place.index, lanes), np.int64)
    buffer = make_buffer((1,), place.dtype, place.data.name)
    if place.load is not None:
        buffer = place.load.buffer
    access = ThreadAccess(machine.batch, lanes, np.broadcast_to(index, lanes.shape), buffer, stmt)
    if call.op == "tir.atomic_load":
        return memory.change(
            access, lambda elements, where: elements[where], changes=False, order=atomic_order(call)
        )
    return memory.change(
        access,
        lambda elements, where: change(elements, where, call.op, values),
        changes=True,
        finds=call.op != "tir.atomic_store",
        order=atomic_order(call),
    )


def change(elements: Array, where: Array, op: str, values: list[Array]) -> Array:
    """Apply an operation to elements, one thread after another.

    Args:
        elements: of memory, changed in place.
        where: the element that each thread changes, several maybe the same.
        values: the operands of each thread.

    Returns:
        What each thread found.

    >>> memory = np.zeros(3, np.int32)
    >>> found = change(memory, np.array([2, 0, 2]), "tir.atomic_add", [np.array([1, 2, 3])])
    >>> memory.tolist(), found.tolist()
    ([2, 0, 4], [0, 0, 1])
    """
    found = np.empty(len(where), elements.dtype)
    values = [value.astype(elements.dtype, copy=False) for value in values]
    order = np.argsort(where, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(where[order]) != 0])
    counts = np.diff(np.r_[first, len(where)])
    meaning = ATOMIC_MEANINGS[op]
    if isinstance(meaning, np.ufunc) and len(first) < counts.max(initial=0):
        for begin, count in zip(first, counts, strict=True):
            mine = order[begin : begin + count]
            at = where[mine[0]]
            steps = np.concatenate([elements[at : at + 1], values[0][mine]])
            steps = meaning.accumulate(steps, dtype=elements.dtype)
            found[mine], elements[at] = steps[:-1], steps[-1]
        return found
    for turn in _rounds(order, first, counts):
        at = where[turn]
        old = found[turn] = elements[at]
        if op == "tir.atomic_cas":
            same = _bits(old) == _bits(values[0][turn])
            elements[at[same]] = values[1][turn][same]
        else:
            elements[at] = meaning(old, values[0][turn])
    return found


def _rounds(order: Array, first: Array, counts: Array) -> Iterator[Array]:
    """The threads in groups in which no two change one element, each element's in order."""
    if counts.max(initial=0) <= 1:
        yield order
        return
    rank = np.arange(len(order)) - np.repeat(first, counts)
    by_rank = np.argsort(rank, kind="stable")
    ends = np.flatnonzero(np.diff(rank[by_rank])) + 1
    yield from np.split(order[by_rank], ends)


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
