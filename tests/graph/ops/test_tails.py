"""The digits of small results: tails of gelu, silu and erfc, through every way in."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import onnx
import onnx.parser
import pytest

import tileloom
from graph.ops.checks import check
from tileloom import numpy as tnp
from tileloom.graph import ops

#: mpmath's function, the last place that is not 0 in float32, and the units in the last place.
FUNCTIONS = {
    "gelu": (lambda x: x * mp.ncdf(x), -14.0, 4.25),
    "gelu tanh": (
        lambda x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))),
        -10.6, 2.75,
    ),
    "silu": (lambda x: x / (1 + mp.exp(-x)), -108.0, 2.75),
    "erfc": (mp.erfc, 10.0, 1.0),
}  # fmt: skip
JIT = {
    "gelu": lambda x: tnp.gelu(x),
    "gelu tanh": lambda x: tnp.gelu(x, approximate="tanh"),
    "silu": lambda x: tnp.silu(x),
    "erfc": lambda x: tnp.erfc(x),
}
TORCH = {
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "erfc": lambda torch, x: torch.erfc(x),
}
ONNX = {"gelu": "Gelu", "gelu tanh": 'Gelu<approximate = "tanh">', "silu": "Swish"}


def _arguments(name: str) -> np.ndarray:
    last = FUNCTIONS[name][1]
    spread = np.linspace(last, -np.sign(last) * 5, 300)
    return np.concatenate([spread, [-1e-30, 1e-30, -0.5, 0.5]]).astype(np.float32)


def _close(name: str, x: np.ndarray, found: np.ndarray) -> None:
    with mp.workprec(120):
        exact = np.array([float(FUNCTIONS[name][0](mp.mpf(float(v)))) for v in x])
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    errors = np.abs(found.astype(np.float64) - exact) / unit
    worst = int(np.argmax(errors))
    assert errors[worst] <= FUNCTIONS[name][2], (x[worst], found[worst], exact[worst])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_through_jit(name: str) -> None:
    x = _arguments(name)
    _close(name, x, tileloom.jit(JIT[name])(x))


@pytest.mark.parametrize("name", TORCH)
def test_through_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = _arguments(name)
    compiled = torch.compile(lambda t: TORCH[name](torch, t), backend="tileloom")
    _close(name, x, compiled(torch.from_numpy(x)).numpy())


@pytest.mark.parametrize("name", ONNX)
def test_through_onnx(name: str) -> None:
    x = _arguments(name)
    text = (
        f'<ir_version: 10, opset_import: ["" : 24]> '
        f"m (float[{x.size}] X) => (float[{x.size}] Y) {{ Y = {ONNX[name]}(X) }}"
    )
    model = onnx.parser.parse_model(text)
    _close(name, x, tileloom.onnx.load(model)(x)[0])


@pytest.mark.parametrize("name", ["gelu", "gelu tanh", "silu"])
def test_limits(name: str) -> None:
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    expected = np.array([0.0, -0.0, np.inf, -0.0, np.nan, 3e38, -0.0], np.float32)
    for kind in (np.float32, np.float64):
        found = tileloom.jit(JIT[name])(ends.astype(kind))
        np.testing.assert_array_equal(found, expected.astype(kind))
        np.testing.assert_array_equal(np.signbit(found[:4]), np.signbit(expected[:4]))


@pytest.mark.parametrize("form", ["none", "tanh", "sigmoid"])
def test_the_gradient_of_gelu_far_below_zero(form: str) -> None:
    torch = pytest.importorskip("torch")
    gelu = torch.nn.functional.gelu
    x = np.concatenate([np.linspace(-5.5, 4, 39), [0.0, -0.0, 1e-35, -1e-45]]).astype(np.float32)
    wide = torch.tensor(x.astype(np.float64), requires_grad=True)
    gelu(wide, approximate="none" if form == "none" else "tanh").sum().backward()
    found = check(lambda dy, t: ops.gelu_grad(dy, t, form), np.ones_like(x), x, tolerance=1e-4)
    np.testing.assert_allclose(found, wide.grad.numpy(), rtol=1e-4)


SIGNED = np.array([0.0, 1e-45, 0.5, 1, 2.5, 7, 3e38, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_quotients_and_remainders_have_the_sign_of_numpys_zeros(name: str, kind: str) -> None:
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        x = np.concatenate([SIGNED, -SIGNED]).astype(kind)
        expected = function(x[:, None], x[None, :])
        found = tileloom.jit(lambda a, b: function(a, b))(x[:, None], x[None, :])
        halves = function(x, 0.5), tileloom.jit(lambda a: function(a, 0.5))(x)
    for wanted, got in ((expected, found), halves):
        np.testing.assert_array_equal(got, wanted)
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))
