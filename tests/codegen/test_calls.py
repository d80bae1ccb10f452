"""Calls on a CPU: the instructions written for them, what is refused, and bits as other types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from codegen.test_instructions import instructions, kernel_text, read
from tileloom.base.errors import UnsupportedError
from tileloom.codegen.module import emit_module
from tileloom.driver import build
from tileloom.script import from_source
from tileloom.tir import IRModule, PrimFunc, run


def written(lines: str) -> str:
    """The instructions of a body but for loads, stores and places."""
    names = instructions(emit_module(IRModule({"main": read(lines)})).ir_text)[1:-1]
    kept = [n for n in names if n.split()[0] not in ("load", "store", "getelementptr")]
    return "; ".join(kept)


CASES = [
    ('T.evaluate(T.call_extern("int32", "f", n)); T.evaluate(T.call_extern("int32", "f", n + 1))',
     "call f; add 1; call f"),
    ('T.evaluate(T.call_extern("void", "f", n, L[0]))', "call f"),
    ('A[0] = T.call_pure_extern("float32", "f", A[1])', "call f"),
    ('T.evaluate(T.lookup_param("w"))', ""), ("T.evaluate(T.assume(n > 3))", "",),
    ("I[0] = T.popcount(I[1])", "call llvm.ctpop.i32"),
    ("U[0] = T.popcount(U[1])", "call llvm.ctpop.i8"),
    ("I[0] = T.clz(I[1])", "call llvm.ctlz.i32 0"),
    ("I[0] = T.abs(I[1])", "call llvm.abs.i32 0"), ("U[0] = T.abs(U[1])", ""),
    ("A[0] = T.abs(A[1])", "call llvm.fabs.f32"),
    ("P[0] = T.isnan(A[0])", "fcmp uno; zext"), ("P[0] = T.isinf(I[0])", "zext 0"),
    ("P[0] = T.isnan(I[0])", "zext 0"), ("P[0] = T.isfinite(I[0])", "zext 1"),
    ("P[0] = T.isnan(H[0])", "zext; shl 16; bitcast; fcmp uno; zext"),
    ("A[0] = T.fma(A[1], A[2], A[3])", "call llvm.fma.f32"),
    ("I[0] = T.shift_left(I[1], I[2])", "icmp ule 31; select 31; shl; select 0"),
    ("I[0] = T.shift_right(I[1], I[2])", "icmp ule 31; select 31; ashr"),
    ("U[0] = T.shift_right(U[1], U[2])", "icmp ule 7; select 7; lshr; select 0"),
    ("U[0] = T.shift_left(U[1], U[2])", "icmp ule 7; select 7; shl; select 0"),
    ("I[0] = T.bitwise_and(I[1], I[2])", "and"), ("I[0] = T.bitwise_or(I[1], I[2])", "or"),
    ("I[0] = T.bitwise_xor(I[1], I[2])", "xor"), ("I[0] = T.bitwise_not(I[1])", "xor -1"),
    ("I[0] = T.if_then_else(T.likely(n > 3), 1, 2)", "icmp sgt 3; select 1 2"),
    ('T.evaluate(T.memory_fence("gpu"))', "fence"),
    ('L[0] = T.Cast("int64", A.data)', "ptrtoint"),
    ('L[0] = T.reinterpret("int64", A.data)', "ptrtoint"),
    ('T.evaluate(T.reinterpret("handle", L[0]))', "inttoptr"),
    # One of several vectors is asked for by its number among all lanes.
    ("A[0] = T.Shuffle([B[0:2], B[4:6]], [2])", "extractelement 0"),
    ("A[0] = T.Shuffle([B[0:2], B[4:6]], [1])", "extractelement 1"),
    ("A[0] = T.Shuffle([B[0:2], B[4:6], B[8:10]], [5])", "extractelement 1"),
    ("A[0] = T.Shuffle([B[0:2], B[4]], [2])", ""),
    ("A[0:4] = T.Shuffle([B[0:4]], [3, 2, 1, 0])", "shufflevector 3 2 1 0"),
    ("A[0:4] = T.Shuffle([B[0:2], B[4:6]], [3, 2, 1, 0])", "shufflevector 3 2 1 0"),
    ("A[0:3] = T.Shuffle([B[0], B[4]], [1, 0, 1])",
     "insertelement 0; insertelement 1; insertelement 2"),
    # Two lanes under a mask of two are one masked access.
    ("A[0:2] = B.vload([T.Ramp(0, 1, 2)], predicate=T.Ramp(0, 1, 2) < T.Broadcast(n, 2))",
     "add 0 0 1; insertelement 0; shufflevector 0; icmp slt; call llvm.masked.load.v2f32.p0 4"),
    ("A.vstore([T.Ramp(0, 1, 2)], B[0:2], predicate=T.Ramp(0, 1, 2) < T.Broadcast(n, 2))",
     "add 0 0 1; insertelement 0; shufflevector 0; icmp slt; call llvm.masked.store.v2f32.p0 4"),
    # A choice loads only what is wanted, and takes one of two numbers without a branch.
    ("A[0] = T.Select(n > 3, B[n], T.float32(0))", "icmp sgt 3; sext"),
    ("A[0] = T.Select(n > 3, T.float32(0), B[n])", "icmp sgt 3; sext"),
    ("I[0] = T.Select(n > 3, n, 7)", "icmp sgt 3; select 7"),
    # Quotients of what cannot be negative are unsigned.
    ("for i in range(n): A[i // 4] = B[i % 4]",
     "sext; icmp slt 0; urem 4; udiv 4; add 1"),
    ("for i in range(n): A[(i * 2 + 0) // 4] = B[(i + 0) // 8 % 3]",
     "sext; icmp slt 0; udiv 8; urem 3; mul 2; udiv 4; add 1"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), CASES)
def test_instructions_of_calls(lines: str, wanted: str) -> None:
    assert written(lines) == wanted


VECTORS = "A[i * 4:i * 4 + 4] = B[i * 4:i * 4 + 4]"


@pytest.mark.parametrize(
    ("lines", "stays"),
    [(f"for i in range(n): {VECTORS}", True), (f"for i in range(8): {VECTORS}", False),
     ("for i in range(n): A[i] = B[i]", False)],
)  # fmt: skip
def test_loops_over_vectors_that_llvm_does_not_unroll(lines: str, stays: bool) -> None:
    """Those of unknown length on a CPU."""
    text = emit_module(IRModule({"main": read(lines)})).ir_text
    assert ("llvm.loop.unroll.runtime.disable" in text) is stays
    thread = 't = T.launch_thread("threadIdx.x", 32); '
    assert "llvm.loop.unroll.runtime.disable" not in kernel_text(thread + lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('T.evaluate(T.call_extern("int32", "f", n)); '
         'T.evaluate(T.call_extern("int32", "f", L[0]))', "'f' is called with arguments of other"),
        ('T.evaluate(T.call_extern("int32", "f", n)); '
         'T.evaluate(T.call_extern("float32", "f", n))', "'f' is called with arguments of other"),
        ('T.evaluate(T.lookup_param("f")); T.evaluate(T.call_extern("int32", "f", n))',
         "'f' is called with arguments of other"),
        ('T.evaluate(T.call_extern("int32", n))', "needs the function's name"),
        ("T.evaluate(T.lookup_param(n))", "lookup_param needs a name"),
        ("T.evaluate(T.address_of(n))", "address_of needs an element of a flat buffer"),
        ('T.evaluate(T.tvm_storage_sync("shared"))', "no code for the call 'tir.tvm_storage_sync'"),
        ('T.evaluate(T.memory_fence("warp"))', "a fence is for one of block, gpu, system"),
        ("T.evaluate(T.memory_fence(n))", "a fence is for one of block, gpu, system"),
        ("A[0:2] = T.Shuffle([B[0:2], B[4]], [2, 1])", "no CPU code for a shuffle"),
        ("A[0:2] = T.Shuffle([B[0:2], B[4:6], B[6:8]], [2, 1])", "no CPU code for a shuffle"),
        ("A[0:2] = T.Shuffle([B[0:4], B[4:6]], [2, 1])", "no CPU code for a shuffle"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(lines: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        written(lines)


BITS = """
for i in range(16):
    U[i] = T.reinterpret("uint8", P[i])
    P[i + 16] = T.reinterpret("bool", U[i + 16])
    I[i] = T.reinterpret("int32", A[i])
    B[i] = T.reinterpret("float32", I[i + 16])
    H[i] = T.reinterpret("bfloat16", H[i + 16])
