"""Flat tensor IR to LLVM IR, and on to machine code; LLVM is loaded when something is compiled."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, room

if TYPE_CHECKING:
    from . import host, jit, launch_stub, parallel_stub, pyentry
    from .module import EmittedModule, emit_module
    from .nvptx import emit_kernels

room(
    __name__,
    host="",
    jit="",
    launch_stub="",
    module="EmittedModule emit_module",
    nvptx="emit_kernels",
    parallel_stub="",
    pyentry="",
)

__all__ = [
    "EmittedModule", "emit_kernels", "emit_module", "host", "jit", "launch_stub", "parallel_stub",
    "pyentry",
]  # fmt: skip
