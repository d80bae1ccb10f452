"""Programs run tensor by tensor, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tile.run.programs import MATMUL, SOFTMAX, VECTOR_ADD
from tileloom.base.errors import ArgumentError, OutOfBoundsError, UnsupportedError
from tileloom.tile import parse
from tileloom.tile.run import ExecutionError, run

RNG = np.random.default_rng(7)


def function(body: str, arguments: str = "", results: str = "") -> str:
    """The text of a function `@f`."""
    return f"tt.func @f({arguments}) {f'-> {results}' if results else ''} {{\n{body}\n}}"


def test_vector_add_with_masks() -> None:
    x, y = RNG.random((2, 100), np.float32)
    z = np.zeros(100, np.float32)
    run(parse(VECTOR_ADD), "add", [x, y, z, 100], (2,))
    np.testing.assert_array_equal(z, x + y)


def test_softmax() -> None:
    x = RNG.standard_normal((3, 20)).astype(np.float32)
    y = np.zeros_like(x)
    run(parse(SOFTMAX), "softmax", [x, y, 20], (3,))
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("k", [48, 40])
def test_matmul_by_block_pointers(k: int) -> None:
    a = RNG.standard_normal((16, k)).astype(np.float16)
    b = RNG.standard_normal((k, 16)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    run(parse(MATMUL), "matmul", [a, b, c, k])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_an_access_outside_is_named() -> None:
    x, y, z = (np.zeros(64, np.float32) for _ in range(3))
    with pytest.raises(OutOfBoundsError) as caught:
        run(parse(VECTOR_ADD), "add", [x, y[:60], z, 64])
    text = str(caught.value)
    assert "'tt.load': 4 accesses are outside of argument 1 of @add" in text
    assert "element 60" in text and "%b = tt.load %yp, %mask" in text


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("addi", 127, 1, -128),
        ("subi", -128, 1, 127),
        ("muli", 100, 3, 44),
        ("divsi", -7, 2, -3),
        ("divsi", 7, -2, -3),
        ("divui", -7, 2, 124),
        ("remsi", -7, 2, -1),
        ("remui", -7, 2, 1),
        ("floordivsi", -7, 2, -4),
        ("ceildivsi", 7, 2, 4),
        ("ceildivui", -7, 2, 125),
        ("shli", 3, 6, -64),
        ("shrsi", -128, 3, -16),
        ("shrui", -128, 3, 16),
        ("shli", 1, 8, -91),  # by the width: undefined
        ("divsi", 1, 0, -91),
        ("maxsi", -1, 1, 1),
        ("maxui", -1, 1, -1),
        ("minsi", -1, 1, -1),
        ("minui", -1, 1, 1),
        ("xori", 5, 3, 6),
    ],
)
def test_integers(name: str, left: int, right: int, expected: int) -> None:
    body = f"%r = arith.{name} %a, %b : tensor<2xi8>\n tt.return %r : tensor<2xi8>"
    module = parse(function(body, "%a: tensor<2xi8>, %b: tensor<2xi8>", "tensor<2xi8>"))
    (found,) = run(module, "f", [[left, left], [right, right]])
    assert found.dtype == np.int8 and found.tolist() == [expected, expected]


def scalar(op: str, value: float, source: str, target: str) -> Any:
    """What a cast, or a function of one scalar, gives."""
    types = f"{source} to {target}" if "arith" in op else f"{source} -> {target}"
    body = f"%r = {op} : {types}\n tt.return %r : {target}"
    return run(parse(function(body, f"%a: {source}", target)), "f", [value])[0]


@pytest.mark.parametrize(
    ("op", "value", "source", "target", "expected"),
    [
        ("arith.extsi %a", -3, "i8", "i32", -3),
        ("arith.extui %a", -3, "i8", "i32", 253),
        ("arith.extsi %a", True, "i1", "i32", -1),
        ("arith.trunci %a", 300, "i32", "i8", 44),
        ("arith.sitofp %a", -3, "i8", "f32", -3.0),
        ("arith.uitofp %a", -3, "i8", "f32", 253.0),
        ("arith.uitofp %a", True, "i1", "f32", 1.0),
        ("arith.fptosi %a", -3.7, "f32", "i32", -3),
        ("arith.fptosi %a", 1e30, "f32", "i32", 2**31 - 1),
        ("arith.fptoui %a", 200.5, "f32", "i8", -56),
        ("arith.bitcast %a", 1.0, "f32", "i32", 0x3F800000),
        ("arith.truncf %a", 1 + 2**-8, "f32", "bf16", 1.0),
        ("tt.fp_to_fp %a, rounding = rtz", 1 + 1.5 * 2**-7, "f32", "bf16", 1 + 2**-7),
        ("tt.fp_to_fp %a, rounding = rtne", 1 + 1.5 * 2**-7, "f32", "bf16", 1 + 2**-6),
        ("tt.fp_to_fp %a, rounding = rtne", 1000.0, "f32", "f8E4M3FN", 448.0),
        ("tt.fp_to_fp %a", 3.0, "f8E5M2", "f16", 3.0),
    ],
)
def test_casts(op: str, value: float, source: str, target: str, expected: float) -> None:
    assert float(scalar(op, value, source, target)) == expected


def test_tf32_is_rounded_ties_away() -> None:
    body = """%r = tt.elementwise_inline_asm "cvt.rna.tf32.f32 $0, $1;" {constraints = "=r,r",
      packed_element = 1 : i32, pure = true} %a : tensor<2xf32> -> tensor<2xf32>
      tt.return %r : tensor<2xf32>"""
    module = parse(function(body, "%a: tensor<2xf32>", "tensor<2xf32>"))
    (found,) = run(module, "f", [[1 + 2**-11, -(1 + 2**-12)]])
    assert found.tolist() == [1 + 2**-10, -1.0]


def test_extremes_of_nan() -> None:
    body = "\n".join(
        f"%{name} = arith.{name} %a, %b : f32" for name in ("maximumf", "maxnumf", "minnumf")
    )
    body += "\n tt.return %maximumf, %maxnumf, %minnumf : f32, f32, f32"
    module = parse(function(body, "%a: f32, %b: f32", "(f32, f32, f32)"))
    found = [float(value) for value in run(module, "f", [np.nan, 1.0])]
    assert np.isnan(found[0]) and found[1:] == [1.0, 1.0]


SHAPES = """
  %t = tt.trans %a {order = array<i32: 1, 0>} : tensor<4x8xi32> -> tensor<8x4xi32>
  %r = tt.reshape %t : tensor<8x4xi32> -> tensor<32xi32>
  %j = tt.join %r, %r : tensor<32xi32> -> tensor<32x2xi32>
  %x, %y = tt.split %j : tensor<32x2xi32> -> tensor<32xi32>
  %c = tt.cat %x, %y : tensor<32xi32> -> tensor<64xi32>
  %e = tt.expand_dims %c {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %b = tt.broadcast %e : tensor<1x64xi32> -> tensor<2x64xi32>
  tt.return %b : tensor<2x64xi32>"""


def test_shapes() -> None:
    a = np.arange(32, dtype=np.int32).reshape(4, 8)
    module = parse(function(SHAPES, "%a: tensor<4x8xi32>", "tensor<2x64xi32>"))
    np.testing.assert_array_equal(run(module, "f", [a])[0], [[*a.T.flat, *a.T.flat]] * 2)


ARGMAX = """
  %v, %i = "tt.reduce"(%a, %n) <{axis = 1 : i32}> ({
  ^bb0(%l: f32, %li: i32, %r: f32, %ri: i32):
    %more = arith.cmpf ogt, %l, %r : f32
    %same = arith.cmpf oeq, %l, %r : f32
    %first = arith.cmpi slt, %li, %ri : i32
    %tie = arith.andi %same, %first : i1
    %left = arith.ori %more, %tie : i1
    %0 = arith.select %left, %l, %r : f32
    %1 = arith.select %left, %li, %ri : i32
    tt.reduce.return %0, %1 : f32, i32
  }) : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  tt.return %i : tensor<4xi32>"""


def test_argmax() -> None:
    a = RNG.integers(0, 4, (4, 8)).astype(np.float32)
    numbers = np.broadcast_to(np.arange(8, dtype=np.int32), (4, 8))
    module = parse(function(ARGMAX, "%a: tensor<4x8xf32>, %n: tensor<4x8xi32>", "tensor<4xi32>"))
    np.testing.assert_array_equal(run(module, "f", [a, numbers])[0], a.argmax(1))


SCAN = """
  %r = "tt.scan"(%a) <{{axis = 1 : i32, reverse = {reverse}}}> ({{
  ^bb0(%l: i32, %r: i32):
    %s = arith.addi %l, %r : i32
    tt.scan.return %s : i32
  }}) : (tensor<2x8xi32>) -> tensor<2x8xi32>
  tt.return %r : tensor<2x8xi32>"""


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    a = RNG.integers(0, 9, (2, 8)).astype(np.int32)
    text = SCAN.format(reverse=str(reverse).lower())
    module = parse(function(text, "%a: tensor<2x8xi32>", "tensor<2x8xi32>"))
    flipped = a[:, ::-1] if reverse else a
    expected = flipped.cumsum(1)[:, ::-1] if reverse else flipped.cumsum(1)
    np.testing.assert_array_equal(run(module, "f", [a])[0], expected)


def test_histogram_and_gather() -> None:
    body = """
      %h = tt.histogram %a : tensor<16xi32> -> tensor<4xi32>
      %g = tt.gather %h[%a] {axis = 0 : i32} : (tensor<4xi32>, tensor<16xi32>) -> tensor<16xi32>
      tt.return %g : tensor<16xi32>"""
    module = parse(function(body, "%a: tensor<16xi32>", "tensor<16xi32>"))
    a = RNG.integers(0, 4, 16).astype(np.int32)
    np.testing.assert_array_equal(run(module, "f", [a])[0], np.bincount(a, minlength=4)[a])
    with pytest.raises(ExecutionError, match="outside of the 4 elements"):
        run(module, "f", [a + 4])


ATOMICS = """
  %p = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %q = tt.addptr %p, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %o = tt.atomic_rmw add, acq_rel, gpu, %q, %v, %m :
    (tensor<8x!tt.ptr<i32>>, tensor<8xi32>, tensor<8xi1>) -> tensor<8xi32>
  %c3 = arith.constant 3 : i32
  %c9 = arith.constant 9 : i32
  %old = tt.atomic_cas acq_rel, gpu, %x, %c3, %c9 : (!tt.ptr<i32>, i32, i32) -> i32
  tt.return %old : i32"""


def test_atomics() -> None:
    x = np.zeros(4, np.int32)
    i = np.array([0, 0, 1, 0, 3, 3, 2, 2], np.int32)
    given = "%x: !tt.ptr<i32>, %i: tensor<8xi32>, %v: tensor<8xi32>, %m: tensor<8xi1>"
    module = parse(function(ATOMICS, given, "i32"))
    mask = np.array([1, 1, 1, 1, 1, 1, 1, 0], bool)
    (old,) = run(module, "f", [x, i, np.ones(8), mask])
    assert (int(old), x.tolist()) == (3, [9, 1, 1, 2])


CONTROL = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n, %steps = scf.while (%v = %a, %s = %c0) : (i32, i32) -> (i32, i32) {
    %go = arith.cmpi sgt, %v, %c1 : i32
    scf.condition(%go) %v, %s : i32, i32
  } do {
  ^bb0(%v: i32, %s: i32):
    %odd = arith.andi %v, %c1 : i32
    %is = arith.cmpi ne, %odd, %c0 : i32
    %next = scf.if %is -> (i32) {
      %c3 = arith.constant 3 : i32
      %m = arith.muli %v, %c3 : i32
      %p = arith.addi %m, %c1 : i32
      scf.yield %p : i32
    } else {
      %h = arith.shrsi %v, %c1 : i32
      scf.yield %h : i32
    }
    %t = tt.call @next(%s) : (i32) -> i32
    scf.yield %next, %t : i32, i32
  }
  %big = arith.cmpi sgt, %steps, %c1 : i32
  cf.cond_br %big, ^bb1(%steps : i32), ^bb2
^bb1(%x: i32):
  tt.return %x : i32
^bb2:
  tt.return %c0 : i32"""


def test_control_flow_and_calls() -> None:
    helper = """tt.func private @next(%s: i32) -> i32 {
      %c1 = arith.constant 1 : i32
      %t = arith.addi %s, %c1 : i32
      tt.return %t : i32 }"""
    module = parse(helper + function(CONTROL, "%a: i32", "i32"))
    assert [int(run(module, "f", [a])[0]) for a in (6, 1)] == [8, 0]
    with pytest.raises(ExecutionError, match="too long"):
        run(module, "f", [27], limit=100)


def test_print_assert_and_refusals() -> None:
    lines: list[str] = []
    body = """tt.print " x: " {hex = true, isSigned = array<i32: 1>} : %a : i32
      %c0 = arith.constant 0 : i32
      %ok = arith.cmpi sgt, %a, %c0 : i32
      tt.assert %ok, "positive" : i1
      tt.return"""
    module = parse(function(body, "%a: i32"))
    run(module, "f", [17], (1, 2), output=lines.append)
    assert lines == ["pid (0, 0, 0) x: 0x00000011", "pid (0, 1, 0) x: 0x00000011"]
    with pytest.raises(ExecutionError, match="fails: positive"):
        run(module, "f", [0], output=lines.append)
    with pytest.raises(ArgumentError, match="takes 1 arguments"):
        run(module, "f", [])
    with pytest.raises(UnsupportedError, match="flub' cannot be run"):
        run(parse(function('"llvm.flub"() : () -> ()\n tt.return')), "f", [])


SCALED = """
  %r = tt.dot_scaled %a scale %s, %b, %c lhs = e2m1 rhs = bf16 : tensor<4x32xi8>, tensor<4x2xi8> *
    tensor<64x4xbf16> -> tensor<4x4xf32>
  tt.return %r : tensor<4x4xf32>"""


def test_scaled_product() -> None:
    given = "%a: tensor<4x32xi8>, %s: tensor<4x2xi8>, %b: tensor<64x4xbf16>, %c: tensor<4x4xf32>"
    a = RNG.integers(-128, 128, (4, 32)).astype(np.int8)
    s = RNG.integers(120, 130, (4, 2))
    b = RNG.integers(-4, 4, (64, 4)).astype(ml_dtypes.bfloat16)
    c = np.ones((4, 4), np.float32)
    bits = np.stack([a.view(np.uint8) & 15, a.view(np.uint8) >> 4], -1).reshape(4, 64)
    values = bits.astype(np.uint8).view(np.uint8)
    magnitude = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[values & 7]
    decoded = np.where(values & 8, -magnitude, magnitude) * np.repeat(2.0 ** (s - 127), 32, 1)
    module = parse(function(SCALED, given, "tensor<4x4xf32>"))
    (found,) = run(module, "f", [a, s.astype(np.uint8).view(np.int8), b, c])
    np.testing.assert_allclose(found, decoded @ b.astype(np.float64) + 1, rtol=1e-5)
