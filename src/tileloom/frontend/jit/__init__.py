"""`@jit`: NumPy-style functions under array-API names."""

from . import networks, operators, shapes
from .array import Array, TraceError
from .functions import PUBLIC
from .trace import Compiled, jit

__all__ = ["PUBLIC", "Array", "Compiled", "TraceError", "jit", "networks", "operators", "shapes"]
