"""NumPy's functions on traced arrays: `numpy.exp(x)`, `numpy.sum(x, 0)` and the like.

NumPy hands its functions over with the arguments as they were written; here they get the names
and the places that they have in the array API.
"""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError
from .array import Array, lift
from .inplace import write
from .linalg import LINALG
from .numpy_functions import OWN
from .public import PUBLIC

#: NumPy's names for functions that the array API calls otherwise.
_NAMES = {
    "concatenate": "concat", "power": "pow", "true_divide": "divide", "arccos": "acos",
    "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "absolute": "abs", "left_shift": "bitwise_left_shift", "rint": "round",
    "right_shift": "bitwise_right_shift", "invert": "bitwise_invert", "amax": "max", "amin": "min",
    "cumsum": "cumulative_sum", "cumprod": "cumulative_prod", "mod": "remainder", "around": "round",
    "fabs": "abs", "conjugate": "conj",
}  # fmt: skip
_KEYWORDS = {"ddof": "correction", "a_min": "min", "a_max": "max", "reps": "repetitions"}
#: What follows the arguments that have a place in the array API.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "diff": ("n", "axis", "prepend", "append"), "tril": ("k",), "triu": ("k",),
    "tensordot": ("axes",), "linspace": ("endpoint", "retstep", "dtype"),
    **dict.fromkeys(("sum", "prod", "mean", "var", "std"), ("axis", "dtype")),
}  # fmt: skip
#: Arguments that may be given as long as they say nothing.
_SAY_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "out": (None,), "dtype": (None,), "where": (True, np._NoValue), "order": ("C", "K", None),
    "initial": (np._NoValue,), "casting": ("same_kind",), "subok": (True, False), "copy": (None,),
    "keepdims": (np._NoValue,), "correction": (np._NoValue,), "prepend": (np._NoValue,),
    "append": (np._NoValue,), "retstep": (False,), "mode": ("raise",), "kind": (None, "stable"),
    "optimize": (True,), "device": (None, "cpu"), "overwrite_input": (False,),
    "returned": (False,), "like": (None,),
}  # fmt: skip
#: Functions by name, of each module of NumPy.
_MODULES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "numpy": ChainMap(OWN, PUBLIC), "numpy.linalg": LINALG,
}  # fmt: skip
#: What methods of ufuncs are called, by the function's name.
_METHODS: Mapping[str, Mapping[str, str]] = {
    "reduce": {
        "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
        "logical_or": "any",
    },
    "accumulate": {"add": "cumulative_sum", "multiply": "cumulative_prod"},
}  # fmt: skip


# ---------------------------------------------------------------------------- protocols


def array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`numpy.exp(x)`, `numpy.add.reduce(x)`: elementwise functions and what is made of them."""
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    function = OWN.get(name) or PUBLIC.get(name)
    out = kwargs.pop("out", None)
    what = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if method in _METHODS and name in _METHODS[method]:
        options = {"axis": 0, **kwargs}
        known = frozenset(("axis", "dtype", "keepdims", "initial", "where"))
        result = PUBLIC[_METHODS[method][name]](*inputs, **_speaking(what, options, known))
        return _into(out, result, f"{what}(out=)")
    if method not in ("__call__", "outer") or function is None or _speaking(what, kwargs):
        raise UnsupportedError(f"{what} cannot be traced in this form")
    if method == "outer":
        first, second = map(lift, inputs)
        inputs = PUBLIC["reshape"](first, first.shape + (1,) * second.ndim), second
    return _into(out, function(*inputs), f"{what}(out=)")


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
    module = func.__module__ or "numpy"
    return call(func.__name__, args, kwargs, "numpy" if module.startswith("numpy._") else module)


def call(given: str, args: Sequence[Any], kwargs: Mapping[str, Any], module: str = "numpy") -> Any:
    """The function that NumPy has under a name, with arguments as NumPy takes them."""
    name, what, options = _NAMES.get(given, given), f"{module}.{given}", dict(kwargs)
    function = _MODULES.get(module, {}).get(name)
    if function is None:
        raise UnsupportedError(f"{what} cannot be traced")
    out = options.pop("out", None)
    places, names = _parameters(function)
    rest = dict(zip(_PLACES.get(name, ("axis",)), args[places:]))
    if len(args) > places + len(rest):
        raise UnsupportedError(f"{what} cannot be traced with {len(args)} arguments")
    renamed = _renamed(options, places - len(args[:places]))
    args, first = args[:places], renamed.pop("", ())
    meant = _speaking(what, {**rest, **renamed}, names)
    return _into(out, function(*args, *first, **meant), f"{what}(out=)")


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
            raise UnsupportedError(f"{what} cannot be traced with {name}={value!r}")
        result[name] = value
    return result
