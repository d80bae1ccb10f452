"""The slow, exact way of checking a kernel's arguments: accept what can be used, or say why not."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NoReturn

import numpy as np

from ..base.dtype import DType
from ..base.errors import ArgumentError, InternalError
from .arrays import ArrayView, as_view, compact_strides
from .params import ParamSpec, number_symbols, show_shape

_FORMATS = {"float16": "e", "float32": "f", "float64": "d"}


class Binder:
    """Turns the arguments of one call into the kernel's pointers."""

    def __init__(self, function: str, params: tuple[ParamSpec, ...]) -> None:
        self.function = function
        self.params = params
        self.symbols = tuple(number_symbols(params))

    def bind(self, arguments: tuple[Any, ...]) -> Bound:
        """The pointers for one call.

        Raises:
            ArgumentError: naming the function, the argument, what was expected and what was given.
        """
        passed = [param for param in self.params if not param.implicit]
        if len(arguments) != len(passed):
            names = ", ".join(param.name for param in passed)
            raise ArgumentError(
                f"{self.function}() takes {len(passed)} arguments ({names}), got {len(arguments)}"
            )
        call = self.start()
        values = iter(enumerate(arguments, 1))
        pairs = [(p, (0, None) if p.implicit else next(values)) for p in self.params]
        for param, (index, value) in pairs:
            if param.is_buffer:
                call.add_buffer(param, index, value)
            elif not param.implicit:
                call.add_scalar(param, index, value)
        call.finish()
        return call

    def start(self) -> Bound:
        """A call without arguments yet."""
        return Bound(self, {})


