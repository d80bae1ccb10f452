"""A graph as a program: kernels, the order they run in, and where every tensor lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.cached import cached_property
from ..base.errors import UnsupportedError
from ..base.polynomial import Number
from ..expr import Var
from ..target.cost import DeviceCosts
from ..tir import IRModule, PrimFunc
from .entry import connect_calls
from .nodes import Graph, Node, Tensor
from .partition import ChooseContraction, Group, Partition, contraction_on_cpu, partition
from .share_code import share_code, signature
from .space import Space
from .symbols import bounds_of, space_of_graph
from .traffic import Traffic, traffic_of, traffic_unfused
from .turns import segments
from .variants import Bucket, MadeKernel, Planned, kernel_variants


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel with these tensors."""

    kernel: str
    tensors: tuple[Tensor, ...]


@dataclass
class Segment:
    """Kernels that run one after another as one native function, or one step on the host.

    Attributes:
        calls: the kernels, in order; empty for a host step.
        node: what the host computes through the op's NumPy reference.
        reads, writes: tensors from and for outside, by their storage.
        arena_bytes: memory for what lives only inside.
        arena: where the memory is laid out when the program is loaded, or the sizes are known: for
            each tensor in it the bytes, and the first and last call that need it.
        between: these tensors.
        symbols: what the native function takes after the arena, as 32-bit numbers; then, where
            there is an `arena`, the place of each tensor in it and its whole size, in 64 bits.
    """

    name: str
    calls: list[KernelCall] = field(default_factory=list)
    node: Node | None = None
    reads: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    arena_bytes: int = 0
    arena: tuple[tuple[Number, int, int], ...] = ()
    between: tuple[Tensor, ...] = ()
    symbols: tuple[str, ...] = ()


