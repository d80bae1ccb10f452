"""Graphs on GPUs: planned by the group planner, run by a device or by the emulator.

The graph is expanded, simplified and partitioned as for CPUs; then the blocks of each group are
scheduled as one kernel (`plan.schedule_gpu`). A run launches the kernels in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..base import DType, Target, dtype
from ..base.compiling import compiling
from ..base.errors import ArgumentError, UserError
from ..graph.expand import expand
from ..graph.nodes import Graph, Node, Tensor
from ..graph.optimize import Report, optimize
from ..graph.partition import Device, Group
from ..graph.program import Planned, Program, build_program
from ..graph.space import Space
from ..graph.symbols import at_sizes, host_at, is_symbolic, space_of_graph
from ..graph.to_tir.blocks import block_function
from ..graph.to_tir.kernel import Machine
from ..graph.to_tir.whole_vectors import in_whole_vectors
from ..lower import lower
from ..lower.flatten_buffers import INT32_INDICES
from ..lower.verify_gpu_code import check_launches
from ..plan import PlannedKernel, plan_kernel
from ..runtime import cuda
from ..runtime.arrays import as_numpy
from ..schedule.library.kernels import histogram_kernel, scan_kernel, scatter_kernel
from ..schedule.trace import Trace
from ..tir import PrimFunc

Watch = Callable[[str, Graph], None]
Array = np.ndarray[Any, Any]


class Memory(Protocol):
    """The memory of a device."""

    def empty(self, shape: tuple[int, ...], kind: DType) -> Any:
        """A new array of a device; what is in it is not defined."""

    def holds(self, array: Any) -> bool:
        """Whether an array of any package lies in memory of the device that others can use."""

    def put(self, array: Any) -> Any:
        """A compact array of the device: the same memory if it is there already, else a copy."""

    def copy(self, array: Any) -> Any:
        """Another array of the device with the same elements."""

    def get(self, array: Any) -> Array:
        """A NumPy array with what is in one of the device."""

    def view(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The same memory with another shape."""


class HostMemory:
    """That of the CPU, where the emulator runs."""

    def empty(self, shape: tuple[int, ...], kind: DType) -> Array:
        """A new array."""
        return np.empty(shape, kind.numpy)

    def holds(self, array: Any) -> bool:
        """Whether results should stay here: they are in the CPU's memory anyhow."""
        return False

    def put(self, array: Any) -> Array:
        """The array itself, or a compact copy."""
        return np.require(as_numpy(array), requirements=("C", "A"))

    def copy(self, array: Array) -> Array:
        """Another array with the same elements."""
        return array.copy()

    def get(self, array: Array) -> Array:
        """The array itself."""
        return array

    def view(self, array: Array, shape: tuple[int, ...]) -> Array:
        """The array with another shape."""
        return array.reshape(shape)


class CudaMemory:
    """That of an NVIDIA GPU.

    Args:
        device: as "cuda:1"; the first one if it is not given.
    """

    def __init__(self, device: str | None = None) -> None:
        self.device = device

    def empty(self, shape: tuple[int, ...], kind: DType) -> cuda.DeviceArray:
        """A new array."""
        return cuda.empty(shape, kind, self.device)

    def holds(self, array: Any) -> bool:
        """Whether an array lies on a GPU."""
        return cuda.on_device(array)

    def put(self, array: Any) -> cuda.DeviceArray:
        """The memory of an array of a GPU, or a copy of one of the host."""
        found = cuda.asarray(array, self.device)
        if not found.is_compact:
            raise ArgumentError(
                f"an array of shape {found.shape} with strides {found.strides} has gaps",
                hint="pass a contiguous array",
            )
        return found

    def copy(self, array: cuda.DeviceArray) -> cuda.DeviceArray:
        """Another array with the same elements."""
        return array.copy()

    def get(self, array: cuda.DeviceArray) -> Array:
        """A NumPy array with the same elements."""
        return array.numpy()

    def view(self, array: cuda.DeviceArray, shape: tuple[int, ...]) -> cuda.DeviceArray:
        """The array with another shape."""
        return array.reshape(*shape)


