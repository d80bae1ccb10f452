"""What the op families share: definitions, checks, broadcasting, compute rules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import DTypeError, ShapeError, UserError
from ...expr import BinaryOp, Call, Expr, binary, cast, const, is_index
from ..nodes import Tensor, TensorType, as_extent
from ..op import (
    Array,
    Attrs,
    Compute,
    Expand,
    Infer,
    Kind,
    Op,
    Reference,
    Steps,
    apply1,
    register,
)
from ..symbols import at_least, is_symbolic, symbolic_number

P = ParamSpec("P")
R = TypeVar("R")
ComputeBody = Callable[..., Any]
Types = Sequence[TensorType]
Scalar = bool | int | float  # or an extent that is symbolic
#: What an op accepts as an operand: a tensor, or a number of the other operands' type.
Operand = Tensor | Scalar
DTypeClass = Literal["any", "number", "float", "integer", "bool", "bits"]

_CLASSES: dict[DTypeClass, tuple[str, Callable[[DType], bool]]] = {
    "any": ("an any", lambda kind: True),
    "number": ("a numeric", lambda kind: not kind.is_bool),
    "float": ("a floating-point", lambda kind: kind.is_float),
    "integer": ("an integer", lambda kind: kind.is_int),
    "bool": ("a bool", lambda kind: kind.is_bool),
    "bits": ("an integer or bool", lambda kind: not kind.is_float),
}


def define(
    name: str,
    kind: Kind,
    infer: Infer,
    reference: Reference,
    compute: Compute | None = None,
    expand: Expand | None = None,
    commutative: bool = False,
    steps: Steps | None = None,
) -> Op:
    """Register an op; see `Op` for the parts.

    The reference is made to return compact arrays of exactly the types announced, and to be silent
    about overflow. The compute rule is not asked for outputs without elements.
    """

    def exact(arrays: Sequence[Array], attrs: Attrs, types: Types) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            results = reference(arrays, attrs, types)
            return [
                np.asarray(result, type_.dtype.numpy, order="C").reshape(type_.shape)
                for result, type_ in zip(results, types, strict=True)
            ]

    def compute_rule(
        inputs: Sequence[te.Tensor], attrs: Attrs, types: Types
    ) -> Sequence[te.Tensor]:
        if compute is None or all(type_.size == 0 for type_ in types):
            return [fill(type_, 0, name) for type_ in types]
        return compute(inputs, attrs, types)

    rule = None if compute is None else compute_rule
    return register(Op(name, kind, infer, exact, rule, expand, commutative, steps))


_NAMED = re.compile(r"\w+: ")


def builder(function: Callable[P, R]) -> Callable[P, R]:
    """A builder whose complaints start with its name, unless an op inside has named itself.

    >>> @builder
    ... def last(axis: int) -> int:
    ...     return normalize_axis(axis, 1)
    >>> last(3)
    Traceback (most recent call last):
    tileloom.base.errors.ShapeError: last: axis 3 is out of range for 1 dimensions
    """

    @wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            if _NAMED.match(error.message):
                raise
            raise type(error)(f"{function.__name__}: {error.message}", hint=error.hint) from None

    return build


# ---------------------------------------------------------------------------- checks


def check_dtype(type_: TensorType, accepted: DTypeClass, what: str = "the operand") -> None:
    """Refuse a tensor whose element type is not of the class."""
    words, test = _CLASSES[accepted]
    if not test(type_.dtype):
        raise DTypeError(f"{what} must have {words} type, got {type_}")


def check_rank(type_: TensorType, rank: int, what: str = "the operand") -> None:
    """Refuse a tensor with fewer dimensions than `rank`."""
    if len(type_.shape) < rank:
        raise ShapeError(f"{what} needs at least {rank} dimensions, got {type_}")


def same_dtype(types: Types) -> DType:
    """The element type that all of them have."""
    first = types[0].dtype
    if any(type_.dtype is not first for type_ in types):
        found = ", ".join(str(type_) for type_ in types)
        raise DTypeError(f"operands of different types: {found}", hint="cast them to one type")
    return first


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all of these broadcast to, by NumPy's rule.

    >>> broadcast_shapes((3, 1), (4,), ())
    (3, 4)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for position in range(-rank, 0):
        extents = {s[position] for s in shapes if len(s) >= -position} - {1}
        if len(extents) > 1:
            found = " and ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(f"shapes {found} do not broadcast together")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis; -1 is the last.

    >>> normalize_axis(-1, 3)
    2
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for {rank} dimensions")
    return int(axis) % rank


def normalize_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None means all."""
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    result = tuple(sorted(normalize_axis(axis, rank) for axis in given))
    if len(set(result)) != len(result):
        raise ShapeError(f"repeated axis in {list(given)}")
    return result


