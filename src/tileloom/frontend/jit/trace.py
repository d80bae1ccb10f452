"""`jit`: a NumPy-style function, traced and compiled for each combination of shapes and types."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from ... import driver
from ...base import dtype
from ...base.cached import cached_property
from ...base.errors import ArgumentError, DTypeError
from ...base.forking import ForkLock
from ...graph.checks import Check, checked, with_failures
from ...graph.nodes import Graph, Tensor, TensorType
from ...runtime.device import Device
from ...target import target as parse_target
from .array import Array, lift
from .context import describe, trace, tracing
from .inplace import Storage
from .tree import Leaf, flatten, frozen, kind_of, unflatten


class Outcome(NamedTuple):
    """What a traced function returns beside the graph.

    Attributes:
        structure: of the result, with places for the outputs.
        checks: what the program has to look at.
    """

    structure: Any
    checks: Sequence[Check]


class Compiled:
    """A function under `jit`. Calling it compiles once for each new kind of arguments.

    Attributes:
        function: as it was written.
        compilations: how many kinds of arguments were compiled for.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        target: Any,
        static_argnames: Sequence[str],
        device: str | None = None,
        tune: int | None = None,
    ) -> None:
        if not callable(function):
            raise ArgumentError(
                f"jit compiles functions, not {type(function).__name__}",
                hint="write @jit above a function, or jit(function)",
            )
        self.function = function
        self.target = target
        self.device = device
        self.tune = tune
        self.static = frozenset(static_argnames)
        self._known: dict[Any, Callable[..., Any]] = {}
        self._quick: dict[Any, Callable[..., Any]] = {}  # the same, where all arguments are arrays
        self._lock = ForkLock()
        self._signature = self._find_signature()
        update_wrapper(self, function)
        self._check_static()

    def _find_signature(self) -> inspect.Signature | None:
        """The parameters by name, where they are needed."""
        return inspect.signature(self.function) if self.static else None

    def _check_static(self) -> None:
        if self._signature is None:
            return
        missing = self.static - set(self._signature.parameters)
        if missing:
            name = getattr(self.function, "__name__", "the function")
            raise ArgumentError(f"{name} has no parameters {sorted(missing)} to be static")

    @cached_property
    def _memory(self) -> Device:
        """Where arguments may lie."""
        return driver.device_of(self.target, self.device)

    @property
    def compilations(self) -> int:
        """How many kinds of arguments were compiled for."""
        return len(self._known)

    def __repr__(self) -> str:
        count = self.compilations
        times = f"{count} program{'' if count == 1 else 's'} compiled"
        return f"<tileloom.jit of {describe(self.function)} for {self.target}, {times}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result for these arguments, computed by compiled code.

        Raises:
            TraceError: the function wants to know values while it is traced.
            ArgumentError: an argument is of no supported type.
        """
        kinds = None if kwargs else _kinds(args)
        if kinds is not None:
            run = self._quick.get(kinds)
            if run is not None:
                return run(*args)
        if tracing() and _has_traced((args, kwargs)):
            return self.function(*args, **kwargs)  # becomes part of the function being traced
        leaves, tree, arrays = self._arguments(args, kwargs)
        run = self._runner(tree, leaves)
        result = run(*arrays)
        if kinds is not None:
            self._quick[kinds] = run
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The function as a method; the instance is part of the program."""
        return self if instance is None else MethodType(self, instance)

    def _runner(self, tree: Any, leaves: tuple[Leaf, ...]) -> Callable[..., Any]:
        """The compiled function of the arrays for these kinds of arguments."""
        key = (tree, leaves)
        run = self._known.get(key)
        if run is None:
            with self._lock:
                run = self._known.get(key)
                if run is None:
                    run = self._known[key] = self._compile(tree, leaves)
        return run

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """What is traced for these arguments."""
        leaves, tree, _ = self._arguments(args, kwargs)
        return self._trace(tree, leaves)[0]

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any, list[Any]]:
        if self._signature is not None:
            bound = self._signature.bind(*args, **kwargs)
            named = bound.arguments
            fixed = tuple((n, _Static(v)) for n, v in named.items() if n in self.static)
            free = {n: v for n, v in named.items() if n not in self.static}
            leaves, tree, arrays = flatten(((), free), self._memory)
            return leaves, (tree, fixed), arrays
        leaves, tree, arrays = flatten((args, kwargs), self._memory)
        return leaves, (tree, ()), arrays

    def _trace(self, key: Any, leaves: tuple[Leaf, ...]) -> tuple[Graph, Outcome]:
        tree, fixed = key
        inputs = [Tensor(TensorType(leaf.shape, leaf.dtype), leaf.name) for leaf in leaves]
        name = getattr(self.function, "__name__", "")
        with trace(describe(self.function)) as running:
            traced = list(map(_argument, inputs, leaves))
            args, kwargs = unflatten(tree, iter(traced))
            if self._signature is not None:
                values = {**kwargs, **{name: value.value for name, value in fixed}}
                order = [name for name in self._signature.parameters if name in values]
                bound = inspect.BoundArguments(
                    self._signature, OrderedDict((name, values[name]) for name in order)
                )
                args, kwargs = bound.args, bound.kwargs
            result = self.function(*args, **kwargs)
            graph, structure = _finish(result, inputs, name if name.isidentifier() else "main")
            is_checked = not parse_target(self.target).is_asynchronous
            checks = running.checks if is_checked else []
            return graph, Outcome(structure, checks)

    def _compile(self, tree: Any, leaves: tuple[Leaf, ...]) -> Callable[..., Any]:
        graph, outcome = self._trace(tree, leaves)
        graph = with_failures(graph, outcome.checks)
        executable = driver.compile_graph(graph, self.target, device=self.device, tune=self.tune)
        return packaged(executable, outcome, leaves)