@compiling
def plan_gpu(
    graph: Graph, target: Target, watch: Watch | None = None, report: Report | None = None
) -> Program:
    """The kernels of a graph for a GPU, scheduled and not lowered.

    Args:
        watch: called with the name of each step and the graph after it.
        report: receives what the optimiser did.
    """
    expanded = expand(graph, keep=has_kernel)
    simple = optimize(expanded, report=report)
    if watch is not None:
        watch("expanded", expanded)
        watch("optimized", simple)

    space = space_of_graph(simple)
    planned: dict[str, Planned] = {}

    def kernel(group: Group, name: str) -> tuple[PrimFunc, list[Tensor]]:
        if has_kernel(group.anchor):
            func, tensors = node_kernel(group.anchor)
            func = func.with_attr("outputs", len(group.outputs))
            return func.with_attr("global_symbol", name), tensors
        blocks, tensors = block_function(group, name)
        blocks = blocks.with_attr("outputs", len(group.outputs))
        if space is None:
            made = plan_kernel(blocks, target)
        else:
            blocks = blocks.with_attr(INT32_INDICES, True)
            made = _open_kernel(group, blocks, target, space)
        planned[name] = made
        return made.func, tensors

    def ready(node: Node) -> bool:
        return node.op.compute is not None or has_kernel(node)

    program = build_program(simple, Machine(), Device.gpu(), kernel, ready)
    program.planned = planned
    return program


def _open_kernel(group: Group, blocks: PrimFunc, target: Target, space: Space) -> PlannedKernel:
    """The kernels of a group; its blocks with `EACH_SIZE` if they are for known sizes only."""
    with space.kept_open():
        vectors = in_whole_vectors(group, blocks)
        if vectors is not None:
            with suppress(UserError):
                return _launchable(plan_kernel(vectors, target), target)
    try:
        with space.kept_open():
            return _launchable(plan_kernel(blocks, target), target)
    except UserError as refusal:
        return PlannedKernel(blocks, blocks.with_attr(EACH_SIZE, refusal.message), Trace())


def _launchable(planned: PlannedKernel, target: Target) -> PlannedKernel:
    """The kernel, whose memory for the greatest sizes is not more than there is."""
    check_launches(lower(planned.func, target, until="flatten_buffers"), target)
    return planned


#: The attribute of functions that are to be scheduled when sizes are known, and why.
EACH_SIZE = "each_size"

_SCANS = {"cumsum": "sum", "cumprod": "prod"}


_SCATTERS = ("scatter_elements", "scatter_nd")


def has_kernel(node: Node) -> bool:
    """Whether the library has the whole kernel of a node, which no schedule makes as well."""
    tensors = (*node.inputs, *node.outputs)
    if any(is_symbolic(n) for t in tensors for n in t.shape) or not all(
        t.type.size for t in tensors
    ):
        return False
    if node.op.name in _SCATTERS:
        data, how = node.inputs[0].dtype, node.attrs["reduction"]
        # Sums of narrow floats would be rounded after every addition.
        return how != "mul" and not (how == "add" and data.is_float and data.bits < 32)
    return node.op.name in _SCANS or node.op.name == "bincount"


def node_kernel(node: Node) -> tuple[PrimFunc, list[Tensor]]:
    """That kernel, and the tensors that its parameters are."""
    first, result, attrs = node.inputs[0], node.outputs[0], node.attrs
    shape, kind = first.shape, str(first.dtype)
    if node.op.name in _SCANS:
        how = attrs["exclusive"], attrs["reverse"]
        func = scan_kernel(shape, attrs["axis"], kind, _SCANS[node.op.name], *how)
    elif node.op.name in _SCATTERS:
        index = node.inputs[1]
        axis = attrs["axis"] if node.op.name == "scatter_elements" else None
        func = scatter_kernel(shape, index.shape, kind, str(index.dtype), attrs["reduction"], axis)
    else:
        func = histogram_kernel(first.type.size, result.type.size, kind, str(result.dtype))
    return func, [*node.inputs, result]


@dataclass(frozen=True)
class Launch:
    """A kernel and the tensors that it reads and writes."""

    kernel: Callable[..., Any]
    tensors: tuple[Tensor, ...]


