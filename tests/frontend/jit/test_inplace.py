"""`+=`, `out=` and `x[...] = y`: as NumPy for all names of an array, or refused with a reason."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check
from tileloom import numpy as tnp
from tileloom.base.errors import DTypeError, ShapeError

X = np.arange(6.0).reshape(2, 3)


def _another_name(x: Any) -> Any:
    y = x * 1.0
    z = y
    z += 1
    return y, z


def _operators(x: Any) -> Any:
    y = x + 1
    z = y
    y += x
    y -= 2
    y *= x[0]
    y /= 2
    y //= 1
    y %= 5
    y **= 2
    return y, z


def _bits(x: Any) -> Any:
    y = (x * 7).astype("int32")
    truth = x > 1
    z, same = y, truth
    y &= 13
    y |= 2
    y ^= 5
    y <<= 2
    y >>= 1
    truth &= x > 3
    return y, z, truth, same


def _product(x: Any) -> Any:
    y = x @ x.T
    z = y
    y @= y
    return y, z


def _narrower(x: Any) -> Any:
    y = x.astype("float32")
    z = y
    y += x  # computed in float64
    return y, z


def _numbers(x: Any) -> Any:
    s, k = np.float64(0), 0
    for row in x:
        s += row.sum()
        k += row[0]
    total = x.sum()
    before = total
    total += 1
    return s, k, total, before


def _zero_dimensions(x: Any) -> Any:
    y = x[0, ...] if x.ndim == 1 else x.sum(keepdims=True).reshape(())
    z = y
    y += 1
    return y, z


def _accumulate(x: Any) -> Any:
    total = np.zeros_like(x[0])
    same = total
    for row in x:
        total += row
    return total, same


def _whole(x: Any) -> Any:
    y = x * 1
    z = y
    y[...] = 5
    first = y * 2
    y[:] = x[0]
    y[:] += 1
    y[:, ...] *= x
    return y, z, first


def _out(x: Any) -> Any:
    y, row = x * 1, x[0] * 1
    z = y
    np.exp(x, out=y)
    np.add(z, 1, out=z)
    np.clip(y, 1, 4, out=y)
    np.sum(x, axis=0, out=row)
    x.mean(axis=0, out=row)
    quotient, remainder = np.divmod(x, 2, out=(np.zeros_like(x), np.zeros_like(x)))
    np.multiply(x[0], 2, out=quotient)
    return y, z, row, quotient, remainder


def _copies(x: Any) -> Any:
    y = x * 1
    for other in (+y, y.copy(), np.copy(y), y.flatten(), y.astype("float64"), y.round(), y[[0]],
                  copy.copy(y), copy.deepcopy([y])[0], np.conj(y), np.nan_to_num(y)):  # fmt: skip
        other += 1
    clipped = np.clip(y, -100, 100)
    clipped += 1
    return y


def _not_copied(x: Any) -> Any:
    y = np.where(x > 3, np.inf, x)
    z = y.real
    np.nan_to_num(y, copy=False, posinf=7)
    z += 1
    same = y.astype("float64", copy=False)
    same *= 2
    return y, z, same


def _alone(x: Any) -> Any:
    y = (x + 1)[0]
    y += 1
    z = (x * 2).T
    z -= x.T
    return y, z


def _called(x: Any) -> Any:
    def inner(y: Any) -> None:
        y += 1

    y = x * 1
    inner(y)
    return y


WRITES = {
    f.__name__: f
    for f in (_another_name, _operators, _bits, _product, _narrower, _numbers, _zero_dimensions,
              _accumulate, _whole, _out, _copies, _not_copied, _alone, _called)
}  # fmt: skip


@pytest.mark.parametrize("what", WRITES)
def test_as_numpy(what: Any) -> None:
    function = WRITES[what]
    ours, theirs = tl.jit(function)(X), function(X.copy())
    if not isinstance(theirs, tuple):
        ours, theirs = [ours], [theirs]
    for found, wanted in zip(ours, theirs, strict=True):
        check(found, np.asarray(wanted))


def test_arrays_that_the_array_api_makes() -> None:
    def f(x: Any) -> Any:
        total, count = tnp.zeros(3, dtype="float64"), tnp.zeros(())
        same, number = total, count
        total += x[0]
        count += 2
        return total, same, number

    total, same, number = tl.jit(f)(X)
    check(total, X[0])
    check(same, X[0])
    check(number, np.float64(2))


def test_through_another_function_under_jit() -> None:
    @tl.jit
    def inner(y: Any) -> None:
        y += 1

    def outer(x: Any) -> Any:
        y = x * 1
        inner(y)
        return y

    check(tl.jit(outer)(X), X + 1)


def test_numbers_among_the_arguments_are_replaced() -> None:
    def f(x: Any, n: Any) -> Any:
        n += 1
        return x * n

    for number in (1.0, 1, np.float64(1)):
        check(tl.jit(f)(X, number), X * 2)


def _row_of(x: Any) -> Any:
    y = x * 1
    row = y[0]
    row += 1
    return y


def _under_a_view(x: Any) -> Any:
    y = x * 1
    column = y.T
    y += 1
    return column


def _flat(x: Any) -> Any:
    y = x * 1
    flat = y.reshape(-1)
    flat *= 2
    return y


def _rows(x: Any) -> Any:
    y = x * 1
    for row in y:
        row += 1
    return y


def _diagonal(x: Any) -> Any:
    y = x @ x.T
    diagonal = np.diag(y)
    y += 1
    return diagonal


def _halves(x: Any) -> Any:
    a, b = np.split(x * 1, 2)
    a += 1
    return a, b


@pytest.mark.parametrize("function", [_row_of, _under_a_view, _flat, _rows, _halves, _diagonal])
def test_writes_that_other_arrays_would_see_are_refused(function: Any) -> None:
    with pytest.raises(tl.TraceError, match="shares its elements") as raised:
        tl.jit(function)(X)
    assert "copy()" in str(raised.value) and "test_inplace.py" in str(raised.value)


def _argument(x: Any) -> None:
    x += 1


def _part_of_an_argument(x: Any) -> None:
    row = x[0]
    row += 1


def _view_of_an_argument(x: Any) -> None:
    flat = x.reshape(-1)
    flat -= 1


def _out_is_an_argument(x: Any) -> None:
    np.exp(x, out=x)


def _assigned_argument(x: Any) -> None:
    x[:] = 0


REFUSED = [_argument, _part_of_an_argument, _view_of_an_argument, _out_is_an_argument,
           _assigned_argument]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED)
def test_arguments_are_never_written_to(function: Any) -> None:
    x = X.copy()
    with pytest.raises(tl.TraceError, match="caller") as raised:
        tl.jit(function)(x)
    assert "copy" in str(raised.value)
    np.testing.assert_array_equal(x, X)


def test_an_argument_without_dimensions_is_an_array() -> None:
    with pytest.raises(tl.TraceError, match="caller"):
        tl.jit(_argument)(np.array(1.0))


def _numpys_zeros(x: Any) -> None:
    total = np.zeros(3)
    total += x[0]


def _numpys_out(x: Any) -> None:
    np.exp(x, out=np.empty((2, 3)))


@pytest.mark.parametrize("function", [_numpys_zeros, _numpys_out])
def test_arrays_outside_the_trace_are_not_written_to(function: Any) -> None:
    with pytest.raises(tl.TraceError, match="zeros_like"):
        tl.jit(function)(X)


def test_shapes_and_types_must_fit() -> None:
    def float_into_integer(x: Any) -> None:
        y = x.astype("int32")
        y += 0.5

    def signed_into_unsigned(x: Any) -> None:
        y = x.astype("uint8")
        y += x.astype("int8")

    def larger(x: Any) -> None:
        y = x[0] * 1
        y += x

    for function in (float_into_integer, signed_into_unsigned):
        with pytest.raises(DTypeError, match="astype"):
            tl.jit(function)(X)
    with pytest.raises(ShapeError, match=r"\+="):
        tl.jit(larger)(X)


def test_parts_of_arrays_are_not_assigned() -> None:
    def f(x: Any) -> None:
        y = x * 1
        y[0] = 1

    with pytest.raises(tl.TraceError, match="in parts"):
        tl.jit(f)(X)


def test_a_number_taken_out_is_no_view() -> None:
    """A row would be one, and changing it would change what it is of."""

    def function(x: Any) -> Any:
        y = x * 1.0
        number = y[0, 1]
        number += 7
        return y, number

    for found, expected in zip(tl.jit(function)(X), function(X), strict=True):
        np.testing.assert_array_equal(found, expected)
