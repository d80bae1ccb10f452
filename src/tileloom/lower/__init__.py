"""Lowering: blocks -> loops -> flat, one pass a file, the pipelines in `pipeline`.

The passes are in `blocks`, `loops`, `vector` and `gpu`, by what they work on; `analysis` and
`common` have what several ask of a program or do to it.

`tileloom.lower` is both this room and the function of that name, whichever was asked for first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..target.limits import GPULimits
from .analysis.threads import kernels
from .gpu import split_host_device, verify_gpu_code
from .pipeline import (
    BLOCKS_TO_LOOPS,
    GPU_PIPELINE,
    LOOPS_TO_FLAT,
    PIPELINE,
    lower,
    run_passes,
)

__all__ = [
    "BLOCKS_TO_LOOPS",
    "GPU_PIPELINE",
    "LOOPS_TO_FLAT",
    "PIPELINE",
    "GPULimits",
    "kernels",
    "lower",
    "run_passes",
    "split_host_device",
    "verify_gpu_code",
]


class _Room(ModuleType):
    """The room, called as the function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return lower(*args, **options)


sys.modules[__name__].__class__ = _Room
