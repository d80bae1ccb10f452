"""Compiled kernels that Python calls."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import ArgumentError, OutOfBoundsError, UserError
from ..base.faults import BOUNDS, with_numbers
from .check import Binder
from .entry import describe, make_builtin
from .params import ParamSpec

_Packed = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_Fault = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)


class KernelAssertionError(UserError):
    """An assertion of the program itself that did not hold when it ran."""


class _Door:
    """The slow way into a kernel. It knows no built-in function, so that no cycle arises."""

    def __init__(
        self,
        name: str,
        address: int,
        params: tuple[ParamSpec, ...],
        keep_alive: object,
        messages: Sequence[str],
        faults: int,
    ) -> None:
        self.name = name
        self.address = address
        self.keep_alive = keep_alive
        self.messages = tuple(messages)
        self.fault = _Fault(faults) if faults else None
        self.binder = Binder(name, params)
        self.packed = _Packed(address)

    def call(self, *arguments: Any) -> None:
        """Check everything, with reasons, and run."""
        bound = self.binder.bind(arguments)
        self.run(bound.pointers)

    def run(self, pointers: Any) -> None:
        number = self.packed(pointers)
        if number:
            self.fail(number)

    def launch(self, *arguments: Any) -> None:
        """Run on an array of pointers: its address, or a ctypes array."""
        if len(arguments) != 1:
            raise ArgumentError(f"{self.name}.launch() takes the address of an array of pointers")
        table = arguments[0]
        if isinstance(table, int) and table > 0:
            return self.run(table)
        if isinstance(table, ctypes.Array):
            return self.run(ctypes.addressof(table))
        raise ArgumentError(f"{self.name}.launch(): {table!r} is no array of pointers")

    def fail(self, number: int) -> None:
        """Raise for the assertion with this number, counted from one."""
        if not 0 < number <= len(self.messages):
            raise KernelAssertionError(f"{self.name}: assertion {number} of the kernel failed")
        message = self.messages[number - 1]
        kept = None if self.fault is None else self.fault(number)
        if kept is not None and message.startswith(BOUNDS):
            index, extent = (ctypes.c_int64 * 2).from_address(kept)
            raise OutOfBoundsError(f"{self.name}: {with_numbers(message, index, extent)}")
        raise KernelAssertionError(f"{self.name}: {message}")


def _accept_tensors(arrays_only: Callable[..., None], exact: Callable[..., None]) -> Any:
    """Calls with PyTorch tensors: as NumPy arrays over the same memory, where PyTorch gives them.

    That is five times as fast as reading tensors one attribute at a time.
    """

    def call(*arguments: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return exact(*arguments)
        tensor = torch.Tensor
        try:
            swapped = [a.numpy() if isinstance(a, tensor) else a for a in arguments]
        except (TypeError, RuntimeError):  # bfloat16, gradients, other devices
            return exact(*arguments)
        return arrays_only(*swapped)

    return call


class Kernel:
    """A compiled function of arrays, which writes its results into arguments.

    Calling it checks data types, shapes, strides, alignment, that outputs are writable and share
    no memory with other arguments. NumPy arrays go through native code; PyTorch CPU tensors and
    other holders of memory are taken without copies on a slower way.

    Args:
        name: what errors call it.
        address: of its packed form, `i32 name__packed(ptr args)`: `args` points to one pointer
            for each parameter, to a buffer's data or to a scalar's value.
        params: what it takes.
        keep_alive: whatever must live as long as the machine code is used.
        assertions: the messages of the kernel's assertions, number one first.
        faults: the address of `ptr tileloom_fault(i32 number)`, if the kernel checks its indices.

    Raises (when called):
        ArgumentError: naming the argument, what was expected and what was given.
        KernelAssertionError: when an assertion in the program does not hold.
        OutOfBoundsError: when a kernel built with `checked` meets an index outside of a buffer.
    """

    # Calling finds `__call__` on the type, which is a slot, which holds a built-in function: no
    # Python code runs on the way.
    __slots__ = ("__call__", "__weakref__", "_door", "launch", "params")

    __call__: Callable[..., None]
    launch: Callable[[int], None]  # runs on the address of an array of pointers, unchecked
    params: tuple[ParamSpec, ...]

    def __init__(
        self,
        name: str,
        address: int,
        params: Sequence[ParamSpec],
        keep_alive: object = None,
        assertions: Sequence[str] = (),
        faults: int = 0,
    ) -> None:
        self.params = tuple(params)
        door = self._door = _Door(name, address, self.params, keep_alive, assertions, faults)
        words = describe(address, self.params)

        def built(function: str, slow: Callable[..., Any]) -> Callable[..., Any]:
            return make_builtin(name, function, words, slow, door.fail, keep_alive) or slow

        arrays_only = built("tileloom_entry", door.call)
        self.__call__ = built("tileloom_entry", _accept_tensors(arrays_only, door.call))
        self.launch = built("tileloom_launch", door.launch)

    @property
    def name(self) -> str:
        """The function's name."""
        return self._door.name

    @property
    def address(self) -> int:
        """The address of the packed form."""
        return self._door.address

    def __repr__(self) -> str:
        inner = ", ".join(f"{p.name}: {p}" for p in self.params if not p.implicit)
        return f"<Kernel {self.name}({inner})>"
