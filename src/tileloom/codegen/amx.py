"""Calls on tile registers (`expr.tile_ops`) as LLVM's intrinsics for AMX."""

from __future__ import annotations

import llvmlite.ir as ir

from ..base.errors import UnsupportedError
from ..expr import Call, Expr, IntImm
from ..expr import tile_ops as ops
from .arith import FEATURES
from .emitter import Emitter
from .types import I8, I32, PTR, opaque

_DOTS = {
    ops.DOT_BF16: ("tdpbf16ps", "amx-bf16"),
    ops.DOT_INT8[True, True]: ("tdpbssd", "amx-int8"),
    ops.DOT_INT8[True, False]: ("tdpbsud", "amx-int8"),
    ops.DOT_INT8[False, True]: ("tdpbusd", "amx-int8"),
    ops.DOT_INT8[False, False]: ("tdpbuud", "amx-int8"),
}
_MOVES = {
    ops.LOAD: "tileloadd64", ops.LOAD_ONCE: "tileloaddt164", ops.STORE: "tilestored64",
}  # fmt: skip
_PALETTE, _COLUMNS_AT, _ROWS_AT = 1, 16, 48  # where the configuration has what


def emit_tile_call(e: Emitter, call: Call) -> ir.Value:
    """A call on tile registers; its value means nothing.

    Raises:
        UnsupportedError: the target has no such registers, or a tile is not given as a constant.
    """
    name, feature = _DOTS.get(call.op, ("", "amx-tile"))
    if feature not in getattr(e.builder.module, FEATURES, frozenset()):
        raise UnsupportedError(
            f"{call.op.removeprefix('tir.')} needs a CPU with {feature}",
            hint='for example "cpu -mcpu=sapphirerapids"',
        )
    match call.op:
        case ops.CONFIGURE:
            _intrinsic(e, "ldtilecfg", [_configuration(e, [_number(arg) for arg in call.args])])
        case ops.RELEASE:
            _intrinsic(e, "tilerelease", [])
        case ops.ZERO:
            _intrinsic(e, "tilezero", [_tile(call.args[0])])
        case ops.LOAD | ops.LOAD_ONCE | ops.STORE:
            tile, pointer, stride = call.args
            _intrinsic(e, _MOVES[call.op], [_tile(tile), e.value(pointer), e.index(stride)])
        case _:
            _intrinsic(e, name, [_tile(arg) for arg in call.args])
    return I32(0)


def _number(arg: Expr) -> int:
    if not isinstance(arg, IntImm):
        raise UnsupportedError(f"the sizes and numbers of tiles are constants, not {arg}")
    return arg.value


def _tile(arg: Expr) -> ir.Constant:
    number = _number(arg)
    if not 0 <= number < ops.TILES:
        raise UnsupportedError(f"there are tiles 0 to {ops.TILES - 1}, not {number}")
    return I8(number)


def _configuration(e: Emitter, sizes: list[int]) -> ir.Value:
    """Constant data that says how large the tiles are, in the layout that `ldtilecfg` reads."""
    rows, widths = sizes[::2], sizes[1::2]
    good = len(rows) == len(widths) <= ops.TILES and all(
        0 < r <= ops.TILE_ROWS and 0 < w <= ops.TILE_BYTES
        for r, w in zip(rows, widths, strict=False)
    )
    if not good:
        raise UnsupportedError(f"tiles have up to 16 rows of up to 64 bytes, not {sizes}")
    data = bytearray(64)
    data[0] = _PALETTE
    for k, (count, width) in enumerate(zip(rows, widths, strict=True)):
        data[_COLUMNS_AT + 2 * k] = width
        data[_ROWS_AT + k] = count
    module = e.builder.module
    name = f"tiles.{data.hex()}"
    found = module.globals.get(name)
    if found is None:
        value = ir.Constant(ir.ArrayType(I8, len(data)), data)
        found = ir.GlobalVariable(module, value.type, name)
        found.initializer, found.global_constant = value, True
        found.linkage, found.align = "private", 64
    return opaque(found)


def _intrinsic(e: Emitter, name: str, args: list[ir.Value]) -> None:
    module, full = e.builder.module, f"llvm.x86.{name}"
    found = module.globals.get(full)
    if found is None:
        kinds = [PTR if isinstance(arg.type, ir.PointerType) else arg.type for arg in args]
        found = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), full)
    e.builder.call(found, args)
