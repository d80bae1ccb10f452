"""`kernels.c`, compiled when a benchmark runs and there is a C compiler."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..harness import Call, Skip

SOURCE = Path(__file__).with_name("kernels.c")
FLAGS = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-fopenmp",
    "-shared",
    "-fPIC",
)


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        command = [compiler, *FLAGS, str(SOURCE), "-o", str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Skip(f"the C compiler refuses: {done.stderr.strip().splitlines()[-1]}")
        return ctypes.CDLL(str(path))


def prepare(name: str, *arguments: Any) -> Call:
    """A call of a function of `kernels.c`: integers are int64, numbers float, arrays pointers."""
    function, converted = _library()[name], tuple(map(_argument, arguments))
    return lambda: function(*converted)


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)  # which keeps the array
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


__all__ = ["FLAGS", "prepare"]
