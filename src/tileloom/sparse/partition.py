"""Whether arrays are parts of a tensor: every element in exactly one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, ShapeError, UserError
from .convert import check_csr, csr_to_coo
from .format_rule import FormatRewriteRule
from .index_values import Array
from .part_coordinates import part_coordinates
from .rule_arrays import RuleArrays

#: A matrix in CSR (indptr, indices, shape), or coordinates on each axis and a shape.
Structure = tuple[Any, Any, Any] | tuple[Sequence[Any], Sequence[int]]


def check_partition(
    rules: Sequence[FormatRewriteRule],
    original: Structure,
    parts: Sequence[Mapping[str, Any] | RuleArrays],
) -> None:
    """Does nothing if each element of a tensor is in one part, and parts have nothing else.

    Slots that a mask says are empty hold nothing, nor do those beyond the tensor.

    Args:
        rules: what the parts are.
        original: the tensor: `(indptr, indices, shape)` of a matrix in CSR, or the coordinates of
            elements on each axis that the rules rewrite, and the shape.
        parts: for each rule what `convert_by_rule` makes, or the arrays by the names of the
            description's parameters, sizes that these do not tell, and `mask`, if slots are empty:
            for each element of the part's buffers whether it is one of the tensor.

    Raises:
        UserError: the first coordinates, in order, that are missing, in two slots, or not the
            tensor's.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def ell(a: T.handle, indptr_i: T.handle, indices_i: T.handle, indices_j: T.handle,
    ...         m: T.int32, n: T.int32, num_rows: T.int32):
    ...     T.func_attr({"sparse_tir_level": 2})
    ...     O = T.dense_fixed(1)
    ...     I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i))
    ...     J = T.sparse_fixed(I, (n, 2), indices_j)
    ...     A = T.match_sparse_buffer(a, [O, I, J], "float32")
    ...     T.evaluate(0)
    >>> rule = FormatRewriteRule(
    ...     "2", ell, ["A"], ["I", "J"], ["O", "I", "J"], {"I": ["O", "I"], "J": ["J"]},
    ...     lambda i, j: (0, i, j), lambda o, i, j: (i, j),
    ... )
    >>> part = {"indptr_i": [0, 2], "indices_i": [0, 2], "indices_j": [[0, 3], [1, 2]]}
    >>> check_partition([rule], ([0, 2, 2, 4], [0, 3, 1, 2], (3, 4)), [part])
    >>> check_partition([rule], ([0, 2, 3, 5], [0, 3, 1, 1, 2], (3, 4)), [part])
    Traceback (most recent call last):
    tileloom.base.errors.UserError: no part has the element at (1, 1)
    """
    if len(rules) != len(parts):
        raise ArgumentError(f"there are {len(rules)} rules, but {len(parts)} parts")
    columns, shape = _coordinates(original)
    if prod(shape) > np.iinfo(np.int64).max:
        raise ShapeError(f"a tensor of shape {shape} has more places than can be counted")
    ordered = np.sort(_keys(columns, shape))
    if (ordered[1:] == ordered[:-1]).any():
        first = int(ordered[np.argmax(ordered[1:] == ordered[:-1])])
        raise UserError(
            f"the tensor has two elements at {_point(first, shape)}", hint="add them up"
        )
    slots = [
        _part_keys(rule, part.given if isinstance(part, RuleArrays) else part, shape)
        for rule, part in zip(rules, parts, strict=True)
    ]
    keys = np.concatenate([np.zeros(0, np.int64), *slots])
    part_of = np.repeat(np.arange(len(rules)), [len(found) for found in slots])
    order = np.argsort(keys, kind="stable")
    keys, part_of = keys[order], part_of[order]
    names = [rule.name for rule in rules]
    problems = (
        _missing(ordered, keys),
        _foreign(ordered, keys, part_of, names),
        _repeated(keys, part_of, names),
    )
    there = [problem for problem in problems if problem is not None]
    if there:
        key, text = min(there, key=lambda problem: problem[0])
        raise UserError(text.format(at=_point(key, shape)))


Problem = tuple[int, str]


def _contains(ascending: Array, keys: Array) -> Array:
    """For each key whether it is in an array that ascends."""
    if not len(ascending):
        return np.zeros(len(keys), bool)
    found = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    there: Array = ascending[found] == keys
    return there


def _missing(ordered: Array, keys: Array) -> Problem | None:
    lost = ~_contains(keys, ordered)
    if not lost.any():
        return None
    return int(ordered[np.argmax(lost)]), "no part has the element at {at}"


def _foreign(ordered: Array, keys: Array, part_of: Array, names: Sequence[str]) -> Problem | None:
    foreign = ~_contains(ordered, keys)
    if not foreign.any():
        return None
    slot = int(np.argmax(foreign))
    name = names[part_of[slot]]
    return int(keys[slot]), f"part {name!r} has an element at {{at}}, where the tensor has none"


def _repeated(keys: Array, part_of: Array, names: Sequence[str]) -> Problem | None:
    again = keys[1:] == keys[:-1]
    if not again.any():
        return None
    slot = int(np.argmax(again))
    one, other = names[part_of[slot]], names[part_of[slot + 1]]
    where = f"part {one!r} has it twice" if one == other else f"parts {one!r} and {other!r} have it"
    return int(keys[slot]), f"the element at {{at}} is in two places: {where}"


def _coordinates(original: Structure) -> tuple[list[Array], tuple[int, ...]]:
    """The coordinates of all elements of a tensor, and its shape."""
    if len(original) == 3:
        indptr, indices, shape = original
        check_csr(indptr, indices, shape)
        return [*csr_to_coo(indptr, indices)], tuple(shape)
    columns, shape = original
    return [np.asarray(column) for column in columns], tuple(shape)


def _keys(columns: Sequence[Array], shape: Sequence[int]) -> Array:
    """A number for the coordinates of each element, ascending with them."""
    keys = np.zeros(len(columns[0]), np.int64)
    for column, extent in zip(columns, shape, strict=True):
        keys = keys * extent + column
    return keys


def _part_keys(rule: FormatRewriteRule, arrays: Mapping[str, Any], shape: Sequence[int]) -> Array:
    """The numbers of the elements of a part."""
    columns = part_coordinates(rule, arrays)
    if len(columns) != len(shape):
        raise ShapeError(
            f"rule {rule.name!r} is about {len(columns)} axes, the tensor has {len(shape)}"
        )
    inside = np.ones(len(columns[0]), bool)
    for column, extent in zip(columns, shape, strict=True):
        inside &= (column >= 0) & (column < extent)
    return _keys([column[inside] for column in columns], shape)


def _point(key: int, shape: Sequence[int]) -> str:
    places = []
    for extent in reversed(shape):
        key, place = divmod(key, extent)
        places.append(str(place))
    return f"({', '.join(reversed(places))})"
