"""Operators, methods, indexing and NumPy's protocols of traced arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import numpy_names, shapes
from .array import Array, TraceError, caller, lift
from .functions import PUBLIC
from .indexing import select
from .inplace import is_scalar, share, write
from .numpy_names import array_function, array_ufunc

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "mod": "remainder",
    "floordiv": "floor_divide", "pow": "pow", "matmul": "matmul", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "mod": "%", "floordiv": "//", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_METHODS = (
    "sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "argmin", "reshape",
    "squeeze", "transpose", "clip", "round", "astype", "take", "repeat", "swapaxes",
)  # fmt: skip
_REDUCTIONS = frozenset(_METHODS[:11])


def _forward(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _operate(name, self, other)


def _backward(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _operate(name, other, self)


def _in_place(op: str, name: str) -> Callable[[Any, Any], Any]:
    """`x += y`: a number is replaced, the elements of an array change."""

    def operate(self: Array, other: Any) -> Any:
        result = _operate(name, self, other)
        if result is NotImplemented or is_scalar(self):
            return result
        return write(self, result, f"{op}=")

    return operate


def _setitem(self: Array, key: Any, value: Any) -> None:
    """All elements at once."""
    parts = key if isinstance(key, tuple) else (key,)
    if not all(
        part is Ellipsis or (isinstance(part, slice) and part == slice(None)) for part in parts
    ):
        raise TraceError(
            "an array is not changed in parts while a function is traced",
            span=caller(),
            hint="build the new array with tileloom.where or tileloom.concat",
        )
    select(self, key)  # there are not too many indices
    write(self, lift(value), "an assignment", cast=True)


def _operate(name: str, a: Any, b: Any) -> Any:
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return NotImplemented
    return PUBLIC[name](a, b)


def _method(name: str) -> Callable[..., Any]:
    function = PUBLIC[name]

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        if name in _REDUCTIONS and args:
            kwargs.setdefault("axis", args[0])
            args = args[1:]
        if name == "reshape" and len(args) != 1:
            args = (args,)
        if name == "transpose" and args and isinstance(args[0], int):
            args = (args,)
        out = kwargs.pop("out", None)
        result = function(self, *args, **kwargs)
        return result if out is None else write(out, result, f"{name}(out=)")

    method.__name__, method.__doc__ = name, function.__doc__
    return method


def _getitem(self: Array, key: Any) -> Array:
    tensor, is_view = select(self, key)
    result = Array(tensor)
    if is_view:
        share(result, self)
    return result


def _namespace(self: Array, api_version: str | None = None) -> Any:
    """The functions of this array's library: the array API's entry point."""
    return sys.modules[__name__.partition(".")[0]]


def install() -> None:
    """Give `Array` its operators and methods."""
    cls: Any = Array
    for op, name in _BINARY.items():
        setattr(cls, f"__{op}__", _forward(name))
        setattr(cls, f"__r{op}__", _backward(name))
        setattr(cls, f"__i{op}__", _in_place(_SIGNS[op], name))
    for op, name in _COMPARE.items():
        setattr(cls, f"__{op}__", _forward(name))
    for op, name in _UNARY.items():
        setattr(cls, f"__{op}__", lambda self, name=name: PUBLIC[name](self))
    for name in _METHODS:
        setattr(cls, name, _method(name))
    cls.T = property(lambda self: shapes.transpose(self))
    cls.mT = property(lambda self: shapes.matrix_transpose(self))
    cls.flatten = lambda self, order="C": numpy_names.copy(numpy_names.ravel(self, order))
    cls.ravel = numpy_names.ravel
    cls.copy = lambda self, order="C": numpy_names.copy(self)
    cls.dot, cls.cumsum = numpy_names.dot, numpy_names.cumulative_sum
    cls.__round__ = lambda self, decimals=None: PUBLIC["round"](self, decimals or 0)
    cls.__divmod__ = numpy_names.divmod
    cls.__rdivmod__ = lambda self, other: numpy_names.divmod(other, self)
    cls.__getitem__, cls.__setitem__ = _getitem, _setitem
    cls.__array_ufunc__ = array_ufunc
    cls.__array_function__ = array_function
    cls.__array_namespace__ = _namespace


install()