def _kinds(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Shapes and types of NumPy arrays, found quickly; None if something else is among them."""
    kinds: list[Any] = []
    for value in values:
        if type(value) is not np.ndarray:
            return None
        kinds.append(value.shape)
        kinds.append(value.dtype)
    return tuple(kinds)


def _has_traced(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_traced, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_traced, value))
    return isinstance(value, Array)


def _argument(tensor: Tensor, leaf: Leaf) -> Array:
    array = Array(tensor, leaf.weak)
    if not (leaf.weak or leaf.scalar):
        array.memory = Storage(borrowed=True)
    return array


class _Static:
    """An argument that is part of the program: compared by value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = frozen(value)

    def __hash__(self) -> int:
        try:
            return hash(self.key)
        except TypeError:
            raise ArgumentError(
                f"a static argument must be hashable, got {type(self.value).__name__}"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and bool(self.key == other.key)


def _finish(result: Any, inputs: Sequence[Tensor], name: str) -> tuple[Graph, Any]:
    outputs: list[Tensor] = []

    def leaf(value: Any) -> Any:
        if not isinstance(value, Array) and type(value) is not np.ndarray:
            return False
        try:
            outputs.append(lift(value).tensor)
        except DTypeError:  # an array of what is not computed with
            return False
        return True

    try:
        structure = _structure(result, leaf)
    except RecursionError:
        raise ArgumentError("what the function returns is nested too deeply") from None
    return Graph(inputs, outputs, name=name), structure


def _structure(value: Any, leaf: Callable[[Any], bool]) -> Any:
    if leaf(value):
        return "leaf"
    if isinstance(value, dict):
        items = tuple((key, _structure(part, leaf)) for key, part in value.items())
        return ("dict", items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ("named", type(value), tuple(_structure(part, leaf) for part in value))
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return (kind, tuple(_structure(part, leaf) for part in value))
    return ("value" if _immutable(value) else "copied", value)


def _immutable(value: Any) -> bool:
    """Whether all calls may return one object that the function has made once."""
    mutable = (np.ndarray, set, bytearray)
    return not isinstance(value, mutable) and kind_of(value) != "torch"


def packaged(executable: Any, outcome: Outcome, leaves: Sequence[Leaf]) -> Callable[..., Any]:
    """A program as a function of arrays that answers as the traced function does.

    Args:
        leaves: the arguments; where a PyTorch tensor is among them, the results are tensors.
    """
    structure = outcome.structure
    if outcome.checks:
        executable = checked(executable, outcome.checks)
    if any(leaf.torch for leaf in leaves):
        return lambda *arrays: unflatten(structure, map(_as_torch, executable(*arrays)))
    if structure == "leaf" and outcome.checks:
        return lambda *arrays: executable(*arrays)[0]
    if structure == "leaf":
        single: Callable[..., Any] = executable.single
        return single
    return lambda *arrays: unflatten(structure, iter(executable(*arrays)))


def _as_torch(array: Any) -> Any:
    torch = sys.modules["torch"]
    if not isinstance(array, np.ndarray):
        return torch.from_dlpack(array)  # on a GPU
    if array.dtype == dtype("bfloat16").numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
