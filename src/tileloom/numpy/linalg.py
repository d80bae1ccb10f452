"""Linear algebra without decompositions: products, norms, diagonals.

>>> import numpy as np
>>> from tileloom.numpy import linalg
>>> linalg.vector_norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=-1)
array([ 5., 10.])
"""

from __future__ import annotations

from ..frontend.jit.linalg import FUNCTIONS

globals().update(FUNCTIONS)

__all__ = list(FUNCTIONS)


def __dir__() -> list[str]:
    return sorted(__all__)
