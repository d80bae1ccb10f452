"""What a model takes and gives, and checking what a user feeds it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from onnx import TypeProto, ValueInfoProto

from ...base.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from ...runtime.arrays import refuse_masked
from ..jit.dims import Dim
from .elements import display_name, numpy_type
from .values import Array, Datum, as_object_array

Extent = int | str | None


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of a model.

    Attributes:
        name: its name.
        shape: integers, names of symbolic dimensions, None where nothing is said of a dimension;
            None altogether where nothing is said of the rank.
        type: as ONNX Runtime writes it, "tensor(float)", "seq(tensor(int64))".
        elem_type: ONNX's number of the element type.
        kind: whether this is a tensor, a sequence of them, or may be absent.
    """

    name: str
    shape: tuple[Extent, ...] | None
    type: str
    elem_type: int
    kind: tuple[Literal["optional", "sequence"], ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether this is a tensor, always there."""
        return not self.kind

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return numpy_type(self.elem_type)


def value_info(proto: ValueInfoProto) -> ValueInfo:
    """What a model says of an input or output."""
    kind: list[Literal["optional", "sequence"]] = []
    type_: TypeProto = proto.type
    while (which := type_.WhichOneof("value")) in ("optional_type", "sequence_type"):
        kind.append("optional" if which == "optional_type" else "sequence")
        type_ = type_.optional_type.elem_type if kind[-1] == "optional" else (
            type_.sequence_type.elem_type)  # fmt: skip
    if type_.WhichOneof("value") not in ("tensor_type", None):
        what = str(type_.WhichOneof("value")).removesuffix("_type")
        raise UnsupportedError(f"{proto.name!r} is a {what}; tensors and sequences are supported")
    tensor = type_.tensor_type
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    text = f"tensor({display_name(tensor.elem_type)})"
    for layer in reversed(kind):
        text = f"{'seq' if layer == 'sequence' else layer}({text})"
    return ValueInfo(proto.name, shape, text, tensor.elem_type, tuple(kind))


def _dim(dim: Any) -> Extent:
    if dim.HasField("dim_value"):
        if dim.dim_value < 0:
            return None  # as exporters of old wrote "unknown"
        return int(dim.dim_value)
    return dim.dim_param or None


def suggest(name: str, known: Iterable[str]) -> str:
    """What a user may have meant by an unknown name."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(map(repr, names)) or 'none'}"


# ---------------------------------------------------------------------------- arrays


def as_array(value: Any, kind: np.dtype[Any], what: str) -> Array:
    """What a user passed as an array, without a copy where possible.

    Python numbers and lists take the type asked for; arrays must have it.
    """
    refuse_masked(value)
    if isinstance(value, np.ndarray):
        found = value
    elif isinstance(value, np.generic):
        found = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        found = _from_dlpack(value, what)
    elif isinstance(value, (bool, int, float, str, list, tuple)):
        return _from_python(value, kind, what)
    elif hasattr(value, "__array__"):
        found = np.asarray(value)
    else:
        raise ArgumentError(f"{what} must be an array, not {type(value).__name__}")
    if kind == np.dtype(object):
        return _strings(found, what)
    if found.dtype != kind:
        if found.dtype.newbyteorder("=") == kind:
            return found.astype(kind)
        raise DTypeError(
            f"{what} must have dtype {kind.name}, got {found.dtype.name}",
            hint=f"pass it as array.astype({kind.name!r})",
        )
    return found


def _from_python(value: Any, kind: np.dtype[Any], what: str) -> Array:
    try:
        if kind == np.dtype(object):
            return _strings(np.asarray(value), what)
        return np.asarray(value, kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(f"{what} cannot be made an array of {kind.name}: {error}") from None


def _strings(found: Array, what: str) -> Array:
    if found.dtype.kind not in "OUST":
        raise DTypeError(f"{what} must hold strings, got {found.dtype.name}")
    items = [i.decode() if isinstance(i, bytes) else str(i) for i in found.reshape(-1).tolist()]
    return as_object_array(items, found.shape)


def _from_dlpack(value: Any, what: str) -> Array:
    device = getattr(value, "device", None)
    if getattr(device, "type", "cpu") != "cpu":
        raise ArgumentError(f"{what} is on device {device}, but the model runs on the CPU")
    value = value.detach() if hasattr(value, "detach") else value
    torch = sys.modules.get("torch")
    if torch is not None and getattr(value, "dtype", None) is torch.bfloat16:
        bits = np.from_dlpack(value.view(torch.int16))
        return bits.view(numpy_type(16))  # BFLOAT16
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ArgumentError(f"{what} cannot be shared with NumPy: {error}") from None


# ---------------------------------------------------------------------------- feeds


def read_feeds(
    infos: Sequence[ValueInfo],
    optional: Iterable[str],
    feeds: Mapping[str, Any],
    bound: Mapping[str, int],
    dims: Mapping[str, Dim] | None = None,
) -> dict[str, Datum]:
    """The arrays of a call by name, checked against what the model says of its inputs.

    Args:
        infos: the model's inputs.
        optional: names of inputs that have a default.
        feeds: what the user passed.
        bound: symbolic dimensions that were given a value at load.
        dims: those that were given bounds.
    """
    known = {info.name: info for info in infos}
    for name in feeds:
        if name not in known:
            raise ArgumentError(f"the model has no input {name!r}", hint=suggest(name, known))
    may_miss = set(optional)
    missing = [n for n, info in known.items() if n not in feeds and n not in may_miss
               and "optional" not in info.kind]  # fmt: skip
    if missing:
        raise ArgumentError(f"missing input {', '.join(map(repr, missing))}")
    symbols = {name: (extent, "load(shapes=...)") for name, extent in bound.items()}
    result: dict[str, Datum] = {}
    for info in infos:
        if info.name in feeds:
            result[info.name] = _read(info, info.kind, feeds[info.name], symbols)
            _check_bounds(info, result[info.name], dims or {})
        elif "optional" in info.kind and info.name not in may_miss:
            result[info.name] = None
    return result


def _read(
    info: ValueInfo, kind: Sequence[str], value: Any, symbols: dict[str, tuple[int, str]]
) -> Datum:
    what = f"input {info.name!r}"
    if kind and kind[0] == "optional":
        return None if value is None else _read(info, kind[1:], value, symbols)
    if kind:
        if not isinstance(value, (list, tuple)):
            raise ArgumentError(f"{what} must be a list of arrays, not {type(value).__name__}")
        return [_read(info, kind[1:], item, {}) for item in value]
    if value is None:
        raise ArgumentError(f"{what} must be an array, not None")
    array = as_array(value, info.dtype, what)
    _check_shape(info, array.shape, symbols)
    return array


def _check_shape(
    info: ValueInfo, shape: tuple[int, ...], symbols: dict[str, tuple[int, str]]
) -> None:
    if info.shape is None:
        return
    what = f"input {info.name!r} must have shape {show_shape(info.shape)}, got {list(shape)}"
    if len(shape) != len(info.shape):
        raise ShapeError(what)
    for axis, (dim, extent) in enumerate(zip(info.shape, shape)):
        if isinstance(dim, int) and dim != extent:
            raise ShapeError(f"{what}: dimension {axis} is fixed to {dim}")
        if isinstance(dim, str):
            expected, where = symbols.setdefault(dim, (extent, f"input {info.name!r}"))
            if expected != extent:
                raise ShapeError(f"{what}: {dim!r} is {expected} by {where}")


def _check_bounds(info: ValueInfo, datum: Datum, dims: Mapping[str, Dim]) -> None:
    if not dims or info.shape is None or not isinstance(datum, np.ndarray):
        return
    for axis, (label, size) in enumerate(zip(info.shape, datum.shape)):
        dim = dims.get(label) if isinstance(label, str) else None
        if dim is not None and not dim.min <= size <= dim.max:
            raise ShapeError(
                f"axis {axis} of input {info.name!r} has size {size}, and {label!r} goes from "
                f"{dim.min} to {dim.max}"
            )


def show_shape(shape: Sequence[Extent] | None) -> str:
    """A shape with symbolic dimensions as text.

    >>> show_shape((1, "batch", None))
    '[1, batch, ?]'
    """
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
