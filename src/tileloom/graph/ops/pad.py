"""Padding: by a constant, or with elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base.errors import ShapeError, UserError
from ...expr import GE, LT, Expr, Max, Min, binary, const
from ..nodes import Tensor, TensorType, as_extent
from ..op import Array, Attrs, apply1
from ..symbols import larger
from .common import Scalar, Types, builder, compute_tensor, define
from .shape import strided_slice

Pads = Sequence[tuple[int, int]]
_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    pads, shape, mode = attrs["pads"], types[0].shape, attrs["mode"]
    if mode not in _MODES:
        raise UserError(f"unknown mode {mode!r}", hint=f"one of {', '.join(_MODES)}")
    if len(pads) != len(shape) or any(min(pair) < 0 for pair in pads):
        raise ShapeError(f"needs two amounts for each dimension of {types[0]}, got {list(pads)}")
    for axis, (extent, pair) in enumerate(zip(shape, pads, strict=True)):
        if mode != "constant" and extent == 0 and any(pair):
            raise ShapeError(f"mode {mode!r} has nothing to repeat along axis {axis} of {types[0]}")
    sizes = tuple(low + n + high for n, (low, high) in zip(shape, pads, strict=True))
    return [TensorType(sizes, types[0].dtype)]


def _reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    mode: Any = attrs["mode"]
    if mode != "constant":
        return [np.pad(arrays[0], attrs["pads"], mode)]
    # np.pad knows no fill value for extension types.
    result = np.full(types[0].shape, attrs["value"], types[0].dtype.numpy)
    inner = tuple(slice(low, low + n) for n, (low, _) in zip(arrays[0].shape, attrs["pads"]))
    result[inner] = arrays[0]
    return [result]


def _edge(i: Expr, n: int, fits: bool) -> Expr:
    return binary(Max, binary(Min, i, n - 1), 0)


def _reflect(i: Expr, n: int, fits: bool) -> Expr:
    """... 2 1 0 1 2 ...: a wave of period 2 (n - 1)."""
    if n == 1:
        return const(0, i.dtype)
    if not fits:
        i = i % larger(1, 2 * n - 2)
    return binary(Min, te.call("abs", i), 2 * n - 2 - i)


def _symmetric(i: Expr, n: int, fits: bool) -> Expr:
    """... 1 0 0 1 ...: a wave of period 2 n."""
    i = i % (2 * n)
    return binary(Min, i, 2 * n - 1 - i)


_WAVES: dict[str, Callable[[Expr, int, bool], Expr]] = {
    "edge": _edge,
    "reflect": _reflect,
    "symmetric": _symmetric,
    "wrap": lambda i, n, fits: i % n,
}


def _compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    source, pads, mode = inputs[0], attrs["pads"], attrs["mode"]
    shape = source.static_shape

    def wave(i: Any, extent: int, pair: tuple[int, int]) -> Any:
        return _WAVES[mode](i - pair[0], extent, max(pair) < extent) if any(pair) else i

    def repeated(*index: Any) -> Expr:
        return source(*map(wave, index, shape, pads))

    if mode == "constant":
        return [pad_with(source, pads, const(attrs["value"], types[0].dtype), types[0], "pad")]
    return [compute_tensor(types[0], repeated, "pad")]


def pad_with(source: te.Tensor, pads: Pads, value: Expr, type_: TensorType, name: str) -> te.Tensor:
    """`source` surrounded by `value`; elements outside it are never read."""
    shape = source.static_shape

    def body(*index: Any) -> Expr:
        inside = const(True)
        for i, extent, (low, high) in zip(index, shape, pads, strict=True):
            if low:
                inside = inside & binary(GE, i, low)
            if high:
                inside = inside & binary(LT, i, low + extent)
        at = [i - low for i, (low, _) in zip(index, pads, strict=True)]
        return te.if_then_else(inside, source(*at), value)

    return compute_tensor(type_, body, name)


define("pad", "injective", _infer, _reference, _compute)


@builder
def pad(x: Tensor, pads: Pads, mode: str = "constant", value: Scalar = 0) -> Tensor:
    """`x` with (before, after) elements added along each axis; negative amounts cut off.

    Modes are those of `numpy.pad`: constant, edge, reflect, symmetric, wrap.
    """
    amounts = [(as_extent(low), as_extent(high)) for low, high in pads]
    if len(amounts) == x.ndim and any(low < 0 or high < 0 for low, high in amounts):
        starts = [max(0, -low) for low, _ in amounts]
        ends = [n - max(0, -high) for n, (_, high) in zip(x.shape, amounts, strict=True)]
        if any(end < start for start, end in zip(starts, ends, strict=True)):
            raise ShapeError(f"{amounts} cuts off more than {x.type} has")
        x = strided_slice(x, starts, ends)
    grown = tuple((larger(0, low), larger(0, high)) for low, high in amounts)
    if len(grown) == x.ndim and not any(any(pair) for pair in grown):
        return x
    return apply1("pad", (x,), pads=grown, mode=mode, value=value)
