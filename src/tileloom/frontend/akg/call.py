"""One operator being imported, as its handler sees it: inputs, attributes, and ways to refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from ...base.errors import InternalError, UnsupportedError, UserError
from ...graph import ops
from ...graph.nodes import Tensor
from .source import OpDesc, TensorDesc

#: The output, or several.
Handler: TypeAlias = "Callable[[Call], Tensor | Sequence[Tensor]]"
HANDLERS: dict[str, Handler] = {}


@dataclass(frozen=True)
class Call:
    """An operator with its inputs as tensors of the graph."""

    desc: OpDesc
    inputs: tuple[tuple[Tensor, ...], ...]

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.desc.name

    @property
    def output(self) -> TensorDesc:
        """What the file says of the first output."""
        return self.desc.outputs[0]

    # ------------------------------------------------------------------ inputs

    def tensor(self, index: int) -> Tensor:
        """Input `index`."""
        if not (index < len(self.inputs) and self.inputs[index]):
            raise UserError(f"input {index} is missing")
        return self.inputs[index][0]

    def tensors(self) -> list[Tensor]:
        """All inputs, those under one name too."""
        return [tensor for group in self.inputs for tensor in group]

    def pair(self) -> tuple[Tensor, Tensor]:
        """The two operands in one type: that of a tensor rather than of a literal."""
        a, b = self.tensor(0), self.tensor(1)
        kinds = [t.dtype for t in (a, b) if t.value is None] or [a.dtype, b.dtype]
        kind = max(kinds, key=lambda kind: (kind.is_float, not kind.is_bool, kind.bits))
        return ops.cast(a, kind), ops.cast(b, kind)

    # ------------------------------------------------------------------ attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default where it is absent or null."""
        value = self.desc.attrs.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; a list of one will do."""
        value = self.attr(name, default)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            self.bad(name)
        return value

    def flag(self, name: str) -> bool:
        """Whether an attribute is there and true."""
        value = self.attr(name, False)
        if not isinstance(value, (bool, int)):
            self.bad(name)
        return bool(value)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        return str(self.attr(name, default))

    def ints(self, name: str, input_: int | None = None) -> list[int]:
        """A list of integers: an attribute, or a literal input."""
        value = self.attr(name)
        if value is None and input_ is not None:
            value = self.literal(input_)
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            self.bad(name)
        return value

    def literal(self, index: int) -> Any:
        """The value of a literal input; None if there is none."""
        if index >= len(self.inputs) or not self.inputs[index]:
            return None
        value = self.inputs[index][0].value
        if value is None:
            raise UnsupportedError(f"input {index} must be a literal")
        return value.reshape(-1).tolist()

    def bad(self, name: str) -> NoReturn:
        """Refuse an attribute's value."""
        value = self.desc.attrs.get(name)
        if value is None:
            raise UserError(f"attribute {name!r} is missing")
        raise UserError(f"attribute {name!r} has an unusable value {value!r:.60}")


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for operators of these names."""

    def decorate(function: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise InternalError(f"two handlers for {name}")
            HANDLERS[name] = function
        return function

    return decorate
