"""Functions under `jit` that are compiled once for arrays of many sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ... import driver
from ...base.errors import ArgumentError, UnsupportedError, UserError
from ...graph.checks import with_failures
from ...graph.space import Space
from ...graph.symbols import at_sizes, symbol
from ...runtime.polymorphic import PolymorphicExecutable
from .dims import Axes, Dim, alike, axes_of, bind
from .trace import Compiled, Outcome, packaged
from .tree import Leaf

#: Programs for one kind of arguments, each right where the guards of the others do not hold; sizes
#: beyond are compiled for by themselves.
MOST_PROGRAMS = 8
#: Combinations of sizes that are remembered.
MOST_SIZES = 4096


class DynamicCompiled(Compiled):
    """A function under `jit(dynamic_shapes=...)` or `jit(dynamic=True)`.

    Attributes:
        compilations: how many programs were compiled: mostly one for each combination of types.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        target: Any,
        static_argnames: Sequence[str],
        device: str | None = None,
        shapes: Any = None,
    ) -> None:
        super().__init__(function, target, static_argnames, device)
        self.shapes = shapes
        self._programs: dict[Any, list[tuple[PolymorphicExecutable, Outcome]]] = {}
        self._sized: dict[Any, Callable[..., Any]] = {}

    def _find_signature(self) -> inspect.Signature | None:
        return inspect.signature(self.function)

    @property
    def compilations(self) -> int:
        """How many programs were compiled."""
        return len(self._known) + sum(map(len, self._programs.values()))

    def _runner(self, tree: Any, leaves: tuple[Leaf, ...]) -> Callable[..., Any]:
        """The function of the arrays for these kinds of arguments."""
        key = (tree, leaves)
        run = self._sized.get(key)
        if run is None:
            if len(self._sized) >= MOST_SIZES:
                self._sized.clear()
                self._quick.clear()
            run = self._sized[key] = self._sized_runner(tree, leaves)
        return run

    def _sized_runner(self, tree: Any, leaves: tuple[Leaf, ...]) -> Callable[..., Any]:
        found = self._program(tree, leaves)
        if found is None:
            return super()._runner(tree, leaves)
        program, outcome, sizes = found
        structure = at_sizes(outcome.structure, sizes)
        return packaged(program.at(sizes), outcome._replace(structure=structure), leaves)

    def _program(
        self, tree: Any, leaves: tuple[Leaf, ...]
    ) -> tuple[PolymorphicExecutable, Outcome, dict[str, int]] | None:
        """The program for these arguments, what it returns, and the sizes.

        None if it has to be compiled for these sizes alone.
        """
        axes = self._axes(tree, leaves)
        dims, sizes = bind(axes, leaves)
        if not sizes or 0 in sizes.values():
            return None
        key = (tree, _without_sizes(axes, leaves))
        with self._lock:
            known = self._programs.setdefault(key, [])
            for program, outcome in known:
                if program.holds(sizes):
                    return program, outcome, sizes
            if len(known) >= MOST_PROGRAMS:
                return None
            try:
                made = self._compile_open(tree, leaves, axes, dims, sizes)
            except UnsupportedError:
                return None
            known.append(made)
            return *made, sizes

    def _axes(self, tree: Any, leaves: Sequence[Leaf]) -> list[Axes]:
        signature = self._signature
        if signature is None:
            raise ArgumentError("the parameters of the function are not known")
        named = tree[0][1][1]  # the tree of ((), arguments by name)
        names = list(signature.parameters)
        if self.shapes is None:
            places = [axes.argument for axes in axes_of({}, named, names)]
            return alike(leaves, places)
        return axes_of(self.shapes, named, names)

    def _compile_open(
        self,
        tree: Any,
        leaves: Sequence[Leaf],
        axes: Sequence[Axes],
        dims: dict[str, Dim],
        sizes: dict[str, int],
    ) -> tuple[PolymorphicExecutable, Outcome]:
        space = Space()
        symbols = {
            name: symbol(space, name, max(1, dim.min), dim.max, sizes[name])
            for name, dim in dims.items()
        }
        open_leaves = []
        for leaf, (_, wanted) in zip(leaves, axes, strict=True):
            shape = list(leaf.shape)
            for axis, dim in wanted.items():
                shape[axis] = symbols[dim.name]
            open_leaves.append(leaf._replace(shape=tuple(shape)))
        try:
            graph, outcome = self._trace(tree, tuple(open_leaves))
            graph = with_failures(graph, outcome.checks)
            return driver.compile_polymorphic(graph, self.target, self.device), outcome
        except UserError as error:
            if not space.fixed:
                raise
            # What is compiled for one value anyway may want more of them to be numbers.
            raise UnsupportedError(error.message) from error

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Which kernels a call with these arguments takes; compiles the program if need be."""
        leaves, tree, _ = self._arguments(args, kwargs)
        found = self._program(tree, leaves)
        if found is None:
            return "compiled for these sizes alone"
        program, _, sizes = found
        return program.explain(sizes)


def _without_sizes(axes: Sequence[Axes], leaves: Sequence[Leaf]) -> tuple[Any, ...]:
    """The kinds of the arguments with names of dimensions for sizes."""
    kinds = []
    for (_, wanted), leaf in zip(axes, leaves, strict=True):
        shape: list[Any] = list(leaf.shape)
        for axis, dim in wanted.items():
            shape[axis] = dim.name
        kinds.append(leaf._replace(shape=tuple(shape)))
    return tuple(kinds)