def product(extents: Sequence[int]) -> int:
    """The product of extents, 1 of none."""
    result = 1
    for extent in extents:
        result *= as_extent(extent)
    return result


# ---------------------------------------------------------------------------- tensors


def constant(value: Any, dtype_: str | None = None) -> Tensor:
    """A constant tensor from an array, a number or nested lists; it is a copy.

    Raises:
        DTypeError: the values have no type here, or do not convert to the type named.
    """
    given = np.asarray(value)
    kind = dtype(given.dtype if dtype_ is None else dtype_)
    try:
        array = np.array(value, kind.numpy, order="C")
    except (OverflowError, TypeError, ValueError) as error:
        raise DTypeError(f"cannot make a {kind} constant of {value!r}: {error}") from None
    array.flags.writeable = False
    return apply1("constant", (), value=array)


def like(value: Operand, other: Tensor | TensorType) -> Tensor:
    """`value` as a tensor; a number becomes a 0-d constant of the other's element type."""
    if isinstance(value, Tensor):
        return value
    kind = other.dtype
    if is_symbolic(value):
        return extent(symbolic_number(value), kind)
    if not kind.is_float and (not math.isfinite(value) or int(value) != value):
        raise DTypeError(f"{value!r} is no value of {kind}", hint="cast the tensor first")
    return constant(value, kind)


def operands(*values: Operand) -> tuple[Tensor, ...]:
    """Tensors, where numbers take the type of the first tensor among them."""
    model = next((value for value in values if isinstance(value, Tensor)), None)
    if model is None:
        return tuple(constant(value, dtype(type(value))) for value in values)
    return tuple(like(value, model) for value in values)


def extent(value: int, dtype_: str = "int64") -> Tensor:
    """An extent as a tensor without dimensions; a constant unless it is symbolic."""
    if not is_symbolic(value):
        return constant(value, dtype_)
    return apply1("extent", (), value=value, dtype=dtype(dtype_))


# ---------------------------------------------------------------------------- NumPy


def widen(array: Array) -> Array:
    """Floats narrower than 32 bits as float32, in which NumPy has all functions."""
    kind = dtype(array.dtype)
    return array.astype(np.float32) if kind.is_float and kind.bits < 32 else array


def double(array: Array) -> Array:
    """Floats as float64, anything else as it is: the type that references compute in."""
    return array.astype(np.float64) if dtype(array.dtype).is_float else array


# ---------------------------------------------------------------------------- tensor expressions


def extents(shape: Sequence[int], axes: Sequence[Any] = ()) -> tuple[Expr, ...]:
    """A shape for `compute`: int32, or int64 where a flat index would not fit.

    Where that depends on sizes it fits: see `program`, which guards what lies in memory.

    Args:
        axes: what is reduced for each element, in the type of whose indices it then is.
    """
    kind = index_kind(product(shape))
    kind = max((kind, *(str(axis.dom.extent.dtype) for axis in axes)))  # "int64" after "int32"
    return tuple(const(extent, kind) for extent in shape)


