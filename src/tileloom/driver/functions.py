"""Tensor IR as functions that Python calls, and as assembly."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..base.compiling import compiling
from ..base.errors import ArgumentError, InternalError, VerifyError
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .backend import backend_class, backend_of


@compiling
def build(
    program: PrimFunc | IRModule,
    target: Any = "cpu",
    device: str | None = None,
    *,
    checked: bool | None = None,
    strict_sync: bool = False,
) -> Any:
    """Machine code for tensor IR.

    Args:
        program: a function, or a module of them, at any stage.
        target: "cpu", "cuda", or a `Target`.
        device: "emulator" runs code for a GPU on the CPU, every thread of it, and finds accesses
            out of bounds, races, and barriers that some threads miss; see `tileloom.simt`. Kernels
            for "cuda" run where their arguments are; "cuda:1" makes code for that GPU.
        checked: whether code for CPUs checks its indices, and raises `OutOfBoundsError` rather than
            touch foreign memory; by default as the setting `check` (TILELOOM_CHECK) says.
        strict_sync: whether a kernel for a GPU that lacks a barrier is refused. By default `build`
            puts one wherever threads would race for shared memory.

    Returns:
        A `Kernel` for a function, or a `runtime.cuda.CudaKernel`, which takes arrays in a GPU's
        memory; for a module with several, a dictionary of them by name.

    Raises:
        UnsupportedError: the target is not one that this machine can run.
        OutOfBoundsError: the program certainly reads or writes outside of a buffer.
        VerifyError: the program uses a variable where it has no value.

    >>> import numpy as np
    >>> from tileloom import compute as te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> add_one = build(te.create_prim_func([A, B]))
    >>> a, b = np.arange(4, dtype="float32"), np.empty(4, "float32")
    >>> add_one(a, b)
    >>> b
    array([1., 2., 3., 4.], dtype=float32)
    """
    from ..lower.blocks import refuse_out_of_bounds, scope_mistake

    _check_program(program)
    refuse_out_of_bounds(program)
    try:
        return _built(program, target, device, checked, strict_sync)
    except InternalError as error:
        mistake = scope_mistake(program)
        if mistake is None:
            raise
        raise VerifyError(mistake) from error


def _built(
    program: PrimFunc | IRModule,
    target: Any,
    device: str | None,
    checked: bool | None,
    strict_sync: bool,
) -> Any:
    kernels = backend_of(target, device).build(as_module(program), checked, strict_sync)
    return next(iter(kernels.values())) if isinstance(program, PrimFunc) else kernels


def as_module(program: PrimFunc | IRModule) -> IRModule:
    """A function as a module of its own."""
    return IRModule({program.name: program}) if isinstance(program, PrimFunc) else program


def _check_program(program: object) -> None:
    if not isinstance(program, (PrimFunc, IRModule)):
        kind = type(program).__name__
        raise ArgumentError(f"build takes a PrimFunc or an IRModule of tensor IR, not {kind}")


def assembly(program: PrimFunc | IRModule, target: Any = "cpu") -> str:
    """The assembly text of a program for a target, which need not be this machine; PTX for a GPU.

    >>> from tileloom import compute as te
    >>> from tileloom.schedule import Schedule
    >>> A = te.placeholder((64,), name="A")
    >>> sch = Schedule(te.create_prim_func([A, te.compute((64,), lambda i: A[i] + 1.0, name="B")]))
    >>> sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    >>> ".visible .entry main_kernel" in assembly(sch.mod, "cuda -arch=sm_80")
    True
    """
    from ..codegen import jit

    return jit.assembly(llvm_ir(program, parse_target(target)), parse_target(target))


@compiling
def llvm_ir(
    program: PrimFunc | IRModule, target: Target, entries: Collection[str] | None = None
) -> str:
    """LLVM IR text, before LLVM has optimised it.

    Args:
        entries: the functions that are called from outside; by default all.
    """
    return backend_class(target).llvm_ir(as_module(program), target, entries)
