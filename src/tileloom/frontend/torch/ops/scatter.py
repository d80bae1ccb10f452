"""Writing at computed places, of few elements: every element of the result looks for its writer.

That takes the product of the two sizes in work, but needs no order among writers and joins what
comes before and after in one kernel. Larger writes are left to PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import broadcast_shapes, product
from ..call import Call, as_tensor
from ..registry import aten

#: Comparisons of a place with an index, at most.
_MOST_WORK = 1 << 18


def _check_work(places: int, writers: int) -> None:
    if places * writers > _MOST_WORK:
        raise UnsupportedError("writes of many elements at computed places")


def _wrapped(index: Tensor, extent: int) -> Tensor:
    """Indices from the end counted from the beginning."""
    wide = as_tensor(index, "int64")
    return ops.where(ops.less(wide, 0), ops.add(wide, extent), wide)


# ---------------------------------------------------------------------------- index_put


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(
    call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor,
    accumulate: bool = False,
) -> Tensor:  # fmt: skip
    """x with x[indices] = values, or += values."""
    given = [(k, t) for k, t in enumerate(indices) if t is not None]
    if any(t.dtype.is_bool or t.dtype == "uint8" for _, t in given):
        return _put_masked(x, given, values, accumulate)
    axes = [k for k, _ in given]
    shape = broadcast_shapes(*(t.shape for _, t in given))
    if not x.type.size or not product(shape):
        return x
    rest = [k for k in range(x.ndim) if k not in axes]
    extents, others = [x.shape[k] for k in axes], [x.shape[k] for k in rest]
    _check_work(product(extents), product(shape))
    place = ops.zeros((), "int64")
    for (_, index), extent in zip(given, extents, strict=True):
        place = ops.add(ops.mul(place, extent), _wrapped(index, extent))
    place = ops.reshape(ops.broadcast_to(place, shape), [1, product(shape)])
    written = _written(values, axes, shape, [x.shape[k] for k in rest])
    order = [*axes, *rest]
    old = ops.reshape(ops.transpose(x, order), [product(extents), product(others)])
    hits = ops.equal(ops.iota((product(extents), 1), 0), place)
    new = _accumulated(old, hits, written) if accumulate else _replaced(old, hits, written)
    back = [order.index(k) for k in range(x.ndim)]
    return ops.transpose(ops.reshape(new, [*extents, *others]), back)


def _written(
    values: Tensor, axes: Sequence[int], shape: Sequence[int], rest: Sequence[int]
) -> Tensor:
    """The values as [writers, elements of a slice]."""
    adjacent = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if adjacent else 0  # where the index's dimensions stand in x[indices]
    full = ops.broadcast_to(values, [*rest[:front], *shape, *rest[front:]])
    order = [*range(front, front + len(shape)), *range(front),
             *range(front + len(shape), full.ndim)]  # fmt: skip
    return ops.reshape(ops.transpose(full, order), [product(shape), product(rest)])


def _replaced(old: Tensor, hits: Tensor, written: Tensor) -> Tensor:
    """Of several writers the last wins."""
    writer = ops.max(ops.where(hits, ops.iota((1, hits.shape[1]), 1), -1), 1)
    found = ops.gather(written, ops.maximum(writer, 0), 0)
    return ops.where(ops.expand_dims(ops.greater_equal(writer, 0), 1), found, old)


def _accumulated(old: Tensor, hits: Tensor, written: Tensor) -> Tensor:
    if old.dtype.is_bool:
        raise UnsupportedError("sums of bools")
    each = ops.where(ops.expand_dims(hits, 2), ops.expand_dims(written, 0), as_tensor(0, old.dtype))
    return ops.add(old, ops.sum(each, 1))


def _put_masked(
    x: Tensor, given: Sequence[tuple[int, Tensor]], values: Tensor, accumulate: bool
) -> Tensor:
    axis, mask = given[0]
    if len(given) > 1 or axis or mask.ndim == 0 or values.type.size != 1 or not x.ndim:
        raise UnsupportedError("writing several values through masks")
    wide = ops.reshape(as_tensor(mask, "bool"), [*mask.shape, *[1] * (x.ndim - mask.ndim)])
    value = ops.reshape(values, [])
    return ops.where(wide, ops.add(x, value) if accumulate else value, x)


# ---------------------------------------------------------------------------- scatter

Combine = Callable[[Tensor, int], Tensor]
_REDUCE: dict[str, tuple[Combine, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": (ops.sum, ops.add), "add": (ops.sum, ops.add), "mean": (ops.sum, ops.add),
    "prod": (ops.prod, ops.mul), "multiply": (ops.prod, ops.mul),
    "amax": (ops.max, ops.maximum), "amin": (ops.min, ops.minimum),
}  # fmt: skip


def _hits(x: Tensor, dim: int, index: Tensor, source: Any) -> tuple[Tensor, Tensor, int]:
    """Which writer hits which element, and what it writes, with the writers along a new axis.

    Both as [..., writers, extent, ...] in the place of the dimension, outside which the tensor may
    be larger than the index.
    """
    axis = dim % x.ndim
    writers = index.shape[axis]
    _check_work(x.type.size, writers)
    places = _wrapped(index, x.shape[axis])
    data = source if isinstance(source, Tensor) else ops.full(index.shape, source, x.dtype)
    data = ops.strided_slice(data, [0] * x.ndim, list(index.shape))
    margins = [
        (0, 0) if k == axis else (0, n - m)
        for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))
    ]
    fill: Any = False if x.dtype.is_bool else 0
    places = ops.expand_dims(ops.pad(places, margins, value=-1), axis + 1)
    data = ops.expand_dims(ops.pad(ops.cast(data, x.dtype), margins, value=fill), axis + 1)
    line = ops.iota([x.shape[axis] if k == axis + 1 else 1 for k in range(x.ndim + 1)], axis + 1)
    return ops.equal(places, line), data, axis


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce",
      "scatter_add.default", "scatter_reduce.two")  # fmt: skip
def scatter(
    call: Call, x: Tensor, dim: int, index: Tensor, source: Any, reduce: str | None = None, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """x with x[index[i, j], j] = source[i, j] for dimension 0, or combined with it."""
    if not index.type.size or not x.type.size:
        return x
    if x.ndim < 2:  # scalars count as rows of one
        x, index = ops.reshape(x, [x.type.size]), ops.reshape(index, [index.type.size])
        if isinstance(source, Tensor):
            source = ops.reshape(source, [source.type.size])
    rule = "sum" if "scatter_add" in call.name else reduce
    return ops.reshape(_scattered(x, dim, index, source, rule, include_self), call.shape)


def _scattered(
    x: Tensor, dim: int, index: Tensor, source: Any, rule: str | None, include_self: bool
) -> Tensor:
    hits, data, axis = _hits(x, dim, index, source)
    line = ops.iota([hits.shape[k] if k == axis else 1 for k in range(hits.ndim)], axis)
    if rule is None:
        writer = ops.max(ops.where(hits, line, -1), axis, keepdims=True)
        chosen = ops.logical_and(hits, ops.equal(line, writer))
        if x.dtype.is_bool:
            found = ops.any(ops.logical_and(chosen, data), axis)
        else:
            # Chosen, not summed: what is written may be infinite or NaN.
            found = ops.sum(ops.where(chosen, data, 0), axis)
        return ops.where(ops.greater_equal(ops.reshape(writer, x.shape), 0), found, x)
    return _combined(x, hits, data, axis, rule, include_self)


def _combined(
    x: Tensor, hits: Tensor, data: Tensor, axis: int, rule: str, include_self: bool
) -> Tensor:
    if x.dtype.is_bool or (rule == "mean" and not x.dtype.is_float):
        raise UnsupportedError(f"scatter_reduce by {rule} of {x.dtype}")
    combine, join = _REDUCE[rule]
    neutral: float = {"prod": 1, "multiply": 1}.get(rule, 0)
    if rule in ("amax", "amin"):
        if not x.dtype.is_float:
            raise UnsupportedError(f"scatter_reduce by {rule} of {x.dtype}")
        neutral = float("-inf") if rule == "amax" else float("inf")
    found = combine(ops.where(hits, data, neutral), axis)
    count = ops.sum(as_tensor(hits, "int32"), axis)
    result = join(x, found) if include_self else found
    if rule == "mean":
        parts = ops.add(count, 1) if include_self else ops.maximum(count, 1)
        result = ops.div(result, as_tensor(parts, x.dtype))
    return ops.where(ops.greater(count, 0), result, x)
