"""Tensors in words: neighbours along an axis in 32 bits, the first in the lowest ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import compute as te
from ..compute import if_then_else
from ..expr import Call, Expr, const
from ..expr.dot_ops import WORD


def in_words(tensor: te.Tensor, axis: int, steps: int, parts: int, groups: int = 1) -> te.Tensor:
    """A tensor in words along an axis, so many in each group of it, filled up with zeros.

    Args:
        steps: the words of a group.
        parts: the elements of a word.

    >>> image = te.placeholder((1, 6, 5), "int8", name="image")
    >>> in_words(image, 1, 2, 4)
    Tensor(image_words: int32[1, 2, 5])
    """
    shape = list(tensor.static_shape)
    extent = shape[axis] // groups
    shape[axis] = steps * groups
    whole = extent // parts

    def word(at: Sequence[Any], step: Any, base: Any, filled: bool) -> Expr:
        found = []
        for part in range(parts):
            k = step * parts + part
            value: Expr = tensor(*at[:axis], base + k, *at[axis + 1 :])
            if filled:
                value = if_then_else(k < extent, value, const(0, tensor.dtype))
            found.append(value)
        return Call("int32", WORD, found)

    def element(*at: Any) -> Expr:
        group, step = (0, at[axis]) if groups == 1 else (at[axis] // steps, at[axis] % steps)
        base = group * extent
        if whole == steps:
            return word(at, step, base, False)
        rest = const(0, "int32") if extent % parts == 0 else word(at, step, base, True)
        return if_then_else(step < whole, word(at, step, base, False), rest)

    found: te.Tensor = te.compute(shape, element, name=f"{tensor.name}_words")
    return found
