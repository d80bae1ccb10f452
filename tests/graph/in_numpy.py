"""Functions of tileloom under NumPy: what they mean, in plain words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Numpy:
    """NumPy with tileloom's names; arrays of fractions are float64."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def constant(x: np.ndarray) -> np.ndarray:
        return x.astype("float64") if x.dtype.kind == "f" else x

    relu = staticmethod(lambda x: np.maximum(x, 0))
    erf = staticmethod(lambda x: np.vectorize(math.erf, otypes=["d"])(x))
    sigmoid = staticmethod(lambda x: 1 / (1 + np.exp(-x)))

    def gelu(self, x: Any) -> Any:
        return x * 0.5 * (1 + self.erf(x / math.sqrt(2)))

    @staticmethod
    def logsumexp(x: Any, axis: Any, keepdims: bool = False) -> Any:
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))

    @staticmethod
    def softmax(x: Any, axis: int) -> Any:
        e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-1e4))
        return e / np.sum(e, axis=axis, keepdims=True)

    def log_softmax(self, x: Any, axis: int) -> Any:
        centred = x - np.max(x, axis=axis, keepdims=True, initial=-1e4)
        return centred - np.log(np.sum(np.exp(centred), axis=axis, keepdims=True))

    @staticmethod
    def layer_norm(x: Any, axis: int, eps: float) -> Any:
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean, var = (f(x, axis=axes, keepdims=True) for f in (np.mean, np.var))
        return (x - mean) / np.sqrt(var + eps)

    @staticmethod
    def rms_norm(x: Any, axis: int, eps: float) -> Any:
        axes = tuple(range(axis % x.ndim, x.ndim))
        return x / np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + eps)

    cumulative_sum = staticmethod(lambda x, axis: np.cumsum(x, axis=axis))
    concat = staticmethod(lambda arrays, axis: np.concatenate(arrays, axis=axis))
    matrix_transpose = staticmethod(lambda x: np.swapaxes(x, -1, -2))


NUMPY = Numpy()
