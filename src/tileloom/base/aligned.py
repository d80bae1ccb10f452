"""Arrays that begin where a cache line does.

What is read in whole cache lines would touch two of them each time where an array begins amid one,
as NumPy's large arrays do: products by tile registers then take twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bytes of a cache line.
LINE = 64


def aligned_zeros(shape: Sequence[int], dtype: Any) -> Array:
    """A row-major array of zeros that begins with a cache line.

    >>> aligned_zeros((3, 5), "int32").ctypes.data % 64
    0
    """
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    array: Array = memory[start : start + size].view(kind).reshape(shape)
    return array
