"""Tensor expressions: tensors defined element by element.

A `Tensor` is one output of an operation: a `PlaceholderOp` (an input) or a `ComputeOp` (an
expression of the output indices, possibly a reduction). Indexing a tensor gives the expression of
one element, so programs are written as expressions of elements:

>>> n = 4
>>> A = placeholder((n, 8), name="A")
>>> B = compute((8, n), lambda i, j: A[j, i] * 2.0, name="B")
>>> B.op.body[0]
A[j, i] * T.float32(2.0)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..base import DType, dtype
from ..base.errors import ShapeError, UserError
from ..expr import (
    REDUCE,
    SPATIAL,
    Expr,
    ExprLike,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    as_expr,
    is_int,
    post_order,
)
from ..expr.extents import known_extent
from ..expr.operators import Operators
from ..tir.nodes import check_extents


def static_extent(extent: Expr) -> int:
    """An extent as a number, or as what the expression was made of and that counts as one.

    Raises:
        ShapeError: it is symbolic, and nothing more is known of it.
    """
    known = known_extent(extent)
    if known is None:
        raise ShapeError(f"the extent {extent} is symbolic")
    return known


class PlaceholderOp:
    """An input of the program."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[Expr, ...], kind: DType) -> None:
        self.name, self.shape, self.dtype = name, shape, kind

    def output(self, index: int = 0) -> Tensor:
        """Its only tensor."""
        return Tensor(self, index, self.shape, self.dtype, self.name)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """None: it is an input itself."""
        return ()


class ComputeOp:
    """Output element `axis...` is `body[k]`; several bodies share the axes (and the reduction)."""

    __slots__ = ("attrs", "axis", "body", "name", "outputs")

    def __init__(
        self, name: str, axis: Sequence[IterVar], body: Sequence[Expr], attrs: dict[str, Any]
    ) -> None:
        self.name = name
        self.axis = tuple(axis)
        self.body = tuple(body)
        self.attrs = attrs
        shape = tuple(a.domain.extent for a in self.axis)
        many = len(self.body) > 1
        self.outputs = tuple(
            Tensor(self, k, shape, part.dtype, f"{name}_{k}" if many else name)
            for k, part in enumerate(self.body)
        )

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes that the body reduces over, if it is a reduction."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    def output(self, index: int = 0) -> Tensor:
        """One of its tensors."""
        return self.outputs[index]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the bodies read, each once, in order of appearance."""
        found: dict[Tensor, None] = {}
        for part in self.body:
            for node in post_order(part):
                if isinstance(node, ProducerLoad):
                    found[node.producer] = None
        return tuple(found)


class Tensor:
    """One output of an operation; compared by identity."""

    __slots__ = ("dtype", "name", "op", "shape", "value_index")

    def __init__(
        self,
        op: PlaceholderOp | ComputeOp,
        value_index: int,
        shape: tuple[Expr, ...],
        kind: DType,
        name: str,
    ) -> None:
        self.op, self.value_index, self.shape, self.dtype, self.name = (
            op, value_index, shape, kind, name,
        )  # fmt: skip

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as integers; an error when an extent is symbolic."""
        try:
            return tuple(map(static_extent, self.shape))
        except ShapeError:
            raise ShapeError(
                f"tensor {self.name!r} has a symbolic shape {list(self.shape)}"
            ) from None

    def __call__(self, *indices: ExprLike) -> Expr:
        """The element at these indices; a single sequence of indices is unpacked."""
        if len(indices) == 1 and isinstance(indices[0], (tuple, list)):
            indices = tuple(indices[0])
        if len(indices) != self.ndim:
            raise ShapeError(
                f"tensor {self.name!r} has {self.ndim} dimensions, indexed with {len(indices)}"
            )
        return ProducerLoad(self, [as_expr(i) for i in indices])

    def __getitem__(self, indices: Any) -> Any:
        """`A[i, j]`, or `A[i]` as the first of several index steps, as in TVM."""
        parts = indices if isinstance(indices, tuple) else (indices,)
        return self(*parts) if len(parts) >= self.ndim else TensorSlice(self, parts)

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}{list(self.shape)})"


class TensorSlice(Operators):
    """A tensor with its first indices given: `A[i][j]`."""

    def __init__(self, tensor: Tensor, indices: Sequence[ExprLike]) -> None:
        self.tensor, self.indices = tensor, tuple(indices)

    def __getitem__(self, indices: Any) -> Any:
        parts = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *parts)]

    def __tileloom_expr__(self) -> Expr:
        return self.tensor(*self.indices)


def placeholder(
    shape: Sequence[ExprLike], dtype_: str = "float32", name: str = "placeholder", **kwargs: str
) -> Tensor:
    """An input tensor; `dtype=` is accepted as a keyword as in TVM.

    >>> placeholder((2, 3), "float16", "A")
    Tensor(A: float16[2, 3])
    """
    kind = dtype(kwargs.pop("dtype", dtype_))
    if kwargs:
        raise UserError(f"placeholder got unexpected arguments {sorted(kwargs)}")
    extents = tuple(as_expr(extent) for extent in shape)
    check_extents(extents, name)
    return PlaceholderOp(name, extents, kind).output()


def compute(
    shape: Sequence[ExprLike] | ExprLike,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor (or a tuple of them) whose element `i...` is `fcompute(i...)`.

    Raises:
        UserError: `fcompute` takes another number of indices than `shape` has dimensions.
    """
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    names = _index_names(fcompute, len(extents), varargs_names)
    check_extents([as_expr(extent) for extent in extents], name)
    axis = []
    for given, extent in zip(names, extents, strict=True):
        size = as_expr(extent)
        axis.append(IterVar(Range.from_extent(size), Var(given, size.dtype), SPATIAL))
    result = fcompute(*(a.var for a in axis))
    many = isinstance(result, (tuple, list))
    body = [as_expr(part) for part in (result if many else (result,))]
    info = dict(attrs or {})
    if tag:
        info["tag"] = tag
    op = ComputeOp(name, axis, body, info)
    return op.outputs if many else op.outputs[0]


def _index_names(
    fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None
) -> list[str]:
    names: list[str] = []
    for parameter in inspect.signature(fcompute).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = ndim - len(names)
            names += list(varargs_names or (f"i{k + len(names)}" for k in range(rest)))
        elif parameter.default is parameter.empty:
            names.append(parameter.name)
    if len(names) != ndim:
        raise UserError(
            f"compute over {ndim} dimensions needs a function of {ndim} indices, "
            f"got one of {len(names)}"
        )
    return names


def reduce_axis(dom: Sequence[ExprLike] | Range, name: str = "k") -> IterVar:
    """An axis to reduce over: `dom` is (begin, end) or a `Range`.

    >>> reduce_axis((0, 8), "k").dom
    Range(0, 8)
    """
    if not isinstance(dom, Range):
        begin, end = (as_expr(bound) for bound in dom)
        dom = Range(begin, end - begin if not is_int(begin, 0) else end)
    return IterVar(dom, Var(name, dom.extent.dtype), REDUCE)