class Bound:
    """The arguments of one call, bound one by one."""

    copy_hint = "numpy.ascontiguousarray makes a contiguous copy"

    def __init__(self, binder: Binder, symbols: dict[str, tuple[int, str]]) -> None:
        self.function = binder.function
        self.params = binder.params
        self.known_symbols = binder.symbols
        self.symbols = symbols  # value, and who bound it
        self.buffers: list[tuple[ParamSpec, int, tuple[int, int]]] = []
        self.values: dict[str, Any] = {}
        self.pointers: Any = None
        self._slots: list[Any] = []

    def refuse(self, param: ParamSpec, index: int, text: str, hint: str | None = None) -> NoReturn:
        where = f"{self.function}() argument {index} ({param.name})"
        raise ArgumentError(f"{where}: {text}", hint=hint)

    def expected(self, param: ParamSpec, index: int, got: str, hint: str | None = None) -> NoReturn:
        self.refuse(param, index, f"expected a {param}, got {got}", hint)

    def view(self, param: ParamSpec, index: int, value: Any) -> ArrayView:
        """The memory behind an argument, where the kernel can reach it."""
        try:
            view = as_view(value)
        except ArgumentError as error:
            self.expected(param, index, error.message)
        if view.device != "cpu":
            self.expected(param, index, f"one on {view.device}", "move it to the CPU first")
        return view

    def add_buffer(self, param: ParamSpec, index: int, value: Any) -> None:
        view = self.view(param, index, value)
        if view.dtype != param.dtype:
            self.expected(param, index, f"one of {view.dtype}")
        self._check_shape(param, index, view)
        self._check_layout(param, index, view)
        if param.is_written and view.readonly:
            self.refuse(param, index, "is written by the kernel, but the array is read-only")
        extent = view.extent
        self._check_overlap(param, index, extent)
        self.buffers.append((param, index, extent))
        self.values[param.name] = view.pointer

    def _check_shape(self, param: ParamSpec, index: int, view: ArrayView) -> None:
        if len(view.shape) != len(param.shape):
            self.expected(param, index, f"shape {show_shape(view.shape)}")
        for axis, (wanted, actual) in enumerate(zip(param.shape, view.shape, strict=True)):
            if isinstance(wanted, str):
                by = f"axis {axis} of argument {index} ({param.name})"
                self._bind_symbol(param, index, wanted, actual, by)
            elif wanted != actual:
                self.expected(param, index, f"shape {show_shape(view.shape)}")

    def _bind_symbol(self, param: ParamSpec, index: int, name: str, value: int, by: str) -> None:
        bound, first = self.symbols.setdefault(name, (value, by))
        if bound != value:
            self.refuse(param, index, f"{name} is {value} here, but {bound} by {first}")

    def _check_layout(self, param: ParamSpec, index: int, view: ArrayView) -> None:
        fits = view.is_compact if param.strides is None else self._has_strides(param, view)
        if not fits:
            self._refuse_layout(param, index, view)
        if view.pointer % param.needed_alignment and 0 not in view.shape:
            self.refuse(
                param,
                index,
                f"its address {view.pointer:#x} is not a multiple of {param.needed_alignment}",
            )

    def _has_strides(self, param: ParamSpec, view: ArrayView) -> bool:
        each = zip(view.shape, self._wanted_strides(param, view), view.strides, strict=True)
        return 0 in view.shape or all(n == 1 or step == have for n, step, have in each)

    def _wanted_strides(self, param: ParamSpec, view: ArrayView) -> tuple[int | str, ...]:
        """In bytes; a stride that is a symbol binds it, or is what it is bound to."""
        item = view.dtype.bytes
        if param.strides is None:
            return compact_strides(view.shape, item)
        found: list[int | str] = []
        for step, have in zip(param.strides, view.strides, strict=True):
            if isinstance(step, str):
                step, _ = self.symbols.setdefault(step, (have // item, f"a stride of {param.name}"))
            found.append(step * item)
        return tuple(found)

    def _refuse_layout(self, param: ParamSpec, index: int, view: ArrayView) -> NoReturn:
        if param.strides is None:
            wanted = "contiguous in row-major order"
        else:
            wanted = "laid out in memory as the kernel was compiled for"
        self.refuse(
            param,
            index,
            f"is not {wanted}: expected strides {show_shape(self._wanted_strides(param, view))}, "
            f"got {show_shape(view.strides)} (bytes)",
            self.copy_hint if param.access == "r" else None,
        )

    def _check_overlap(self, param: ParamSpec, index: int, extent: tuple[int, int]) -> None:
        low, high = extent
        for other, other_index, (other_low, other_high) in self.buffers:
            apart = high <= other_low or other_high <= low or low == high or other_low == other_high
            if apart or not (param.is_written or other.is_written):
                continue
            written = param if param.is_written else other
            self.refuse(
                param,
                index,
                f"shares memory with argument {other_index} ({other.name}), "
                f"and the kernel writes to {written.name}",
                "pass a copy of one of them",
            )

    def add_scalar(self, param: ParamSpec, index: int, value: Any) -> None:
        number = self._number(param, index, value)
        if param.name in self.known_symbols:
            self._bind_symbol(param, index, param.name, int(number), f"argument {index}")
        self.values[param.name] = number

    def _number(self, param: ParamSpec, index: int, value: Any) -> int | float:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        kind = param.dtype
        if kind.is_bool and isinstance(value, bool | np.bool_):
            return int(value)
        if kind.is_float:
            if isinstance(value, int | float | np.integer | np.floating) or _is_small_float(value):
                return self._in_float_range(param, index, float(value))
        elif not isinstance(value, float | np.floating) and hasattr(value, "__index__"):
            number = value.__index__()
            low, high = integer_range(kind)
            if not low <= number <= high:
                self.expected(param, index, f"{number}, which is out of range {low}..{high}")
            return int(number)
        self.expected(param, index, f"{value!r} of type {type(value).__qualname__}")

    def _in_float_range(self, param: ParamSpec, index: int, value: float) -> float:
        with np.errstate(over="ignore"):
            rounded = float(param.dtype.numpy.type(value))
        if np.isinf(rounded) and not np.isinf(value):
            self.expected(param, index, f"{value!r}, which is too large for it")
        return value

    def finish(self) -> None:
        """Lay the pointers out as the kernel takes them."""
        addresses = []
        for param in self.params:
            if param.is_buffer:
                addresses.append(self.values[param.name])
            else:
                number = self.check_implicit(param) if param.implicit else self.values[param.name]
                slot = ctypes.create_string_buffer(encode_scalar(number, param.dtype), 8)
                self._slots.append(slot)
                addresses.append(ctypes.addressof(slot))
        self.pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)

    def check_implicit(self, param: ParamSpec) -> int:
        """The value of a symbol, which its parameter must be able to hold."""
        number, _ = self.symbols[param.name]
        if number > integer_range(param.dtype)[1]:
            raise ArgumentError(
                f"{self.function}(): extent {param.name} is {number}, more than "
                f"the {param.dtype} that the kernel was compiled for can hold"
            )
        return number


def _is_small_float(value: Any) -> bool:
    """Whether this is a scalar of one of the float types that ml_dtypes adds."""
    return isinstance(value, np.generic) and value.dtype.name.startswith(("bfloat", "float"))


def integer_range(kind: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type or bool."""
    if kind.is_bool:
        return 0, 1
    if kind.is_unsigned:
        return 0, (1 << kind.bits) - 1
    if kind.is_int:
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    if kind.is_handle:
        return 0, (1 << 64) - 1
    raise InternalError(f"{kind} is not a type of integers")


def encode_scalar(value: float, kind: DType) -> bytes:
    """The bytes of a number in memory, padded to 8.

    >>> encode_scalar(-2, __import__("tileloom.base.dtype").base.dtype("int32")).hex()
    'feffffffffffffff'
    """
    if kind.is_float:
        if kind in _FORMATS:
            return struct.pack(f"<{_FORMATS[kind]}", value).ljust(8, b"\0")
        return bytes(np.array([value], kind.numpy).tobytes()).ljust(8, b"\0")
    return (int(value) & (2**64 - 1)).to_bytes(8, "little")
