"""Array functions by their names: traced inside a traced function, elsewhere run at once.

A function is written once, on traced arrays. `eager` makes of it what users call: on ordinary
arrays the function is compiled by itself, for these shapes, types and options, and run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ...base.errors import ArgumentError, UserError
from ...graph.nodes import Graph
from ...graph.run import run
from ...graph.symbols import is_symbolic
from .array import Array
from .context import tracing
from .inplace import result_of
from .tree import frozen

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: The functions of the array API and of neural networks, by name.
PUBLIC: dict[str, Callable[..., Any]] = {}
#: Compiles a function with some arguments fixed; `decorator` sets it.
COMPILE: list[Callable[..., Callable[..., Any]]] = []


class CallError(ArgumentError, TypeError, ValueError):
    """An array function was called with arguments that it does not take."""


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function under its name; on ordinary arrays it runs at once."""
    PUBLIC[function.__name__] = call = eager(function)
    return call


def named(name: str, doc: str) -> Callable[[_Function], _Function]:
    """Have a function that another function makes a name and a docstring of its own."""

    def decorate(function: _Function) -> _Function:
        function.__name__, function.__doc__ = name, doc
        return function

    return decorate


def eager(
    function: Callable[..., Any],
    outside: Callable[..., Any] | None = None,
    module: str = "numpy",
) -> Callable[..., Any]:
    """The function as users call it, on traced arrays and on others.

    Args:
        outside: what it does where nothing is traced, if not the same, compiled.
        module: of Tileloom, in which users find it.

    Raises:
        UserError: from the call, and naming the function.
    """
    name = function.__qualname__ = function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if any(map(_is_traced, args)) or any(map(_is_traced, kwargs.values())):
                return result_of(name, function(*args, **kwargs), args)
            if outside is not None:
                return (function if tracing() else outside)(*args, **kwargs)
            return _at_once(function, args, kwargs)
        except UserError as error:
            _name(error, name)
            raise
        except (TypeError, ValueError) as error:
            raise _misused(function, error) from error

    call.__module__ = f"{__name__.partition('.')[0]}.{module}"
    return call


def plain(function: _Function) -> _Function:
    """A function that computes with no arrays: its errors name it too."""
    name = function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            _name(error, name)
            raise
        except (TypeError, ValueError) as error:
            raise _misused(function, error) from error

    return cast(_Function, call)


def _is_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_traced, value))
    return isinstance(value, Array) or is_symbolic(value)


def is_data(value: Any) -> bool:
    """Whether a value is an ordinary array, or a list with one."""
    if isinstance(value, (list, tuple)):
        return any(map(is_data, value))
    if isinstance(value, type):  # numpy.float32 is a type, not a number
        return False
    return hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")


# ---------------------------------------------------------------------------- complaints


def _name(error: UserError, name: str) -> None:
    """Have the message begin with the function."""
    if not re.match(rf"(numpy\.(\w+\.)*)?{name}\b", error.message):
        error.message = f"{name}: {error.message}"
        error.args = (error.message,)


def _misused(function: Callable[..., Any], error: Exception) -> CallError:
    name, text = function.__name__, str(error)
    message = text if text.startswith(f"{name}(") else f"{name}: {text}"
    return CallError(message, hint=f"it is called as {name}{_shown(function)}")


def _shown(function: Callable[..., Any]) -> str:
    """The parameters, without their types."""
    signature, nothing = inspect.signature(function), inspect.Parameter.empty
    plain = [p.replace(annotation=nothing) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=nothing))


# ---------------------------------------------------------------------------- at once


class Fixed(NamedTuple):
    """An argument that is part of a program: where it stands, and its value.

    Two are equal if their values are of one type, unlike 1, 1.0 and True.
    """

    place: int | str
    value: Any

    def __hash__(self) -> int:
        return hash((self.place, frozen(self.value)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and (self.place, frozen(self.value)) == (
            other.place,
            frozen(other.value),
        )


class _Parameters(NamedTuple):
    """What the parameters of a function hold: "array", "arrays" (a row of them) or "value"."""

    placed: tuple[str, ...]
    rest: str
    named: dict[str, str]


@cache
def _parameters(function: Callable[..., Any]) -> _Parameters:
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: _kind(str(p.annotation)) for p in parameters}
    spread = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = kinds[spread[0]] if spread else "value"
    return _Parameters(tuple(kinds[name] for name in placed), rest, kinds)


def _kind(annotation: str) -> str:
    if "ArrayLike" not in annotation:
        return "value"
    return "arrays" if annotation.startswith("Sequence") else "array"


def _at_once(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if not any(map(is_data, args)) and not any(map(is_data, kwargs.values())):
        return _without_arrays(function, args, kwargs)
    kinds, fixed = _parameters(function), []
    arrays, named = [], {}
    for place, value in enumerate(args):
        kind = kinds.placed[place] if place < len(kinds.placed) else kinds.rest
        if kind == "value":
            fixed.append(Fixed(place, _plain(value)))
        else:
            arrays.append(_data(value, kind))
    for name, value in kwargs.items():
        kind = kinds.named.get(name, "value")
        if kind == "value":
            fixed.append(Fixed(name, _plain(value)))
        else:
            named[name] = _data(value, kind)
    return COMPILE[0](function, tuple(fixed))(*arrays, **named)


def _data(value: Any, kind: str) -> Any:
    """An argument that is an array, as one; numbers stay as they are."""
    if not isinstance(value, (list, tuple)):
        return value
    if kind == "arrays":
        return tuple(_data(part, "array") for part in value)
    return np.asarray(value)


def _plain(value: Any) -> Any:
    """An argument that is no array, as Python's own values, which can be compared."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def with_fixed(function: Callable[..., Any], fixed: tuple[Fixed, ...]) -> Callable[..., Any]:
    """The function of its other arguments."""
    if not fixed:
        return function
    placed = [(part.place, part.value) for part in fixed if isinstance(part.place, int)]
    options = {part.place: part.value for part in fixed if isinstance(part.place, str)}

    @wraps(function)
    def rest(*arrays: Any, **named: Any) -> Any:
        args = list(arrays)
        for place, value in placed:
            args.insert(place, value)
        return function(*args, **options, **named)

    return rest


def _without_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Creation functions: inside a trace they make constants, outside arrays."""
    result = function(*args, **kwargs)
    if tracing():
        return result_of(function.__name__, result, args)
    if isinstance(result, (list, tuple)):
        return type(result)(map(_value, result))
    return _value(result)


def _value(array: Array) -> Any:
    """The array's elements, which depend on no argument, in an array of their own."""
    [elements] = run(Graph([], [array.tensor]), [])
    return np.require(elements, requirements=("C", "W", "O"))