class GpuExecutable:
    """A compiled graph: called with arrays, it returns new arrays.

    If an argument lies on the device, results stay there too; else they are NumPy arrays.

    Attributes:
        program: what it runs; `program.module` holds the scheduled kernels.
        replaced: the input whose new value an output is, by their positions: its array is changed
            when all has run, and returned as the output.
        sizes: those of the program's symbols, which kernels take after arrays.
        constants: what is on the device already; others are added.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, Callable[..., Any]],
        memory: Memory,
        replaced: Mapping[int, int] | None = None,
        sizes: Mapping[str, int] | None = None,
        constants: dict[Tensor, Any] | None = None,
    ) -> None:
        self.program = program
        self.sizes = dict(sizes or {})
        self._numbers = tuple(self.sizes.values())
        self._shapes: dict[Tensor, tuple[int, ...]] = {}
        self.memory = memory
        self.replaced = dict(replaced or {})
        self.steps: list[Launch | Node] = []
        for segment in program.segments:
            if segment.node is not None:
                self.steps.append(segment.node)
            self.steps += [Launch(kernels[call.kernel], call.tensors) for call in segment.calls]
        self._dead = self._last_uses()
        homes = Counter(map(self._home, program.graph.outputs))
        self._repeated = {home for home, count in homes.items() if count > 1}
        self._constants: dict[Tensor, Any] = {} if constants is None else constants
        for step in self.steps:
            for tensor in map(self._home, _tensors(step)):
                if tensor.value is not None and tensor not in self._constants:
                    self._constants[tensor] = memory.put(np.asarray(tensor.value))

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs for these inputs.

        Raises:
            ArgumentError: an argument has the wrong type or shape.
        """
        memory, graph = self.memory, self.program.graph
        held: dict[Tensor, Any] = dict(self._constants)
        held.update(zip(graph.inputs, self._taken(arrays), strict=True))
        for step, dead in zip(self.steps, self._dead, strict=True):
            if isinstance(step, Node):
                self._on_host(step, held)
            else:
                arrays_of = (self._array(tensor, held) for tensor in step.tensors)
                step.kernel(*arrays_of, *self._numbers)
            for tensor in dead:
                del held[tensor]
        results = [self._result(tensor, held) for tensor in graph.outputs]
        if not any(map(memory.holds, arrays)):
            results = [memory.get(result) for result in results]
        for output, k in self.replaced.items():
            results[output] = self._replace(arrays[k], results[output])
        return results

    def single(self, *arrays: Any) -> Any:
        """The first output alone."""
        return self(*arrays)[0]

    # ------------------------------------------------------------------ tensors

    def _home(self, tensor: Tensor) -> Tensor:
        return self.program.storage.get(tensor, tensor)

    def _array(self, tensor: Tensor, held: dict[Tensor, Any]) -> Any:
        """The memory of a tensor as an array of its shape; new memory if it has none yet."""
        home = self._home(tensor)
        shape = self._shape(tensor)
        if home not in held:
            held[home] = self.memory.empty(self._shape(home), home.dtype)
        found = held[home]
        return found if self._shape(home) == shape else self.memory.view(found, shape)

    def _shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of a tensor for the sizes at hand."""
        if not self.sizes:
            return tensor.shape
        found = self._shapes.get(tensor)
        if found is None:
            found = self._shapes[tensor] = at_sizes(tensor.shape, self.sizes)
        return found

    def _on_host(self, node: Node, held: dict[Tensor, Any]) -> None:
        given = [self.memory.get(self._array(tensor, held)) for tensor in node.inputs]
        types = [tensor.type for tensor in node.outputs]
        results = (
            host_at(node, self.sizes)(given)
            if self.sizes
            else node.op.reference(given, node.attrs, types)
        )
        for tensor, made in zip(node.outputs, results, strict=True):
            array = np.array(made, tensor.dtype.numpy).reshape(self._shape(tensor))
            held[tensor] = self.memory.put(array)

    def _result(self, tensor: Tensor, held: dict[Tensor, Any]) -> Any:
        """An output in memory that nothing else uses."""
        if tensor.value is not None:
            return self.memory.put(np.array(tensor.value))
        home = self._home(tensor)
        shared = home in self._constants or home.node is None or home in self._repeated
        found = self._array(tensor, held)
        return self.memory.copy(found) if shared else found

    def _replace(self, given: Any, result: Any) -> Any:
        """Let an argument have its new value."""
        if self.memory.holds(given):
            self.memory.put(given).copy_from(self.memory.get(result))
        else:
            as_numpy(given)[...] = result
        return given

    def _last_uses(self) -> list[list[Tensor]]:
        """For each step the memory that nothing needs after it."""
        kept = {self._home(tensor) for tensor in self.program.graph.outputs}
        dead = []
        for step in reversed(self.steps):
            last = {self._home(t) for t in _tensors(step) if self._home(t).value is None} - kept
            dead.append(sorted(last, key=lambda tensor: tensor.serial))
            kept |= last
        return dead[::-1]

    def _taken(self, arrays: Sequence[Any]) -> list[Any]:
        """The arguments as arrays of the device."""
        inputs = self.program.graph.inputs
        name = self.program.graph.name
        if len(arrays) != len(inputs):
            raise ArgumentError(f"{name} takes {len(inputs)} arrays, not {len(arrays)}")
        found = list(map(self.memory.put, arrays))
        for tensor, array in zip(inputs, found, strict=True):
            shape = self._shape(tensor)
            if tuple(array.shape) != shape or dtype(array.dtype) != tensor.dtype:
                given = f"{dtype(array.dtype)}{list(array.shape)}"
                wanted = f"{tensor.dtype}{list(shape)}"
                raise ArgumentError(f"{name}: {tensor.name!r} must be {wanted}, not {given}")
        return found


def _tensors(step: Launch | Node) -> Sequence[Tensor]:
    return step.tensors if isinstance(step, Launch) else (*step.inputs, *step.outputs)
