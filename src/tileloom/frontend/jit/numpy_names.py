"""NumPy's functions on traced arrays: `numpy.exp(x)`, `numpy.sum(x, 0)` and the like.

NumPy hands its functions over with the arguments as they were written; here they get the names
and the places that they have in the array API.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError
from .array import Array, lift
from .functions import PUBLIC
from .inplace import write

#: NumPy's names for functions that the array API calls otherwise.
_NAMES = {
    "concatenate": "concat", "power": "pow", "true_divide": "divide", "arccos": "acos",
    "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "absolute": "abs", "left_shift": "bitwise_left_shift", "rint": "round",
    "right_shift": "bitwise_right_shift", "invert": "bitwise_invert", "amax": "max", "amin": "min",
    "cumsum": "cumulative_sum", "mod": "remainder", "around": "round", "fabs": "abs",
}  # fmt: skip
_KEYWORDS = {"ddof": "correction", "a_min": "min", "a_max": "max", "reps": "repetitions"}
#: What follows the arguments that have a place in the array API.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "diff": ("n", "axis"), "tril": ("k",), "triu": ("k",), "tensordot": ("axes",),
}  # fmt: skip
#: Arguments that may be given as long as they say nothing.
_SAY_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "out": (None,), "dtype": (None,), "where": (True, np._NoValue), "order": ("C", "K", None),
    "initial": (np._NoValue,), "casting": ("same_kind",), "subok": (True, False), "copy": (None,),
    "keepdims": (np._NoValue,), "mode": ("raise",), "kind": (None, "stable"), "optimize": (True,),
}  # fmt: skip


def _only_numpys(function: Callable[..., Any]) -> Callable[..., Any]:
    _OWN[function.__name__] = function
    return function


_OWN: dict[str, Callable[..., Any]] = {}


@_only_numpys
def dot(a: Any, b: Any) -> Array:
    """A product of numbers, rows or matrices."""
    x, y = lift(a), lift(b)
    if x.ndim == 0 or y.ndim == 0:
        return _array(PUBLIC["multiply"](x, y))
    if y.ndim <= 2:
        return _array(PUBLIC["matmul"](x, y))
    return _array(PUBLIC["tensordot"](x, y, axes=([x.ndim - 1], [y.ndim - 2])))


@_only_numpys
def divmod(x1: Any, x2: Any) -> tuple[Array, Array]:
    """The quotients rounded down, and the remainders."""
    return PUBLIC["floor_divide"](x1, x2), PUBLIC["remainder"](x1, x2)


@_only_numpys
def cumulative_sum(a: Any, axis: Any = None) -> Array:
    """Running sums along an axis; without one, of all elements in a row."""
    array = lift(a)
    if axis is None:
        array, axis = ravel(array), 0
    return _array(PUBLIC["cumulative_sum"](array, axis=axis))


@_only_numpys
def copy(a: Any) -> Array:
    """Another array with these elements."""
    return Array(lift(a).tensor)


@_only_numpys
def outer(a: Any, b: Any) -> Array:
    """The product of each element with each."""
    column = PUBLIC["reshape"](lift(a), (-1, 1))
    return _array(PUBLIC["multiply"](column, PUBLIC["reshape"](lift(b), (1, -1))))


@_only_numpys
def vstack(tup: Any) -> Array:
    """Rows one below the other."""
    rows = [PUBLIC["reshape"](a, (1, -1)) if a.ndim < 2 else a for a in map(lift, tup)]
    return _array(PUBLIC["concat"](rows, axis=0))


@_only_numpys
def hstack(tup: Any) -> Array:
    """Arrays side by side."""
    parts = [PUBLIC["reshape"](a, (1,)) if a.ndim == 0 else a for a in map(lift, tup)]
    return _array(PUBLIC["concat"](parts, axis=0 if parts[0].ndim == 1 else 1))


@_only_numpys
def ravel(a: Any, order: str = "C") -> Array:
    """All elements in a row."""
    return _array(PUBLIC["reshape"](lift(a), (-1,), order=order))


@_only_numpys
def shape(a: Any) -> tuple[int, ...]:
    """The extents."""
    return lift(a).shape


@_only_numpys
def ndim(a: Any) -> int:
    """The number of dimensions."""
    return lift(a).ndim


@_only_numpys
def size(a: Any) -> int:
    """The number of elements."""
    return lift(a).size


@_only_numpys
def ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest element less the smallest."""
    ends = [PUBLIC[name](a, axis=axis, keepdims=keepdims) for name in ("max", "min")]
    return _array(PUBLIC["subtract"](*ends))


