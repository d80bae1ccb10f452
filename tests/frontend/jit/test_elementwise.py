"""Every elementwise function against NumPy: all types, hard numbers, promotion, odd shapes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import BF16, FLOATS, INTS, SPECIAL, check, wide
from tileloom import numpy as tnp
from tileloom.base.errors import UserError
from tileloom.frontend.jit import PUBLIC


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[float])(x)


def _sigmoid(x: Any) -> Any:
    return np.where(
        x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))
    )


def _gated(share: Any) -> Any:
    """x times a share of it, 0 in the limit below."""
    return lambda x: np.where(x == -np.inf, -0.0, x * share(x))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


REAL = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "erf": _erf, "gelu": _gated(lambda x: 0.5 * (1 + _erf(x / 2**0.5))),
    "silu": _gated(_sigmoid), "mish": lambda x: x * np.tanh(_softplus(x)),
    "softplus": _softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}  # fmt: skip
SAME = {
    "abs": np.abs, "sign": np.sign, "square": np.square, "relu": lambda x: np.maximum(x, 0),
    "negative": np.negative, "positive": np.positive, "ceil": np.ceil, "floor": np.floor,
    "round": np.round, "trunc": np.trunc,
}  # fmt: skip
TESTS = {"isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "signbit": np.signbit,
         "logical_not": np.logical_not}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "remainder": np.remainder, "fmod": np.fmod,
    "floor_divide": np.floor_divide, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "copysign": np.copysign,
}  # fmt: skip
COMPARE = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
BITS = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip


def compare(found: Any, functions: Any, arrays: Any, kind_of: Any) -> None:
    """Complain about all functions that are wrong, not the first alone."""
    wrong = []
    for name, reference in functions.items():
        expected = reference(*arrays)
        try:
            check(found[name], expected, kind_of(name))
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)


def together(names: Any, *arrays: Any) -> Any:
    """All functions in one program: each alone would be compiled as often."""
    return tl.jit(lambda *xs: {name: PUBLIC[name](*xs) for name in names})(*arrays)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unary_functions_of_floats(kind: Any) -> None:
    x = np.array([*SPECIAL, *np.linspace(-3, 3, 19)]).astype(kind)
    functions = {**REAL, **SAME, **TESTS}
    found = together(functions, x)
    compare(found, functions, [wide(x)], lambda name: bool if name in TESTS else kind)


@pytest.mark.parametrize("kind", INTS, ids=str)
def test_unary_functions_of_integers(kind: Any) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, limits.max, 0, 1, 2, 3, 5, 100], dtype=kind)
    functions = {**SAME, "bitwise_invert": np.invert, "logical_not": np.logical_not}
    found = together(functions, x)
    with np.errstate(over="ignore"):
        compare(found, functions, [x], lambda name: bool if name == "logical_not" else kind)


@pytest.mark.parametrize("kind", [np.dtype("int32"), np.dtype("uint8"), np.dtype(bool)], ids=str)
def test_real_functions_of_integers_take_numpys_type(kind: Any) -> None:
    x = np.array([0, 1], dtype=kind)
    found = together(["sin", "sqrt", "exp"], x)
    for name in found:
        expected = getattr(np, name)(x)
        check(found[name], wide(expected), expected.dtype)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_binary_functions_of_floats(kind: Any) -> None:
    values = np.array([0.0, -0.0, 1, -1, 0.5, -2.5, 3, 7, np.inf, -np.inf, np.nan]).astype(kind)
    a, b = (part.ravel().copy() for part in np.meshgrid(values, values))
    functions = {**BINARY, **COMPARE}
    found = together(functions, a, b)
    compare(found, functions, [wide(a), wide(b)], lambda n: bool if n in COMPARE else kind)


@pytest.mark.parametrize("kind", INTS, ids=str)
def test_binary_functions_of_integers_wrap(kind: Any) -> None:
    limits = np.iinfo(kind)
    values = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 3, 7, 100], dtype=kind)
    a, b = (part.ravel().copy() for part in np.meshgrid(values, values))
    names = ("add", "subtract", "multiply", "maximum", "minimum")
    functions = {**{n: BINARY[n] for n in names}, **COMPARE, **BITS}
    found = together(functions, a, b)
    with np.errstate(over="ignore"):
        compare(found, functions, [a, b], lambda name: bool if name in COMPARE else kind)
    keep = (b != 0) & ~((a == limits.min) & (b.astype(np.int64) == -1))
    a, b = a[keep], b[keep]
    found = together(["floor_divide", "remainder", "fmod"], a, b)
    for name in found:
        check(found[name], BINARY[name](a, b), kind)


def test_shifts_and_integer_powers() -> None:
    a = np.array([1, -1, 5, 100, -128], dtype=np.int32)
    b = np.array([0, 3, 7, 2, 1], dtype=np.int32)
    check(tnp.bitwise_left_shift(a, b), np.left_shift(a, b))
    check(tnp.bitwise_right_shift(a, b), np.right_shift(a, b))
    check(tnp.pow(a, b), np.power(a, b))


# ---------------------------------------------------------------------------- promotion

KINDS = (np.dtype(bool), *INTS, *FLOATS[:3])


@pytest.mark.parametrize("a", KINDS, ids=str)
@pytest.mark.parametrize("b", KINDS, ids=str)
def test_types_are_promoted_as_in_numpy(a: Any, b: Any) -> None:
    x, y = np.ones(2, a), np.ones(2, b)
    traced = tl.jit(lambda x, y: (x + y, x * y, tnp.where(x == y, x, y), tnp.maximum(x, y)))
    if a.kind == b.kind == "b":
        return  # what + of truth values is, is asked below
    for output in traced.graph(x, y).outputs:
        assert output.dtype.numpy == np.result_type(a, b)
    assert tl.jit(lambda x, y: x / y).graph(x, y).outputs[0].dtype.numpy == (x / y).dtype


@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
def test_python_numbers_take_the_type_of_what_they_meet(kind: Any) -> None:
    x = np.ones(3, kind)
    found = tl.jit(lambda x: (x + 1, x * 2.5, 2 - x, True * x)).graph(x).outputs
    expected = (x + 1, x * 2.5, 2 - x, True * x)
    assert [t.dtype.numpy for t in found] == [e.dtype for e in expected]


def test_a_float_argument_is_a_python_number() -> None:
    x = np.ones(3, np.float32)
    scale = tl.jit(lambda x, by: x * by)
    assert scale(x, 2.5).dtype == np.float32
    assert scale(x, 0.1)[0] == np.float32(0.1) and scale.compilations == 1
    assert scale(x.astype(BF16), 2.0).dtype == BF16


def test_bfloat16_meets_others() -> None:
    x = np.ones(2, BF16)
    outputs = (
        tl.jit(lambda x, f, h, i: (x + f, x + h, x + i, x + 1.0))
        .graph(x, np.ones(2, "float32"), np.ones(2, "float16"), np.ones(2, "int32"))
        .outputs
    )
    assert [str(t.dtype) for t in outputs] == ["float32", "float32", "bfloat16", "bfloat16"]


def test_truth_values() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])

    def everything(a: Any, b: Any) -> Any:
        mixed = (a & b, a | b, a ^ b, ~a, a + b, a * b, a == b, a < b)
        return (*mixed, np.maximum(a, b), np.minimum(a, b), a**b, a + 1, a * 2.0)

    for ours, theirs in zip(tl.jit(everything)(a, b), everything(a, b), strict=True):
        check(ours, theirs)
    with pytest.raises(UserError, match="bool"):
        tl.jit(lambda a, b: a - b)(a, b)


# ---------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((), ()), ((1,), (1,)), ((7,), ()), ((3, 1), (1, 5)), ((2, 3, 5), (3, 1)), ((0,), (1,)),
        ((0, 4), (4,)), ((3, 0, 2), (1, 1)), ((1, 1, 1), (17,)), ((13, 17), (13, 17)),
    ],
)  # fmt: skip
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = (np.asarray(rng.standard_normal(shape), np.float32) for shape in (a, b))
    check(tl.jit(lambda x, y: tnp.exp(x) * y - x)(x, y), np.exp(wide(x)) * y - x, np.float32)


def test_arrays_that_lie_in_memory_otherwise(rng: np.random.Generator) -> None:
    f = tl.jit(lambda x: x * 2 + 1)
    base = rng.standard_normal((8, 12)).astype(np.float32)
    for x in (base.T, base[::2], base[:, ::-3], base[1:, 1:], np.broadcast_to(base[0], (5, 12))):
        check(f(x), wide(x) * 2 + 1, np.float32)
    assert f.compilations == 5
    unaligned = np.frombuffer(bytes(1) + base.tobytes(), np.uint8)[1:].view(np.float32)
    check(f(unaligned), wide(unaligned) * 2 + 1, np.float32)
    readonly = base.copy()
    readonly.flags.writeable = False
    check(f(readonly), wide(base) * 2 + 1, np.float32)


def test_where_and_clip(rng: np.random.Generator) -> None:
    x = rng.standard_normal(33).astype(np.float32)
    check(tnp.where(x > 0, x, -1), np.where(x > 0, x, np.float32(-1)))
    check(tnp.clip(x, -0.5, 0.5), np.clip(x, np.float32(-0.5), np.float32(0.5)))
    check(tnp.clip(x, min=0), np.maximum(x, 0))
    assert np.isnan(tnp.clip(np.array([np.nan], np.float32), 0, 1))[0]


def test_every_function_of_the_public_face_is_tested() -> None:
    """Read together with the other files: a new name must appear in one of them."""
    text = "".join(p.read_text() for p in Path(__file__).parent.glob("*.py"))
    missing = [name for name in PUBLIC if f'"{name}"' not in text and f"tnp.{name}(" not in text]
    assert not missing