@dataclass
class Program:
    """What the driver compiles and the runtime runs.

    Attributes:
        graph: what it computes.
        module: the kernels, and for each native segment the function that calls them.
        segments: in order.
        storage: the tensor whose memory holds a tensor (itself unless it is a view).
        groups: what became one kernel each, and why there are not fewer.
        device: what the graph was partitioned for.
        space: the symbols of the shapes, if there are any.
        buckets: the kernels that a kernel over symbolic shapes chooses from, by its name.
        planned: of the kernels (or their buckets) that a schedule made, by name: the blocks that
            it began with, the function and the trace.
        plan_in_place: schedules such blocks again, with one parameter for the operand and the
            result at two positions; None where that is not safe.
        constant_names: the names under which the module looks constants up.
    """

    graph: Graph
    module: IRModule
    segments: list[Segment]
    storage: dict[Tensor, Tensor]
    groups: Partition
    device: DeviceCosts
    space: Space | None = None
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    planned: dict[str, Planned] = field(default_factory=dict)
    plan_in_place: Callable[[PrimFunc, int, int], Planned | None] = lambda *_: None
    constant_names: dict[Tensor, str] = field(default_factory=dict)

    @property
    def constants(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays by the name under which the module looks them up."""
        names = self.constant_names.items()
        return {name: np.ascontiguousarray(tensor.value) for tensor, name in names}

    def home(self, tensor: Tensor) -> Tensor:
        """The tensor whose memory it is."""
        return self.storage.get(tensor, tensor)

    def name_constant(self, tensor: Tensor) -> str:
        """The name under which the module looks a constant up."""
        return self.constant_names.setdefault(tensor, f"constant{len(self.constant_names)}")

    def put(self, name: str, func: PrimFunc) -> None:
        """Add a function to the module, or replace one."""
        self.module = IRModule({**self.module.functions, name: func}, self.module.attrs)

    @property
    def entries(self) -> frozenset[str]:
        """The functions of the module that are called from outside: those of native segments."""
        return frozenset(segment.name for segment in self.segments if segment.calls)

    @property
    def kernel_count(self) -> int:
        """How many kernels one run launches."""
        return sum(len(segment.calls) for segment in self.segments)

    @cached_property
    def traffic(self) -> Traffic:
        """The bytes that the kernels read and write in one run."""
        return traffic_of(self.groups)

    @cached_property
    def traffic_unfused(self) -> Traffic:
        """The bytes that would be read and written if each op were a kernel of its own."""
        return traffic_unfused(self.graph)


#: Makes the kernel of a group under a name; it takes these sizes after the tensors.
MakeKernel = Callable[[Group, str, Sequence[Var]], MadeKernel]


def build_program(
    graph: Graph,
    device: DeviceCosts,
    kernel: MakeKernel,
    ready: Callable[[Node], bool] = lambda node: node.op.compute is not None,
    contraction: ChooseContraction = contraction_on_cpu,
) -> Program:
    """The program of a graph without composite ops.

    Args:
        device: what the graph is partitioned for.
        kernel: what makes the kernels.
        ready: whether there is a kernel for a node that stands alone; else the host computes it.
        contraction: the tactic of the device for a matrix product or a convolution.
    """
    return _Builder(graph, device, kernel, ready, contraction).build()


class _Builder:
    def __init__(
        self,
        graph: Graph,
        device: DeviceCosts,
        kernel: MakeKernel,
        ready: Callable[[Node], bool],
        contraction: ChooseContraction,
    ) -> None:
        self.graph = graph
        self.ready = ready
        self.device = device
        self.contraction = contraction
        self.make = kernel
        self.functions: dict[str, PrimFunc] = {}
        self.known: dict[Any, tuple[str, list[int]]] = {}
        self.storage: dict[Tensor, Tensor] = {}
        self.segments: list[Segment] = []
        self.space = space_of_graph(graph)
        self.buckets: dict[str, list[Bucket]] = {}
        self.planned: dict[str, Planned] = {}

    def build(self) -> Program:
        if self.space is not None:
            _check_sizes(self.graph, self.device.most_elements)
        groups = partition(self.graph, self.device, self.contraction)
        if self.device.has_entries and self.space is None:
            share_code(groups)
        self._find_storage(groups)
        for native, turn in self._turns(groups):
            for group in turn:
                if native:
                    self._segment().calls.append(self._call(group))
                else:
                    self.segments.append(Segment(f"host{len(self.segments)}", node=group.anchor))
        self._connect()
        program = Program(
            self.graph,
            IRModule(self.functions),
            self.segments,
            self.storage,
            groups,
            self.device,
            self.space,
            self.buckets,
            self.planned,
        )
        for segment in self.segments:
            if segment.calls:
                connect_calls(program, segment)
        return program

    # ------------------------------------------------------------------ kernels

    def _turns(self, groups: Sequence[Group]) -> list[tuple[bool, list[Group]]]:
        """The groups but for views, so that kernels and the host take the fewest turns."""
        real = [group for group in groups if not group.is_view]
        maker = {tensor: group for group in real for tensor in group.outputs}
        return segments(
            real,
            lambda group: [maker[t] for t in map(self.home, group.inputs) if t in maker],
            lambda group: group.kind != "alone" or self.ready(group.anchor),
        )

    def _segment(self) -> Segment:
        if not self.segments or self.segments[-1].node is not None:
            self.segments.append(Segment(f"{self.graph.name}_{len(self.segments)}"))
        return self.segments[-1]

    def _call(self, group: Group) -> KernelCall:
        """The kernel of a group; groups that compute the same share one."""
        key, operands = signature(group)
        if key not in self.known:
            name = f"kernel{len(self.known)}_{group.label}"
            tensors = self._kernel(group, name)
            self.known[key] = name, [operands.index(t) for t in tensors]
        name, order = self.known[key]
        return KernelCall(name, tuple(operands[k] for k in order))

    def _kernel(self, group: Group, name: str) -> list[Tensor]:
        """Make the functions of a kernel; the tensors that they take."""
        if self.space is None:
            made = self.make(group, name, ())
            self.functions[name] = made.func
            if made.planned is not None:
                self.planned[name] = made.planned
            return made.tensors
        sizes = [symbol.var for symbol in self.space.symbols.values()]
        found = kernel_variants(
            lambda name: self.make(group, name, sizes), name, self.space, self.device.most_variants
        )
        self.functions |= found.functions
        self.planned |= found.planned
        self.buckets[name] = found.buckets
        return found.tensors

    # ------------------------------------------------------------------ memory

    def _find_storage(self, groups: Sequence[Group]) -> None:
        for group in groups:
            if group.is_view:
                for node in group.nodes:
                    source = node.inputs[0]
                    self.storage[node.outputs[0]] = self.storage.get(source, source)

    def home(self, tensor: Tensor) -> Tensor:
        """The tensor whose memory it is."""
        return self.storage.get(tensor, tensor)

    def _uses(self, segment: Segment) -> tuple[list[Tensor], list[Tensor]]:
        """What a segment reads and what it makes, as storage."""
        if segment.node is not None:
            node = segment.node
            return [self.home(t) for t in node.inputs], list(node.outputs)
        reads: dict[Tensor, None] = {}
        made: dict[Tensor, None] = {}
        for call in segment.calls:
            outputs = self.functions[call.kernel].attrs["outputs"]
            split = len(call.tensors) - outputs
            made.update(dict.fromkeys(call.tensors[split:]))
            reads.update(dict.fromkeys(self.home(t) for t in call.tensors[:split]))
        return list(reads), list(made)

    def _connect(self) -> None:
        later = {self.home(t) for t in self.graph.outputs}
        for segment in reversed(self.segments):
            reads, made = self._uses(segment)
            inside = set(made)
            segment.writes = tuple(t for t in made if t in later or segment.node is not None)
            segment.reads = tuple(
                t for t in reads if t not in inside and (segment.node or t.value is None)
            )
            later.update(reads)


def _check_sizes(graph: Graph, largest: int) -> None:
    """Let subscripts be 32-bit numbers.

    Args:
        largest: the most elements that an array may have.

    Raises:
        UnsupportedError: an array may be too large for that.
    """
    for tensor in (*graph.inputs, *(t for node in graph.nodes for t in node.outputs)):
        if bounds_of(tensor.type.size)[1] > largest and not tensor.type.size <= largest:
            raise UnsupportedError(f"{tensor.type} has more than {largest} elements")
