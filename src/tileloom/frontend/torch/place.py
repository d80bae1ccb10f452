"""Where the parts of a traced graph run: the device of their tensors, what code is made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ...base.errors import UnsupportedError
from ...target import target as parse_target

_CPU = torch.device("cpu")
_NOTE = "tileloom_place"


@dataclass(frozen=True)
class Place:
    """A place for parts.

    Attributes:
        tensors: the device on which PyTorch has what they take and give.
        target, device, tune: as `driver.compile_graph` takes them.
    """

    tensors: torch.device = _CPU
    target: Any = "cpu"
    device: str | None = None
    tune: int | None = None

    @property
    def prepares_weights(self) -> bool:
        """Whether weights may be laid out ahead, as kernels for CPUs read them."""
        return not parse_target(self.target).is_asynchronous

    def check(self, node: fx.Node) -> None:
        """Refuse a node whose tensors are elsewhere.

        Raises:
            UnsupportedError: naming the device.
        """
        for tensor in _tensors(node):
            if tensor.device != self.tensors:
                raise UnsupportedError(f"tensors on {tensor.device} beside those on {self.tensors}")


def settle(
    graph: fx.Graph, target: Any = None, device: str | None = None, tune: int | None = None
) -> None:
    """Note where the parts of a graph and of its copies run.

    Args:
        target, device: what the user asked for; else what runs where the graph's tensors are.
        tune: candidates to measure before parts are compiled.
    """
    found = [tensor.device for node in graph.nodes for tensor in _tensors(node)]
    tensors = next((each for each in found if each.type != "cpu"), _CPU)
    if target is None and device is None:
        target, device = tensors.type, None if tensors == _CPU else str(tensors)
    (output,) = graph.find_nodes(op="output")
    output.meta[_NOTE] = Place(tensors, target or "cuda", device, tune)


def place_of(graph: fx.Graph) -> Place:
    """Where the parts of a traced graph run."""
    (output,) = graph.find_nodes(op="output")
    found: Place = output.meta.get(_NOTE, Place())
    return found


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    values = node.meta.get("val")
    for value in values if isinstance(values, (list, tuple)) else [values]:
        if isinstance(value, torch.Tensor):
            yield value
