"""The arrays that a traced function sees: shapes and types, no values."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from ...base import DType, Span, dtype
from ...base.errors import ArgumentError, DTypeError, UserError
from ...graph import ops
from ...graph.nodes import Tensor
from ...graph.symbols import is_symbolic
from ...runtime.arrays import refuse_masked
from .context import current, is_running

if TYPE_CHECKING:
    from .inplace import Storage

_PACKAGE = str(Path(__file__).parents[2])
Number = bool | int | float
#: What `lift` takes. Parameters annotated so hold arrays; others are part of a program.
ArrayLike: TypeAlias = Any
Axis = int | Sequence[int] | None


class TraceError(UserError):
    """The function asks for what is not known before it runs: the values of an array."""


class NumberError(DTypeError, OverflowError, ValueError):
    """A number that the operation is not defined for."""


class Array:
    """An array while a function is traced: operators and array-API functions record nodes.

    `weak` arrays stand for Python numbers, which take the type of what they meet. `memory` tells
    what other arrays share the elements; see `inplace`.
    """

    __slots__ = ("__weakref__", "memory", "origin", "tensor", "weak")
    __array_priority__ = 1000

    def __init__(self, tensor: Tensor, weak: bool = False) -> None:
        self.tensor = tensor
        self.weak = weak
        self.origin = current()
        self.memory: Storage | None = None

    # ------------------------------------------------------------------ facts

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.tensor.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, as NumPy's."""
        return self.tensor.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.tensor.type.size

    @property
    def device(self) -> str:
        """Where it lives."""
        return "cpu"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over an array without dimensions")
        rows: Any = self  # it is given `__getitem__` in `operators`
        return (rows[k] for k in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"Array({self.tensor.type})"

    # ------------------------------------------------------------------ refusals

    def _refuse(self, what: str, hint: str) -> NoReturn:
        if self.origin is not current():
            _refuse_leak(self)
        raise TraceError(
            f"{what} of a traced array {self.tensor.type} is not known before the function runs",
            span=caller(),
            hint=hint,
        )

    def __bool__(self) -> bool:  # noqa: PLE0304
        self._refuse(
            "the truth value",
            "choose elements with tileloom.numpy.where(condition, a, b); a Python number that "
            "decides the flow of the program can be named in static_argnames",
        )

    def __int__(self) -> int:
        self._refuse("the integer value", "name the argument in static_argnames")

    __index__ = __int__

    def __float__(self) -> float:
        self._refuse("the value", "name the argument in static_argnames")

    def item(self) -> float:
        """Not known while tracing."""
        self._refuse("the value", "return the array, and read it outside")

    def tolist(self) -> list[Any]:
        """Not known while tracing."""
        self._refuse("the list", "return the array, and read it outside")

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse(
            "the contents",
            "use the functions of tileloom.numpy, or NumPy's by the same names; np.array, "
            "np.asarray and np.ascontiguousarray are not needed for what is an array already",
        )

    __hash__ = None  # type: ignore[assignment]


def caller() -> Span | None:
    """The line outside this package that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    name, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(name, line).rstrip("\n")
    start = len(text) - len(text.lstrip()) + 1
    return Span(name, line, start, line, max(start + 1, len(text) + 1), text)


# ---------------------------------------------------------------------------- types


def lift(value: Any) -> Array:
    """A traced array of a value: numbers are weak, other arrays become constants."""
    if isinstance(value, Array):
        if value.origin is not current():
            _refuse_leak(value)
        return value
    if is_symbolic(value):
        return Array(ops.extent(value), weak=True)
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise NumberError(f"the integer {value} has more than 64 bits")
        return Array(ops.constant(np.asarray(value)), weak=True)
    check_plain(value)
    if isinstance(value, (list, tuple)) and any(isinstance(part, Array) for part in value):
        raise ArgumentError(
            "a list of traced arrays is no array", hint="make one of them with tileloom.numpy.stack"
        )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"cannot make an array of {type(value).__name__}: {error}") from None
    if array.dtype.kind not in "biufV" or array.dtype.names:
        raise DTypeError(f"arrays of {array.dtype} are not supported")
    return Array(ops.constant(array))


def _refuse_leak(array: Array) -> NoReturn:
    """Explain an array that is used in another trace than its own."""
    origin = array.origin
    what, whence = f"a traced array {array.tensor.type}", "of a function"
    if origin is not None:
        whence = f"of {origin.function}"
    if origin is not None and is_running(origin):
        raise TraceError(
            f"{what} {whence} is used inside another function that is compiled by itself",
            span=caller(),
            hint="pass it to that function as an argument, so that both are compiled together",
        )
    raise TraceError(
        f"{what} {whence} is used after the tracing in which it was made has ended",
        span=caller(),
        hint="it never had values: return it from the function, instead of keeping it in a list, "
        "a global variable or an attribute",
    )


def check_plain(value: Any) -> None:
    """Refuse arrays that mean more than their elements, which would be lost."""
    kind = type(value)
    if kind is np.ndarray:
        return
    refuse_masked(value)
    if isinstance(value, np.ndarray) and (
        isinstance(value, np.matrix) or kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
    ):
        raise ArgumentError(
            f"arrays of type {kind.__name__} are not supported: they compute in a way of their own",
            hint="pass np.asarray(x)",
        )
    torch = sys.modules.get("torch")
    if (
        torch is not None
        and isinstance(value, torch.Tensor)
        and value.requires_grad
        and torch.is_grad_enabled()
    ):
        raise ArgumentError(
            "a tensor that requires gradients: jit computes none, and the result would have none",
            hint="pass x.detach(), or call it under torch.no_grad(); torch.compile with the "
            "backend of tileloom.torch gives gradients",
        )


def promote(*arrays: Array) -> DType:
    """The type of a result, by NumPy's rules: a Python number has no width of its own.

    >>> one = lift(np.float32([1])); promote(one, lift(0.5)), promote(one, lift(np.int64(1)))
    ('float32', 'float64')
    """
    strong = [a.tensor.dtype for a in arrays if not a.weak]
    weak = [_python_number(a.tensor.dtype) for a in arrays if a.weak]
    if not strong:
        return dtype(np.result_type(*(type(number) for number in weak)))
    kind = strong[0]
    for other in strong[1:]:
        kind = _wider(kind, other)
    for number in weak:
        if not (kind.is_float and kind.bits <= 16):
            kind = dtype(np.result_type(kind.numpy, number))
    return kind


def _python_number(kind: DType) -> Number:
    return 0.0 if kind.is_float else False if kind.is_bool else 0


def _wider(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if "bfloat16" in (a, b):
        other = b if a == "bfloat16" else a
        if other.is_float:
            return dtype("float32") if other.bits <= 32 else other
        return dtype("bfloat16")
    return dtype(np.result_type(a.numpy, b.numpy))


def beyond(array: Array, kind: DType) -> int:
    """On which side of a type of integers a Python integer lies: 1 above, -1 below, 0 inside."""
    value = array.tensor.value
    if not array.weak or value is None or not kind.is_int or not array.tensor.dtype.is_int:
        return 0
    low = 0 if kind.is_unsigned else -(1 << (kind.bits - 1))
    number = int(value)
    return -1 if number < low else 1 if number >= low + (1 << kind.bits) else 0


def as_type(array: Array, kind: DType) -> Tensor:
    """The tensor with elements of a type.

    Raises:
        NumberError: it is a Python integer that the type does not have.
    """
    tensor = array.tensor
    if array.weak and beyond(array, kind):
        raise NumberError(f"the integer {tensor.value} is out of range for {kind}")
    return tensor if tensor.dtype is kind else ops.cast(tensor, kind)


def floating(array: Array) -> DType:
    """The type in which NumPy computes functions of real numbers of this type."""
    kind = array.tensor.dtype
    if array.weak:
        return dtype("float64")
    return kind if kind.is_float else dtype(np.sqrt.resolve_dtypes((kind.numpy, None))[1])


def floats(x: ArrayLike) -> Tensor:
    """The elements in the type of floats that NumPy computes functions of them in."""
    array = lift(x)
    return as_type(array, floating(array))


def element_type(spec: Any) -> DType:
    """The element type that NumPy has under a name, a class or a `dtype` of its own.

    Raises:
        DTypeError: there is none here.

    >>> element_type("f8"), element_type(np.int16), element_type(float), element_type("bfloat16")
    ('float64', 'int16', 'float64', 'bfloat16')
    """
    try:
        kind = dtype(spec) if isinstance(spec, str) else dtype(np.dtype(spec))
    except DTypeError:
        kind = dtype(_numpy_type(spec))
    except TypeError:
        raise DTypeError(f"{spec!r} is no data type") from None
    if kind.is_vector or kind.bits == 0 or kind.is_handle:
        raise DTypeError(f"{spec!r} is no type of elements")
    return kind


def _numpy_type(spec: Any) -> np.dtype[Any]:
    """NumPy's type of a name that only NumPy knows."""
    try:
        found: np.dtype[Any] = np.dtype(spec)
    except TypeError:
        raise DTypeError(f"unknown data type {spec!r}") from None
    return found
