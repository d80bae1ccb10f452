"""Fourier transforms against NumPy's, mel filters against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import check_with_runtime, f32, run_node
from tileloom.base.errors import UserError

RANDOM = np.random.default_rng(10)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


def as_complex(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def as_pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3, -4])
@pytest.mark.parametrize("length", [None, 1, 3, 8])
def test_transforms(parts: int, axis: int, length: int | None) -> None:
    x = normal(3, 5, 4, parts)
    place = axis % 4
    size = None if length is None else np.int64(length)
    found = run_node("DFT", x, size, np.int64(axis), opset=20)
    wanted = np.fft.fft(as_complex(x), length, place)
    np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-4, atol=1e-4)
    if parts == 2:
        found = run_node("DFT", x, size, np.int64(axis), opset=20, inverse=1)
        wanted = np.fft.ifft(as_complex(x), length, place)
        np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-4, atol=1e-4)
    else:
        found = run_node("DFT", x, size, np.int64(axis), opset=20, onesided=1)
        wanted = np.fft.rfft(x[..., 0], length, place)
        np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-4, atol=1e-4)


def test_the_axis_where_none_is_given() -> None:
    x = normal(3, 5, 4, 1)
    for opset, axis in ((17, 1), (20, 2)):
        wanted = as_pairs(np.fft.fft(x[..., 0], axis=axis))
        np.testing.assert_allclose(run_node("DFT", x, opset=opset), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [None, 6, 7])
def test_real_signals_of_half_a_spectrum(length: int | None) -> None:
    x = normal(2, 5, 2)
    size = None if length is None else np.int64(length)
    found = run_node("DFT", x, size, np.int64(1), opset=20, inverse=1, onesided=1)
    wanted = np.fft.irfft(as_complex(x), length, 1)
    np.testing.assert_allclose(found[..., 0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "axis", "length"),
    [((3, 4, 2), 2, None), ((3, 4, 2), -1, None), ((3, 4, 2), -4, None), ((3, 4, 2), 3, None),
     ((3, 4, 3), 1, None), ((3,), 0, None), ((3, 4, 2), 1, 0), ((3, 4, 2), 1, 1 << 20),
     ((3, 0, 2), 1, None)],
)  # fmt: skip
def test_transforms_that_are_refused(shape: tuple[int, ...], axis: int, length: Any) -> None:
    size = None if length is None else np.int64(length)
    with pytest.raises(UserError, match="transform"):
        run_node("DFT", normal(*shape), size, np.int64(axis), opset=20)


@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("shape", [(2, 16), (2, 16, 1)])
def test_frames(step: int, onesided: int, shape: tuple[int, ...]) -> None:
    x, window = normal(*shape), f32(1, 2, 3, 2, 1)
    found = run_node("STFT", x, np.int64(step), window, onesided=onesided)
    line = x.reshape(2, 16)
    transform = np.fft.rfft if onesided else np.fft.fft
    starts = range(0, 16 - 5 + 1, step)
    wanted = np.stack([transform(line[:, k : k + 5] * window) for k in starts], 1)
    np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-4, atol=1e-4)


def test_frames_of_complex_signals() -> None:
    x = normal(1, 9, 2)
    found = run_node("STFT", x, np.int64(2), None, np.int64(4), onesided=0)
    wanted = np.stack([np.fft.fft(as_complex(x)[:, k : k + 4]) for k in (0, 2, 4)], 1)
    np.testing.assert_allclose(found, as_pairs(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("bins", "length", "rate", "low", "high"),
    [(8, 16, 16000, 0, 8000), (4, 8, 8000, 100, 3000), (1, 4, 100, 0, 50), (10, 40, 8192, 0, 4096),
     (3, 64, 1000, 200, 210), (2, 9, 100, 10, 10)],
)  # fmt: skip
def test_mel_filters(bins: int, length: int, rate: int, low: int, high: int) -> None:
    arrays = [*map(np.int64, (bins, length, rate)), np.float32(low), np.float32(high)]
    check_with_runtime("MelWeightMatrix", 17, arrays)


def test_mel_filters_end_at_half_the_rate() -> None:
    arrays = [*map(np.int64, (4, 16, 100)), np.float32(0), np.float32(90)]
    with pytest.raises(UserError, match="half of the sample rate"):
        run_node("MelWeightMatrix", *arrays, opset=17)
