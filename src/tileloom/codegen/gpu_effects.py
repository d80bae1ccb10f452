"""Calls that stand as statements and that only a GPU has, by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..expr import Expr
from . import gpu_async, gpu_hopper, gpu_matrix, gpu_mma, gpu_wgmma

if TYPE_CHECKING:
    from .nvptx import KernelEmitter

EFFECTS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    **gpu_matrix.HANDLERS,
    **gpu_mma.HANDLERS,
    **gpu_async.HANDLERS,
    **gpu_hopper.HANDLERS,
    **gpu_wgmma.HANDLERS,
}
