"""`x[...]` on traced arrays, with NumPy's meaning of basic and advanced indices.

Slices, None and `...` make views; integers take an axis out. Arrays of integers are broadcast
against each other and pick one element (or slice) for each of their positions; their dimensions
stand where the first of them stood, or in front where other indices stand between them. Integers
count as arrays as soon as there is one. Masks that are known while tracing stand for the positions
where they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import index as as_integer
from typing import Any, TypeAlias

import numpy as np

from ...base.errors import IndexingError, UnsupportedError, UserError
from ...graph import ops
from ...graph.checks import Check, out_of_range
from ...graph.nodes import Tensor
from ...graph.ops.common import broadcast_shapes
from ...graph.symbols import is_symbolic
from .array import Array, caller, check_plain, lift
from .context import current

#: Positions along an axis: known ones, or a tensor of integers.
Picks: TypeAlias = "np.ndarray[Any, Any] | Tensor"


@dataclass
class _Selection:
    """What basic indices leave of a tensor, and the advanced ones that remain to be applied."""

    tensor: Tensor
    axis: int = 0  # of the tensor that the next index is for
    source: int = 0  # the same axis of the array before
    dropped: list[int] = field(default_factory=list)  # axes of extent 1 that integers leave
    axes: list[int] = field(default_factory=list)  # that arrays pick from, without those dropped
    sources: list[int] = field(default_factory=list)  # the same of the array before
    picks: list[Picks] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of all advanced indices
    places: list[tuple[int, int]] = field(default_factory=list)  # number and axis of all of them

    @property
    def kept(self) -> int:
        """The axes so far that remain."""
        return self.axis - len(self.dropped)


def select(array: Array, key: Any) -> tuple[Tensor, bool]:
    """The elements at an index, and whether NumPy would give a view of the array.

    Raises:
        IndexingError: the array has no such element or axis.
        UnsupportedError: a mask is not known while tracing.
    """
    parts = [_read(part) for part in (key if isinstance(key, tuple) else (key,))]
    whole = _Selection(lift(array).tensor)
    has_dots = any(part is Ellipsis for part in parts)
    for number, part in enumerate(_filled(parts, whole.tensor)):
        _apply(whole, part, number)
    tensor = whole.tensor
    if whole.dropped:
        tensor = ops.squeeze(tensor, whole.dropped)
    if not whole.picks and not any(whole.shapes):
        return tensor, has_dots or tensor.ndim > 0
    return _pick(tensor, whole), False


def _read(part: Any) -> Any:
    """An index as None, Ellipsis, a slice, an integer, a bool, or an array of some kind."""
    if part is None or part is Ellipsis or isinstance(part, (slice, bool)):
        return part
    if isinstance(part, Array):
        tensor = lift(part).tensor
        return tensor if tensor.value is None else _known(tensor.value)
    if is_symbolic(part):
        return lift(part).tensor
    if isinstance(part, (list, tuple)) and _has_traced(part):
        return _stacked(part)
    check_plain(part)
    try:
        array = np.asarray(part)
    except (TypeError, ValueError):
        raise _no_index(type(part).__name__) from None
    if isinstance(part, (list, tuple)) and not array.size:
        array = array.astype(np.int64)  # NumPy makes floats of nothing
    return _known(array)


def _stacked(parts: Sequence[Any]) -> Tensor:
    """A list of indices, some of which are traced, as one tensor."""
    rows = [_tensor_of(part) for part in parts]
    kinds = {row.dtype for row in rows}
    return ops.stack(rows if len(kinds) == 1 else [ops.cast(row, "int64") for row in rows], 0)


def _tensor_of(part: Any) -> Tensor:
    found = _read(part)
    return found if isinstance(found, Tensor) else ops.constant(np.asarray(found))


def _has_traced(parts: Sequence[Any]) -> bool:
    return any(
        _has_traced(part) if isinstance(part, (list, tuple)) else isinstance(part, Array)
        for part in parts
    )


def _known(array: np.ndarray[Any, Any]) -> Any:
    """Positions or a mask that are known; those without dimensions are Python's numbers."""
    if array.dtype.kind not in "biu":
        raise _no_index(f"arrays of {array.dtype}")
    return array if array.ndim else array.item()


def _no_index(what: str) -> IndexingError:
    return IndexingError(
        f"{what} cannot be an index",
        hint="indices are integers, slices, None, `...`, and arrays of integers or truth values",
    )


