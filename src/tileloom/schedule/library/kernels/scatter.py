"""scatter_kernel: elements go where indices say, on a GPU.

One kernel copies the data, a second has a thread for each element that goes somewhere, which
changes its place atomically. Where several go to one place, sums of floats are added in any order,
and of what replaces something one stays.
"""

from __future__ import annotations

from math import prod

from ....base.errors import UnsupportedError
from ....tir import PrimFunc
from ._text import blocks_of, kernel, under

_THREADS = 256
_CALLS = {"none": "store", "add": "add", "min": "min", "max": "max"}
_LARGEST = 2**31 - 1


def scatter_kernel(
    data: tuple[int, ...],
    indices: tuple[int, ...],
    kind: str = "float32",
    index_kind: str = "int32",
    reduction: str = "none",
    axis: int | None = None,
) -> PrimFunc:
    """`B` is `D`, changed at the places `I` by the elements of `U`.

    The parameters are D, I, U and B. With an `axis`, I and U have one shape, and element
    `U[i, j, ..]` goes to `B[i, I[i, j, ..], ..]` for axis 1. Without one the last axis of I holds
    the first indices of B, and U has the shape of the rest of I and of B. Negative indices count
    from the end; those beyond an end mean the element there.

    Args:
        data: the shape of D and B.
        indices: the shape of I.
        kind: the element type of D, U and B.
        index_kind: that of I.
        reduction: "none" (replace), "add", "min" or "max".

    Raises:
        UnsupportedError: an array is empty or too large, or there is no such reduction.

    >>> import numpy as np, tileloom
    >>> f = scatter_kernel((4,), (3, 1), "int32", reduction="add")
    >>> b, i = np.zeros(4, "int32"), np.array([[1], [-1], [1]], "int32")
    >>> run = tileloom.build(f, "cuda", device="emulator")
    >>> run(np.full(4, 10, "int32"), i, np.array([1, 2, 3], "int32"), b)
    >>> b
    array([10, 14, 10, 12], dtype=int32)
    """
    updates = indices if axis is not None else (*indices[:-1], *data[indices[-1] :])
    if reduction not in _CALLS:
        raise UnsupportedError(f"no scatter {reduction!r}", hint=f"one of {', '.join(_CALLS)}")
    if not min(prod(data), prod(updates)) > 0 or max(prod(data), prod(updates)) > _LARGEST:
        raise UnsupportedError(f"no scatter of {updates} elements into {data}")
    place, known = _place(data, indices, updates, axis)
    change = f"T.atomic_{_CALLS[reduction]}(T.address_of(B[{place}]), U[{_list('n', updates)}])"
    shapes = {
        "D": (data, kind),
        "I": (indices, index_kind),
        "U": (updates, kind),
        "B": (data, kind),
    }
    given = [f'{x} = T.match_buffer({x.lower()}, {s}, "{k}")' for x, (s, k) in shapes.items()]
    here = _list("n", data)
    copy = _each(prod(data), "copy", f"B[{here}] = D[{here}]")
    head = "scatter(d: T.handle, i: T.handle, u: T.handle, b: T.handle)"
    return kernel(head, [*given, copy, _each(prod(updates), "scatter", *known, change)], {})


def _each(count: int, name: str, *body: str) -> str:
    """Statements for every number `n` below a count."""
    guard = f"if b_ * {_THREADS} + t < {count}:"
    at = f"n: T.int32 = b_ * {_THREADS} + t"
    text = blocks_of(-(-count // _THREADS), _THREADS, name, under(guard, at, *body))
    return text.replace("for b in", "for b_ in", 1)


def _delinearized(number: str, shape: tuple[int, ...]) -> list[str]:
    """The indices of the element with a number."""
    return [f"{number} // {prod(shape[k + 1 :])} % {n}" for k, n in enumerate(shape)]


def _list(number: str, shape: tuple[int, ...]) -> str:
    return ", ".join(_delinearized(number, shape))


def _place(
    data: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...], axis: int | None
) -> tuple[str, list[str]]:
    """Where an update goes, and names that the words for it use."""
    places = _delinearized("n", updates)
    if axis is not None:
        names = [_bounded("k0", f"I[{', '.join(places)}]", data[axis])]
        places[axis] = "k0"
        return ", ".join(places), names
    lead, depth = len(indices) - 1, indices[-1]
    names = [
        _bounded(f"k{j}", f"I[{', '.join([*places[:lead], str(j)])}]", data[j])
        for j in range(depth)
    ]
    return ", ".join([*(f"k{j}" for j in range(depth)), *places[lead:]]), names


def _bounded(name: str, index: str, extent: int) -> str:
    wide = f"T.Cast('int64', {index})"
    inside = f"T.max(T.min({wide} + T.Select({wide} < 0, T.int64({extent}), T.int64(0)), "
    return f"{name}: T.int32 = T.Cast('int32', {inside}T.int64({extent - 1})), T.int64(0)))"
