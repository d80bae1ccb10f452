"""What a name of an ONNX model stands for while the model is imported.

    value ::= Tensor          of the graph
            | ndarray         known now, of a type the graph does not compute in (strings, int4 ...)
            | list of value   a sequence
            | None            an absent optional

Sequences and optionals are resolved during the import: the graph sees only tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...graph.nodes import Tensor
from ...graph.op import apply1
from .elements import is_graph_type

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = "Tensor | Array | list[Value] | None"
#: The same with an array for each tensor: what comes in and goes out at run time.
Datum: TypeAlias = "Array | list[Datum] | None"


def constant_of(array: Array) -> Tensor:
    """A constant of the graph; shares the array's memory where it can."""
    view = np.require(array, requirements=["C", "A"]).reshape(array.shape).view()
    view.flags.writeable = False
    return apply1("constant", (), value=view)


def value_of(array: Array) -> Value:
    """A known array as a value: a constant where the graph has the type."""
    return constant_of(array) if is_graph_type(array.dtype) else array


def tensors_of(value: Value) -> Iterator[Tensor]:
    """The tensors in a value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from tensors_of(item)


def fill_in(value: Value, arrays: Callable[[Tensor], Array]) -> Datum:
    """The value with each tensor replaced by an array."""
    if isinstance(value, Tensor):
        return arrays(value)
    if isinstance(value, list):
        return [fill_in(item, arrays) for item in value]
    return value


def fingerprint(datum: Datum) -> Any:
    """A hashable stand-in: equal for equal data."""
    if datum is None:
        return None
    if isinstance(datum, list):
        return tuple(fingerprint(item) for item in datum)
    if datum.dtype == np.dtype(object):
        return ("object", datum.shape, tuple(datum.reshape(-1).tolist()))
    return (datum.dtype.name, datum.shape, datum.tobytes())


def signature(datum: Datum) -> Any:
    """A hashable stand-in: equal for data of equal structure, shapes and types."""
    if datum is None:
        return None
    if isinstance(datum, list):
        return tuple(signature(item) for item in datum)
    if not is_graph_type(datum.dtype):
        return fingerprint(datum)
    return (datum.dtype, datum.shape)


def as_object_array(items: Sequence[Any], shape: tuple[int, ...] | None = None) -> Array:
    """Strings as an array of objects."""
    result = np.empty(len(items), object)
    result[:] = list(items)
    return result if shape is None else result.reshape(shape)
