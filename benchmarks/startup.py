"""How long starting takes: importing, compiling cold and warm, calling. Each in fresh processes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# NumPy, which every caller has already, and the array are there before the clock starts.
_CLOCK = """
import time
import numpy as np
x = np.random.default_rng(0).standard_normal((64, 128), np.float32)
start = time.perf_counter()
"""
_SOFTMAX = """
import tileloom
softmax = tileloom.jit(lambda x: tileloom.numpy.softmax(x))
"""
_FIRST_CALL = """
softmax(x)
print(time.perf_counter() - start)
"""
_CALL = """
import timeit
a = np.ones(16, np.float32)
for _ in range(2):
    FUNCTION
print(min(timeit.repeat(lambda: FUNCTION, number=20000, repeat=9)) / 20000)
"""
_BUILD = """
from tileloom import compute as te
A, B = (te.placeholder((16,), name=n) for n in "AB")
C = te.compute((16,), lambda i: A[i] + B[i], name="C")
kernel = tileloom.build(te.create_prim_func([A, B, C]))
c = np.empty(16, np.float32)
"""


@dataclass(frozen=True)
class Start:
    """One measurement: what, its limit and its outcome in seconds."""

    name: str
    limit: float
    seconds: float


def measure(rounds: int = 7) -> list[Start]:
    """All measurements; medians over fresh processes."""
    with tempfile.TemporaryDirectory() as cache:
        warm = {"TILELOOM_CACHE_DIR": cache}
        off = {"TILELOOM_CACHE": "0"}
        add = "import tileloom\nadd = tileloom.jit(lambda a, b: a + b)\n"
        once = _CLOCK + "import tileloom\nprint(time.perf_counter() - start)"
        first = _CLOCK + _SOFTMAX + _FIRST_CALL
        ready = _CLOCK + "import tileloom\ntileloom.jit\n" + "start = time.perf_counter()\n"
        run(first, warm)  # fills the cache, and Python's own
        run(first, off)
        return [
            Start("import tileloom", 0.2, _median(once, warm, rounds)),
            Start("cold: import, trace and compile softmax", 0.3, _median(first, off, rounds)),
            Start("the same from the disk cache", 0.3, _median(first, warm, rounds)),
            Start(
                "of that, tracing and loading the kernel",
                0.02,
                _median(ready + _SOFTMAX + _FIRST_CALL, warm, rounds),
            ),
            Start(
                "call of a kernel on 16 numbers",
                3e-6,
                _median(_CLOCK + "import tileloom\n" + _BUILD + _call("kernel(a, a, c)"), warm, 3),
            ),
            Start(
                "call of a jitted function on 16 numbers",
                4e-6,
                _median(_CLOCK + add + _call("add(a, a)"), warm, 3),
            ),
        ]


def _call(function: str) -> str:
    return _CALL.replace("FUNCTION", function)


def _median(code: str, environment: Mapping[str, str], rounds: int) -> float:
    return statistics.median(run(code, environment) for _ in range(rounds))


def run(code: str, environment: Mapping[str, str]) -> float:
    """The number that a program prints, run in a fresh process."""
    whole = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=whole, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def markdown(starts: list[Start]) -> str:
    """A table."""
    lines = ["| | limit | measured | |", "|---|---|---|---|"]
    for start in starts:
        verdict = "met" if start.seconds <= start.limit else "**missed**"
        lines.append(
            f"| {start.name} | {_time(start.limit)} | {_time(start.seconds)} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


if __name__ == "__main__":
    print(markdown(measure()))
