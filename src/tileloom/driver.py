"""Joins the rooms: programs in, machine code out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from .base import Target, dtype
from .base.errors import UnsupportedError, UserError
from .base.target import target as parse_target
from .codegen import jit, parallel_stub, pyentry
from .codegen.module import PARALLEL_RUNTIME, EmittedModule, emit_module
from .expr import Var
from .graph.expand import expand
from .graph.nodes import Graph, Node, Tensor
from .graph.optimize import optimize
from .graph.program import Program, Segment, build_program
from .graph.to_tir.kernel import Machine
from .lower import lower
from .runtime import LoadedObject, load_object, native, parallel
from .runtime.cache import cache_key, object_cache
from .runtime.executable import Executable, HostStep, NativeStep, Value
from .runtime.kernel import Kernel
from .runtime.params import ParamSpec
from .tir import BufferStore, IRModule, PrimFunc, pre_order

_VERSION: str = sys.modules[__name__.partition(".")[0]].__version__


def _native_helper(name: str, symbols: Mapping[str, int]) -> LoadedObject:
    host = Target.host()
    text = parallel_stub.source(host.arch) if name == "parallel" else pyentry.source()
    return load_object(_object(text, host, opt_level=0), symbols)


native.connect(_native_helper)


def _object(ir_text: str, target: Target, opt_level: int = 2) -> bytes:
    """Machine code for LLVM IR text, from the cache if it was made before."""
    key = cache_key(ir_text, target.key, str(opt_level), _VERSION, jit.llvm_version())
    return object_cache().get_or_make(key, lambda: jit.compile_ir(ir_text, target, opt_level))


def compile_module(
    module: IRModule, target: Target, symbols: Mapping[str, int] | None = None
) -> tuple[LoadedObject, EmittedModule]:
    """Lower, compile and load a module for this process."""
    emitted = emit_module(lower(module, target))
    data = _object(emitted.ir_text, target)
    known = dict(symbols or {})
    if PARALLEL_RUNTIME in emitted.ir_text:
        known[PARALLEL_RUNTIME] = parallel.address()
    return load_object(data, known), emitted


# ---------------------------------------------------------------------------- functions


def build(program: PrimFunc | IRModule, target: Any = "cpu") -> Any:
    """Machine code for tensor IR.

    Args:
        program: a function, or a module of them, at any stage.
        target: "cpu", or a `Target`.

    Returns:
        A `Kernel` for a function; for a module with several, a dictionary of them by name.

    Raises:
        UnsupportedError: the target is not one that this machine can run.

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
    host = runnable(target)
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    code, emitted = compile_module(module, host)
    kernels = {
        name: Kernel(
            name,
            code.address(f"{name}__packed"),
            parameters(func),
            keep_alive=code,
            assertions=emitted.messages[name],
        )
        for name, func in module.functions.items()
    }
    return next(iter(kernels.values())) if isinstance(program, PrimFunc) else kernels


def runnable(target: Any) -> Target:
    """A CPU target that this process can run code for."""
    wanted = parse_target(target)
    if wanted.kind != "cpu" or wanted.arch != Target.host().arch:
        raise UnsupportedError(
            f"cannot run code for the target {wanted} here",
            hint="assembly(...) shows code for other machines",
        )
    return wanted


def assembly(program: PrimFunc | IRModule, target: Any = "cpu") -> str:
    """The assembly text of a program for a CPU target, which need not be this machine."""
    wanted = parse_target(target)
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    return jit.assembly(emit_module(lower(module, wanted)).ir_text, wanted)


def parameters(func: PrimFunc) -> list[ParamSpec]:
    """What a function takes, as the runtime checks it."""
    written = {node.buffer.data for node in pre_order(func.body) if isinstance(node, BufferStore)}
    specs = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            specs.append(ParamSpec(param.name, "scalar", param.dtype))
            continue
        shape = tuple(_extent(extent) for extent in buffer.shape)
        access: Literal["r", "rw"] = "rw" if buffer.data in written else "r"
        specs.append(ParamSpec(buffer.name, "buffer", buffer.dtype, shape, access=access))
    return specs


def _extent(extent: Any) -> int | str:
    if isinstance(extent, Var):
        return extent.name
    if not hasattr(extent, "value"):
        raise UserError(f"the extent {extent} of a parameter is neither a number nor a variable")
    return int(extent.value)


# ---------------------------------------------------------------------------- graphs


def compile_graph(graph: Graph, target: Any = "cpu") -> Executable:
    """A graph compiled for a target: a callable from arrays to a list of arrays."""
    host = runnable(target)
    program = plan_graph(graph, host)
    return _load(program, host)


def plan_graph(graph: Graph, target: Target) -> Program:
    """The kernels of a graph, before lowering."""
    machine = Machine(target.vector_bits, min(target.cores, parallel.get_num_threads()))
    return build_program(optimize(expand(graph)), machine)


@cache
def _host_function(node: Node) -> Any:
    types = [tensor.type for tensor in node.outputs]
    return lambda arrays: node.op.reference(arrays, node.attrs, types)


def _load(program: Program, target: Target) -> Executable:
    pointers = {name: array.ctypes.data for name, array in program.constants.items()}
    code: LoadedObject | None = None
    if program.module.functions:
        code, _ = compile_module(program.module, target, pointers)
    slots = _number(program)

    def value(tensor: Tensor) -> Value:
        home = program.storage.get(tensor, tensor)
        return Value(slots[home], tensor.shape, tensor.dtype)

    keep = (code, program.constants)
    steps = [_step(segment, code, keep, value) for segment in program.segments]
    constants = {k: np.ascontiguousarray(t.value) for t, k in slots.items() if t.value is not None}
    inputs = [_param(t, k) for k, t in enumerate(program.graph.inputs)]
    return Executable(
        program.graph.name, inputs, [value(t) for t in program.graph.outputs], steps, constants
    )


def _param(tensor: Tensor, k: int) -> ParamSpec:
    return ParamSpec(tensor.name or f"argument{k}", "buffer", tensor.dtype, tensor.shape)


def _number(program: Program) -> dict[Tensor, int]:
    """A slot for every tensor that lives outside a segment: the inputs first."""
    slots = {tensor: k for k, tensor in enumerate(program.graph.inputs)}
    outside: list[Tensor] = []
    for segment in program.segments:
        outside += [*segment.reads, *segment.writes]
    outside += [program.storage.get(t, t) for t in program.graph.outputs]
    for tensor in outside:
        slots.setdefault(tensor, len(slots))
    return slots


def _step(
    segment: Segment, code: LoadedObject | None, keep: object, value: Any
) -> NativeStep | HostStep:
    if segment.node is not None:
        reads = tuple(value(t) for t in segment.node.inputs)
        return HostStep(_host_function(segment.node), reads, tuple(map(value, segment.writes)))
    if code is None:
        raise UserError("a program without kernels has a native segment")
    params = [_param(t, k) for k, t in enumerate(segment.reads)]
    params += [
        ParamSpec(f"output{k}", "buffer", t.dtype, t.shape, access="w")
        for k, t in enumerate(segment.writes)
    ]
    arena = ParamSpec("arena", "buffer", dtype("uint8"), (segment.arena_bytes,), access="w")
    params.append(arena)
    kernel = Kernel(segment.name, code.address(f"{segment.name}__packed"), params, keep)
    reads, writes = (tuple(map(value, part)) for part in (segment.reads, segment.writes))
    return NativeStep(kernel, reads, writes, segment.arena_bytes)


__all__: Sequence[str] = ("assembly", "build", "compile_graph", "compile_module", "plan_graph")
