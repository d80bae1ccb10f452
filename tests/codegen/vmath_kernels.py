"""Compiles loops over one vector function, and measures errors in units of the last place."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from tileloom.codegen import vmath

TYPES = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}
NUMPY: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
PREDICATES = {"isnan", "isinf", "isfinite"}


def build_module(name: str, kind: str, width: int, arity: int) -> ir.Module:
    """`void kernel(i64 n, ptr out, ptr a, ...)`, `width` elements a step; `n` is a multiple."""
    module = ir.Module()
    i64, pointer = ir.IntType(64), ir.PointerType()
    signature = ir.FunctionType(ir.VoidType(), [i64, pointer] + [pointer] * arity)
    function = ir.Function(module, signature, "kernel")
    element = TYPES[kind]
    vector = element if width == 1 else ir.VectorType(element, width)
    entry, loop, done = (function.append_basic_block(x) for x in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(i64)
    index.add_incoming(i64(0), entry)
    places = [b.gep(array, [index], source_etype=element) for array in function.args[2:]]
    args = [b.load(place, typ=vector, align=2) for place in places]
    result = vmath.emit(b, name, args)
    out = element
    if name in PREDICATES:
        out = ir.IntType(8)
        result = b.zext(result, out if width == 1 else ir.VectorType(out, width))
    b.store(result, b.gep(function.args[1], [index], source_etype=out), align=1)
    following = b.add(index, i64(width))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, function.args[0]), loop, done)
    b.position_at_end(done)
    b.ret_void()
    return module


def host_machine() -> Any:
    """The target machine of this host, with 512-bit registers where it has them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )


def assemble(module: ir.Module, machine: Any) -> Any:
    """Verified and optimised."""
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    parsed.triple = machine.triple
    parsed.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed


class Kernel:
    """One function, one type, one width: called on NumPy arrays."""

    def __init__(self, name: str, kind: str, width: int, arity: int) -> None:
        machine = host_machine()
        self.assembled = assemble(build_module(name, kind, width, arity), machine)
        self.assembly = machine.emit_assembly(self.assembled)
        self.engine = llvm.create_mcjit_compiler(self.assembled, machine)
        self.engine.finalize_object()
        address = self.engine.get_function_address("kernel")
        types = [ctypes.c_int64] + [ctypes.c_void_p] * (1 + arity)
        self.function = ctypes.CFUNCTYPE(None, *types)(address)
        self.width, self.dtype = width, NUMPY[kind]
        self.out = np.uint8 if name in PREDICATES else self.dtype

    def __call__(self, *arrays: Any) -> Any:
        count = len(arrays[0])
        padded = -count % self.width
        inputs = [np.pad(np.asarray(x, self.dtype), (0, padded), mode="edge") for x in arrays]
        result = np.empty(count + padded, self.out)
        self.function(count + padded, result.ctypes.data, *(x.ctypes.data for x in inputs))
        return result[:count]


@cache
def kernel(name: str, kind: str, width: int, arity: int = 1) -> Kernel:
    """A kernel, made once."""
    return Kernel(name, kind, width, arity)


def _last_place(exact: Any, kind: Any) -> Any:
    """The unit of the last place of `kind` at each value."""
    limits = np.finfo(kind)
    if exact.dtype == np.float64:  # the power of two below, by clearing the mantissa
        power = (exact.view(np.int64) & (0x7FF << 52)).view(np.float64)
    else:
        power = np.ldexp(np.ones_like(exact), np.frexp(exact)[1] - 1)
    least = np.ldexp(exact.dtype.type(1), int(limits.minexp))
    return np.maximum(power, least) * exact.dtype.type(2.0**-limits.nmant)


def ulps(result: Any, exact: Any) -> Any:
    """Distance from `exact` (of a wider type) in units of its last place in `result`'s type.

    Zero where both are NaN or the same infinity; infinite where they differ in kind.
    """
    kind = result.dtype.type
    with np.errstate(all="ignore"):
        error = np.abs(result - exact) / _last_place(exact, kind)
        odd = np.flatnonzero(~np.isfinite(error) | (np.abs(exact) > np.finfo(kind).max))
        error[odd] = _odd_distance(result[odd], exact[odd].astype(kind))
    return error


def _odd_distance(result: Any, target: Any) -> Any:
    """0 for the same, 1 between the largest finite number and infinity, else infinite."""
    same = (np.isnan(result) & np.isnan(target)) | (result == target)
    top = np.finfo(result.dtype).max
    near = (np.abs(result) >= top) & (np.abs(target) >= top) & (result * target > 0)
    return np.where(same, 0.0, np.where(near, 1.0, np.inf))
