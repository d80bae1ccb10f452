"""Stable orders of integers: the number of the element is part of what is sorted.

A key and the element's number in one int64 need no stable algorithm and no second array: NumPy
sorts them with vector instructions, in a fifth of the time of its stable `argsort`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .index_arrays import Array

_BITS = 63


def stable_order(keys: Array, bound: int) -> tuple[Array, Array]:
    """The stable order of keys in `range(bound)`, and the keys in that order; both int64.

    >>> order, ascending = stable_order(np.array([3, 1, 3, 0]), 4)
    >>> order, ascending
    (array([3, 1, 0, 2]), array([0, 1, 3, 3]))
    """
    keys = keys.astype(np.int64, copy=False)
    numbers = np.arange(len(keys))
    if bool((keys[1:] >= keys[:-1]).all()):
        return numbers, keys
    shift = len(keys).bit_length()
    if shift + (bound - 1).bit_length() > _BITS:
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
    packed = keys << shift
    packed |= numbers
    packed.sort()
    np.bitwise_and(packed, (1 << shift) - 1, out=numbers)
    packed >>= shift
    return numbers, packed


def lexical_order(columns: Sequence[Array], bounds: Sequence[int]) -> Array:
    """The stable order of elements by several keys, the first being the most significant.

    Neighbouring keys are sorted as one number as far as that fits; the last of them first.

    >>> lexical_order([np.array([1, 0, 1]), np.array([5, 7, 2])], [2, 8])
    array([1, 2, 0])
    """
    count = len(columns[0])
    if _ascends(columns):
        return np.arange(count)
    room = _BITS - count.bit_length()
    order: Array | None = None
    last = len(columns)
    while last:
        first, bits = last - 1, (bounds[last - 1] - 1).bit_length()
        while first and bits + (bounds[first - 1] - 1).bit_length() <= room:
            first -= 1
            bits += (bounds[first] - 1).bit_length()
        keys = _joined(columns[first:last], bounds[first:last])
        step, _ = stable_order(keys if order is None else keys[order], 1 << bits)
        order = step if order is None else order[step]
        last = first
    return np.arange(count) if order is None else order


def _ascends(columns: Sequence[Array]) -> bool:
    tied = np.ones(max(0, len(columns[0]) - 1), bool)
    for column in columns:
        if bool((tied & (column[1:] < column[:-1])).any()):
            return False
        tied &= column[1:] == column[:-1]
    return True


def _joined(columns: Sequence[Array], bounds: Sequence[int]) -> Array:
    keys = columns[0].astype(np.int64)
    for column, bound in zip(columns[1:], bounds[1:]):
        keys <<= (bound - 1).bit_length()
        keys |= column
    return keys


def first_of_runs(*ascending: Array) -> Array:
    """For each element whether it begins a run of equal ones.

    >>> first_of_runs(np.array([2, 2, 5]))
    array([ True, False,  True])
    """
    flags = np.ones(len(ascending[0]), bool)
    if len(flags):
        np.not_equal(ascending[0][1:], ascending[0][:-1], out=flags[1:])
    for keys in ascending[1:]:
        flags[1:] |= keys[1:] != keys[:-1]
    return flags