@_only_numpys
def norm(x: Any, ord: None = None, axis: Any = None, keepdims: bool = False) -> Array:
    """`numpy.linalg.norm`: the root of the sum of squares."""
    if ord is not None:
        raise UnsupportedError(f"numpy.linalg.norm of order {ord!r} cannot be traced")
    squares = PUBLIC["square"](lift(x))
    return _array(PUBLIC["sqrt"](PUBLIC["sum"](squares, axis=axis, keepdims=keepdims)))


def _array(value: Any) -> Array:
    return value  # type: ignore[no-any-return]  # what is made of traced arrays is one


# ---------------------------------------------------------------------------- protocols


def array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`numpy.exp(x)`: elementwise functions."""
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    function = _OWN.get(name) or PUBLIC.get(name)
    out = kwargs.pop("out", None)
    if method != "__call__" or function is None or _speaking(ufunc.__name__, kwargs):
        how = "" if method == "__call__" else f".{method}"
        raise UnsupportedError(f"numpy.{ufunc.__name__}{how} cannot be traced in this form")
    return _into(out, function(*inputs), f"numpy.{ufunc.__name__}(out=)")


def _into(out: Any, result: Any, what: str) -> Any:
    """The result, written to where the caller wants it."""
    if out is None:
        return result
    if not isinstance(out, tuple):
        return write(out, result, what)
    results = result if isinstance(result, tuple) else (result,)
    written = tuple(
        made if place is None else write(place, made, what)
        for place, made in zip(out, results, strict=True)
    )
    return written if len(written) > 1 else written[0]


def array_function(self: Array, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`numpy.sum(x, axis=0)`: all other functions."""
    name = _NAMES.get(func.__name__, func.__name__)
    function = _OWN.get(name) or PUBLIC.get(name)
    if function is None:
        raise UnsupportedError(f"numpy.{func.__name__} cannot be traced")
    out = kwargs.pop("out", None)
    places, names = _parameters(function)
    rest = dict(zip(_PLACES.get(name, ("axis",)), args[places:]))
    if len(args) > places + len(rest):
        raise UnsupportedError(f"numpy.{func.__name__} cannot be traced with {len(args)} arguments")
    given = _renamed(kwargs, places - len(args[:places]))
    args, first = args[:places], given.pop("", ())
    result = function(*args, *first, **rest, **_speaking(func.__name__, given, names))
    return _into(out, result, f"numpy.{func.__name__}(out=)")


@cache
def _parameters(function: Callable[..., Any]) -> tuple[int, frozenset[str]]:
    """How many arguments have a place, and the names of those that have one."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1 << 30, frozenset(p.name for p in parameters)
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY]
    return len(placed), frozenset(named)


def _renamed(kwargs: Mapping[str, Any], open_places: int) -> dict[str, Any]:
    """Keywords under the array API's names; what has only a place there comes under ""."""
    result = {_KEYWORDS.get(name, name): value for name, value in kwargs.items()}
    placed = [name for name in ("a", "x", "arr", "m") if name in result]
    if open_places > 0 and placed:
        result[""] = (result.pop(placed[0]),)
    return result


def _speaking(
    what: str, kwargs: Mapping[str, Any], known: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The keywords that mean something, all of which must be known."""
    result = {}
    for name, value in kwargs.items():
        quiet = _SAY_NOTHING.get(name, ())
        if any(value is q or (isinstance(value, (str, int)) and value == q) for q in quiet):
            continue
        if name not in known:
            raise UnsupportedError(f"numpy.{what} cannot be traced with {name}={value!r}")
        result[name] = value
    return result
