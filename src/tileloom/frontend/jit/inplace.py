"""Writing to traced arrays: `+=`, `out=` and `x[...] = y`.

Names of one array are one `Array`, so it is enough to give it another tensor. What NumPy makes as
a view is known here by its `Storage`: a write that other arrays would see is refused, as is one to
an array of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from ...base import DType
from ...base.errors import DTypeError, ShapeError
from ...graph import ops
from ...graph.ops.common import broadcast_shapes
from .array import Array, TraceError, as_type, caller, lift

#: Functions whose results NumPy makes as views of their first argument.
VIEWS = frozenset({
    "broadcast_to", "expand_dims", "flip", "matrix_transpose", "moveaxis",
    "permute_dims", "reshape", "split", "squeeze", "swapaxes", "transpose", "unstack",
})  # fmt: skip
#: Functions whose results are arrays in NumPy even if they have no dimensions.
_MAKERS = frozenset({
    "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
})  # fmt: skip


class Storage:
    """Elements that several arrays may share.

    Attributes:
        borrowed: whether they are the caller's.
        users: the arrays alive that share them; none is listed as long as there is but one.
    """

    __slots__ = ("borrowed", "users")

    def __init__(self, borrowed: bool = False) -> None:
        self.borrowed = borrowed
        self.users: WeakValueDictionary[int, Array] = WeakValueDictionary()


def result_of(name: str, result: Any, args: Sequence[Any]) -> Any:
    """The result of a function, with what it shares with an argument written down."""
    if name in VIEWS and args and isinstance(args[0], Array):
        for view in result if isinstance(result, (list, tuple)) else (result,):
            share(view, args[0])
    elif name == "broadcast_arrays":
        for view, base in zip(result, args, strict=True):
            if isinstance(base, Array):
                share(view, base)
    elif isinstance(result, Array):
        if any(result is argument for argument in args):
            result = Array(result.tensor, result.weak)
        if name in _MAKERS:
            result.memory = Storage()
    return result


def share(view: Array, base: Array) -> None:
    """Write down that writing to one array would change the other."""
    if view is base:
        return
    if is_scalar(base):
        view.memory = Storage()  # an array that NumPy makes of the number
        return
    if base.memory is None:
        base.memory = Storage()
    view.memory = base.memory
    for user in (base, view):
        view.memory.users[id(user)] = user


def is_scalar(array: Array) -> bool:
    """Whether NumPy would have a number here, which `+=` replaces and nothing changes."""
    return array.weak or (array.ndim == 0 and array.memory is None)


def write(target: Any, value: Array, what: str, *, cast: bool = False) -> Array:
    """Give an array other elements, which all its names see.

    Args:
        what: the operation, as messages name it.
        cast: whether elements of any type are converted, as in assignments; else by NumPy's rule
            "same_kind".

    Raises:
        TraceError: others share the elements, or the array is none of this trace.
        ShapeError: the value does not fit.
        DTypeError: its type does not.
    """
    if not isinstance(target, Array):
        raise TraceError(
            f"{what} writes to an array that was not made by this trace, and has no place for "
            "elements that are not known yet",
            span=caller(),
            hint="start from tileloom.numpy.zeros or zeros_like(x), or make a new array: y = y + x",
        )
    kind, shape = lift(target).tensor.dtype, target.shape
    users = _writable(target, what)
    if not cast and not _same_kind(value.tensor.dtype, kind):
        raise DTypeError(
            f"{what} cannot put {value.tensor.dtype} into an array of {kind}",
            hint=f"convert it: .astype({str(kind)!r})",
        )
    tensor = as_type(value, kind)
    if tensor.shape != shape:
        if broadcast_shapes(tensor.shape, shape) != shape:
            raise ShapeError(f"{what} cannot put {tensor.type} into {target.tensor.type}")
        tensor = ops.broadcast_to(tensor, shape)
    for user in users:
        user.tensor = tensor
    return target


def _writable(target: Array, what: str) -> list[Array]:
    """All arrays that are to be changed with one, which must have the same elements."""
    memory = target.memory
    if memory is None:
        return [target]
    if memory.borrowed:
        raise TraceError(
            f"{what} would write to an array of the caller, which jit never does",
            span=caller(),
            hint="make a new array, x = x + y, and return it; or write to a copy, x = x.copy()",
        )
    others = [user for user in memory.users.values() if user is not target]
    if any(user.tensor is not target.tensor for user in others):
        raise TraceError(
            f"{what} would change other arrays as well: {target.tensor.type} shares its elements "
            "with them, as slices, transposes and reshapes do",
            span=caller(),
            hint="make a new array, y = y + 1, or write to a copy, y = y.copy()",
        )
    return [target, *others]


def _same_kind(given: DType, wanted: DType) -> bool:
    """NumPy's rule "same_kind": a type may become narrower, but not another kind of number."""
    return _rank(given) <= _rank(wanted)


def _rank(kind: DType) -> int:
    """Kinds of numbers in the order in which one holds the other."""
    return 0 if kind.is_bool else 3 if kind.is_float else 1 if kind.is_unsigned else 2
