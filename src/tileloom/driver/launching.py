"""What backends have in common whose devices launch the kernels of a program one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base.compiling import compiling
from ..base.errors import UnsupportedError, UserError
from ..base.polynomial import Number, Polynomial, value_of
from ..expr import IntImm
from ..graph.nodes import Graph
from ..runtime.device import Device
from ..runtime.launch_code import LaunchCode
from ..runtime.serialized import SerializedExecutable, plain_number
from ..target import Target
from ..tir import Allocate, IRModule, PrimFunc, collect
from .backend import CompiledCode
from .parameters import with_symbols

if TYPE_CHECKING:
    from ..graph.optimize import OptimizeReport
    from ..graph.program import Program
    from ..plan.cuda.tactics import TacticStage
    from .plan import Watch

Kernel = Callable[..., Any]


class LaunchingBackend:
    """Kernels as data, each by itself, loaded when it is first called."""

    target: Target
    device: Device

    @staticmethod
    def plan_graph(
        graph: Graph,
        target: Target,
        watch: Watch | None = None,
        report: OptimizeReport | None = None,
    ) -> Program:
        """The kernels of a graph, before lowering."""
        from .plan_cuda import plan_gpu

        return plan_gpu(graph, target, watch, report)

    @staticmethod
    def tactic_stages(blocks: PrimFunc) -> Sequence[TacticStage]:
        """A kernel of blocks after each of the tactics that schedule it without a search."""
        from ..plan.cuda.tactics import schedule_static

        return schedule_static(blocks)[1]

    @staticmethod
    def llvm_ir(module: IRModule, target: Target, entries: Collection[str] | None = None) -> str:
        """LLVM IR text of the kernels of functions, before LLVM has optimised it."""
        from ..codegen import emit_kernels
        from ..lower import lower
        from ..lower.gpu import split_host_device

        flat = [lower(with_symbols(func), target) for func in module.functions.values()]
        parts = map(split_host_device, flat)
        return emit_kernels(IRModule({k: f for p in parts for k, f in p.functions.items()}), target)

    def compile_kernel(self, func: PrimFunc) -> Any:
        """A function as data that JSON has."""
        raise NotImplementedError

    def load_kernel(self, name: str, data: Any) -> Kernel:
        """What launches such a function."""
        raise NotImplementedError

    def compile(self, program: Program) -> CompiledCode:
        """The kernels by name; of those that are made for each size their blocks, and why."""
        from ..graph.whole_vectors import parts_of
        from ..script.show import show
        from .plan_cuda import EACH_SIZE

        symbols = {} if program.space is None else program.space.symbols
        sizes = tuple(map(Polynomial.symbol, symbols))
        kernels, numbers, later = {}, dict[str, tuple[Number, ...]](), {}
        for name in _kernels_of(program):
            func = program.module.functions[name]
            try:
                if EACH_SIZE in func.attrs:
                    raise UnsupportedError(str(func.attrs[EACH_SIZE]))
                kernels[name] = self.compile_kernel(func)
                numbers[name] = (*parts_of(func), *sizes)
            except UserError as refusal:  # it takes more than the GPU has, if any size may occur
                if program.space is None:
                    raise
                blocks = program.planned[name].blocks
                taken = [plain_number(number) for number in (*parts_of(blocks), *sizes)]
                later[name] = refusal.message, taken, show(IRModule({name: blocks}))
        return CompiledCode(json.dumps([kernels, later]).encode(), numbers)

    def load(self, program: SerializedExecutable, data: bytes) -> LaunchCode:
        """The kernels, found by name; none is loaded yet."""
        kernels, later = json.loads(data)
        each_size = {name: why for name, (why, *_) in later.items()}
        return LaunchCode(program, self.device, _Kernels(self, kernels, later), each_size)


class _Kernels:
    """The kernels of a program, made when they are first asked for."""

    def __init__(self, backend: LaunchingBackend, kernels: Any, later: Any) -> None:
        self._backend, self._kernels, self._later = backend, kernels, later
        self._made: dict[Any, Kernel] = {}

    @compiling
    def __call__(self, name: str, sizes: Mapping[str, int]) -> Kernel:
        key = (name, *sizes.values()) if name in self._later else name
        found = self._made.get(key)
        if found is None:
            found = self._make_for(name, sizes) if name in self._later else self._make(name)
        return self._made.setdefault(key, found)

    def _make(self, name: str) -> Kernel:
        return self._backend.load_kernel(name, self._kernels[name])

    def _make_for(self, name: str, sizes: Mapping[str, int]) -> Kernel:
        """A kernel scheduled for these sizes alone."""
        from ..plan import plan_kernel

        _, taken, text = self._later[name]
        (blocks,) = functions_in(text).values()
        numbers = [value_of(Polynomial.of(plain), sizes) for plain in taken]
        params = blocks.params[len(blocks.params) - len(numbers) :]
        known = blocks.specialize(dict(zip(params, numbers, strict=True)))
        planned = plan_kernel(known, self._backend.target).func
        return self._backend.load_kernel(name, self._backend.compile_kernel(planned))


def _kernels_of(program: Program) -> set[str]:
    """The functions that are launched: kernels, or their buckets."""
    called = {call.kernel for segment in program.segments for call in segment.calls}
    return {
        name
        for kernel in called
        for name in [bucket.kernel for bucket in program.buckets.get(kernel, ())] or [kernel]
    }


def functions_in(text: str) -> dict[str, PrimFunc]:
    """The functions of a module that was written down as text."""
    from ..script import parse

    module = parse(text)
    found = module.functions if isinstance(module, IRModule) else {module.name: module}
    return dict(found)


def lowered(func: PrimFunc, target: Target, strict_sync: bool = False) -> PrimFunc:
    """A function lowered for a GPU, whose kernels can be launched.

    Raises:
        UserError: they want more than the GPU has.
    """
    from ..lower import lower
    from ..lower.gpu import check_launches

    flat = lower(with_symbols(func), target, strict_sync=strict_sync)
    check_memory(flat)
    check_launches(flat, target)
    return flat


def check_memory(func: PrimFunc) -> None:
    """Check that what threads and blocks have for themselves is of a size that code can have.

    Raises:
        UnsupportedError: registers or shared memory would be as large as an extent is.
    """
    from ..lower.analysis.threads import kernels

    for kernel in kernels(func.body):
        for one in collect(kernel.body, Allocate):
            if not all(isinstance(extent, IntImm) for extent in one.extents):
                size = " * ".join(map(str, one.extents))
                raise UnsupportedError(
                    f"{one.buffer_var.name!r} would be {size} elements for each thread or block, "
                    "and a kernel has constant sizes of such memory"
                )
