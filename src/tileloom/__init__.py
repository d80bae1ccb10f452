"""Tileloom: a tensor compiler in Python.

>>> import numpy as np, tileloom
>>> @tileloom.jit
... def normalise(x):
...     return x / tileloom.sum(x, axis=-1, keepdims=True)
>>> normalise(np.ones((2, 4), "float32"))[0]
array([0.25, 0.25, 0.25, 0.25], dtype=float32)
"""

from __future__ import annotations

from .base import forking as _forking  # noqa: F401 - watches forks from the start
from .base.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

#: Public names by the module that holds them: importing the package alone stays quick.
_MODULES = {
    "jit": "frontend.jit", "Dim": "frontend.jit", "TraceError": "frontend.jit", "build": "driver",
    "assembly": "driver", "compile_graph": "driver", "lower": "lower",
    "set_num_threads": "runtime.parallel", "get_num_threads": "runtime.parallel",
    "UserError": "base.errors", "InternalError": "base.errors", "Target": "base",
    "IRModule": "tir", "PrimFunc": "tir", "Schedule": "schedule", "ScheduleError": "schedule",
}  # fmt: skip
_ROOMS = (
    "akg",
    "base",
    "compute",
    "driver",
    "expr",
    "frontend",
    "graph",
    "onnx",
    "runtime",
    "schedule",
    "script",
    "tir",
)


def _load(name: str) -> Any:
    from importlib import import_module

    return import_module(f".{name}", __name__)


def _native_gpu() -> str | None:
    """The architecture of this machine's GPU, or None: what the target "cuda" alone means."""
    found: str | None = _load("runtime.cuda").native_arch()
    return found


def __getattr__(name: str) -> Any:
    """Public names, loaded when they are first used."""
    if name in _ROOMS:
        return _load(name)
    if name == "te":
        value: Any = _load("compute")
    elif name in _MODULES:
        value = getattr(_load(_MODULES[name]), name)
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        functions = _load("frontend.jit").PUBLIC
        if name not in functions:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = functions[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    functions = _load("frontend.jit").PUBLIC
    return sorted({*globals(), *_MODULES, *_ROOMS, "te", *functions})
