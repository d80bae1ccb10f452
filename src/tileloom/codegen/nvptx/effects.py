"""Calls that stand as statements and that only a GPU has, by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...expr import Expr
from . import async_copy, hopper, mma, wgmma, wmma

if TYPE_CHECKING:
    from .kernels import KernelEmitter

EFFECTS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    **wmma.HANDLERS,
    **mma.HANDLERS,
    **async_copy.HANDLERS,
    **hopper.HANDLERS,
    **wgmma.HANDLERS,
}
