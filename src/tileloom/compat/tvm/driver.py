"""`tvm.build`, `tvm.compile`, `tvm.lower`: machine code for the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ... import driver
from ...base.errors import UserError
from ...compute import Tensor
from ...expr import Var
from ...lower import pipeline
from ...runtime.cuda.errors import NoDriverError
from ...target import Target
from ...tir import IRModule, PrimFunc
from ._names import missing
from .ir.module import IRModule as Module
from .ir.module import as_module
from .runtime.module import Module as Compiled
from .target import as_tileloom
from .te import create_prim_func


def _program(inputs: Any, args: Sequence[Tensor | Var] | None, name: str | None) -> Module:
    if isinstance(inputs, PrimFunc):
        symbol = name or inputs.name
        return Module({symbol: inputs.with_attr("global_symbol", symbol)})
    if isinstance(inputs, IRModule):
        return as_module(inputs)
    tensors = inputs if args is None else args
    if isinstance(tensors, (list, tuple)) and all(isinstance(t, (Tensor, Var)) for t in tensors):
        func = create_prim_func(tensors)
        return Module({name or "main": func.with_attr("global_symbol", name or "main")})
    raise UserError(
        f"cannot build {type(inputs).__name__}: pass an IRModule, a PrimFunc or te tensors"
    )


def build(
    mod: Any,
    target: Any = None,
    *more: Any,
    name: str | None = None,
    device: str | None = None,
    **_options: Any,
) -> Compiled:
    """Machine code for a module, a function, or the tensors of `te`.

    Args:
        mod: what to build.
        target: a target of TVM; the CPU we run on if there is none.
        more: after tensors in the place of `target`, the target (as `build(sch, args, target)`).
        name: of the function, if it has none.
        device: "emulator" runs code for GPUs on the CPU, and checks it. Without it, code for a GPU
            runs where there is one; its source can be looked at anywhere.

    >>> from tileloom.compat.tvm import nd, te
    >>> A = te.placeholder((3,), name="A")
    >>> f = build(te.create_prim_func([A, te.compute((3,), lambda i: A[i] + 1.0)]), target="llvm")
    >>> a, b = nd.array([1.0, 2.0, 3.0]), nd.empty((3,))
    >>> a = nd.array(a.numpy().astype("float32"))
    >>> f(a, b); b.numpy()
    array([2., 3., 4.], dtype=float32)
    """
    args = None
    if isinstance(target, (list, tuple)):
        args, target = target, more[0] if more else None
    program = _program(mod, args, name)
    wanted = as_tileloom(target)
    source = partial(driver.show_stage, program, target=wanted)
    saved = {"script": program.script(), "target": str(wanted), "device": device}
    kernels = _by_symbol(program, _kernels(program, wanted, device))
    return Compiled(kernels, source, wanted.kind, saved)


def _kernels(program: Module, target: Target, device: str | None) -> Mapping[str, Any]:
    try:
        kernels = driver.build(program, target, device)
    except NoDriverError as error:
        if device is not None:
            raise
        return {str(name): partial(_refuse, error) for name in program.functions}
    return kernels  # type: ignore[no-any-return]


def _refuse(error: NoDriverError, *_args: Any) -> None:
    raise NoDriverError(
        error.message, hint='tvm.build(..., device="emulator") runs the code on the CPU'
    )


def _by_symbol(program: IRModule, kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Kernels under the names of their functions and under their "global_symbol"s."""
    found = {str(name): kernel for name, kernel in kernels.items()}
    for name, func in program.functions.items():
        found.setdefault(func.name, kernels[name])
    return found


compile = build


def lower(inp: Any, args: Any = None, name: str = "main", simple_mode: bool = False) -> Module:
    """The loops of a module, function or the tensors of `te`, as the compiler sees them."""
    return as_module(pipeline.lower(_program(inp, args, name), until="loops"))


__getattr__ = missing(__name__)
