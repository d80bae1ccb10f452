"""`@jit`: NumPy-style functions under array-API names."""

from . import networks, operators, shapes
from .array import Array, TraceError
from .decorator import jit
from .dims import Dim
from .dynamic import DynamicCompiled
from .functions import PUBLIC
from .trace import Compiled

__all__ = [
    "PUBLIC", "Array", "Compiled", "Dim", "DynamicCompiled", "TraceError", "jit", "networks",
    "operators", "shapes",
]  # fmt: skip
