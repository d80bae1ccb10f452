"""Functions in GPU kernels keep the errors that `accuracy.py` promises.

What LLVM makes of a kernel for NVPTX, up to the choice of instructions, is run on the CPU, thread
by thread; PTX says `.rn` of every operation, so the GPU rounds alike.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from codegen.vmath_accuracy import ULPS
from codegen.vmath_kernels import NUMPY, host_machine, ulps
from codegen.vmath_references import HAS_LONG, LONG, UNARY
from tileloom import te
from tileloom.codegen.jit import assembly, optimised_ir
from tileloom.codegen.nvptx import emit_kernels
from tileloom.lower import lower
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.target import target
from tileloom.tir import IRModule

GPU = target("cuda -arch=sm_80")
COUNT, THREADS = 1 << 15, 128
_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16"}
_RUN_ALL = """
@at = internal global [6 x i32] zeroinitializer
{registers}
define void @all(ptr %a, ptr %b) {{
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %next, %loop ]
  %block = udiv i32 %k, {threads}
  %thread = urem i32 %k, {threads}
  store i32 %thread, ptr @at
  store i32 %block, ptr getelementptr (i32, ptr @at, i32 3)
  call void @{kernel}({arguments})
  %next = add i32 %k, 1
  %more = icmp ult i32 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def kernel_ir(name: str, kind: str) -> str:
    """The function of an array, as LLVM IR for a GPU."""
    a = te.placeholder((COUNT,), _NAMES[kind], name="A")
    b = te.compute((COUNT,), lambda i: getattr(T, name)(a[i]), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    block, thread = sch.split(sch.get_loops("B")[0], [None, THREADS])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    parts = split_host_device(lower(sch.mod, GPU)["main"]).functions
    return emit_kernels(IRModule({k: f for k, f in parts.items() if k != "main"}), GPU)


def on_cpu(name: str, kind: str, x: Any) -> Any:
    """What the kernel gives, run on the CPU."""
    text = optimised_ir(kernel_ir(name, kind), GPU)
    text = re.sub(r"^target (datalayout|triple) = .*$", "", text, flags=re.MULTILINE)
    text = text.replace("ptx_kernel ", "")
    places = {"tid": 0, "ctaid": 3}
    registers = ""
    for register in sorted(set(re.findall(r"@llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x", text))):
        text = re.sub(rf"^declare .*sreg\.{register}\.x\(\).*$", "", text, flags=re.MULTILINE)
        text = text.replace(f"@llvm.nvvm.read.ptx.sreg.{register}.x", f"@{register}")
        registers += (
            f"define i32 @{register}() {{\n"
            f"  %v = load i32, ptr getelementptr (i32, ptr @at, i32 {places[register]})\n"
            "  ret i32 %v\n}\n"
        )
    assert "llvm.nvvm" not in text, re.findall(r"llvm\.nvvm\S*", text)
    ((entry, params),) = re.findall(r"define (?:dso_local )?void @(\w+)\((.*%A.*)\)", text)
    order = re.findall(r"%([AB])\b", params)
    text += _RUN_ALL.format(
        registers=registers,
        kernel=entry,
        count=COUNT,
        threads=THREADS,
        arguments=", ".join(f"ptr %{x.lower()}" for x in order),
    )
    machine = host_machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("all")
    )
    # In memory that begins at a multiple of 16 bytes, as kernels want it.
    memory = np.zeros((2, COUNT * x.itemsize + 16), np.uint8)
    starts = [-row.ctypes.data % 16 for row in memory]
    source, result = (
        row[start : start + COUNT * x.itemsize].view(x.dtype)
        for row, start in zip(memory, starts, strict=True)
    )
    source[:] = x
    run(source.ctypes.data, result.ctypes.data)
    return result


def points(name: str, kind: str) -> Any:
    """Numbers of all exponents, and of usual sizes."""
    rng = np.random.default_rng(3)
    bits: Any = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
    half = COUNT // 2
    codes = rng.integers(0, np.iinfo(bits).max, half, bits, endpoint=True).view(NUMPY[kind])
    return np.concatenate([codes, rng.normal(scale=3, size=half).astype(NUMPY[kind])])


SINGLE = sorted(UNARY.keys() - {"cbrt"})


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision(name: str) -> None:
    x = points(name, "f32")
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(np.float64))
    errors = ulps(on_cpu(name, "f32", x), exact)
    assert errors.max() <= ULPS[name][0], (name, x[errors.argmax()])


@pytest.mark.skipif(not HAS_LONG, reason="no type with more digits than a double")
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "rsqrt", "atan"])
def test_double_precision(name: str) -> None:
    x = points(name, "f64")
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(LONG))
    errors = ulps(on_cpu(name, "f64", x), exact)
    assert errors.max() <= ULPS[name][1], (name, x[errors.argmax()])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid"])
def test_half_precision_is_rounded_from_single(name: str) -> None:
    x = points(name, "f16")
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(np.float64))
    assert ulps(on_cpu(name, "f16", x), exact).max() <= 0.51


@pytest.mark.parametrize("name", SINGLE)
def test_every_operation_is_rounded_to_nearest(name: str) -> None:
    """`ptxas` may fuse what does not say so, which would break what functions rely on."""
    ptx = assembly(kernel_ir(name, "f32"), GPU)
    loose = re.findall(r"\b(?:add|sub|mul|mad|fma|div|sqrt|rcp)\.(?!rn\.|lo|hi|wide)f\d\d", ptx)
    assert not loose
    assert ".approx" not in ptx
    assert ".ftz" not in ptx
