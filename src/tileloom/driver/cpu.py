"""Kernels for CPUs, run in this process."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..base.errors import UnsupportedError, UserError
from ..base.faults import FAULTS
from ..graph.nodes import Graph
from ..runtime import LoadedObject, parallel
from ..runtime.device import HOST, Device
from ..runtime.kernel import Kernel
from ..runtime.native_code import NativeCode
from ..runtime.params import ParamSpec
from ..runtime.returning import ReturningKernel
from ..runtime.serialized import SerializedExecutable
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .backend import CompiledCode
from .objects import compile_module, linked, needs_threads, object_code
from .parameters import parameters, with_symbols

if TYPE_CHECKING:
    from ..graph.optimize import OptimizeReport
    from ..graph.program import Program
    from ..plan.cuda.tactics import TacticStage
    from .plan import Watch


class CpuBackend:
    """Machine code for the CPU at hand."""

    device = HOST

    def __init__(self, target: object, device: str | None = None) -> None:
        self.target = runnable(target)

    @property
    def key(self) -> str:
        """The machine and its threads."""
        host = self.target
        threads = min(host.cores, parallel.get_num_threads())
        return f"{host.key} {threads} {host.l1} {host.l2} {host.l3}"

    @staticmethod
    def device_named(name: str | None) -> Device:
        """The CPU."""
        return HOST

    @staticmethod
    def plan_graph(
        graph: Graph,
        target: Target,
        watch: Watch | None = None,
        report: OptimizeReport | None = None,
    ) -> Program:
        """The kernels of a graph, before lowering."""
        from .plan import plan_graph

        return plan_graph(graph, target, watch, report)

    @staticmethod
    def tactic_stages(blocks: PrimFunc) -> Sequence[TacticStage]:
        """There are none."""
        raise UserError("tactics schedule kernels of graphs for GPUs", hint="--target cuda")

    @staticmethod
    def llvm_ir(module: IRModule, target: Target, entries: Collection[str] | None = None) -> str:
        """LLVM IR text of functions, before LLVM has optimised it."""
        from ..codegen import emit_module
        from ..lower import lower

        return emit_module(lower(_closed(module), target), target.features, entries).ir_text

    def build(
        self, module: IRModule, checked: bool | None = None, strict_sync: bool = False
    ) -> Mapping[str, Kernel | ReturningKernel]:
        """Native kernels."""
        closed = _closed(module)
        code, emitted = compile_module(closed, self.target, checked=checked)
        return _kernels(module, closed.functions, code, emitted.messages)

    def compile(self, program: Program) -> CompiledCode:
        """An object file, after what must be known of it."""
        if not program.module.functions:
            return CompiledCode()
        data, emitted = object_code(program.module, self.target, entries=program.entries)
        head = [needs_threads(emitted.ir_text), emitted.messages]
        return CompiledCode(json.dumps(head).encode() + b"\n" + data)

    def load(self, program: SerializedExecutable, data: bytes) -> NativeCode:
        """The object file, linked; it must have all functions that the program calls."""
        if not data:
            return NativeCode(program, None, ())
        end = data.index(b"\n")
        threads, messages = json.loads(data[:end])
        pointers = {name: array.ctypes.data for name, array in program.symbols.items()}
        return NativeCode(program, linked(data[end + 1 :], pointers, threads), messages)


def runnable(target: object) -> Target:
    """A CPU target that this process can run code for."""
    wanted = parse_target(target)
    if wanted.kind != "cpu" or wanted.arch != Target.host().arch:
        raise UnsupportedError(
            f"cannot run code for the target {wanted} here",
            hint="assembly(...) shows code for other machines; "
            'build(..., "cuda", device="emulator") runs code for a GPU here, slowly',
        )
    return wanted


def _closed(module: IRModule) -> IRModule:
    """The functions with the symbols of their shapes as parameters."""
    functions = {name: with_symbols(func) for name, func in module.functions.items()}
    return module.replace(functions=functions)


def _kernels(
    module: IRModule,
    closed: Mapping[str, PrimFunc],
    code: LoadedObject,
    messages: Sequence[str],
) -> dict[str, Kernel | ReturningKernel]:
    """The kernels of a module whose machine code is in memory.

    Args:
        closed: its functions with the symbols of their shapes as parameters.
        messages: of the assertions in the code.
    """
    made: dict[str, Kernel | ReturningKernel] = {}
    for name, func in module.functions.items():
        params = parameters(closed[name], len(func.params))
        if func.ret_type != "void":
            params.append(ParamSpec("result", "buffer", func.ret_type, (1,), access="w"))
        address, faults = code.address(f"{name}__packed"), code.find(FAULTS)
        kernel = Kernel(name, address, params, code, messages, faults)
        made[name] = kernel if func.ret_type == "void" else ReturningKernel(kernel, func.ret_type)
    return made


BACKEND = CpuBackend
