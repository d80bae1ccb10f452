"""Nested arguments as a row of arrays and what remains of them: the tree."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from ...base import DType, dtype
from ...base.errors import ArgumentError
from ...runtime.arrays import as_numpy
from ...runtime.device import HOST, Device
from .array import Array, check_plain, lift


class Leaf(NamedTuple):
    """What is compiled for: the kind of one array argument."""

    shape: tuple[int, ...]
    dtype: DType
    weak: bool = False
    torch: bool = False
    name: str = ""
    scalar: bool = False  # a NumPy scalar, which nothing writes to


_FLOAT = Leaf((), dtype("float64"), weak=True)
_LEAF = "leaf"


def flatten(value: Any, device: Device = HOST) -> tuple[tuple[Leaf, ...], Any, list[Any]]:
    """The kinds of the arrays in a nest, its tree (hashable), and the arrays.

    Args:
        device: arrays in its memory are taken as they are; else they are refused.
    """
    leaves: list[Leaf] = []
    arrays: list[Any] = []
    try:
        tree = _flatten(value, leaves, arrays, device)
    except RecursionError:
        raise ArgumentError(
            "the lists and dictionaries of an argument are nested too deeply"
        ) from None
    return tuple(leaves), tree, arrays


def _flatten(value: Any, leaves: list[Leaf], arrays: list[Any], device: Device) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        leaves.append(Leaf(value.shape, _dtype(value.dtype)))
        arrays.append(value)
        return _LEAF
    if kind is float:
        leaves.append(_FLOAT)
        arrays.append(np.asarray(value))
        return _LEAF
    if kind is tuple or kind is list:
        parts = tuple(_flatten(part, leaves, arrays, device) for part in value)
        return ("tuple" if kind is tuple else "list", parts)
    if kind is dict:
        parts = tuple((k, _flatten(v, leaves, arrays, device)) for k, v in value.items())
        return ("dict", parts)
    if value is None or kind in (int, bool, str):
        return ("value", value, kind)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ("named", kind, tuple(_flatten(part, leaves, arrays, device) for part in value))
    return _other(value, leaves, arrays, device)


def _other(value: Any, leaves: list[Leaf], arrays: list[Any], device: Device) -> Any:
    if isinstance(value, type):
        return ("value", value, type)  # numpy.float32 has what arrays have
    if isinstance(value, Array):
        value = lift(value)  # refused: it belongs to a trace
    scalar = isinstance(value, np.generic)
    if scalar:
        value = np.asarray(value)
    check_plain(value)
    if device.holds(value):
        there = device.borrow(value)
        leaves.append(Leaf(there.shape, there.dtype, torch=kind_of(value) == "torch"))
        arrays.append(value)
        return _LEAF
    if any(hasattr(value, name) for name in ("__dlpack__", "__array_interface__", "__array__")):
        array = as_numpy(value)
        torch = kind_of(value) == "torch"
        leaves.append(Leaf(array.shape, _dtype(array.dtype), torch=torch, scalar=scalar))
        arrays.append(array)
        return _LEAF
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"an argument of type {type(value).__name__} is neither an array nor hashable",
            hint="pass arrays, numbers, or tuples, lists and dictionaries of them",
        ) from None
    return ("value", value, type(value))


def frozen(value: Any) -> Any:
    """A key that is the same for values that mean the same in a program.

    >>> frozen(1) == frozen(1.0), frozen(0.0) == frozen(-0.0), frozen((1, 2)) == frozen((1, 2))
    (False, False, True)
    """
    kind = type(value)
    if isinstance(value, float):
        return kind, value.hex()
    if isinstance(value, tuple):
        return kind, tuple(map(frozen, value))
    return kind, value


def kind_of(value: Any) -> str:
    """The library that an array comes from."""
    return type(value).__module__.partition(".")[0]


_KNOWN: dict[Any, DType] = {}


def _dtype(kind: Any) -> DType:
    found = _KNOWN.get(kind)
    if found is None:
        found = _KNOWN[kind] = dtype(kind)
    return found


def unflatten(tree: Any, leaves: Iterator[Any]) -> Any:
    """The nest again, with other leaves."""
    if tree == _LEAF:
        return next(leaves)
    kind, *rest = tree
    match kind:
        case "tuple":
            return tuple(unflatten(part, leaves) for part in rest[0])
        case "list":
            return [unflatten(part, leaves) for part in rest[0]]
        case "dict":
            return {key: unflatten(part, leaves) for key, part in rest[0]}
        case "named":
            return rest[0](*(unflatten(part, leaves) for part in rest[1]))
        case "copied":
            return deepcopy(rest[0])
        case _:
            return rest[0]
