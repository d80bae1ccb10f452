"""Any number of lanes, half precision, exact functions, other processors."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np
import pytest

from codegen.vmath_accuracy import ULPS
from codegen.vmath_kernels import NUMPY, build_module, kernel, ulps
from codegen.vmath_references import UNARY
from sampling import sampled
from tileloom.base.errors import InternalError
from tileloom.codegen import vmath

_TWO = ["pow", "atan2", "hypot", "ldexp", "nextafter", "fmod", "copysign", "min", "max"]
ARITY = {**dict.fromkeys(_TWO, 2), "fma": 3}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 7.0, 1e5, -3e9, 1e-41, -1e-320, np.inf, -np.inf, np.nan]


def _arguments(name: str, kind: str) -> list[Any]:
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL * 3).astype(NUMPY[kind])
    x[14:] *= np.linspace(0.1, 1.1, 28).astype(NUMPY[kind])
    return [np.roll(x, 3 * i) for i in range(ARITY.get(name, 1))]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", sampled(ULPS, 3))
def test_width_does_not_matter(name: str, kind: str) -> None:
    args = _arguments(name, kind)
    arity = len(args)
    expected = kernel(name, kind, 1, arity)(*args)
    for width in (3, 4, 8, 16):
        result = kernel(name, kind, width, arity)(*args)
        np.testing.assert_array_equal(result, expected, f"{width} lanes")
        if name not in ("min", "max"):  # which zero they give stays open
            np.testing.assert_array_equal(np.signbit(result[:11]), np.signbit(expected[:11]))


@pytest.mark.parametrize("name", UNARY)
def test_signs_of_zeros(name: str) -> None:
    for kind in ("f32", "f64"):
        x = np.array([0.0, -0.0], NUMPY[kind])
        with np.errstate(all="ignore"):
            expected = UNARY[name][0](x)
        negative = np.signbit(expected) & ~np.isnan(expected)
        result = kernel(name, kind, 4)(x)
        np.testing.assert_array_equal(np.signbit(result) & ~np.isnan(result), negative)


@pytest.mark.parametrize("name", UNARY)
def test_half_precision(name: str) -> None:
    x = np.arange(0, 1 << 16, 7, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(np.float64))
    result = kernel(name, "f16", 8)(x)
    assert ulps(result, exact).max() <= 0.501


EXACT = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "rint": np.rint,
    "nearbyint": np.rint,
    "fabs": np.abs,
    "copysign": np.copysign,
    "min": np.minimum,
    "max": np.maximum,
    "fmod": np.fmod,
    "nextafter": np.nextafter,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name: str, kind: str) -> None:
    edges = np.array([*SPECIAL, 0.5, 1.5, 2.5, -0.5, 8388608.5, 2.0**52 + 0.5, 65504.0, 1e300])
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2**64, 600, np.uint64) >> np.uint64(64 - 8 * NUMPY[kind]().nbytes)
    wild = codes.astype(f"u{NUMPY[kind]().nbytes}").view(NUMPY[kind])
    with np.errstate(all="ignore"):
        points = np.concatenate([edges.astype(NUMPY[kind]), wild])
        grid = [points]
        if ARITY.get(name) == 2:
            grid = [g.ravel() for g in np.meshgrid(points, points[:60])]
        expected = EXACT[name](*grid)
    result = kernel(name, kind, 8, len(grid))(*grid)
    np.testing.assert_array_equal(result, expected)
    # NumPy's nextafter of equal halves gives the first, C's the second.
    same_zeros = name not in ("min", "max", "isnan", "isinf", "isfinite")
    if same_zeros and (name, kind) != ("nextafter", "f16"):
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[number]), np.signbit(expected[number]))


def test_fused_multiplication_rounds_once() -> None:
    a = np.float32(1 + 2.0**-23)
    x = [np.full(4, v, np.float32) for v in (a, a, -(np.float32(a * a)))]
    expected = float(a) * float(a) - float(np.float32(a * a))
    assert expected != 0 and kernel("fma", "f32", 4, 3)(*x)[0] == np.float32(expected)


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_scaling_by_powers_of_two(kind: str) -> None:
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        points = np.array([*SPECIAL, *rng.normal(size=50) * 1e-3, 2.0**-140, 3e38]).astype(
            NUMPY[kind]
        )
    powers = np.array([*range(-170, 140, 3), -1080, -1022, 1030, 2000, -9000, 9000], NUMPY[kind])
    x, n = (grid.ravel() for grid in np.meshgrid(points, powers))
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, n.astype(np.int32))
    np.testing.assert_array_equal(kernel("ldexp", kind, 8, 2)(x, n), expected)


@pytest.mark.parametrize("bits", [8, 32, 64])
def test_scaling_takes_integers(bits: int) -> None:
    for element in (ir.FloatType(), ir.DoubleType(), ir.HalfType()):
        vector, whole = ir.VectorType(element, 4), ir.VectorType(ir.IntType(bits), 4)
        function = ir.Function(ir.Module(), ir.FunctionType(vector, [vector, whole]), "f")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(vmath.emit(builder, "ldexp", list(function.args)))
        llvm.parse_assembly(str(function.module)).verify()


def test_no_elements_past_the_end() -> None:
    assert kernel("exp", "f32", 8)(np.zeros(1, np.float32)).tolist() == [1.0]


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"])
@pytest.mark.parametrize("kind", sampled(["f32", "f16", "f64"], 3))
def test_other_processors(triple: str, kind: str) -> None:
    """Every function verifies and assembles, without calls into a mathematical library."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "+avx2,+fma,+f16c" if triple.startswith("x86") else ""
    machine = llvm.Target.from_triple(triple).create_target_machine(
        features=features, opt=2, codemodel="small", reloc="pic"
    )
    for name in ULPS:
        for width in (1, 4):
            module = build_module(name, kind, width, ARITY.get(name, 1))
            module.triple = triple
            parsed = llvm.parse_assembly(str(module))
            parsed.verify()
            text = machine.emit_assembly(parsed)
            lines = [line.split() for line in text.splitlines()]
            calls = {words[-1] for words in lines if words and words[0] in ("bl", "callq", "call")}
            assert all("tileloom." in call for call in calls), (name, calls)


def test_wrong_use_is_an_internal_error() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.FloatType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    with pytest.raises(InternalError, match="bessel"):
        vmath.emit(builder, "bessel", list(function.args))
    with pytest.raises(InternalError, match="pow"):
        vmath.emit(builder, "pow", list(function.args))
    with pytest.raises(InternalError, match="floating"):
        vmath.emit(builder, "exp", [ir.IntType(32)(1)])
