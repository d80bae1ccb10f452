"""Where an operator runs if not on the CPU: what its arrays are, and what runs kernels there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from .... import target as targets
from ....base.errors import UnsupportedError
from ....base.late import load
from ..compiled import compiled
from ..results import given

Array = Any
Kind = np.dtype[Any]
_EMULATOR = "emulator"


class OperatorPlace(Protocol):
    """A GPU with PyTorch's tensors in its memory, or the emulator with arrays in the CPU's.

    Attributes:
        target, device: what kernels are made for, as `tileloom.build` takes it.
    """

    target: Any
    device: str

    def own(self, array: Any) -> Array:
        """An array of the place over the memory of an operand."""

    def kind(self, array: Array) -> Kind:
        """The type of its elements."""

    def prepared(self, array: Array, kind: Kind) -> Array:
        """It, or a copy as kernels read it: of a type, row by row without gaps."""

    def empty(self, shape: tuple[int, ...], kind: Kind) -> Array:
        """A new array."""

    def zeros(self, shape: tuple[int, ...], kind: Kind) -> Array:
        """A new array of zeros."""

    def picked(self, array: Array, places: Array) -> Array:
        """The elements at places, which is an array of the place's."""

    def upload(self, array: np.ndarray[Any, Any]) -> Array:
        """An array in the CPU's memory as one of the place's."""

    def given(self, out: Any, shape: tuple[int, ...], kind: Kind, **inputs: Array) -> Array:
        """The memory of the caller's array for a result.

        Raises:
            UserError: it does not fit, or shares memory with an input.
        """

    def run(self, make: Callable[..., Any], case: Any, *arguments: Any) -> None:
        """Run the kernel that a function makes for a case; it is compiled once."""


class HostPlace:
    """The emulator, with NumPy's arrays."""

    device = _EMULATOR

    def __init__(self, target: Any) -> None:
        self.target = target

    def own(self, array: Array) -> Array:
        """The array."""
        return array

    def kind(self, array: Array) -> Kind:
        """The type of its elements."""
        found: Kind = array.dtype
        return found

    def prepared(self, array: Array, kind: Kind) -> Array:
        """The array, or a copy."""
        return np.ascontiguousarray(array, kind)

    def empty(self, shape: tuple[int, ...], kind: Kind) -> Array:
        """A new array."""
        return np.empty(shape, kind)

    def zeros(self, shape: tuple[int, ...], kind: Kind) -> Array:
        """A new array of zeros."""
        return np.zeros(shape, kind)

    def picked(self, array: Array, places: Array) -> Array:
        """The elements at places."""
        return array[places]

    def upload(self, array: np.ndarray[Any, Any]) -> Array:
        """The array."""
        return array

    def given(self, out: Any, shape: tuple[int, ...], kind: Kind, **inputs: Array) -> Array:
        """The memory of the caller's array."""
        return given(out, shape, kind, **inputs)

    def run(self, make: Callable[..., Any], case: Any, *arguments: Any) -> None:
        """Run a kernel, every thread of it."""
        compiled(make, case, target=self.target, device=self.device)(*arguments)


def place_of(target: Any, device: str | None, like: Any, **arrays: Any) -> OperatorPlace | None:
    """Where an operator runs: where its arrays are. None is the CPU.

    Args:
        target, device: what the caller asked for: "cuda" and "emulator" run kernels for a GPU on
            arrays in the CPU's memory.
        like: the array that decides of what kind results are.
        arrays: all operands by name: NumPy's where these are in the CPU's memory.

    Raises:
        UnsupportedError: they are in different memories, or where nothing of the target runs.
    """
    is_on_cpu = all(isinstance(array, np.ndarray) for array in arrays.values())
    if target is None and device is None and is_on_cpu:
        return None
    where = _memory(arrays)
    wanted = targets.target(target or ("cpu" if where == "cpu" and device is None else "cuda"))
    if device == _EMULATOR:
        if where != "cpu":
            raise UnsupportedError(f"the emulator takes arrays of the CPU, not of {where}")
        return _place("cpu", _is_tensor(like), target or "cuda", _EMULATOR)
    if device not in (None, where, where.partition(":")[0]):
        raise UnsupportedError(f"operators run where their arrays are: on {where}, not {device}")
    if where != "cpu":
        if not wanted.is_asynchronous:
            raise UnsupportedError(
                f"{_names(arrays)} in the memory of {where}, where nothing for {wanted} runs",
                hint="x.cpu() is a copy on the CPU",
            )
        return _place(where, True, target or "cuda", where)
    if wanted.is_asynchronous:
        raise UnsupportedError(
            f"{_names(arrays)} in the CPU's memory, where kernels for {wanted.kind} do not run",
            hint='device="emulator" runs them there, slowly; x.cuda() is a copy on a GPU',
        )
    return None


@lru_cache(maxsize=64)
def _place(where: str, has_tensors: bool, target: Any, device: str) -> OperatorPlace:
    if not has_tensors:
        return HostPlace(target)
    made: OperatorPlace = load("tileloom.frontend.torch.sparse_place").TorchPlace(
        where, target, device
    )
    return made


def _memory(arrays: dict[str, Any]) -> str:
    """The memory that all are in."""
    where = {name: _device(array) for name, array in arrays.items()}
    if len(set(where.values())) > 1:
        places = ", ".join(f"{name} on {place}" for name, place in where.items())
        wanted = next(place for place in where.values() if place != "cpu")
        raise UnsupportedError(
            f"operands are in different memories: {places}",
            hint=f'x.to("{wanted}") is a copy of a tensor there',
        )
    return next(iter(where.values()))


def _device(array: Any) -> str:
    return "cpu" if isinstance(array, np.ndarray) else str(array.device)


def _names(arrays: dict[str, Any]) -> str:
    *first, last = arrays
    return f"{', '.join(first)} and {last} are" if first else f"{last} is"


def _is_tensor(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)
