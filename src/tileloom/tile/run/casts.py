"""Casts: between integers and floats of all widths, by the rules of LLVM and of PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...base.errors import UnsupportedError
from ..ir.attributes import StringAttr
from ..ir.core import Operation
from .values import BOOL, Array, back_to, dtype_of, elementwise, is_float_dtype, signed, unsigned

TF32_ROUNDING = "cvt.rna.tf32.f32"


def _target(op: Operation) -> np.dtype[Any]:
    return dtype_of(op.results[0].type)


@elementwise("arith.extsi", "arith.index_cast")
def _extend_signed(op: Operation, operands: Sequence[Array]) -> Array:
    return back_to(signed(operands[0]), _target(op))


@elementwise("arith.extui", "arith.index_castui")
def _extend_unsigned(op: Operation, operands: Sequence[Array]) -> Array:
    return back_to(unsigned(operands[0]), _target(op))


@elementwise("arith.trunci")
def _truncate(op: Operation, operands: Sequence[Array]) -> Array:
    return back_to(operands[0], _target(op))


@elementwise("arith.extf")
def _extend_float(op: Operation, operands: Sequence[Array]) -> Array:
    return operands[0].astype(_target(op))


@elementwise("arith.truncf", "tt.fp_to_fp")
def _convert_float(op: Operation, operands: Sequence[Array]) -> Array:
    rounding = op.enum("rounding") if op.name == "tt.fp_to_fp" else op.enum("roundingmode")
    return round_floats(operands[0], _target(op), rounding in ("rtz", "toward_zero"))


def round_floats(array: Array, dtype: np.dtype[Any], toward_zero: bool = False) -> Array:
    """Floats in another format, to the nearest (ties to even) or toward zero. A format without
    infinities saturates, as PTX's conversions to `e4m3` do."""
    if dtype == ml_dtypes.float8_e4m3fn:
        most = float(ml_dtypes.finfo(dtype).max)
        wide = array.astype(np.float64)
        array = np.where(np.isnan(wide), wide, np.clip(wide, -most, most))
    rounded = array.astype(dtype)
    if not toward_zero:
        return rounded
    bits = unsigned(rounded)
    larger = np.abs(rounded.astype(np.float64)) > np.abs(array.astype(np.float64))
    return (bits - larger.astype(bits.dtype)).astype(bits.dtype).view(dtype)


@elementwise("arith.sitofp")
def _float_of_signed(op: Operation, operands: Sequence[Array]) -> Array:
    return signed(operands[0]).astype(_target(op))


@elementwise("arith.uitofp")
def _float_of_unsigned(op: Operation, operands: Sequence[Array]) -> Array:
    return unsigned(operands[0]).astype(_target(op))


@elementwise("arith.fptosi", "arith.fptoui")
def _integer_of_float(op: Operation, operands: Sequence[Array]) -> Array:
    """Toward zero; out of range it saturates and NaN is zero, as in PTX."""
    target = _target(op)
    kind = target if target != BOOL else np.dtype(np.int8)
    if op.name == "arith.fptoui":
        kind = np.dtype(f"u{kind.itemsize}")
    limits = np.iinfo(kind)
    whole = np.trunc(operands[0].astype(np.float64))
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = (whole > float(limits.min) - 1) & (whole < float(limits.max) + 1)
    inside &= whole < 2.0 ** (8 * kind.itemsize - (kind.kind == "i"))
    cast = np.where(inside, whole, 0).astype(kind)
    edge = np.where(whole < 0, limits.min, limits.max).astype(kind)
    return back_to(np.where(inside, cast, edge), target)


@elementwise("arith.bitcast", "tt.bitcast")
def _same_bits(op: Operation, operands: Sequence[Array]) -> Array:
    source, target = operands[0], _target(op)
    if BOOL in (source.dtype, target):
        return back_to(unsigned(source), target)
    return source.view(target)


@elementwise("tt.int_to_ptr", "tt.ptr_to_int")
def _same_address(op: Operation, operands: Sequence[Array]) -> Array:
    return operands[0].astype(_target(op))


def round_to_tf32(array: Array) -> Array:
    """Floats of 32 bits rounded to the 10 bits of TF32, ties away from zero."""
    bits = unsigned(array.astype(np.float32))
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(array), rounded.view(np.float32), array)


@elementwise("tt.elementwise_inline_asm")
def _assembly(op: Operation, operands: Sequence[Array]) -> Array:
    text = op.attributes["asm_string"]
    if isinstance(text, StringAttr) and text.value.split(" ")[0] == TF32_ROUNDING:
        return back_to(round_to_tf32(_as_float(operands[0])), _target(op))
    raise UnsupportedError(
        f"assembly cannot be run: {text}", hint=f"only {TF32_ROUNDING} is known here"
    )


def _as_float(array: Array) -> Array:
    return array if is_float_dtype(array.dtype) else array.view(np.float32)
