"""The LLVM instructions that are written for short programs, with the numbers in them."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest

from tileloom.codegen.module import emit_module
from tileloom.codegen.nvptx import emit_kernels
from tileloom.script import from_source
from tileloom.target import target
from tileloom.tir import IRModule

HEAD = """@T.prim_func
def main(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32,
    I: T.Buffer((64,), "int32"), P: T.Buffer((64,), "bool"), H: T.Buffer((64,), "bfloat16"),
    L: T.Buffer((64,), "int64"), U: T.Buffer((64,), "uint8"),
):
"""
#: Lines are parted by "; ", and so are instructions.
CPU = [
    ("T.evaluate(T.atomic_max(T.address_of(I[0]), 1))", "getelementptr 0; atomicrmw max 1"),
    (
        "T.evaluate(T.atomic_min(T.address_of(U[0]), T.uint8(1)))",
        "getelementptr 0; atomicrmw umin 1",
    ),
    (
        "T.evaluate(T.atomic_add(T.address_of(U[0]), T.uint8(1)))",
        "getelementptr 0; atomicrmw add 1",
    ),
    ("A[0] = B[n]", "sext; getelementptr; load 4; store 4"),
    ("A[I[n]] = 1.0", "sext; getelementptr; load 4; sext; getelementptr; store 4"),
    (
        "for i in range(n): A[i] = B[i] + 1.0",
        "sext; icmp slt 0; load; getelementptr; load 4; fadd; getelementptr; store 4; add 1",
    ),
    (
        "for i in range(3, 3 + n): A[i] = 1.0",
        "sext; add 3; icmp slt 3; load; getelementptr; store 4; add 1",
    ),
    ("if n < 3: A[0] = 1.0", "icmp slt 3; store 4"),
    ("while I[0] < 3: I[0] = I[0] + 1", "load 4; icmp slt 3; load 4; add 1; store 4"),
    ("A[0:8] = B[0:8]", "load 4; store 4"),
    (
        "A[0:8] = B[T.Ramp(7, -1, 8)]",
        "sub 7 7; getelementptr; load 4; shufflevector 7 6 5 4 3 2 1 0; store 4",
    ),
    (
        "A[0:8] = B[T.Ramp(0, 2, 8)]",
        "load 4; shufflevector 0 2 4 6 0 0 0 0; add 0 7; getelementptr; load 4; shufflevector 0 "
        "1 2 3 9 11 13 15; store 4",
    ),
    (
        "A[T.Ramp(0, 3, 4)] = B[T.Ramp(n, n, 4)]",
        "insertelement 0; shufflevector 0; insertelement 0; shufflevector 0; mul 0 1 2 3; add; "
        "sext; getelementptr; call llvm.masked.gather.v4f32.v4p0 4 1; add 0 0 3 6 9; sext; "
        "getelementptr; call llvm.masked.scatter.v4f32.v4p0 4 1",
    ),
    (
        "A[0:4] = T.Broadcast(B[n], 4)",
        "sext; getelementptr; load 4; insertelement 0; shufflevector 0; store 4",
    ),
    (
        "A[0:4] = B[I[0:4]]",
        "load 4; sext; getelementptr; call llvm.masked.gather.v4f32.v4p0 4 1; store 4",
    ),
    (
        "A[I[0:4]] = B[0:4]",
        "load 4; load 4; sext; getelementptr; call llvm.masked.scatter.v4f32.v4p0 4 1",
    ),
    (
        "A[0:4] = B.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))",
        "add 0 0 1 2 3; insertelement 0; shufflevector 0; icmp slt; call "
        "llvm.masked.load.v4f32.p0 4; store 4",
    ),
    (
        "A.vstore([T.Ramp(0, 1, 4)], B[0:4], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))",
        "load 4; add 0 0 1 2 3; insertelement 0; shufflevector 0; icmp slt; call "
        "llvm.masked.store.v4f32.p0 4",
    ),
    (
        "A[0:4] = T.Broadcast(B.vload([n], predicate=n < 4), 4)",
        "icmp slt 4; sext; getelementptr; load 4; insertelement 0; shufflevector 0; store 4",
    ),
    (
        "P[0] = P[1] and P[2]",
        "getelementptr 1; load 1; icmp ne 0; getelementptr 2; load 1; icmp ne 0; zext; store 1",
    ),
    (
        "P[0] = n < 3 or I[64 // n] < 2",
        "icmp slt 3; sext; icmp eq 0; select 1; icmp eq -1; select 1; sub 0 64; sdiv 64; select; "
        "mul; sub 64; xor; icmp slt 0; icmp ne 0; and; sub 1; select; add; select; select 0; "
        "getelementptr; load 4; icmp slt 2; zext; store 1",
    ),
    ("P[0:4] = P[4:8]", "getelementptr 4; load 1; icmp ne 0; zext; store 1"),
    ("P[0] = not P[1]", "getelementptr 1; load 1; icmp ne 0; xor -1; zext; store 1"),
    ('I[0] = T.Cast("int32", P[0])', "load 1; icmp ne 0; zext; store 4"),
    ('A[0] = T.Cast("float32", P[0])', "load 1; icmp ne 0; uitofp; store 4"),
    ('I[0] = T.Cast("int32", A[0])', "load 4; call llvm.fptosi.sat.i32.f32; store 4"),
    ('L[0] = T.Cast("int64", I[0])', "load 4; sext; store 8"),
    ('I[0] = T.Cast("int32", L[0])', "load 8; trunc; store 4"),
    ('L[0] = T.Cast("int64", U[0])', "load 1; zext; store 8"),
    ('A[0] = T.Cast("float32", U[0])', "load 1; uitofp; store 4"),
    (
        "H[0] = H[1] + H[2]",
        "getelementptr 1; load 2; getelementptr 2; load 2; zext; shl 16; bitcast; zext; shl 16; "
        "bitcast; fadd; bitcast; lshr 16; and 1; add 32767; add; lshr 16; lshr 16; or 64; fcmp "
        "uno; select; trunc; store 2",
    ),
    (
        'H[0] = T.Cast("bfloat16", A[0])',
        "load 4; bitcast; lshr 16; and 1; add 32767; add; lshr 16; lshr 16; or 64; fcmp uno; "
        "select; trunc; store 2",
    ),
    (
        'U[0] = T.Cast("uint8", A[0])',
        "load 4; fcmp ogt; select; fcmp olt; select; fptosi; trunc; store 1",
    ),
    (
        "I[0] = I[1] // I[2]",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp eq 0; select 1; icmp eq -1; "
        "select 1; sub 0; sdiv; select; mul; sub; xor; icmp slt 0; icmp ne 0; and; sub 1; "
        "select; add; select; select 0; store 4",
    ),
    (
        "I[0] = I[1] % I[2]",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp eq 0; select 1; icmp eq -1; "
        "select 1; sub 0; sdiv; select; mul; sub; xor; icmp slt 0; icmp ne 0; and; sub 1; "
        "select; add; select; select 0; store 4",
    ),
    (
        "I[0] = I[1] // 4",
        "getelementptr 1; load 4; sdiv 4; srem 4; xor 4; icmp slt 0; icmp ne 0; and; sub 1; "
        "select; add 4; select; store 4",
    ),
    (
        "I[0] = I[1] % 4",
        "getelementptr 1; load 4; sdiv 4; srem 4; xor 4; icmp slt 0; icmp ne 0; and; sub 1; "
        "select; add 4; select; store 4",
    ),
    ("I[0] = T.truncdiv(I[1], 4)", "getelementptr 1; load 4; sdiv 4; srem 4; store 4"),
    (
        "I[0] = T.truncmod(I[1], I[2])",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp eq 0; select 1; icmp eq -1; "
        "select 1; sub 0; sdiv; select; mul; sub; select 0; store 4",
    ),
    (
        "U[0] = U[1] // U[2]",
        "getelementptr 1; load 1; getelementptr 2; load 1; icmp eq 0; select 1; udiv; select 0; "
        "store 1",
    ),
    (
        "I[0] = T.min(I[1], I[2])",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp slt; select; store 4",
    ),
    (
        "U[0] = T.max(U[1], U[2])",
        "getelementptr 1; load 1; getelementptr 2; load 1; icmp ult; select; store 1",
    ),
    (
        "A[0] = T.max(A[1], A[2])",
        "getelementptr 1; load 4; getelementptr 2; load 4; call llvm.maximum.f32; store 4",
    ),
    (
        "A[0] = T.Select(n < 3, A[1], A[2])",
        "icmp slt 3; getelementptr 1; load 4; getelementptr 2; load 4; store 4",
    ),
    (
        "A[0] = T.if_then_else(n < 3, A[1], T.float32(0))",
        "icmp slt 3; getelementptr 1; load 4; store 4",
    ),
    ("A[0] = T.Select(n < 3, T.float32(1), T.float32(0))", "icmp slt 3; select; store 4"),
    (
        "I[0] = T.shift_left(I[1], I[2])",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp ule 31; select 31; shl; select "
        "0; store 4",
    ),
    (
        "I[0] = T.shift_right(I[1], I[2])",
        "getelementptr 1; load 4; getelementptr 2; load 4; icmp ule 31; select 31; ashr; store 4",
    ),
    (
        "U[0] = T.shift_right(U[1], U[2])",
        "getelementptr 1; load 1; getelementptr 2; load 1; icmp ule 7; select 7; lshr; select 0; "
        "store 1",
    ),
    (
        "I[0] = T.shift_left(I[1], 3)",
        "getelementptr 1; load 4; icmp ule 3 31; select 3 31; shl; select 0; store 4",
    ),
    ("I[0] = T.bitwise_and(I[1], 7)", "getelementptr 1; load 4; and 7; store 4"),
    ("A[0] = T.sqrt(A[1])", "getelementptr 1; load 4; call llvm.sqrt.f32; store 4"),
    ("A[0] = T.fabs(A[1])", "getelementptr 1; load 4; call llvm.fabs.f32; store 4"),
    ('A[0] = T.reinterpret("float32", I[0])', "load 4; bitcast; store 4"),
    ("I[0] = T.abs(I[1])", "getelementptr 1; load 4; call llvm.abs.i32 0; store 4"),
    ("I[0] = T.popcount(I[1])", "getelementptr 1; load 4; call llvm.ctpop.i32; store 4"),
    ("I[0] = T.clz(I[1])", "getelementptr 1; load 4; call llvm.ctlz.i32 0; store 4"),
    (
        "A[0] = T.floor(A[1]) + T.ceil(A[2]) + T.trunc(A[3]) + T.round(A[4])",
        "getelementptr 1; load 4; call llvm.floor.f32; getelementptr 2; load 4; call "
        "llvm.ceil.f32; fadd; getelementptr 3; load 4; call llvm.trunc.f32; fadd; getelementptr "
        "4; load 4; call llvm.roundeven.f32; fadd; store 4",
    ),
    ("P[0] = T.isnan(A[1])", "getelementptr 1; load 4; fcmp uno; zext; store 1"),
    (
        "A[0:8] = T.Shuffle([B[0:8]], [7, 6, 5, 4, 3, 2, 1, 0])",
        "load 4; shufflevector 7 6 5 4 3 2 1 0; store 4",
    ),
    ("A[0] = T.Shuffle([B[0:8]], [3])", "load 4; extractelement 3; store 4"),
    (
        "A[0:4] = T.Shuffle([B[0:2], B[2:4]], [0, 2, 1, 3])",
        "load 4; getelementptr 2; load 4; shufflevector 0 2 1 3; store 4",
    ),
    ("A[0:8] = T.Broadcast(B[0:4], 2)", "load 4; shufflevector 0 1 2 3 0 1 2 3; store 4"),
    ('T.evaluate(T.call_extern("int32", "f", n))', "call f"),
    ('assert n < 3, "small"', "icmp slt 3"),
    (
        "x: T.int32 = n + 1; A[x] = A[x] + 1.0",
        "add 1; sext; getelementptr; load 4; fadd; getelementptr; store 4",
    ),
    (
        'S_data = T.allocate([8], "float32", "global"); S = T.decl_buffer((8,), data=S_data); '
        "S[0] = 1.0; A[0] = S[0]",
        "store 4; load 4; store 4",
    ),
    ("T.evaluate(T.atomic_add(T.address_of(I[0]), 1))", "getelementptr 0; atomicrmw add 1"),
    (
        "T.evaluate(T.atomic_max(T.address_of(A[0]), T.float32(1)))",
        "getelementptr 0; bitcast; bitcast; load 4; bitcast; call llvm.maximum.f32; bitcast; "
        "icmp eq; cmpxchg; extractvalue 0; extractvalue 1; bitcast",
    ),
]
GPU = [
    ('t = T.launch_thread("threadIdx.x", 32); A[t] = B[t] + 1.0',
     'call llvm.nvvm.read.ptx.sreg.tid.x; zext; getelementptr; load 4; fadd; getelementptr; '
     'store 4'),
    ('b = T.launch_thread("blockIdx.y", n); t = T.launch_thread("threadIdx.x", 32); A[b * 32 '
     '+ t] = B[(b * 32 + t) // 4]',
     'call llvm.nvvm.read.ptx.sreg.ctaid.y; call llvm.nvvm.read.ptx.sreg.tid.x; mul 32; add; '
     'udiv 4; zext; getelementptr; load 4; mul 32; add; zext; getelementptr; store 4'),
    ('t = T.launch_thread("threadIdx.x", 32); A[t] = B[(t - 3) // 4] + B[(t * n) % 4]',
     'call llvm.nvvm.read.ptx.sreg.tid.x; sub 3; sdiv 4; srem 4; xor 4; icmp slt 0; icmp ne '
     '0; and; sub 1; select; add 4; select; sext; getelementptr; load 4; mul; sdiv 4; srem 4; '
     'xor 4; icmp slt 0; icmp ne 0; and; sub 1; select; add 4; select; zext; getelementptr; '
     'load 4; fadd; zext; getelementptr; store 4'),
    ('t = T.launch_thread("threadIdx.x", 32); A[t * 4:t * 4 + 4] = B[t * 4:t * 4 + 4]',
     'call llvm.nvvm.read.ptx.sreg.tid.x; mul 4; zext; getelementptr; load 16; getelementptr; '
     'store 16'),
    ('t = T.launch_thread("threadIdx.x", 32); H[t] = H[t] * H[t + 1]',
     'call llvm.nvvm.read.ptx.sreg.tid.x; zext; getelementptr; load 2; add 1; zext; '
     'getelementptr; load 2; zext; shl 16; bitcast; zext; shl 16; bitcast; fmul; fptrunc; '
     'bitcast; getelementptr; store 2'),
    ('t = T.launch_thread("threadIdx.x", 32); S_data = T.allocate([32], "float32", "shared"); '
     'S = T.decl_buffer((32,), data=S_data, scope="shared"); S[t] = A[t]; '
     'T.evaluate(T.tvm_storage_sync("shared")); B[t] = S[31 - t]',
     'call llvm.nvvm.read.ptx.sreg.tid.x; addrspacecast 3; zext; getelementptr; load 4; '
     'getelementptr; store 4; call llvm.nvvm.barrier.cta.sync.aligned.all 0; sub 31; sext; '
     'getelementptr; load 4; getelementptr; store 4'),
    ('t = T.launch_thread("threadIdx.x", 32); A[t] = '
     'T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[t], 1, 32, 32)',
     'call llvm.nvvm.read.ptx.sreg.tid.x; zext; getelementptr; load 4; sub 32 32; shl 8; or '
     '31; bitcast; call llvm.nvvm.shfl.sync.bfly.i32 -1 1; bitcast; getelementptr; store 4'),
    ('t = T.launch_thread("threadIdx.x", 32); T.evaluate(T.atomic_add(T.address_of(A[0]), '
     'B[t]))',
     'call llvm.nvvm.read.ptx.sreg.tid.x; getelementptr 0; zext; getelementptr; load 4; '
     'bitcast; bitcast; atomicrmw fadd; bitcast; bitcast'),
    ('t = T.launch_thread("threadIdx.x", 32); A[t] = T.if_then_else(t < n, B[t], T.float32(0))',
     'call llvm.nvvm.read.ptx.sreg.tid.x; icmp slt; zext; select 0; getelementptr; load 4; '
     'select; getelementptr; store 4'),
]  # fmt: skip


def read(lines: str) -> Any:
    """The function with this body."""
    return from_source(HEAD + textwrap.indent(lines.replace("; ", "\n"), "    ") + "\n")


def instructions(text: str) -> list[str]:
    """Those of `main`, but for branches: name, function or comparison, numbers."""
    body = text.split('@"main"(', 1)[1].split("\n}", 1)[0]
    found = []
    for line in body.splitlines()[1:]:
        match = re.match(r"\s*(?:%\S+ = )?([a-z]+) (.*)", line)
        if match is None or match[1] in ("br", "ret", "alloca", "phi", "define", "entry"):
            continue
        name, rest = match[1], match[2]
        called = re.search(r'@"([\w.]+)"', rest)
        if name == "atomicrmw":
            name += " " + rest.split()[0]
        elif name == "call":
            name += f" {called[1]}" if called else ""
        elif name in ("icmp", "fcmp"):
            name += " " + next(w for w in rest.split() if w not in ("contract", "nnan", "ninf"))
        plain = re.sub(r'%"[^"]*"|@"[^"]*"', "", rest)
        numbers = re.findall(r'(?<![%\w."])-?\d+(?![\w.]| x )', plain)
        found.append(" ".join([name, *numbers]))
    return found


@pytest.mark.parametrize(("lines", "expected"), CPU)
def test_cpu(lines: str, expected: str) -> None:
    found = instructions(emit_module(IRModule({"main": read(lines)})).ir_text)
    assert "; ".join(found[1:-1]) == expected  # between the first and last of the call's status


def kernel_text(lines: str, arch: str = "sm_80") -> str:
    """LLVM's text of the GPU kernel with this body."""
    func = read(lines)
    kernel = func.replace(attrs={**func.attrs, "tir.is_global_func": True})
    return emit_kernels(IRModule({"main": kernel}), target(f"cuda -arch={arch}"))


@pytest.mark.parametrize(("lines", "expected"), GPU)
def test_gpu(lines: str, expected: str) -> None:
    assert "; ".join(instructions(kernel_text(lines))) == expected
