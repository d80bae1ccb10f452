"""What the driver asks of a target and a device: to plan, to compile, to load."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ..base.errors import UnsupportedError
from ..base.polynomial import Number
from ..graph.nodes import Graph
from ..runtime.device import Device
from ..runtime.serialized import Code, SerializedExecutable
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc

if TYPE_CHECKING:
    from ..graph.optimize import OptimizeReport
    from ..graph.program import Program
    from ..plan.cuda.tactics import TacticStage
    from .plan import Watch


@dataclass(frozen=True)
class CompiledCode:
    """The code of a program.

    Attributes:
        data: as the backend's `load` reads it; empty if there is no kernel.
        numbers: what kernels take after arrays, by their names.
    """

    data: bytes = b""
    numbers: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)


class Backend(Protocol):
    """Kernels for a target, on a device."""

    @property
    def target(self) -> Target:
        """What kernels are made for."""

    @property
    def device(self) -> Device:
        """Where they run."""

    @property
    def key(self) -> str:
        """All that compiled programs depend on beside the graph and the settings."""

    @staticmethod
    def device_named(name: str | None) -> Device:
        """The device, which need not be there yet."""

    @staticmethod
    def plan_graph(
        graph: Graph,
        target: Target,
        watch: Watch | None = None,
        report: OptimizeReport | None = None,
    ) -> Program:
        """The kernels of a graph, before lowering."""

    @staticmethod
    def tactic_stages(blocks: PrimFunc) -> Sequence[TacticStage]:
        """A kernel of blocks after each of the tactics that schedule it without a search.

        Raises:
            UserError: kernels for the target are not made by tactics.
        """

    @staticmethod
    def llvm_ir(module: IRModule, target: Target, entries: Collection[str] | None = None) -> str:
        """LLVM IR text of functions, before LLVM has optimised it.

        Args:
            entries: the functions that are called from outside; None if all may be. Kernels for
                GPUs are launched one by one, so that all of them are.
        """

    def build(
        self, module: IRModule, checked: bool | None = None, strict_sync: bool = False
    ) -> Mapping[str, Any]:
        """What Python calls for each function; see `driver.build`."""

    def compile(self, program: Program) -> CompiledCode:
        """The code of a program, to be kept on disk."""

    def load(self, program: SerializedExecutable, data: bytes) -> Code:
        """What was compiled, in this process."""


def backend_class(target: Target) -> type[Backend]:
    """What makes kernels for a kind of target, wherever they may run."""
    return _class_of(target, None)


def backend_of(target: Any, device: str | None = None) -> Backend:
    """What makes kernels for a target and runs them.

    Args:
        target: "cpu", "cuda", or a `Target`.
        device: "emulator" runs code for GPUs on the CPU; "cuda:1" is the second GPU.

    Raises:
        UnsupportedError: the device does not run such code.
    """
    found: Any = _class_of(target, device)
    made: Backend = found(target, device)
    return made


def device_of(target: Any, device: str | None = None) -> Device:
    """Where kernels for a target run, and arguments may lie; it need not be there yet."""
    return _class_of(target, device).device_named(device)


def _class_of(target: Any, device: str | None) -> type[Backend]:
    wanted = parse_target(target)
    kind = (device or wanted.kind).partition(":")[0]
    module = _BACKENDS.get((wanted.kind, kind))
    if module is None:
        raise UnsupportedError(
            f"there is no device {device!r} for the target {wanted}",
            hint='the device "emulator" runs code for the target "cuda"',
        )
    found: type[Backend] = import_module(module, __package__).BACKEND
    return found


#: Modules by the kinds of target and device; each names its class `BACKEND`.
_BACKENDS = {
    ("cpu", "cpu"): ".cpu",
    ("cuda", "cuda"): ".cuda",
    ("cuda", "emulator"): ".emulator",
}
