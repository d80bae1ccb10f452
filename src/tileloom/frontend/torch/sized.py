"""Compiled parts that are right for many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from ... import driver
from ...base.errors import InternalError
from ...base.polynomial import Polynomial
from ...graph.nodes import Graph
from ...graph.symbols import at_sizes, space_of_graph
from .kernel import named, runner, watch
from .launch import Run
from .layout import Export
from .place import Place
from .sizes import Binding, need_numbers

#: Combinations of sizes that are remembered.
MOST_SIZES = 4096


def is_sized(graph: Graph) -> bool:
    """Whether a graph has symbolic sizes.

    Raises:
        NumbersNeededError: only as numbers, which kernels without symbolic shapes do not take.
    """
    if space_of_graph(graph) is not None:
        return True
    values = (value for node in graph.nodes for value in node.attrs.values())
    need_numbers(values, "symbolic numbers in a part without symbolic shapes")
    return False


class SizedPart:
    """A graph of symbolic sizes as a function of their values and tensors.

    For each new combination of sizes some objects are made once; see `CompiledPart` for the rest.
    """

    def __init__(
        self,
        graph: Graph,
        exports: Sequence[Export],
        unsure: Sequence[int],
        binding: Binding,
        place: Place,
    ) -> None:
        self.__name__ = named()
        self.graph = graph
        watch(graph)
        self._place = place
        self.program = driver.compile_polymorphic(graph, place.target, place.device)
        self._exports, self._unsure, self._binding = exports, unsure, binding
        self._run_for = lru_cache(MOST_SIZES)(self._make)

    def __call__(self, numbers: tuple[int, ...], *tensors: torch.Tensor) -> list[torch.Tensor]:
        return self._run_for(numbers)(*tensors)

    def _make(self, numbers: tuple[int, ...]) -> Run:
        sizes = self._binding.sizes(numbers)
        if sizes is None:
            raise InternalError(f"a part called with sizes out of bounds: {list(numbers)}")
        exports = [
            Export(e.tensor, at_sizes(e.shape, sizes), at_sizes(e.strides, sizes))
            for e in self._exports
        ]
        shapes = [at_sizes(self.graph.inputs[k].shape, sizes) for k in self._unsure]
        return runner(self.program.at(sizes), exports, shapes, self._unsure, self._place.tensors)


class Numbers:
    """Size expressions, computed once for each combination."""

    def __init__(self, binding: Binding | None) -> None:
        self.__name__ = named()
        self.polynomials: dict[Polynomial, int] = {}
        self._binding = binding
        self._values_for = lru_cache(MOST_SIZES)(self._values)

    def place(self, polynomial: Polynomial) -> int:
        """Where in the result the value of a polynomial is."""
        return self.polynomials.setdefault(polynomial, len(self.polynomials))

    def __call__(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return self._values_for(numbers)

    def _values(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        sizes: Any = {} if self._binding is None else self._binding.sizes(numbers)
        return tuple(polynomial.value(sizes) for polynomial in self.polynomials)
