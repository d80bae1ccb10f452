"""Tileloom: a tensor compiler in Python.

>>> import numpy as np, tileloom
>>> @tileloom.jit
... def normalise(x):
...     return x / np.sum(x, axis=-1, keepdims=True)
>>> normalise(np.ones((2, 4), "float32"))[0]
array([0.25, 0.25, 0.25, 0.25], dtype=float32)

Array functions are in `tileloom.numpy`.
"""

from __future__ import annotations

from .base import forking as _forking  # noqa: F401 - watches forks from the start
from .base.late import TYPE_CHECKING
from .target import at_hand as _at_hand

if TYPE_CHECKING:
    from typing import Any

    from . import akg, compat, driver, graph, numpy, onnx, schedule, script, simt, sparse, tir
    from . import compute as te
    from .base.errors import InternalError, UserError
    from .driver import TunedGraph, assembly, build, compile_graph, tune
    from .frontend.jit import Dim, TraceError, jit
    from .lower import lower
    from .runtime.parallel import get_num_threads, set_num_threads
    from .schedule import Schedule, ScheduleError
    from .target import Target
    from .tir import IRModule, PrimFunc
    from .tuner.tune_program import Tuned

__version__ = "0.1.0"

__all__ = [
    # Programs in, functions out.
    "jit", "Dim", "build", "lower", "compile_graph", "assembly", "Target",
    "set_num_threads", "get_num_threads",
    # Tensor IR and its schedules.
    "IRModule", "PrimFunc", "Schedule",
    # The search for fast ones.
    "tune", "Tuned", "TunedGraph",
    # What they raise.
    "UserError", "ScheduleError", "TraceError", "InternalError",
    # Rooms.
    "akg", "compat", "driver", "graph", "numpy", "onnx", "schedule", "script", "simt", "sparse",
    "te", "tir", "__version__",
]  # fmt: skip

#: Public names by the module that holds them: importing the package alone stays quick. A name that
#: is not among them is a module itself.
_HOMES = {
    "jit": "frontend.jit", "Dim": "frontend.jit", "TraceError": "frontend.jit", "build": "driver",
    "assembly": "driver", "compile_graph": "driver", "lower": "lower",
    "set_num_threads": "runtime.parallel", "get_num_threads": "runtime.parallel",
    "UserError": "base.errors", "InternalError": "base.errors", "Target": "target",
    "IRModule": "tir", "PrimFunc": "tir", "Schedule": "schedule", "ScheduleError": "schedule",
    "tune": "driver", "TunedGraph": "driver", "Tuned": "tuner.tune_program",
}  # fmt: skip


def _load(name: str) -> Any:
    from importlib import import_module

    return import_module(f".{name}", __name__)


def _native_gpu() -> str | None:
    """The architecture of this machine's GPU, or None: what the target "cuda" alone means."""
    found: str | None = _load("runtime.cuda").native_arch()
    return found


_at_hand.find_gpu = _native_gpu


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> Any:
        """Public names, loaded when they are first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _HOMES:
            value = getattr(_load(_HOMES[name]), name)
        else:
            value = _load("compute" if name == "te" else name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
