"""Graphs with symbolic sizes: one program for all, and programs for single sizes.

A program is right for the sizes for which its guards hold; others get another one. What cannot be
compiled with symbolic sizes is compiled anew for each combination of shapes that comes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ...base.compiling import compiling
from ...base.errors import UnsupportedError
from ...base.forking import ForkLock
from .assemble import assemble
from .parts import reason
from .report import notice_of, report
from .sized import MOST_SIZES, SizedPart
from .sizes import Binding, NumbersNeededError, SizeSymbol, bind
from .types import is_static

Run = Callable[[list[Any]], Any]
#: From a graph to a function of a list of arguments, which it empties.
Box = Callable[[fx.GraphModule], Run]

#: Programs for one graph, each right where the guards of the others do not hold; further sizes are
#: compiled for by themselves.
MOST_PROGRAMS = 8
#: Programs for single sizes of one graph; then the oldest makes room for the next.
MOST_SINGLE = 64


def has_symbols(module: fx.GraphModule) -> bool:
    """Whether the shape of some value is not known."""
    return not all(is_static(node.meta.get("val")) for node in module.graph.nodes)


def for_sizes(module: fx.GraphModule, box: Box, compile_static: Box) -> Run:
    """A function of a list of arguments, which it empties; for each sizes it finds a program.

    Args:
        box: makes functions of joined graphs.
        compile_static: compiles a graph whose shapes are numbers.
    """
    single = specialized(module, compile_static)
    try:
        binding = bind(module.graph)
    except UnsupportedError:  # all symbols depend on data
        return single
    except Exception as error:
        report().specialize(reason(error))
        return single
    programs = _Programs(module, binding, box, single)
    numbers_of, known = _numbers_of(binding.symbols), programs.known

    def run(args: list[Any]) -> Any:
        numbers = numbers_of(args)
        function = known.get(numbers)
        if function is None:
            function = programs.find(numbers)
        return function(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # PyTorch's name for this way of calling
    return run


def _numbers_of(symbols: Sequence[SizeSymbol]) -> Callable[[list[Any]], tuple[int, ...]]:
    """What reads the symbols' values off the arguments."""
    places = [each.source for each in symbols]
    if len(places) > 1 and all(place.axis is None for place in places):
        return itemgetter(*(place.argument for place in places))

    def read(args: list[Any]) -> tuple[int, ...]:
        return tuple([
            args[k] if axis is None else args[k].shape[axis] for k, axis in places
        ])  # fmt: skip

    return read


class _Program:
    """A graph compiled for all sizes for which some guards hold."""

    def __init__(
        self,
        module: fx.GraphModule,
        binding: Binding,
        box: Box,
        hints: Mapping[str, int],
        fixed: Set[str],
    ) -> None:
        sizes = binding.open(hints, fixed)
        self._fixed = {name: hints[name] for name in fixed}
        joined = assemble(_copied(module), sizes, binding)
        targets = (node.target for node in joined.graph.nodes)
        self._parts = [part.program for part in targets if isinstance(part, SizedPart)]
        self._guards = () if sizes.space is None else tuple(sizes.space.guards)
        self._perhaps_zero = list(sizes.perhaps_zero)
        self.run = box(joined)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is right for these sizes. Nothing is made of dimensions of nothing."""
        return (
            all(sizes[name] == number for name, number in self._fixed.items())
            and all(guard.value(sizes) >= 0 for guard in self._guards)
            and all(extent.value(sizes) > 0 for extent in self._perhaps_zero)
            and all(part.holds(sizes) for part in self._parts)
        )


class _Programs:
    """The programs of a graph.

    Attributes:
        known: functions by the values of the symbols.
    """

    def __init__(self, module: fx.GraphModule, binding: Binding, box: Box, single: Run) -> None:
        self.module = module
        self.binding = binding
        self.box = box
        self.single = single
        self.known: dict[tuple[int, ...], Run] = {}
        self._programs: list[_Program] = []
        self._most = MOST_PROGRAMS
        self._fixed: frozenset[str] = frozenset()
        self._lock = ForkLock()

    def find(self, numbers: tuple[int, ...]) -> Run:
        """The function for some values, compiled if there is none yet."""
        with self._lock:
            if len(self.known) >= MOST_SIZES:
                self.known.clear()
            found = self.known[numbers] = self._find(numbers)
        return found

    def _find(self, numbers: tuple[int, ...]) -> Run:
        sizes = self.binding.sizes(numbers)
        if sizes is None:
            return self.single
        for program in self._programs:
            if program.holds(sizes):
                return program.run
        if len(self._programs) >= self._most:
            return self.single
        made = self._compiled(sizes)
        if made is None or not made.holds(sizes):
            return self.single
        self._programs.append(made)
        return made.run

    def _compiled(self, sizes: Mapping[str, int]) -> _Program | None:
        """A new program; None if there has to be one for each combination of sizes."""
        while not self._fixed.issuperset(sizes):
            try:
                return _compiled_for_many(self.module, self.binding, self.box, sizes, self._fixed)
            except NumbersNeededError as error:
                report().specialize(str(error))
                self._fixed |= error.names
            except Exception as error:
                report().specialize(reason(error))
                break
        self._most = len(self._programs)
        return None


@compiling
def _compiled_for_many(
    module: fx.GraphModule,
    binding: Binding,
    box: Box,
    hints: Mapping[str, int],
    fixed: Set[str],
) -> _Program:
    return _Program(module, binding, box, hints, fixed)


# ---------------------------------------------------------------------------- single sizes


def specialized(module: fx.GraphModule, compile_static: Box) -> Run:
    """A function of a list of arguments, which it empties; it compiles once for each shapes."""
    known: dict[Any, Run] = {}

    def run(args: list[Any]) -> Any:
        key = tuple([_kind(value) for value in args])
        function = known.get(key)
        if function is None:
            while len(known) >= MOST_SINGLE:
                known.pop(next(iter(known)))
            function = known[key] = _compiled(module, args, compile_static)
        return function(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _compiled(module: fx.GraphModule, args: Sequence[Any], compile_static: Box) -> Run:
    try:
        return compile_static(concrete(module, args))
    except Exception as error:  # shapes that even PyTorch cannot foresee
        notice_of(module.graph).give_up("a whole graph", f"{type(error).__name__}: {error}")
        return lambda given: module(*given)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride()
    return value


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    return fx.GraphModule(module, copy.deepcopy(module.graph))


def concrete(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """A copy of a graph, with the shapes that follow from these arguments in `meta["val"]`."""
    copied = _copied(module)
    # The environment is for sizes that depend on data, which stay symbols.
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
        fakes = [
            mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a
            for a in args
        ]
        _Shapes(copied).run(*fakes)
    return copied


class _Shapes(fx.Interpreter):  # type: ignore[misc]
    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = value
        return value
