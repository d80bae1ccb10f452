"""Array functions under the names of the array API and of NumPy 2.

On NumPy arrays a function is compiled for their shapes and types, and run at once; inside a
function under `tileloom.jit` it becomes a part of the program. Types are promoted as in NumPy,
results are NumPy arrays. Functions of neural networks, which NumPy lacks, are here too.

>>> import numpy as np
>>> import tileloom.numpy as tnp
>>> tnp.cumulative_sum(np.array([1, 2, 3]))
array([1, 3, 6])
>>> tnp.where(np.array([True, False]), np.float32(1), -1)
array([ 1., -1.], dtype=float32)
"""

from __future__ import annotations

import math

import numpy as np

from ..base.late import load
from ..frontend.jit import ARRAY_FUNCTIONS
from ..frontend.jit.dtypes import can_cast, finfo, iinfo, isdtype, result_type
from . import linalg

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

_TYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
)  # fmt: skip
# Python's own names among these are not used below this line.
globals().update({name: getattr(np, name) for name in _TYPES})
globals().update(ARRAY_FUNCTIONS)

__all__ = [
    "bfloat16", "can_cast", "e", "finfo", "iinfo", "inf", "isdtype", "linalg", "nan", "newaxis",
    "pi", "result_type",
]  # fmt: skip
__all__ += list(_TYPES)
__all__ += list(ARRAY_FUNCTIONS)


def __getattr__(name: str) -> object:
    """`bfloat16`, whose package is loaded when it is first used."""
    if name != "bfloat16":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = load("ml_dtypes").bfloat16
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
