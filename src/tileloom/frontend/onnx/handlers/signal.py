"""Fourier transforms as products with constant matrices; mel filters."""

from __future__ import annotations

import numpy as np

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..elements import graph_dtype
from ..registry import handler
from ..values import Array, constant_of

#: Matrices of a transform: beyond this a fast algorithm would be needed.
_LONGEST = 1 << 13


@handler("DFT", since=17)
def dft(call: Call) -> Tensor:
    x = call.tensor(0)
    if call.version < 20:
        axis = call.integer("axis", 1)
    else:
        axis = int(call.scalar(2)) if call.has(2) else -2
    if x.ndim < 2 or not -x.ndim <= axis < x.ndim or x.shape[-1] not in (1, 2):
        raise ShapeError(f"axis {axis} of {x.type} cannot be transformed")
    axis %= x.ndim
    inverse, onesided = call.flag("inverse"), call.flag("onesided")
    length = int(x.shape[axis])
    if inverse and onesided:
        length = 2 * (length - 1)
    if call.has(1):
        length = int(call.scalar(1))
    if axis == x.ndim - 1 or not 1 <= length <= _LONGEST:
        return call.unsupported(f"a transform of length {length} along axis {axis}")
    signal = ops.moveaxis(x, axis, -2)
    used = length // 2 + 1 if inverse and onesided else length
    result = transform(_fitted(signal, used), length, inverse, onesided)
    return ops.moveaxis(result, -2, axis)


def _fitted(signal: Tensor, length: int) -> Tensor:
    """Cut or padded with zeros along the last axis but one."""
    pads = [(0, 0)] * (signal.ndim - 2) + [(0, length - signal.shape[-2]), (0, 0)]
    return signal if signal.shape[-2] == length else ops.pad(signal, pads, "constant", 0)


def transform(signal: Tensor, length: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform of [..., n, 1 or 2] along n."""
    kind = signal.dtype
    real, imaginary = _parts(signal)
    if inverse and onesided:
        return _real_inverse(real, imaginary, length)
    bins = length // 2 + 1 if onesided else length
    angle = np.outer(np.arange(length), np.arange(bins)) % length * (2 * np.pi / length)
    scale = 1 / length if inverse else 1.0
    cosine = ops.constant(np.cos(angle) * scale, kind)
    sine = ops.constant(np.sin(angle) * (scale if inverse else -scale), kind)
    re, im = ops.matmul(real, cosine), ops.matmul(real, sine)
    if imaginary is not None:
        re = ops.sub(re, ops.matmul(imaginary, sine))
        im = ops.add(im, ops.matmul(imaginary, cosine))
    return ops.stack([re, im], -1)


def _parts(signal: Tensor) -> tuple[Tensor, Tensor | None]:
    if signal.shape[-1] == 1:
        return ops.squeeze(signal, -1), None
    real, imaginary = (ops.squeeze(part, -1) for part in ops.split(signal, [1, 1], -1))
    return real, imaginary


def _real_inverse(real: Tensor, imaginary: Tensor | None, length: int) -> Tensor:
    """A real signal from the lower half of its spectrum."""
    bins = length // 2 + 1
    weight = np.full((bins, 1), 2.0)
    weight[0] = 1.0
    if length % 2 == 0:
        weight[-1] = 1.0
    angle = np.outer(np.arange(bins), np.arange(length)) % length * (2 * np.pi / length)
    result = ops.matmul(real, ops.constant(weight * np.cos(angle) / length, real.dtype))
    if imaginary is not None:
        sine = ops.constant(weight * np.sin(angle) / length, real.dtype)
        result = ops.sub(result, ops.matmul(imaginary, sine))
    return ops.expand_dims(result, -1)


@handler("STFT")
def stft(call: Call) -> Tensor:
    signal, step = call.tensor(0), int(call.scalar(1))
    window = call.optional(2)
    length = int(call.scalar(3)) if call.has(3) else None
    if length is None:
        length = int(window.shape[0]) if window is not None and window.ndim == 1 else 0
    if signal.ndim == 2:
        signal = ops.expand_dims(signal, -1)
    if signal.ndim != 3 or signal.shape[-1] not in (1, 2) or step < 1:
        raise ShapeError(f"steps of {step} do not fit {signal.type}")
    if not 1 <= length <= min(signal.shape[1], _LONGEST):
        raise ShapeError(f"frames of {length} do not fit {signal.type}")
    count = (int(signal.shape[1]) - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = ops.gather(signal, constant_of(places.astype(np.int64)), 1)
    if window is not None:
        if window.shape != (length,):
            raise ShapeError(f"the window {window.type} does not fit frames of {length}")
        frames = ops.mul(frames, ops.reshape(window, (length, 1)))
    return transform(frames, length, False, call.flag("onesided", True))


@handler("MelWeightMatrix")
def mel_weight_matrix(call: Call) -> Tensor:
    bins, length, rate = (int(call.scalar(k)) for k in range(3))
    low, high = float(call.scalar(3)), float(call.scalar(4))
    kind = graph_dtype(call.integer("output_datatype", 1))
    if not (0 < bins < 1 << 16 and 0 < length < 1 << 24 and rate > 0 and 0 <= low <= high):
        raise UserError("unusable numbers of bins, samples or frequencies")
    return constant_of(_mel(bins, length, rate, low, high).astype(kind.numpy))


def _mel(bins: int, length: int, rate: int, low: float, high: float) -> Array:
    """Triangles between neighbouring mel frequencies (the formula of the ONNX standard)."""
    first, last = (2595 * np.log10(1 + edge / 700) for edge in (low, high))
    mels = first + np.arange(bins + 2) * ((last - first) / (bins + 2))
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
    rows = np.arange(length // 2 + 1)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    if right.max(initial=0) > length // 2 + 1:
        raise UserError("the upper edge is above half of the sample rate")
    rising = np.where(rows >= left, (rows - left) / np.maximum(centre - left, 1), 0.0)
    rising = np.where(centre == left, rows == centre, rising)
    falling = (right - rows) / np.maximum(right - centre, 1)
    below = (rows < centre) | ((rows == centre) & (right == centre))
    result: Array = np.where(below, rising, np.where(rows < right, falling, 0.0))
    return result
