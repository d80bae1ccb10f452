"""Rules of matrix products, of plain and of scaled numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...base.errors import UnsupportedError
from ..ir.core import Operation
from ..ir.types import MemDescType, ShapedType, TensorType, Type
from .casts import round_to_tf32
from .interpreter import Interpreter, executes
from .values import Array, dtype_of, is_float_dtype, unsigned

SCALE_BIAS = 127
SCALE_BLOCK = 32  # neighbours along K that have one scale
# The values of `e2m1`, by their bits.
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
FP4_VALUES = np.concatenate([FP4, -FP4])
FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@executes("tt.dot")
def _dot(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    machine.check_product(op)
    type = op.results[0].type
    a, b = (whole_operand(machine, op, index, operands[index]) for index in (0, 1))
    c = machine.collect(operands[2], op.operands[2].type)
    return machine.hold(multiply_add(a, b, c, op.enum("inputPrecision")), type)


@executes("ttng.warp_group_dot")
def _warp_group_dot(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    use_c = op.operand("useC")
    c = operands[2]
    if use_c is not None and not machine.values[use_c]:
        c = np.zeros_like(c)
    total = _dot(machine, op, [*operands[:2], c])
    if "isAsync" in op.attributes and op.integer("isAsync"):
        machine.shared.read_asynchronously(op, operands[:2])
    return total


@executes("ttng.warp_group_dot_wait")
def _wait(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    machine.shared.wait_for_products(op.integer("pendings"))
    return operands


def whole_operand(machine: Interpreter, op: Operation, index: int, value: Any) -> Array:
    """An operand of a product as a whole: a tensor, or a view of shared memory."""
    type = op.operands[index].type
    if isinstance(type, MemDescType):
        return machine.shared.read(op, value, type)
    return machine.collect(value, type)


def multiply_add(a: Array, b: Array, c: Array, precision: str | None = None) -> Array:
    """`a @ b + c`: sums of floats in float32 or wider, those of integers exact and wrapped."""
    if not is_float_dtype(c.dtype):
        total = np.matmul(a.astype(np.int64), b.astype(np.int64)) + c.astype(np.int64)
        return total.astype(c.dtype)
    if a.dtype == np.float32 and precision in (None, "tf32"):
        a, b = round_to_tf32(a), round_to_tf32(b)
    wide = np.float64 if np.dtype(np.float64) in (a.dtype, c.dtype) else np.float32
    return (np.matmul(a.astype(wide), b.astype(wide)) + c.astype(wide)).astype(c.dtype)


# Scaled products (the OCP's MX formats).


@executes("tt.dot_scaled")
def _dot_scaled(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    a = _scaled(machine, op, "lhs")
    b = _scaled(machine, op, "rhs")
    c = machine.collect(operands[2], op.operands[2].type)
    return machine.hold(multiply_add(a, b, c, "ieee"), op.results[0].type)


def _scaled(machine: Interpreter, op: Operation, side: str) -> Array:
    """The numbers of an operand; those of the right one, along K, are its columns."""
    value, scale = op.operand(side), op.operand(f"{side}_scale")
    if value is None:
        raise UnsupportedError(f"there is no {side}")
    numbers = machine.collect(machine.values[value], value.type)
    columns = side == "rhs"
    rows = decode(numbers.swapaxes(-1, -2) if columns else numbers, op.enum(f"{side}_type") or "")
    if scale is not None:
        rows = rows * scale_factors(machine.collect(machine.values[scale], scale.type), rows)
    return rows.swapaxes(-1, -2) if columns else rows


def decode(numbers: Array, format: str) -> Array:
    """Numbers of a format as float32; of `e2m1`, two in a byte, the lower bits first."""
    if format in FP8:
        return np.ascontiguousarray(numbers).view(FP8[format]).astype(np.float32)
    if format == "e2m1":
        bits = unsigned(np.ascontiguousarray(numbers))
        pairs = np.stack([FP4_VALUES[bits & 15], FP4_VALUES[bits >> 4]], axis=-1)
        return pairs.reshape(*bits.shape[:-1], 2 * bits.shape[-1])
    if format in ("bf16", "fp16") and is_float_dtype(numbers.dtype):
        return numbers.astype(np.float32)
    raise UnsupportedError(f"numbers of the format {format!r} cannot be run")


def scale_factors(scale: Array, rows: Array) -> Array:
    """Powers of two by their biased exponents, one for some neighbours along K."""
    exponents = unsigned(scale).astype(np.float32)
    factors = np.where(exponents == 255, np.float32(np.nan), np.exp2(exponents - SCALE_BIAS))
    return np.repeat(factors, rows.shape[-1] // scale.shape[-1], axis=-1)


@executes("ttg.upcast_mxfp", "ttg.fp4_to_fp")
def _upcast(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> Array:
    result: Type = op.results[0].type
    numbers = machine.collect(operands[0], op.operands[0].type)
    format = op.enum("fp_type") or "e2m1"
    rows = decode(numbers, format)
    if isinstance(result, ShapedType) and rows.shape != result.shape:
        rows = decode(numbers.swapaxes(-1, -2), format).swapaxes(-1, -2)
    if len(operands) > 1:
        rows = rows * scale_factors(machine.collect(operands[1], op.operands[1].type), rows)
    made = rows.astype(dtype_of(result))
    return machine.hold(made, result) if isinstance(result, TensorType) else made
