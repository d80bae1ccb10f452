"""Calls that only GPUs have and that stand as statements: matrices and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..expr import Call, Expr
from . import async_copy, bulk_copy, matrix, mma, wgmma
from .bulk_copy import WAIT
from .defects import KernelDefect
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

Handler = Callable[["Machine", tuple[Expr, ...], Array], None]

#: What all threads of a warp must run together.
_BY_WARPS: dict[str, Handler] = {**matrix.HANDLERS, **mma.HANDLERS, **wgmma.HANDLERS}
_BY_THREADS: dict[str, Handler] = {**async_copy.HANDLERS, **bulk_copy.HANDLERS}
#: Calls that have a value.
VALUES = wgmma.VALUES


def handled(op: str) -> bool:
    """Whether the emulator has a meaning for an instruction."""
    return op in _BY_WARPS or op in _BY_THREADS or op in VALUES or op == WAIT


def run_instruction(machine: Machine, call: Call, lanes: Array) -> bool:
    """Run a call; False if it is no instruction of these."""
    handler = _BY_WARPS.get(call.op)
    if handler is not None:
        _check_warps(machine, call, lanes)
    else:
        handler = _BY_THREADS.get(call.op)
    if handler is None:
        return False
    handler(machine, call.args, lanes)
    return True


def _check_warps(machine: Machine, call: Call, lanes: Array) -> None:
    batch = machine.batch
    whole = np.bincount(batch.warp[lanes], minlength=len(batch.warp_passed))
    some = np.nonzero((whole != 0) & (whole != WARP))[0]
    if len(some):
        there = lanes[batch.warp[lanes] == some[0]]
        raise KernelDefect(
            "divergent warp",
            f"{call.op.removeprefix('tir.')} needs all {WARP} threads of a warp",
            machine.stmt, batch.places(there), machine.stmt.span if machine.stmt else None,
        )  # fmt: skip
