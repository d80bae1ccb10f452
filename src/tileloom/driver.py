"""Joins the rooms: programs in, machine code out.

What was compiled before is found on disk by the program itself, so that neither the planners nor
LLVM are loaded for it: they are imported when something new must be made.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Target
from .base.compiling import compiling
from .base.errors import (
    ArgumentError,
    InternalError,
    UnsupportedError,
    UserError,
    VerifyError,
)
from .base.settings import file_stamp, settings
from .base.target import target as parse_target
from .driver_kernels import emulated, launched, loaded, with_symbols
from .driver_keys import constants_of, graph_key, stamp
from .graph.nodes import Graph, Node, Tensor
from .graph.symbols import formula_of, host_at, space_of_graph
from .runtime import LoadedObject, load_object, native, parallel
from .runtime.cache import cache_key, object_cache
from .runtime.elf import checked_object
from .runtime.executable import Array, Executable, Value
from .runtime.family import Choices, Family
from .runtime.recipe import Panels, Recipe, Step, digest
from .tir import IRModule, PrimFunc

if TYPE_CHECKING:
    from .codegen.module import EmittedModule
    from .driver_gpu import GpuExecutable
    from .driver_plan import Watch
    from .graph.hoist import Hoisted
    from .graph.optimize import Report
    from .graph.program import Program, Segment

_PARALLEL_RUNTIME = "tileloom_parallel"


def _native_helper(name: str, symbols: Mapping[str, int]) -> LoadedObject:
    host = Target.host()

    def make() -> bytes:
        from .codegen import jit, launch_stub, parallel_stub, pyentry

        sources = {
            "parallel": lambda: parallel_stub.source(host.arch),
            "entry": pyentry.source,
            "launch": launch_stub.source,
        }
        return jit.compile_ir(sources[name](), host, opt_level=0 if name != "launch" else 2)

    key = cache_key("helper", name, host.key, stamp(), sys.version)
    return load_object(object_cache().get_or_make(key, make, checked_object), symbols)


native.connect(_native_helper)


@compiling
def _object(
    module: IRModule, target: Target, checked: bool | None = None
) -> tuple[bytes, EmittedModule]:
    """Machine code for a module at any stage; the part after emission may come from the cache."""
    from .codegen import jit
    from .codegen.module import emit_module
    from .lower import lower

    wanted = settings().check if checked is None else checked
    emitted = emit_module(lower(module, target, checked=wanted), target.features)
    key = cache_key(emitted.ir_text, target.key, stamp())
    made = object_cache().get_or_make(
        key, lambda: jit.compile_ir(emitted.ir_text, target), checked_object
    )
    return made, emitted


def compile_module(
    module: IRModule,
    target: Target,
    symbols: Mapping[str, int] | None = None,
    checked: bool | None = None,
) -> tuple[LoadedObject, EmittedModule]:
    """Lower, compile and load a module for this process.

    Args:
        checked: whether code checks its indices; by default as the settings say.
    """
    data, emitted = _object(module, target, checked)
    return _linked(data, symbols or {}, _PARALLEL_RUNTIME in emitted.ir_text), emitted


def _linked(data: bytes, symbols: Mapping[str, int], needs_threads: bool) -> LoadedObject:
    known = dict(symbols)
    if needs_threads:
        known[_PARALLEL_RUNTIME] = parallel.address()
    return load_object(data, known)


# ---------------------------------------------------------------------------- functions


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
    from .lower.refuse_out_of_bounds import refuse_out_of_bounds
    from .lower.scope_mistakes import scope_mistake

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
    on_gpu = parse_target(target).kind == "cuda" and (device or "cuda").startswith("cuda")
    if device is not None and not on_gpu:
        return emulated(program, target, device, strict_sync)
    if on_gpu:
        return launched(program, target, device, _ptx, checked, strict_sync)
    host = runnable(target)
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    closed = {name: with_symbols(func) for name, func in module.functions.items()}
    code, emitted = compile_module(module.replace(functions=closed), host, checked=checked)
    kernels = loaded(module, closed, code, emitted.messages)
    return next(iter(kernels.values())) if isinstance(program, PrimFunc) else kernels


def _check_program(program: object) -> None:
    if not isinstance(program, (PrimFunc, IRModule)):
        kind = type(program).__name__
        raise ArgumentError(f"build takes a PrimFunc or an IRModule of tensor IR, not {kind}")


def _ptx(ir_text: str, target: Target) -> str:
    """PTX for LLVM IR, from the cache on disk where that has it."""

    def make() -> bytes:
        from .codegen import jit

        return jit.assembly(ir_text, target).encode()

    key = cache_key("ptx", ir_text, target.key, stamp())
    return object_cache().get_or_make(key, make).decode()


def runnable(target: Any) -> Target:
    """A CPU target that this process can run code for."""
    wanted = parse_target(target)
    if wanted.kind != "cpu" or wanted.arch != Target.host().arch:
        raise UnsupportedError(
            f"cannot run code for the target {wanted} here",
            hint="assembly(...) shows code for other machines; "
            'build(..., "cuda", device="emulator") runs code for a GPU here, slowly',
        )
    return wanted


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
    from .codegen import jit

    return jit.assembly(_emitted(program, parse_target(target)), parse_target(target))


@compiling
def _emitted(program: PrimFunc | IRModule, target: Target) -> str:
    """LLVM IR text, before LLVM has optimised it."""
    from .lower import lower

    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    closed = {name: with_symbols(func) for name, func in module.functions.items()}
    flat = lower(module.replace(functions=closed), target)
    if target.kind == "cuda":
        from .codegen.nvptx import emit_kernels
        from .lower.split_host_device import split_host_device

        parts = [split_host_device(func) for func in flat.functions.values()]
        kernels = IRModule({k: f for part in parts for k, f in part.functions.items()})
        return emit_kernels(kernels, target)
    from .codegen.module import emit_module

    return emit_module(flat, target.features).ir_text


# ---------------------------------------------------------------------------- graphs


def compile_graph(
    graph: Graph,
    target: Any = "cpu",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
    device: str | None = None,
) -> Executable | GpuExecutable:
    """A graph compiled for a target: a callable from arrays to a list of arrays.

    Args:
        target: "cpu", "cuda", or a `Target`.
        replaced: the input whose new value an output is, by their positions: the input's array
            is changed, and returned as the output.
        exact: whether kernels of formulas alone round after every operator, as NumPy does. On
            GPUs no kernel does.
        device: "emulator" runs code for a GPU on the CPU.
    """
    wanted = parse_target(target)
    if wanted.kind == "cuda" or device is not None:
        return _compile_for_gpu(graph, wanted, device, replaced)
    host = runnable(wanted)
    if space_of_graph(graph) is not None:
        raise UserError(
            "the graph has symbolic extents", hint="compile_family compiles such graphs"
        )
    print_stages(graph, host)
    recipe, code = _recipe(graph, host, "", dict(replaced or {}), exact)
    return recipe.executable(code)


def compile_family(graph: Graph, target: Any = "cpu", device: str | None = None) -> Choices:
    """A graph of symbolic shapes (`graph.symbols`) compiled once for all sizes within their bounds.

    It is right where its guards hold, which they do for the sizes of this compilation.

    Args:
        target: "cpu", "cuda", or a `Target`.
        device: "emulator" runs code for a GPU on the CPU.
    """
    wanted = parse_target(target)
    if wanted.kind == "cuda" or device is not None:
        return _family_for_gpu(graph, wanted, device)
    host = runnable(target)
    print_stages(graph, host)
    space = space_of_graph(graph)
    if space is None:
        return Family(*_recipe(graph, host))
    bounds = [(s.name, s.low, s.high) for s in space.symbols.values()]
    about = f"{bounds} {list(space.guards)}"
    family = Family(*_recipe(graph, host, about))
    if family.holds(space.hints):
        return family
    return Family(*_recipe(graph, host, f"{about} {space.hints}"))


def _family_for_gpu(graph: Graph, target: Target, device: str | None) -> Choices:
    from .driver_gpu import CudaMemory, HostMemory
    from .driver_gpu_family import GpuFamily

    print_stages(graph, target)
    memory = HostMemory() if device == "emulator" else CudaMemory(device)

    def made(module: IRModule) -> Mapping[str, Any]:
        found: Mapping[str, Any] = build(module, target, device)
        return found

    return GpuFamily(plan_graph(graph, target), target, made, memory)


def _recipe(
    graph: Graph,
    host: Target,
    about: str = "",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> tuple[Recipe, LoadedObject | None]:
    """A program and its code, from the cache on disk where that has it.

    Args:
        about: what else the program depends on.
    """
    constants = constants_of(graph)
    digests = {id(array): digest(array) for array in constants}
    threads = min(host.cores, parallel.get_num_threads())
    machine = f"{host.key} {threads} {host.l1} {host.l2} {host.l3}"
    known = settings()
    chosen = known.optimize, known.planner, known.check, file_stamp(known.traces)
    how = f"{replaced or {}} {exact} {chosen} {about}"
    key = cache_key("graph", machine, stamp(), graph_key(graph, digests), how)
    given = {digests[id(array)]: array for array in constants}
    found = object_cache().read(key, lambda kept: _with_code(*Recipe.from_bytes(kept, given)))
    if found is not None:
        return found
    recipe, data = _make(graph, host, replaced, exact)
    fresh = recipe.to_bytes(digests, data)
    if fresh is not None:
        object_cache().put(key, fresh)
    return _with_code(recipe, data)


def _with_code(recipe: Recipe, data: bytes) -> tuple[Recipe, LoadedObject | None]:
    """A program with its machine code, which must have all functions that the program calls."""
    if not data:
        return recipe, None
    pointers = {name: array.ctypes.data for name, array in recipe.symbols.items()}
    code = _linked(data, pointers, recipe.needs_threads)
    for step in recipe.steps:
        if step.host is None:
            code.address(f"{step.symbol}__packed")
    return recipe, code


def plan_graph(
    graph: Graph, target: Target, watch: Watch | None = None, report: Report | None = None
) -> Program:
    """The kernels of a graph, before lowering.

    Args:
        watch: called with the name of each step and the graph after it.
        report: receives what the optimiser did.
    """
    from . import driver_plan

    return driver_plan.plan_graph(graph, target, watch, report)


def _compile_for_gpu(
    graph: Graph, target: Target, device: str | None, replaced: Mapping[int, int] | None
) -> GpuExecutable:
    from .driver_gpu import CudaMemory, GpuExecutable, HostMemory

    print_stages(graph, target)
    program = plan_graph(graph, target)
    kernels = build(program.module, target, device)
    memory = HostMemory() if device == "emulator" else CudaMemory(device)
    return GpuExecutable(program, kernels, memory, replaced)


@compiling
def hoist(graph: Graph, static: Collection[int]) -> Hoisted:
    """A graph for this CPU without what depends on static inputs alone: see `graph/hoist.py`."""
    from .driver_plan import machine_of
    from .graph import hoist as hoisting

    return hoisting.hoist(graph, static, machine_of(Target.host()))


def key_of(graph: Graph) -> str:
    """Text that is equal for graphs that compute the same in the same way."""
    return graph_key(graph, {id(array): digest(array) for array in constants_of(graph)})


@compiling
def _make(
    graph: Graph,
    target: Target,
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> tuple[Recipe, bytes]:
    program = plan_graph(graph, target)
    if exact:
        from .graph.exact import keep_roundings

        keep_roundings(program)
    if replaced:
        from .graph.inplace import write_in_place

        write_in_place(program, replaced)
    slots = _number(program)

    def value(tensor: Tensor) -> Value:
        home = program.storage.get(tensor, tensor)
        return Value(slots[home], tuple(map(formula_of, tensor.shape)), tensor.dtype)

    data, needs_threads, messages = b"", False, tuple[str, ...]()
    if program.module.functions:
        data, emitted = _object(program.module, target)
        needs_threads = _PARALLEL_RUNTIME in emitted.ir_text
        messages = tuple(emitted.messages)
    recipe = Recipe(
        program.graph.name,
        tuple((t.name, value(t)) for t in program.graph.inputs),
        tuple(map(value, program.graph.outputs)),
        tuple(_step(segment, value, program.space is not None) for segment in program.segments),
        {k: np.ascontiguousarray(t.value) for t, k in slots.items() if t.value is not None},
        program.constants,
        needs_threads,
        [Panels(array, matrix, how) for array, (matrix, *how) in _panels(program.graph)],
        replaced or {},
        () if program.space is None else tuple(program.space.guards),
        program.buckets,
        messages,
    )
    return recipe, data


def _panels(graph: Graph) -> list[tuple[Array, Any]]:
    found = (
        (node.attrs["value"], node.attrs.get("panels_of"))
        for node in graph.nodes
        if node.op.name == "constant"
    )
    return [(array, source) for array, source in found if source is not None]


def _step(segment: Segment, value: Any, symbolic: bool) -> Step:
    if segment.node is not None:
        reads = tuple(value(t) for t in segment.node.inputs)
        host: Any = partial(host_at, segment.node) if symbolic else _host_function(segment.node)
        return Step(segment.name, reads, tuple(map(value, segment.writes)), host=host)
    reads, writes = (tuple(map(value, part)) for part in (segment.reads, segment.writes))
    plan = segment.arena_bytes, None, segment.symbols, segment.arena
    return Step(segment.name, reads, writes, *plan)


def _host_function(node: Node) -> Any:
    types = [tensor.type for tensor in node.outputs]
    return lambda arrays: node.op.reference(arrays, node.attrs, types)


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


# ---------------------------------------------------------------------------- stages

STAGES = ("graph", "groups", "tir", "loops", "flat", "llvm", "asm")


@compiling
def show_stage(program: Graph | PrimFunc | IRModule, stage: str, target: Any = "cpu") -> str:
    """The text of a program at a stage on its way to machine code.

    Args:
        program: a graph, or tensor IR (which has no graph and no groups).
        stage: one of `STAGES`.
        target: any target, not only this machine.

    >>> from tileloom import compute as te
    >>> A = te.placeholder((4,), name="A")
    >>> f = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1.0, name="B")])
    >>> "fadd" in show_stage(f, "llvm"), "T.block" in show_stage(f, "flat")
    (True, False)
    """
    from .codegen import jit
    from .graph.show import show_groups
    from .lower import lower
    from .script.show import show

    wanted = parse_target(target)
    if stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}", hint=f"one of {', '.join(STAGES)}")
    if isinstance(program, Graph):
        if stage == "graph":
            return str(program)
        planned = plan_graph(program, wanted)
        if stage == "groups":
            return show_groups(planned)
        module = planned.module
    elif stage in ("graph", "groups"):
        raise UserError(f"tensor IR has no stage {stage!r}", hint="begin with tir")
    else:
        module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    match stage:
        case "tir":
            return show(module)
        case "loops" | "flat":
            return show(lower(module, wanted, stage))
        case "llvm":
            return jit.optimised_ir(_emitted(module, wanted), wanted)
        case _:
            return jit.assembly(_emitted(module, wanted), wanted)


def print_stages(graph: Graph, target: Target) -> None:
    """Print the stages that TILELOOM_PRINT_IR names; write all to TILELOOM_DUMP_DIR."""
    wanted, folder = settings().print_ir, settings().dump_dir
    for stage in STAGES if folder else wanted:
        text = show_stage(graph, stage, target)
        if stage in wanted:
            print(f"# {graph.name}: {stage}\n{text}\n", file=sys.stderr)
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{graph.name}.{stage}.txt").write_text(text)


__all__: Sequence[str] = (
    "STAGES", "assembly", "build", "compile_family", "compile_graph", "compile_module",
    "plan_graph", "show_stage",
)  # fmt: skip
