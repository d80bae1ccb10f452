"""`cp.async`: copies from global into shared memory that threads do not wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Expr, IntImm
from ..types import I1, I32
from .pointers import global_address, instruction, pointer, shared_address

if TYPE_CHECKING:
    from .kernels import KernelEmitter

_SIZES = (4, 8, 16)
_VOID = ir.VoidType()


def _copy(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_cp_async(to, index, from, index, bytes[, condition or bytes to read])`.

    16 bytes go past the first cache, which other threads seldom ask for them.
    """
    size = args[4]
    if not isinstance(size, IntImm) or size.value not in _SIZES:
        raise UnsupportedError(f"an asynchronous copy moves 4, 8 or 16 bytes, not {size}")
    to = shared_address(e, args[0], args[1])
    source = global_address(e, pointer(e, args[2], args[3]))
    cache = "cg" if size.value == 16 else "ca"
    text = f"cp.async.{cache}.shared.global [$0], [$1], {size.value}"
    values, constraint = [to, source], "r,l"
    if len(args) > 5:
        text, constraint = f"{text}, $2", "r,l,r"
        values.append(_read(e, args[5], size.value))
    instruction(e, f"{text};", f"{constraint},~{{memory}}", _VOID, values)


def _read(e: KernelEmitter, wanted: Expr, size: int) -> ir.Value:
    """The bytes to read; the rest is zero."""
    value = e.value(wanted)
    if value.type == I1:
        return e.builder.select(value, I32(size), I32(0))
    return value if value.type == I32 else e.builder.trunc(value, I32)


def _commit(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    instruction(e, "cp.async.commit_group;", "~{memory}", _VOID, [])


def _wait(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    (left,) = args[:1]
    if not isinstance(left, IntImm) or left.value < 0:
        raise UnsupportedError(f"cp.async.wait_group takes a constant number, not {left}")
    instruction(e, f"cp.async.wait_group {left.value};", "~{memory}", _VOID, [])


HANDLERS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    "tir.ptx_cp_async": _copy,
    "tir.ptx_commit_group": _commit,
    "tir.ptx_wait_group": _wait,
}
