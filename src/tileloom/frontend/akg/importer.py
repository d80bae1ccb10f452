"""A composite as a tensor graph: pure, with what replaces inputs as further outputs.

Operators run in the order of the file. `InplaceAssign` and `Assign` give a parameter a new value;
later operators that read the parameter read that value.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...base.errors import ShapeError, UnsupportedError, UserError
from ...graph import ops
from ...graph.nodes import Graph, Tensor, TensorType
from . import handlers
from .call import HANDLERS, Call
from .source import Composite, OpDesc, TensorDesc

_ASSIGNMENTS = ("InplaceAssign", "Assign")


@dataclass(frozen=True)
class ImportedKernel:
    """A graph; output `k` is the new value of input `replaced[k]`."""

    graph: Graph
    replaced: Mapping[int, int]


def import_composite(source: Composite) -> ImportedKernel:
    """The graph of a composite.

    Raises:
        UserError: the file contradicts itself; names the operator and its place.
        UnsupportedError: an operator is not known, or not supported.
    """
    return _Importer(source).run()


class _Importer:
    def __init__(self, source: Composite) -> None:
        self.source = source
        self.inputs = [Tensor(TensorType(d.shape, d.dtype), d.name) for d in source.inputs]
        self.values = {tensor.name: tensor for tensor in self.inputs}
        self.assigned: dict[str, Tensor] = {}

    def run(self) -> ImportedKernel:
        if len(self.values) != len(self.inputs):
            raise UserError(f"AKG graph {self.source.name!r}: two inputs have the same name")
        for index, desc in enumerate(self.source.ops):
            self._import(index, desc)
        outputs = [self._output(desc) for desc in self.source.outputs]
        names = [desc.name for desc in self.source.outputs]
        replaced: dict[int, int] = {}
        for name, value in self.assigned.items():
            parameter = self._index(name)
            if value is self.inputs[parameter]:
                continue
            free = [k for k, out in enumerate(outputs) if out is value and k not in replaced]
            if not free:
                free = [len(outputs)]
                outputs.append(value)
                names.append(name)
            replaced[free[0]] = parameter
        return ImportedKernel(Graph(self.inputs, outputs, names, self.source.name), replaced)

    def _index(self, name: str) -> int:
        return next(k for k, tensor in enumerate(self.inputs) if tensor.name == name)

    def _output(self, desc: TensorDesc) -> Tensor:
        try:
            return _declared(self._lookup(desc), desc)
        except UserError as error:
            raise type(error)(f"AKG graph {self.source.name!r}: {error.message}") from None

    # ------------------------------------------------------------------ operators

    def _import(self, index: int, desc: OpDesc) -> None:
        try:
            inputs = tuple(tuple(self._value(part) for part in group) for group in desc.inputs)
            if desc.name in _ASSIGNMENTS:
                results = self._assign(desc, inputs)
            else:
                results = _results(Call(desc, inputs))
            if len(results) != len(desc.outputs):
                raise UserError(f"it has {len(results)} outputs, {len(desc.outputs)} are named")
            for tensor, output in zip(results, desc.outputs, strict=True):
                self.values[output.name] = _declared(tensor, output)
        except UserError as error:
            place = f"AKG graph {self.source.name!r}, op {index} ({desc.name})"
            raise type(error)(f"{place}: {error.message}", hint=error.hint) from None

    def _assign(self, desc: OpDesc, inputs: tuple[tuple[Tensor, ...], ...]) -> list[Tensor]:
        """parameter, new value[, result]: the result is the new value unless it is named."""
        if len(inputs) < 2 or not all(inputs):
            raise UserError("it needs a parameter and its new value")
        parameter = desc.inputs[0][0]
        if parameter.value is not None:
            raise UserError("it writes to a literal")
        value = _declared(inputs[1][0], parameter)
        # The result is read before the parameter changes, as the operand that it is.
        result = inputs[2][0] if len(inputs) > 2 else value
        self.values[parameter.name] = value
        if any(tensor.name == parameter.name for tensor in self.inputs):
            self.assigned[parameter.name] = value
        if len(inputs) > 2 and desc.inputs[2][0].name == parameter.name:
            result = value
        return [result]

    # ------------------------------------------------------------------ values

    def _value(self, desc: TensorDesc) -> Tensor:
        if desc.value is None:
            return self._lookup(desc)
        array = np.asarray(desc.value)
        if array.size not in (1, _size(desc)):
            raise ShapeError(
                f"literal {desc.name!r} of shape {list(desc.shape)} has {array.size} values"
            )
        if array.size == _size(desc):
            return ops.constant(array.reshape(desc.shape), desc.dtype)
        return ops.broadcast_to(ops.constant(array.reshape(()), desc.dtype), desc.shape)

    def _lookup(self, desc: TensorDesc) -> Tensor:
        found = self.values.get(desc.name)
        if found is None:
            close = difflib.get_close_matches(desc.name, self.values, 1)
            hint = f"did you mean {close[0]!r}?" if close else None
            raise UserError(f"nothing before it makes {desc.name!r}", hint=hint)
        return found


def _size(desc: TensorDesc) -> int:
    return TensorType(desc.shape, desc.dtype).size


def _results(call: Call) -> list[Tensor]:
    known = HANDLERS.get(call.op)
    if known is None:
        close = difflib.get_close_matches(call.op, HANDLERS, 1)
        hint = f"did you mean {close[0]!r}?" if close else None
        raise UnsupportedError("this operator is not known", hint=hint)
    made = known(call)
    return [made] if isinstance(made, Tensor) else list(made)


def _declared(tensor: Tensor, desc: TensorDesc) -> Tensor:
    """The tensor with the shape and type that the file says it has.

    Files keep the extents of 1 that a reduction drops, and leave conversions to the operators.
    """
    if tensor.shape != desc.shape:
        if tensor.type.size != _size(desc):
            raise ShapeError(
                f"{desc.name!r} has shape {list(tensor.shape)}, the file says {list(desc.shape)}"
            )
        tensor = ops.reshape(tensor, desc.shape)
    return ops.cast(tensor, desc.dtype)


__all__ = ["HANDLERS", "ImportedKernel", "handlers", "import_composite"]
