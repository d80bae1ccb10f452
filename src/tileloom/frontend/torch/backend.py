"""The backend of `torch.compile`: graphs in, functions out."""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.nn.attention import SDPBackend, sdpa_kernel

from ... import driver
from ...base.compiling import compiling
from ...base.errors import UserError
from . import ops  # noqa: F401  (registers the handlers)
from .assemble import STATIC, assemble
from .decompositions import table
from .layers import cells_over_time
from .place import settle
from .report import notice_of
from .specialize import for_sizes, has_symbols


@compiling  # tracing, too, makes many objects, none of them garbage
def tileloom(module: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph of `torch.compile(..., backend="tileloom")`.

    Operators that Tileloom does not know, and devices and types that it does not have, are left to
    PyTorch one by one; `report()` lists them. Kernels run where the tensors are: on the CPU, or on
    an NVIDIA GPU.

    Args:
        options: `options={"freeze": True}` prepares weights once, in graphs that are not trained;
            see `frozen.py`. `target` and `device` say what code is made for and where it runs, and
            `tune` how many candidates are measured before, as `tileloom.jit` takes them.
    """
    given = {**options, **(options.get("options") or {})}
    unknown = sorted(set(given) - {"mode", "options", "freeze", "target", "device", "tune"})
    if unknown:
        raise UserError(f"the backend 'tileloom' has no option {unknown[0]!r}")
    frozen = given.get("freeze", False)
    if not isinstance(frozen, bool):
        raise UserError(f"the option 'freeze' is True or False, not {frozen!r}")
    target, device, tune = given.get("target"), given.get("device"), given.get("tune")
    if tune is not None and (type(tune) is not int or tune < 1):
        raise UserError(f"the option 'tune' is a number of trials, not {tune!r}")
    if target is not None or device is not None:
        driver.device_of(target or "cuda", device)  # says now what there is not
    # Fused kernels for attention and for recurrent layers would be operators of their own; these
    # are their definitions.
    with sdpa_kernel(SDPBackend.MATH), cells_over_time():
        compiled: Callable[..., Any] = _compiler(frozen, target, device, tune)(module, list(inputs))
    return compiled


@cache
def _compiler(frozen: bool, target: Any, device: str | None, tune: int | None) -> Any:
    def placed(compile_: Callable[..., Any]) -> Callable[..., Any]:
        def run(module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
            settle(module.graph, target, device, tune)
            return compile_(module, inputs)

        return run

    return aot_autograd(
        fw_compiler=placed(compile_traced),
        inference_compiler=placed(_compile_frozen if frozen else compile_traced),
        decompositions=table(),
        partition_fn=min_cut_rematerialization_partition,
    )


def compile_traced(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A functional graph of ATen operators as a function of a list of arguments."""
    notice_of(module.graph)  # that of all copies
    try:
        if has_symbols(module):
            return for_sizes(module, boxed, compile_static)
    except Exception as error:
        notice_of(module.graph).give_up("a whole graph", f"{type(error).__name__}: {error}")
        return boxed(module)
    return compile_static(module)


def _compile_frozen(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The same; weights are prepared once, those that the graph does not write."""
    context = TracingContext.try_get()
    about = None if context is None else context.fw_metadata
    if about is not None:
        given = [node for node in module.graph.nodes if node.op == "placeholder"]
        written = {k for k, each in enumerate(about.input_info) if each.mutates_data}
        for k in set(about.static_input_indices) - written:
            if k < len(given) and isinstance(given[k].meta.get("val"), torch.Tensor):
                given[k].meta[STATIC] = True
    return compile_traced(module, inputs)


def compile_static(module: fx.GraphModule) -> Callable[..., Any]:
    """The same, of a graph with known shapes."""
    try:
        return boxed(assemble(module))
    except Exception as error:  # never in the user's way
        notice_of(module.graph).give_up("a whole graph", f"{type(error).__name__}: {error}")
        return boxed(module)


def _spell_out_complex(graph: fx.Graph) -> None:
    """Make complex numbers that are not finite by calls: as literals they would read `nanj`."""
    for node in list(graph.nodes):

        def number(value: Any, node: fx.Node = node) -> Any:
            if not isinstance(value, complex) or cmath.isfinite(value):
                return value
            with graph.inserting_before(node):
                return graph.call_function(complex, (value.real, value.imag))

        node.args, node.kwargs = (
            fx.node.map_aggregate(a, number) for a in (node.args, node.kwargs)
        )


def boxed(module: fx.GraphModule) -> Callable[..., Any]:
    """The module as a function that empties its list of arguments, so that they can be freed."""
    _spell_out_complex(module.graph)
    codegen = getattr(torch.fx.graph, "_BoxedCodeGen", None)
    if codegen is None:
        function: Callable[..., Any] = make_boxed_func(module.forward)
        return function
    module.graph.set_codegen(codegen())
    module.recompile()
    forward = module.forward

    def run(args: list[Any]) -> Any:
        return forward(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