def _filled(parts: Sequence[Any], tensor: Tensor) -> list[Any]:
    """The indices with slices for what `...` and the end leave out; masks as their positions."""
    given = sum(map(_consumes, parts))
    dots = sum(part is Ellipsis for part in parts)
    if given > tensor.ndim or dots > 1:
        what = f"{given} indices" if dots < 2 else "more than one `...`"
        raise IndexingError(f"{what} for {tensor.type}")
    rest = [slice(None)] * (tensor.ndim - given)
    filled: list[Any] = []
    for part in parts if dots else (*parts, Ellipsis):
        if part is Ellipsis:
            # Without an axis it still stands between its neighbours.
            filled += rest or [Ellipsis]
        elif isinstance(part, np.ndarray) and part.dtype.kind == "b":
            axis = sum(map(_consumes, filled))
            _check_mask(part, tensor, axis)
            filled += part.nonzero()
        else:
            filled.append(part)
    return filled


def _consumes(part: Any) -> int:
    """How many axes an index is for."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def _check_mask(mask: np.ndarray[Any, Any], tensor: Tensor, axis: int) -> None:
    extents = tensor.shape[axis : axis + mask.ndim]
    if tuple(mask.shape) != tuple(extents):
        raise IndexingError(
            f"a mask of shape {list(mask.shape)} does not fit axis {axis} of {tensor.type}"
        )


# ---------------------------------------------------------------------------- basic indices


def _apply(whole: _Selection, part: Any, number: int) -> None:
    """Apply one index to the next axis, or keep it for later if it is an array."""
    if part is Ellipsis:
        return
    if part is None:
        whole.tensor = ops.expand_dims(whole.tensor, whole.axis)
    elif isinstance(part, slice):
        whole.tensor = _slice(whole.tensor, part, whole.axis)
    else:
        whole.places.append((number, whole.kept))
        if isinstance(part, bool):  # stands for a new axis with or without its one element
            whole.shapes.append((int(part),))
            return
        if isinstance(part, int):
            whole.shapes.append(())
            one = _one(part, whole.tensor.shape[whole.axis], whole.source)
            whole.tensor = _slice(whole.tensor, one, whole.axis)
            whole.dropped.append(whole.axis)
        else:
            whole.shapes.append(tuple(part.shape))
            whole.axes.append(whole.kept)
            whole.sources.append(whole.source)
            whole.picks.append(part)
    whole.axis += 1
    whole.source += part is not None


def _one(index: int, extent: int, axis: int) -> slice:
    if not -extent <= index < extent:
        raise IndexingError(f"index {index} is out of range for axis {axis} with extent {extent}")
    first = index if index >= 0 else index + extent
    return slice(first, first + 1)


def _slice(tensor: Tensor, part: slice, axis: int) -> Tensor:
    if any(map(is_symbolic, (tensor.shape[axis], part.start, part.stop))):
        return _open_slice(tensor, part, axis)
    if part.step == 0:
        raise IndexingError("the step of a slice is 0")
    start, stop, step = part.indices(tensor.shape[axis])
    if (start, stop, step) == (0, tensor.shape[axis], 1):
        return tensor
    if not range(start, stop, step):
        start, stop, step = 0, 0, 1  # a start before the first element would count from the end
    if step < 0 and stop < 0:
        stop = -(tensor.shape[axis] + 1)
    return ops.strided_slice(tensor, (start,), (stop,), (axis,), (step,))


def _open_slice(tensor: Tensor, part: slice, axis: int) -> Tensor:
    """A slice with an extent or an end that is symbolic."""
    extent, step = tensor.shape[axis], 1 if part.step is None else as_integer(part.step)
    start, stop = (0, extent) if step > 0 else (-1, -extent - 1)
    start = start if part.start is None else part.start
    stop = stop if part.stop is None else part.stop
    return ops.strided_slice(tensor, (start,), (stop,), (axis,), (step,))


# ---------------------------------------------------------------------------- arrays


def _pick(tensor: Tensor, whole: _Selection) -> Tensor:
    """Apply the advanced indices to what the basic ones have left."""
    try:
        shape = broadcast_shapes(*whole.shapes)
    except UserError as error:
        raise IndexingError(
            f"the arrays of an index do not fit together: {error.message}"
        ) from None
    numbers = [number for number, _ in whole.places]
    together = numbers[-1] - numbers[0] == len(numbers) - 1
    place = whole.places[0][1] if together else 0
    if not whole.picks:  # truth values alone
        tensor = ops.expand_dims(tensor, place)
        return tensor if shape == (1,) else ops.strided_slice(tensor, (0,), (0,), (place,))
    if len(whole.picks) == 1:
        axis = whole.axes[0]
        picks = _positions(_wide(whole.picks[0], shape), tensor.shape[axis], whole.sources[0])
        picked = ops.gather(tensor, _tensor(picks), axis)
    else:
        axis, picked = 0, _gather_tuples(tensor, whole, shape)
    return _moved(picked, axis, place, len(shape))


def _wide(picks: Picks, shape: tuple[int, ...]) -> Picks:
    """An index array broadcast to the shape of all of them."""
    if tuple(picks.shape) == shape:
        return picks
    if isinstance(picks, Tensor):
        return ops.broadcast_to(picks, shape)
    return np.broadcast_to(picks, shape)


def _moved(tensor: Tensor, axis: int, place: int, count: int) -> Tensor:
    """Some neighbouring dimensions moved to another place."""
    if axis == place or not count:
        return tensor
    moved = range(axis, axis + count)
    rest = [k for k in range(tensor.ndim) if k not in moved]
    return ops.transpose(tensor, [*rest[:place], *moved, *rest[place:]])


def _gather_tuples(tensor: Tensor, whole: _Selection, shape: tuple[int, ...]) -> Tensor:
    """What several arrays pick, with their dimensions in front."""
    extents = [tensor.shape[axis] for axis in whole.axes]
    picks = [
        _positions(_wide(part, shape), extent, source)
        for part, extent, source in zip(whole.picks, extents, whole.sources, strict=True)
    ]
    rest = [k for k in range(tensor.ndim) if k not in whole.axes]
    data = ops.transpose(tensor, [*whole.axes, *rest])
    if all(isinstance(part, np.ndarray) for part in picks):
        return ops.gather_nd(data, ops.constant(np.stack(picks, -1)))  # type: ignore[arg-type]
    tensors = [ops.cast(_tensor(part), "int64") for part in picks]
    return ops.gather_nd(data, ops.stack(tensors, len(shape)))


def known_in_range(indices: Tensor, extent: int, axis: int) -> Tensor:
    """Positions along an axis.

    Raises:
        IndexingError: one of them is known, and out of range; or they are no integers.
    """
    return _tensor(_positions(indices, extent, axis))


def _tensor(picks: Picks) -> Tensor:
    return picks if isinstance(picks, Tensor) else ops.constant(np.ascontiguousarray(picks))


def _positions(picks: Picks, extent: int, axis: int) -> Picks:
    """Positions of one axis, checked and counted from its start where they are known."""
    if isinstance(picks, Tensor):
        if picks.value is not None and not picks.dtype.is_bool:
            return _positions(picks.value, extent, axis)
        if picks.dtype.is_bool:
            raise UnsupportedError(
                "an index by a mask that is computed has a shape that depends on the data",
                hint="choose elements with tileloom.numpy.where(mask, x, other); masks that do not "
                "depend on arguments may be indices",
            )
        if not picks.dtype.is_int:
            raise _no_index(f"arrays of {picks.dtype}")
        _check_later(picks, extent, axis)
        return picks
    if picks.dtype.kind not in "iu":
        raise _no_index(f"arrays of {picks.dtype}")
    if picks.size:
        for found in (picks.min(), picks.max()):
            _one(int(found), extent, axis)
    wide = picks.astype(np.int64)
    return wide if is_symbolic(extent) else np.where(wide < 0, wide + extent, wide)


def _check_later(indices: Tensor, extent: int, axis: int) -> None:
    """Have the program look whether indices are in range."""
    trace = current()
    if trace is None or (indices, str(extent)) in trace.looked_at:
        return
    trace.looked_at.add((indices, str(extent)))
    wrong = out_of_range(indices, extent)
    if wrong is not None:
        size = "" if is_symbolic(extent) else f" with extent {extent}"
        message = f"an index is out of range for axis {axis}{size}"
        trace.checks.append(Check(wrong, partial(IndexingError, message, span=caller())))
