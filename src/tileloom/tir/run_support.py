"""What interpreted programs call while they run: memory, bounds errors, exact arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..base import DType, dtype
from ..base.dtype import wrap_int
from ..base.errors import OutOfBoundsError, UserError, VerifyError
from ..base.faults import with_numbers
from ..expr import trunc_div
from ..expr.evaluate import convert

Array = np.ndarray[Any, Any]


class Return(Exception):
    """Carries a value out of an interpreted function."""

    def __init__(self, value: Any) -> None:
        self.value = value


# ---------------------------------------------------------------------------- memory


def allocate(kind: DType, extents: tuple[int, ...]) -> Array:
    """Fresh memory under a pattern that shows: NaN for floats, 0xCD bytes for integers."""
    count = 1
    for extent in extents:
        count *= max(int(extent), 0)
    shape = (count,) if kind.lanes == 1 else (count, kind.lanes)
    if kind.is_float:
        return np.full(shape, np.nan, kind.numpy)
    if kind.is_bool or kind.bits < 8:
        return np.ones(shape, kind.numpy)
    return (
        np.full(shape, 0xCD, np.uint8).repeat(kind.numpy.itemsize).view(kind.numpy).reshape(shape)
    )


def flat_memory(array: Array) -> Array:
    """The memory from an array's first element to its last, as a row of elements."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    if any(s < 0 or s % array.itemsize for s in array.strides):
        raise UserError(
            f"an array with strides {array.strides} has no flat view",
            hint="strides must be positive multiples of the element size",
        )
    reach = sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides))
    count = 0 if array.size == 0 else reach + 1
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def view(
    memory: Array,
    kind: DType,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    offset: int,
    name: str,
) -> Array:
    """A buffer over memory; every element must lie inside."""
    if memory.dtype != kind.numpy or (memory.ndim == 2) != (kind.lanes > 1):
        memory = memory.reshape(-1).view(kind.numpy)
        if kind.lanes > 1:
            memory = memory[: memory.size // kind.lanes * kind.lanes].reshape(-1, kind.lanes)
    if strides is None:
        steps = [1]
        for extent in reversed(shape[1:]):
            steps.append(steps[-1] * extent)
        strides = tuple(reversed(steps)) if shape else ()
    check_inside(memory, shape, strides, offset, name)
    if 0 in shape:
        return np.empty((*shape, *memory.shape[1:]), memory.dtype)
    unit = memory.itemsize * kind.lanes
    byte_strides = (*(s * unit for s in strides), *memory.strides[1:])
    full = (*shape, *memory.shape[1:])
    return np.lib.stride_tricks.as_strided(memory[offset:], full, byte_strides)


def check_inside(
    memory: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, name: str
) -> None:
    """Refuse a view that leaves its memory."""
    if any(extent < 0 for extent in shape):
        raise VerifyError(f"buffer {name!r} has a negative extent in its shape {shape}")
    if 0 in shape:
        return
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = offset + sum(min(step, 0) for step in steps)
    high = offset + sum(max(step, 0) for step in steps)
    if low < 0 or high >= len(memory):
        raise VerifyError(
            f"buffer {name!r} of shape {shape} covers elements {low} to {high} of memory"
            f" that holds {len(memory)}"
        )


def subregion(source: Array, lows: tuple[int, ...], shape: tuple[int, ...], name: str) -> Array:
    """The part of `source` that a matched buffer names; leading unit dimensions may go."""
    extents = (1,) * (len(lows) - len(shape)) + shape
    for axis, (low, extent) in enumerate(zip(lows, extents, strict=True)):
        if low < 0 or low + extent > source.shape[axis]:
            raise VerifyError(
                f"the region of {name!r} covers [{low}, {low + extent}) of axis {axis},"
                f" which has {source.shape[axis]} elements"
            )
    picks = tuple(slice(low, low + extent) for low, extent in zip(lows, extents, strict=True))
    # The ellipsis keeps a view where plain zeros would give a copy of the one element.
    part: Array = source[picks]
    return part[(0,) * (len(lows) - len(shape)) + (...,)]


def element_strides(array: Array, ndim: int, lanes: int) -> tuple[int, ...]:
    """Strides counted in elements of the buffer."""
    return tuple(s // (array.itemsize * lanes) for s in array.strides[:ndim])


def element_offset(array: Array, memory: Array, lanes: int) -> int:
    """Where an array starts in its memory, in elements of the buffer."""
    distance = int(array.ctypes.data - memory.ctypes.data)
    return distance // (array.itemsize * lanes)


def expect(found: int, wanted: int, what: str) -> None:
    """Refuse a size that is not as declared."""
    if found != wanted:
        raise VerifyError(f"{what} is {found}, but {wanted} is declared")


# ---------------------------------------------------------------------------- access


def out_of_bounds(name: str, axis: int, index: int, extent: int) -> NoReturn:
    """Refuse an access outside of a buffer."""
    raise VerifyError(
        f"index {index} is out of bounds for axis {axis} of buffer {name!r}, which has"
        f" {extent} elements there"
    )


def check_index(message: str, index: Any, extent: Any, mask: Any = True) -> None:
    """Refuse an index that is not below its extent, in the lanes of the mask."""
    wrong = ((np.asarray(index) < 0) | (np.asarray(index) >= extent)) & mask
    if wrong.any():
        first = int(np.argmax(wrong))
        numbers = (int(np.broadcast_to(part, wrong.shape).flat[first]) for part in (index, extent))
        raise OutOfBoundsError(with_numbers(message, *numbers))


def uninitialised(name: str, indices: Any) -> NoReturn:
    """Refuse to read what nobody has written."""
    raise VerifyError(f"buffer {name!r} is read at {indices} before it is written")


def outside_domain(name: str, block: str, value: int, low: int, high: int) -> NoReturn:
    """Refuse a block iteration variable that leaves its domain."""
    raise VerifyError(
        f"iteration variable {name!r} of block {block!r} is bound to {value}, outside of its"
        f" domain [{low}, {high})"
    )


def failed(message: str) -> NoReturn:
    """An assertion of the program that does not hold."""
    raise UserError(f"assertion failed: {message}")


def positions(name: str, shape: tuple[int, ...], indices: tuple[Any, ...], mask: Any) -> Any:
    """Indices, at least one of them a vector, checked where the mask is set."""
    parts: list[Any] = list(np.broadcast_arrays(*indices))
    if mask is not None:
        parts = [part[mask] for part in parts]
    for axis, (part, extent) in enumerate(zip(parts, shape)):
        bad = (part < 0) | (part >= extent)
        if bad.any():
            out_of_bounds(name, axis, int(part[bad][0]), extent)
    return tuple(parts)


def gather(
    array: Array, name: str, indices: tuple[Any, ...], mask: Any = None, written: Any = None
) -> Array:
    """A vector load; lanes outside of the mask are zero."""
    where = positions(name, array.shape, indices, mask)
    if written is not None and not written[where].all():
        uninitialised(name, indices)
    picked = array[where]
    if mask is None:
        return np.asarray(picked).reshape(-1)
    result = np.zeros((len(mask), *picked.shape[1:]), array.dtype)
    result[mask] = picked
    return result.reshape(-1)


def scatter(array: Array, name: str, indices: tuple[Any, ...], value: Any, mask: Any) -> None:
    """A vector store of the lanes in the mask."""
    where = positions(name, array.shape, indices, mask)
    lanes = array.shape[len(indices) :]
    rows = np.asarray(value).reshape(-1, *lanes) if lanes else np.asarray(value)
    if mask is not None:
        rows = np.broadcast_to(rows, (len(mask), *lanes))[mask]
    array[where] = rows.astype(array.dtype, copy=False)


# ---------------------------------------------------------------------------- arithmetic


def truncated_mod(a: int, b: int) -> int:
    """The remainder that goes with truncated division."""
    return a - b * trunc_div(a, b)


def shift_left(a: int, b: int) -> int:
    """A shift whose count is checked, so that no absurd integer is made."""
    if not 0 <= b < 256:
        raise UserError(f"shift by {b}")
    return a << b


def float_function(function: Callable[..., Any], kind: DType) -> Callable[..., Any]:
    """A NumPy function computed in double precision and rounded once."""
    scalar = kind.numpy.type
    return lambda *args: scalar(function(*(np.float64(a) for a in args)))


def float_min(a: Any, b: Any) -> Any:
    """The smaller, or NaN if there is one."""
    return a if a < b or a != a else b


def float_max(a: Any, b: Any) -> Any:
    """The larger, or NaN if there is one."""
    return a if a > b or a != a else b


def to_int(target: DType) -> Callable[[Any], int]:
    """A cast of floats to an integer type."""
    source = dtype("float64")
    return lambda value: int(convert(float(value), source, target))


def to_float(target: DType) -> Callable[[int], Any]:
    """A cast of integers of up to 64 bits to a float type, rounded once."""
    scalar = target.numpy.type

    def run(value: int) -> Any:
        if -(1 << 53) <= value <= (1 << 53):
            return scalar(value)
        exact = np.int64(value) if value < (1 << 63) else np.uint64(value)
        return exact.astype(target.numpy) if target.bits > 16 else scalar(float(value))

    return run


def reinterpret(source: DType, target: DType) -> Callable[[Any], Any]:
    """The bits of a value read as another type."""

    def run(value: Any) -> Any:
        bits = np.array(value, source.numpy).reshape(-1).view(target.numpy)
        if target.lanes > 1:
            return bits
        return bits[0] if target.is_float else int(bits[0])

    return run


# ---------------------------------------------------------------------------- vectors


def lane_type(kind: DType) -> np.dtype[Any]:
    """The NumPy type in which vectors are computed: 1- and 4-bit integers in 64 bits."""
    return np.dtype(np.int64) if kind.is_int and kind.bits < 8 else kind.numpy


def wrap_lanes(value: Any, kind: DType) -> Array:
    """Lanes reduced to the range of their type."""
    if kind.is_int and kind.bits < 8:
        return np.array([wrap_int(int(v), kind.element) for v in value], np.int64)
    return np.asarray(value).astype(lane_type(kind), copy=False)


def cast_lanes(source: DType, target: DType) -> Callable[[Array], Array]:
    """A lane-wise cast as C does it, saturating from floats to integers."""
    source, wide = source.element, target
    target = target.element

    def run(value: Array) -> Array:
        if target.is_bool:
            return np.asarray(value != 0)
        if source.is_float and not target.is_float:
            whole = [convert(float(v), source, target) for v in value]
            return np.array(whole, lane_type(target))
        return wrap_lanes(value, wide)

    return run


def divide_lanes(function: Callable[[int, int], int], kind: DType) -> Callable[..., Array]:
    """Integer division lane by lane; division by zero raises as on scalars."""

    def run(a: Array, b: Array) -> Array:
        rows = (wrap_int(function(int(x), int(y)), kind.element) for x, y in zip(a, b))
        return np.fromiter(rows, lane_type(kind), len(a))

    return run


def map_lanes(function: Callable[..., Any], kind: DType) -> Callable[..., Array]:
    """A scalar function lane by lane."""

    def run(*args: Array) -> Array:
        return np.array([function(*row) for row in zip(*args)], lane_type(kind))

    return run


def ramp(lanes: int, kind: DType) -> Callable[[Any, Any], Array]:
    """base, base + stride, ...; a vector base gives `lanes` shifted copies of it."""
    steps = np.arange(lanes).astype(lane_type(kind))

    def run(base: Any, stride: Any) -> Array:
        first = np.atleast_1d(np.asarray(base, lane_type(kind)))
        step = np.atleast_1d(np.asarray(stride, lane_type(kind)))
        return wrap_lanes((first[None, :] + steps[:, None] * step[None, :]).reshape(-1), kind)

    return run


def broadcast(lanes: int, kind: DType) -> Callable[[Any], Array]:
    """Copies of a scalar or a vector."""
    return lambda value: np.tile(np.atleast_1d(np.asarray(value, lane_type(kind))), lanes)


def shuffle(indices: tuple[int, ...], kind: DType) -> Callable[..., Any]:
    """Lanes picked from the concatenation of vectors and scalars."""

    def run(*vectors: Any) -> Any:
        parts = [np.atleast_1d(np.asarray(v, lane_type(kind))) for v in vectors]
        picked = np.concatenate(parts)[list(indices)]
        if kind.lanes > 1:
            return picked
        return picked[0] if kind.is_float else picked[0].item()

    return run


#: What stands in memory after an atomic call, from what stood there and the operands; None where it
#: stays. Those of two operands are ufuncs, which can be run over many threads' values in order.
ATOMIC_MEANINGS: dict[str, Callable[..., Any]] = {
    "tir.atomic_add": np.add,
    "tir.atomic_min": np.minimum,
    "tir.atomic_max": np.maximum,
    "tir.atomic_and": np.bitwise_and,
    "tir.atomic_or": np.bitwise_or,
    "tir.atomic_xor": np.bitwise_xor,
    "tir.atomic_exchange": lambda old, new: new,
    "tir.atomic_store": lambda old, new: new,
    "tir.atomic_cas": lambda old, wanted, new: new if same_bits(old, wanted) else None,
    "tir.atomic_load": lambda old: None,
}


def same_bits(a: Any, b: Any) -> bool:
    """Whether two scalars of one type are stored alike."""
    return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())


def atomic(op: str, kind: DType) -> Callable[..., Any]:
    """What an atomic call does to the element of an array, and gives."""
    change = ATOMIC_MEANINGS[op]
    give: Callable[[Any], Any] = (lambda x: x) if kind.is_float else int
    give = bool if kind.is_bool else give

    def run(array: Array, where: tuple[int, ...], name: str, mask: Any, *values: Any) -> Any:
        for axis, (at, extent) in enumerate(zip(where, array.shape)):
            if not 0 <= at < extent:
                out_of_bounds(name, axis, at, extent)
        if mask is not None and op != "tir.atomic_store" and not mask[where]:
            uninitialised(name, where)
        old = array[where]
        with np.errstate(all="ignore"):
            new = change(old, *values)
        if mask is not None:
            mask[where] = True
        if new is not None:
            array[where] = new
        return give(old)

    return run


HELPERS: dict[str, Any] = {
    "np": np,
    "_product": itertools.product,
    "_allocate": allocate,
    "_view": view,
    "_subregion": subregion,
    "_element_strides": element_strides,
    "_element_offset": element_offset,
    "_expect": expect,
    "_oob": out_of_bounds,
    "_check_index": check_index,
    "_uninitialised": uninitialised,
    "_outside": outside_domain,
    "_failed": failed,
    "_gather": gather,
    "_scatter": scatter,
    "_tdiv": trunc_div,
    "_tmod": truncated_mod,
    "_shl": shift_left,
    "_fmin": float_min,
    "_fmax": float_max,
    "_Return": Return,
}
