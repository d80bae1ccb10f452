"""Dimensions of a model's inputs: which are fixed, and what those are called that are not.

A dimension without a number has a *label*: the name that the model has for it (`dim_param`), or one
made of the input's name and the axis. Where labels agree, sizes do. A name such as "past + 1" that
is an expression of other dimensions of the inputs is no label but that expression.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import ArgumentError
from ..jit.dims import Dim
from .feeds import Extent, ValueInfo, suggest

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip


class LabelBound:
    """The inputs of a model with what is said at load of their dimensions.

    Attributes:
        infos: the inputs, their shapes as far as they are known.
        extents: sizes of labels that are fixed.
        dims: bounds of labels.
    """

    def __init__(self, infos: Sequence[ValueInfo], shapes: Mapping[str, Any]) -> None:
        self.infos = list(infos)
        self.extents: dict[str, int] = {}
        self.dims: dict[str, Dim] = {}
        symbols = {dim for info in infos for dim in info.shape or () if isinstance(dim, str)}
        names = {info.name: k for k, info in enumerate(infos)}
        for name, given in shapes.items():
            if name in names and not isinstance(given, (int, np.integer, Dim)):
                index = names[name]
                self.infos[index] = self._with_shape(self.infos[index], given)
            elif name not in symbols:
                hint = suggest(name, [*symbols, *names])
                raise ArgumentError(f"no input or dimension is called {name!r}", hint=hint)
            elif isinstance(given, Dim):
                self._rename(name, self._label(given))
            else:
                self.extents[name] = _natural(name, given)

    def _rename(self, name: str, label: str) -> None:
        for k, info in enumerate(self.infos):
            shape = tuple(label if dim == name else dim for dim in info.shape or ())
            self.infos[k] = info if info.shape is None else replace(info, shape=shape)

    def _label(self, dim: Dim) -> str:
        if self.dims.setdefault(dim.name, dim) is not dim:
            raise ArgumentError(
                f"two dimensions are called {dim.name!r}", hint="use one Dim where sizes agree"
            )
        return dim.name

    def _with_shape(self, info: ValueInfo, given: Any) -> ValueInfo:
        try:
            shape: tuple[Extent, ...] = tuple(
                self._label(e) if isinstance(e, Dim) else _natural(info.name, e) for e in given
            )
        except TypeError:
            raise ArgumentError(
                f"the shape of {info.name!r} must be a tuple, not {given!r}"
            ) from None
        fits = info.shape is None or (
            len(shape) == len(info.shape)
            and all(not isinstance(d, int) or d == n for d, n in zip(info.shape, shape))
        )
        if not fits:
            raise ArgumentError(f"shape {shape} does not fit input {info.name!r} of {info.shape}")
        return replace(info, shape=shape)

    def labels(self, info: ValueInfo, rank: int) -> tuple[int | str, ...]:
        """For each axis of an input of this rank its extent or its label."""
        said = info.shape if info.shape is not None else (None,) * rank
        found = (f"{info.name}.{k}" if dim is None else dim for k, dim in enumerate(said))
        return tuple(self.extents.get(dim, dim) if isinstance(dim, str) else dim for dim in found)


def _natural(name: str, given: Any) -> int:
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 0:
        raise ArgumentError(f"dimension {name!r} must be a natural number, not {given!r}")
    return int(given)


def evaluate_label(label: str, known: Mapping[str, int]) -> int | None:
    """The value of a label that is an expression of known ones, else None.

    >>> evaluate_label("past + 1", {"past": 4}), evaluate_label("batch size", {"batch": 4})
    (5, None)
    """
    try:
        return _value(ast.parse(label, mode="eval").body, known)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            return known[name]
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, known), _value(right, known))
    raise ValueError
