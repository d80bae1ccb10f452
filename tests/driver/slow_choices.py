"""Ways to make a row of ones, some of which are no good."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: Seconds that a call of each takes.
PAUSES = {"default": 2e-3, "fast": 5e-4, "slow": 3e-3, "wrong": 1e-4, "crash": 1e-4}


def make(size: int, choice: str) -> Callable[[], Any]:
    """A call of a choice."""
    if choice == "error":
        raise ValueError("this is none")

    def call() -> Any:
        if choice == "crash":
            ctypes.string_at(0)
        time.sleep(PAUSES[choice])
        return np.full(size, 2.0 if choice == "wrong" else 1.0)

    return call