for i in T.vectorized(4):
    I[i + 32] = T.reinterpret("int32", A[i + 16])
    U[i + 32] = T.reinterpret("uint8", P[i + 32])
    P[i + 48] = T.reinterpret("bool", U[i + 48])
"""


def test_bits_as_another_type() -> None:
    """Of a bool they are those of a byte, 0 or 1."""
    func: Any = read(BITS.strip().replace("\n", "; "))
    assert isinstance(func, PrimFunc)
    rng = np.random.default_rng(0)

    def arrays() -> list[Any]:
        made: list[Any] = []
        for buffer in func.buffers:
            kind = buffer.dtype.numpy
            high = 2 if buffer.dtype.is_bool or buffer.name == "U" else 100
            made.append(rng.integers(0, high, 64).astype(kind))
        return [*made[:2], 3, *made[2:]]

    args = arrays()
    again = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run(func, *args)
    build(func)(*again)
    for one, other in zip(args, again, strict=True):
        np.testing.assert_array_equal(one, other)
    a, _, _, ints, flags, _, _, octets = before
    np.testing.assert_array_equal(again[3][:16], a[:16].view(np.int32))
    np.testing.assert_array_equal(again[1][:16], ints[16:32].view(np.float32))
    np.testing.assert_array_equal(again[7][:16], flags[:16].view(np.uint8))
    np.testing.assert_array_equal(again[4][16:32], octets[16:32].view(bool))
    np.testing.assert_array_equal(again[7][32:36], flags[32:36].view(np.uint8))
    np.testing.assert_array_equal(again[4][48:52], octets[48:52].view(bool))


FMOD = [0.0, 5e-324, 1e-323, 3e-308, 2.2250738585072014e-308, 1.5, 3.0, 7.25, 1e16, 1e300, 1.7e308]


def test_remainders_of_far_numbers() -> None:
    """All are exact, of subnormal numbers too."""
    wide = from_source(
        "@T.prim_func\n"
        'def main(X: T.Buffer((256,), "float64"), Y: T.Buffer((256,), "float64"), '
        'Z: T.Buffer((256,), "float64")):\n'
        "    for i in range(256):\n        Z[i] = T.fmod(X[i], Y[i])\n"
    )
    pairs = [(x, y) for x in FMOD for y in FMOD if y]
    x, y = (np.resize(np.array(part), 256) for part in zip(*pairs))
    z = np.zeros(256)
    build(wide)(x, y, z)
    np.testing.assert_array_equal(z, [math.fmod(a, b) for a, b in zip(x, y)])
    build(wide)(-x, y, z)
    np.testing.assert_array_equal(z, [math.fmod(-a, b) for a, b in zip(x, y)])
