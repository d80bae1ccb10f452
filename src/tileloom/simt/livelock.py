"""Loops in which threads wait for what will never be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..tir import While
from .defects import KernelDefect
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine

_EVERY = 256  # iterations between two looks


class LivelockDetector:
    """Watches one run of a loop: if nothing at all has changed between two looks, nothing will.

    The emulator runs the threads of several blocks in lockstep, so that those who could end the
    wait may stand behind the loop, or may not have begun. On a GPU that depends on luck as well.
    """

    def __init__(self, machine: Machine, stmt: While) -> None:
        self.machine = machine
        self.stmt = stmt
        self.iterations = 0
        self.seen: list[Array] = []

    def check(self, lanes: Array) -> None:
        """Another iteration begins, with these threads.

        Raises:
            KernelDefect: all is as it was long ago.
        """
        self.iterations += 1
        if self.iterations % _EVERY:
            return
        machine = self.machine
        state = [lanes, *(memory.data for memory in machine.memory.values())]
        state += [np.asarray(value) for value in machine.env.values()]
        same = len(state) == len(self.seen) and all(map(np.array_equal, state, self.seen))
        if same:
            raise KernelDefect(
                "hang",
                "threads wait in a loop, and nobody changes what they wait for",
                self.stmt, machine.batch.places(lanes), self.stmt.span,
                hint="threads that run together cannot wait for each other in a loop",
            )  # fmt: skip
        self.seen = [part.copy() for part in state]
