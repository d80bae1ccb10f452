"""A loaded AKG graph: compiled once, then called with arrays."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.cached import cached_property
from ...base.errors import ArgumentError
from ...driver import compile_graph, plan_graph
from ...graph.nodes import Graph
from ...graph.run import run as interpret
from ...runtime.arrays import as_numpy
from ...target import Target
from ...target import target as parse_target
from .importer import import_composite
from .source import Composite, read_source

#: The target that means: interpret the graph in NumPy.
REFERENCE = "reference"


@dataclass(frozen=True)
class TensorInfo:
    """An input or output.

    Attributes:
        written: of an input, whether a run gives it a new value.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    format: str = "DefaultFormat"
    written: bool = False

    #: As the infos of ONNX models say it.
    is_tensor = True

    @property
    def type(self) -> str:
        """Element type and shape, for messages."""
        return f"{self.dtype}{list(self.shape)}"


class Model:
    """An AKG graph ready to run; made by `load`.

    >>> x = {"tensor_name": "x", "shape": [2], "data_type": "float32", "format": "DefaultFormat"}
    >>> y = {**x, "tensor_name": "y"}
    >>> two = {**x, "tensor_name": "two", "shape": [1], "value": 2.0}
    >>> mul = {"name": "Mul", "attr": None, "input_desc": [[x], [two]], "output_desc": [y]}
    >>> model = load({"op": "double", "op_desc": [mul], "input_desc": [[x]], "output_desc": [y]})
    >>> model.run(None, {"x": np.float32([1, 2])})
    [array([2., 4.], dtype=float32)]
    """

    def __init__(self, source: Composite, target: str, device: str | None = None) -> None:
        self._source = source
        self._target = target
        self._device = device
        imported = import_composite(source)
        self._whole = imported.graph
        self._replaced = dict(imported.replaced)
        written = set(self._replaced.values())
        self.inputs = tuple(
            TensorInfo(d.name, d.shape, d.dtype.numpy, d.format, k in written)
            for k, d in enumerate(source.inputs)
        )
        self.outputs = tuple(
            TensorInfo(d.name, d.shape, d.dtype.numpy, d.format) for d in source.outputs
        )
        self._names = [info.name for info in self.inputs]

    # ------------------------------------------------------------------ description

    @property
    def name(self) -> str:
        """What the file calls the graph."""
        return self._source.name

    @property
    def about(self) -> Mapping[str, Any]:
        """What else the file holds: `process`, `parallel_fusion`, `buffer_stitch`, ..."""
        return self._source.about

    @property
    def graph(self) -> Graph:
        """The tensor graph; new values of inputs that are no outputs of the file come last."""
        return self._whole

    @property
    def replaced(self) -> dict[int, int]:
        """Which output of `graph` is the new value of which input."""
        return dict(self._replaced)

    @cached_property
    def kernel_count(self) -> int:
        """How many kernels a run launches; steps that NumPy takes on the host are not counted."""
        target = Target.host() if self._target == REFERENCE else parse_target(self._target)
        return plan_graph(self._whole, target).kernel_count

    def get_inputs(self) -> list[TensorInfo]:
        """What must be fed."""
        return list(self.inputs)

    def get_outputs(self) -> list[TensorInfo]:
        """What comes out."""
        return list(self.outputs)

    # ------------------------------------------------------------------ running

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs of these names (all if None), in order, for arrays by name.

        Inputs that the graph assigns to are changed, after everything has been read. An output
        that is the new value of an input is that input's own array.
        """
        known = [info.name for info in self.outputs]
        for name in output_names or ():
            _check(name, known, "output")
        try:
            arrays = [feeds[name] for name in self._names]
        except KeyError as error:
            for name in feeds:
                _check(name, self._names, "input")
            raise ArgumentError(f"input {error.args[0]!r} is missing") from None
        if len(feeds) > len(arrays):
            for name in feeds:
                _check(name, self._names, "input")
        results: list[Any] = self.executable(*arrays)[: len(known)]
        return results if output_names is None else [results[known.index(n)] for n in output_names]

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Any, ...]:
        """All outputs, for inputs in order or by name."""
        if len(arrays) > len(self.inputs):
            raise ArgumentError(f"{len(arrays)} arrays for {len(self.inputs)} inputs")
        feeds = {info.name: array for info, array in zip(self.inputs, arrays, strict=False)}
        twice = sorted(feeds.keys() & named.keys())
        if twice:
            raise ArgumentError(f"input {twice[0]!r} is given twice")
        return tuple(self.run(None, {**feeds, **named}))

    @cached_property
    def executable(self) -> Any:
        """The compiled program: from the arrays of the inputs to those of `graph.outputs`."""
        if self._target == REFERENCE or not self._whole.outputs:
            return self._interpret
        return compile_graph(
            self._whole, self._target, self._replaced, exact=True, device=self._device
        )

    def _interpret(self, *arrays: Any) -> list[Any]:
        given = [as_numpy(array) for array in arrays]
        results: list[Any] = [np.array(value) for value in interpret(self._whole, given)]
        for output, parameter in self._replaced.items():
            given[parameter][...] = results[output]
            results[output] = given[parameter]
        return results


def _check(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else None
        raise ArgumentError(f"the graph has no {what} {name!r}", hint=hint)


def load(source: Any, *, target: str = "cpu", device: str | None = None) -> Model:
    """Load and compile an AKG graph.

    Args:
        source: the path of a `.json` or `.info` file, its text, or what `json.load` made of it.
        target: what to compile for; "reference" interprets the graph in NumPy.
        device: "emulator" runs code for the target "cuda" on the CPU.

    Raises:
        UserError: the file is malformed.
        UnsupportedError: an operator or a type is not supported; it is named, with its place.
    """
    model = Model(read_source(source), target, device)
    model.executable  # noqa: B018  (compiles now)
    return model
