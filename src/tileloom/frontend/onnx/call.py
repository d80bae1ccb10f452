"""One node being imported, as its handler sees it: inputs, attributes, and ways to refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
from onnx import GraphProto, TensorProto

from ...base.errors import UnsupportedError, UserError
from ...graph.checks import Check
from ...graph.nodes import Tensor
from .values import Array, Value

_T = TypeVar("_T")
#: Longer lists of integers (shapes, axes, pads) are not believed.
_LONGEST_LIST = 4096


@dataclass(frozen=True)
class Services:
    """What a handler may ask of the importer.

    Attributes:
        array: the value of a tensor; may end this import, to be resumed when the value is known.
        extents: the same as a list, in which extents without a number may be.
        array_of: the same of a tensor that the handler made itself; once for each node.
        run_graph: import a subgraph, with values for its inputs; its outputs. The label tells
            the names of one run from those of another.
        to_array: the array of a TensorProto, external data included.
        checks: what the program has to look at while it runs.
    """

    array: Callable[[Tensor], Array]
    extents: Callable[[Tensor], list[Any]]
    array_of: Callable[[Tensor], Array]
    run_graph: Callable[[GraphProto, Sequence[Value], str], list[Value]]
    to_array: Callable[[TensorProto], Array]
    checks: list[Check]


@dataclass(frozen=True)
class Call:
    """A node: `version` is the opset of its domain."""

    op: str
    domain: str
    version: int
    inputs: Sequence[Value]
    outputs: Sequence[str]
    attrs: dict[str, Any]
    services: Services

    # ------------------------------------------------------------------ inputs

    def has(self, index: int) -> bool:
        """Whether the input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def tensor(self, index: int) -> Tensor:
        """Input `index`, which must be a tensor that the graph computes with."""
        value = self.optional(index)
        if value is None:
            raise UserError(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Tensor | None:
        """Input `index` or None."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None or isinstance(value, Tensor):
            return value
        if isinstance(value, list):
            raise UserError(f"input {index} is a sequence, a tensor is needed")
        name = "string" if value.dtype == np.dtype(object) else value.dtype.name
        raise UnsupportedError(f"input {index} has element type {name}, which is not supported")

    def tensors(self) -> list[Tensor]:
        """All inputs."""
        return [self.tensor(index) for index in range(len(self.inputs))]

    def sequence(self, index: int) -> list[Value]:
        """Input `index`, which must be a sequence."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, list):
            raise UserError(f"input {index} must be a sequence")
        return value

    def array(self, index: int) -> Array:
        """The value of input `index`, which the result's shape or structure depends on."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise UserError(f"input {index} is missing")
        if isinstance(value, list):
            raise UserError(f"input {index} is a sequence, a tensor is needed")
        return self.services.array(value) if isinstance(value, Tensor) else value

    def integers(self, index: int) -> list[int]:
        """The value of input `index`, a list of integers."""
        self._check_list(index)
        found = self.array(index)
        if found.dtype.kind not in "iu":
            raise UserError(f"input {index} must have an integer type, not {found.dtype}")
        return [int(item) for item in found.reshape(-1)]

    def extents(self, index: int) -> list[int]:
        """The same where extents without a number will do."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, Tensor) or not value.dtype.is_int:
            return self.integers(index)
        self._check_list(index)
        return self.services.extents(value)

    def _check_list(self, index: int) -> None:
        value = self.inputs[index]
        if isinstance(value, Tensor) and value.type.size > _LONGEST_LIST:
            raise UserError(f"input {index} has too many elements for a list of dimensions")

    def optional_extents(self, index: int) -> list[int] | None:
        """The same, or None if the input is absent."""
        return self.extents(index) if self.has(index) else None

    def optional_integers(self, index: int) -> list[int] | None:
        """The same, or None if the input is absent."""
        return self.integers(index) if self.has(index) else None

    def scalar(self, index: int) -> Any:
        """The one number in input `index`."""
        found = self.array(index)
        if found.size != 1:
            raise UserError(f"input {index} must have one element, not shape {list(found.shape)}")
        return found.reshape(-1)[0].item()

    def extent(self, index: int) -> Any:
        """The same where an extent without a number will do."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, Tensor) or value.type.size != 1:
            return self.scalar(index)
        return self.services.extents(value)[0]

    # ------------------------------------------------------------------ attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        found: int = self._attr(name, int, default)
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that says yes or no."""
        return bool(self._attr(name, int, int(default)))

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute."""
        return float(self._attr(name, (float, int), default))

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute."""
        found: str = self._attr(name, str, default)
        return found

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """A list-of-integers attribute."""
        return list(self._list(name, int, default))

    def optional_ints(self, name: str) -> list[int] | None:
        """A list-of-integers attribute, or None."""
        return list(self._list(name, int, None)) if name in self.attrs else None

    def numbers(self, name: str, default: Sequence[float] | None = None) -> list[float]:
        """A list-of-floats attribute."""
        return [float(item) for item in self._list(name, (float, int), default)]

    def texts(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """A list-of-strings attribute."""
        return list(self._list(name, str, default))

    def graph(self, name: str) -> GraphProto:
        """A graph attribute."""
        return self._attr(name, GraphProto, None)

    def constant(self, name: str) -> Array | None:
        """A tensor attribute as an array, or None."""
        proto = self.attrs.get(name)
        if proto is None:
            return None
        if not isinstance(proto, TensorProto):
            self.bad(name)
        return self.services.to_array(proto)

    def _attr(self, name: str, kind: Any, default: Any) -> Any:
        value = self.attrs.get(name, default)
        if value is None:
            raise UserError(f"attribute {name!r} is missing")
        if not isinstance(value, kind):
            self.bad(name)
        return value

    def _list(self, name: str, kind: Any, default: Sequence[_T] | None) -> Sequence[_T]:
        value = self.attrs.get(name, default)
        if value is None:
            raise UserError(f"attribute {name!r} is missing")
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, kind) for v in value):
            self.bad(name)
        return value

    def bad(self, name: str) -> NoReturn:
        """Refuse an attribute's value."""
        raise UserError(f"attribute {name!r} has an unusable value {self.attrs.get(name)!r:.80}")

    def unsupported(self, what: str) -> NoReturn:
        """Refuse what is legal ONNX, but not supported."""
        raise UnsupportedError(f"{what} is not supported")

    # ------------------------------------------------------------------ results

    def wants(self, index: int) -> bool:
        """Whether output `index` is used."""
        return index < len(self.outputs) and self.outputs[index] != ""

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """A string attribute that must be one of a few."""
        value = self.text(name, default)
        if value not in allowed:
            raise UserError(f"attribute {name!r} is {value!r}; known are {', '.join(allowed)}")
        return value
