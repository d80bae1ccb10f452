"""`cp.async`: copies into shared memory that run on their own until their group is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..base.errors import UnsupportedError
from ..expr import Expr, IntImm
from .pointers import place, scope_of
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine

_SIZES = (4, 8, 16)


def copy(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """`ptx_cp_async(to, index, from, index, bytes[, condition or bytes to read])`.

    What is not read is zero.
    """
    size = args[4]
    if not isinstance(size, IntImm) or size.value not in _SIZES:
        raise UnsupportedError(f"an asynchronous copy moves 4, 8 or 16 bytes, not {size}")
    count = size.value
    target = place(machine, args[0], args[1], lanes)
    if not scope_of(target.data).startswith("shared"):
        raise UnsupportedError(f"an asynchronous copy writes shared memory, not {args[0]}")
    wanted = _wanted(machine, args[5:], count, lanes)
    given = np.zeros((len(lanes), count), np.uint8)
    reading = np.nonzero(wanted)[0]
    if len(reading):
        source = place(machine, args[2], args[3], lanes).some(reading)
        given[reading] = source.load(count)
        source.lend(count)
        given[np.arange(count) >= wanted[:, None]] = 0
    target.expect(given)


def _wanted(machine: Machine, rest: tuple[Expr, ...], count: int, lanes: Array) -> Array:
    """How many bytes each thread reads."""
    if not rest:
        return np.full(len(lanes), count)
    value = np.broadcast_to(np.asarray(machine.value(rest[0], lanes)), lanes.shape)
    if value.dtype == bool:
        return np.where(value, count, 0)
    return np.clip(value.astype(np.int64), 0, count)


def commit(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """What these threads have begun to copy since the last time is a group."""
    machine.batch.committed[lanes] += 1


def wait(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """Go on when no more than so many groups are under way; all others have arrived."""
    finished = machine.batch.committed[lanes] - machine.value(args[0], lanes)
    for memory in machine.memory.values():
        memory.arrive(machine.batch, lanes, finished)


HANDLERS: dict[str, Callable[[Machine, tuple[Expr, ...], Array], None]] = {
    "tir.ptx_cp_async": copy,
    "tir.ptx_commit_group": commit,
    "tir.ptx_wait_group": wait,
}
