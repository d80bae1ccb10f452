"""Operators, methods, indexing and NumPy's protocols of traced arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import numpy_names, shapes
from .array import Array, TraceError, caller, lift
from .indexing import select
from .inplace import is_scalar, share, write
from .numpy_functions import OWN
from .numpy_names import array_function, array_ufunc
from .public import PUBLIC

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
    "sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "argmin", "squeeze",
    "clip", "round", "take", "repeat", "swapaxes", "cumsum", "cumprod", "dot", "trace", "diagonal",
    "ravel", "copy", "conj", "conjugate", "argsort",
)  # fmt: skip


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
            hint="build the new array with tileloom.numpy.where or concat",
        )
    select(self, key)  # there are not too many indices
    write(self, lift(value), "an assignment", cast=True)


def _operate(name: str, a: Any, b: Any) -> Any:
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return NotImplemented
    return PUBLIC[name](a, b)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return numpy_names.call(name, (self, *args), kwargs)

    method.__name__, method.__doc__ = name, f"`numpy.{name}` of this array."
    return method


def _reshape(self: Array, *shape: Any, order: str = "C") -> Any:
    """`numpy.reshape`, with the extents as one argument or as several."""
    return PUBLIC["reshape"](self, shape[0] if len(shape) == 1 else shape, order=order)


def _transpose(self: Array, *axes: Any) -> Any:
    """`numpy.transpose`, with the axes as one argument or as several."""
    if len(axes) == 1 and not isinstance(axes[0], int):
        axes = axes[0]
    return PUBLIC["transpose"](self, axes or None)


def _astype(
    self: Array, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
    copy: bool = True,
) -> Any:  # fmt: skip
    """The elements converted as C does; how they lie in memory is ours to choose."""
    return PUBLIC["astype"](self, dtype, copy=copy)


def _getitem(self: Array, key: Any) -> Array:
    tensor, is_view = select(self, key)
    result = Array(tensor)
    if is_view:
        share(result, self)
    return result


def _namespace(self: Array, api_version: str | None = None) -> Any:
    """The functions of this array's library: the array API's entry point."""
    return import_module(f"{__name__.partition('.')[0]}.numpy")


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
    cls.reshape, cls.transpose, cls.astype = _reshape, _transpose, _astype
    cls.flatten = lambda self, order="C": OWN["copy"](OWN["ravel"](self, order))
    cls.__copy__ = lambda self: OWN["copy"](self)
    cls.__deepcopy__ = lambda self, memo: OWN["copy"](self)
    cls.real, cls.imag = property(OWN["real"]), property(OWN["imag"])
    cls.__round__ = lambda self, decimals=None: PUBLIC["round"](self, decimals or 0)
    cls.__divmod__ = OWN["divmod"]
    cls.__rdivmod__ = lambda self, other: OWN["divmod"](other, self)
    cls.__getitem__, cls.__setitem__ = _getitem, _setitem
    cls.__array_ufunc__ = array_ufunc
    cls.__array_function__ = array_function
    cls.__array_namespace__ = _namespace


install()
