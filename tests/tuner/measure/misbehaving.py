"""Tasks for executors: some end, some do not, and some take their process with them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn


def process_number() -> int:
    """Which process this is."""
    return os.getpid()


def cores() -> set[int]:
    """The CPUs that the process may use."""
    return os.sched_getaffinity(0)


def run_for_ever() -> NoReturn:
    """A loop without an end."""
    while True:
        pass


def read_null() -> bytes:
    """A segmentation fault."""
    return ctypes.string_at(0)


def abort() -> None:
    """As LLVM ends, when it finds that something is wrong with itself."""
    sys.stderr.write("LLVM ERROR: cannot select\n")
    os.abort()


def exit_process(code: int) -> None:
    """The end of the process."""
    os._exit(code)


def allocate(size: int) -> int:
    """So many bytes, held for a while."""
    memory = b"x" * size
    time.sleep(0.5)
    return len(memory)


def keep(size: int) -> int:
    """So many bytes, held for ever."""
    sys._kept = b"x" * size  # type: ignore[attr-defined]
    return os.getpid()


class Stubborn(Exception):
    """An error that can be written, but not read again."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def fail(kind: str) -> NoReturn:
    """An error of some kind."""
    if kind == "stubborn":
        raise Stubborn(1, 2)
    if kind == "exit":
        raise SystemExit(3)
    raise ValueError("not this one")


def survive(folder: str, kills: int) -> int:
    """Be killed the first times, and say then how often it was tried."""
    tries = Path(folder, "tries")
    count = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (count + 1))
    if count < kills:
        os.kill(os.getpid(), signal.SIGKILL)
    return count + 1


def crash_after_others(number: int) -> int:
    """A segmentation fault, unless the process has done nothing before."""
    if hasattr(sys, "_has_run"):
        ctypes.string_at(0)
    sys._has_run = True  # type: ignore[attr-defined]
    return number
