"""`@jit`: NumPy-style functions under array-API names."""

from . import (
    creation,
    functions,
    linalg,
    networks,
    operators,
    reductions,
    shapes,
    statistics,
)
from .array import Array, TraceError
from .decorator import jit
from .dims import Dim
from .dynamic import DynamicCompiled
from .numpy_functions import OWN
from .public import PUBLIC, eager
from .trace import Compiled

#: NumPy's functions that have another name in the array API, or that arrays have as attributes.
_OTHERWISE = frozenset({"conjugate", "degrees", "ndim", "norm", "radians", "shape", "size"})
#: What `tileloom.numpy` offers: the array API's functions first, then those of NumPy alone.
ARRAY_FUNCTIONS = {
    **PUBLIC,
    **{name: eager(OWN[name]) for name in sorted(OWN.keys() - PUBLIC.keys() - _OTHERWISE)},
}

__all__ = [
    "ARRAY_FUNCTIONS",
    "PUBLIC", "Array", "Compiled", "Dim", "DynamicCompiled", "TraceError", "creation",
    "functions", "jit", "linalg", "networks", "operators", "reductions", "shapes", "statistics",
]  # fmt: skip