def index_kind(count: int) -> str:
    """The type of indices of so many elements: int64 where int32 cannot number them."""
    return "int64" if at_least(count, 1 << 31) else "int32"


def compute_tensor(
    type_: TensorType, body: ComputeBody, name: str, axes: Sequence[Any] = ()
) -> te.Tensor:
    """The tensor whose element `i...` is `body(*i)`, a reduction over `axes` if there are any."""
    shape = extents(type_.shape, axes)
    result: te.Tensor = te.compute(shape, lambda *i: body(*i), name=name)
    return result


def fill(type_: TensorType, value: Scalar, name: str) -> te.Tensor:
    """A tensor of one value."""
    return compute_tensor(type_, lambda *i: const(value, type_.dtype), name)


def element(source: te.Tensor, index: Sequence[Any], shape: Sequence[int]) -> Expr:
    """The element of `source` that index `i...` of the shape it is broadcast to reads."""
    inner = source.static_shape
    skip = len(shape) - len(inner)
    pairs = zip(inner, shape[skip:], index[skip:], strict=True)
    return source(*(const(0, i.dtype) if n == 1 and out != 1 else i for n, out, i in pairs))


def elementwise(body: ComputeBody, name: str) -> Compute:
    """The compute rule of an op that applies `body` to the broadcast operands."""

    def compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> Sequence[te.Tensor]:
        def at(*index: Any) -> Any:
            return body(*(element(source, index, types[0].shape) for source in inputs))

        return [compute_tensor(types[0], at, name)]

    return compute


def wrapping(op: type[BinaryOp], a: Expr, b: Expr) -> Expr:
    """A sum, difference or product of data, where integers wrap around.

    What indices are made of is taken not to overflow; so data of their types is computed in the
    unsigned type, about which nothing of the kind is assumed.
    """
    kind = a.dtype
    if not is_index(kind):
        return binary(op, a, b)
    unsigned = dtype(f"uint{kind.bits}")
    return cast(kind, binary(op, cast(unsigned, a), cast(unsigned, b)))


def reduce_axes(sizes: Sequence[int], *counts: int) -> list[Any]:
    """Reduction axes k0, k1, ... over these extents.

    Args:
        counts: how many elements there are of what is read and made, which take one type of index.
    """
    kind = max(map(index_kind, (product(sizes), *counts)))  # "int64" after "int32"
    return [
        te.reduce_axis((const(0, kind), const(size, kind)), f"k{n}") for n, size in enumerate(sizes)
    ]


def flipped_by(kind: DType) -> int:
    """What flipping the sign bits of bytes, which are of the other kind then, adds to them."""
    return -128 if kind.is_unsigned else 128


def multiplied(attrs: Attrs, kind: DType, x: Any, y: Any) -> Expr:
    """A term of a sum of products: of numbers, or with the attribute `dot` of numbers in words."""
    dot = attrs.get("dot")
    if dot is not None:
        return Call(kind, dot, (const(0, kind), x, y))
    return cast(kind, x) * cast(kind, y)  # type: ignore[no-any-return]


def accumulate(
    type_: TensorType, reducer: te.Reducer, source: ComputeBody, axes: Sequence[Any], name: str
) -> te.Tensor:
    """The reduction of `source(*i)` over `axes`, in float32 when the type is narrower."""
    wide = te.accumulator(type_.dtype)
    total = TensorType(type_.shape, wide)
    if any(axis.dom.extent is const(0, axis.dom.extent.dtype) for axis in axes):
        return compute_tensor(type_, lambda *i: reducer.combiner(type_.dtype).identity[0], name)

    def body(*index: Any) -> Any:
        value = source(*index).astype(wide)
        return reducer(value, axis=axes) if axes else value

    result = compute_tensor(total, body, name, axes)
    if wide is type_.dtype:
        return result
    return compute_tensor(type_, lambda *i: result(*i).astype(type_.dtype), f"{name}_cast")
