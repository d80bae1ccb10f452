"""What compilations leave behind in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
COMPILE = """
import gc, mmap, pathlib
import numpy as np
import tileloom as tl

def compile_one(number):
    program = tl.jit(lambda x, y: np.exp(x * (number + 1.5)) + y)
    x = np.ones((3, 5 + number % 3), "float32")
    program(x, x)

def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

for number in range(300):
    compile_one(number)
before = resident()
for number in range(300, 1300):
    compile_one(number)
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["on", "off"])
def test_compilations_leave_little_behind(tmp_path: Path, cache: str) -> None:
    """With the cache off, memory holds the last kernels, of a bounded size."""
    settings = {"TILELOOM_CACHE_DIR": str(tmp_path), "TILELOOM_CACHE": cache}
    shown = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **settings},
        capture_output=True,
        text=True,
    )
    assert not shown.stderr and shown.returncode == 0
    assert int(shown.stdout) < 5_000_000
