"""What NumPy raises when it sees the values: positions out of range, powers, numbers too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check
from tileloom import numpy as tnp
from tileloom.base.errors import DTypeError, UserError

X = np.arange(6.0).reshape(2, 3)
U8 = np.array([1, 200], np.uint8)
I32 = np.array([2, -3], np.int32)


def _pairs(x: Any, i: Any) -> Any:
    return x[i, i]


READS = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: {"parts": (x[:, i], 1)},
    "pairs": _pairs,
    "take": lambda x, i: np.take(x, i, 1) + 1,
    "flat": lambda x, i: np.take(x, i),
    "along": lambda x, i: np.take_along_axis(x, i[None], 1),
    "not used": lambda x, i: (x[i], x)[1],
    "twice": lambda x, i: x[i] + x[i] * x[:, i].sum(),
}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("what", READS)
def test_positions_are_checked_as_in_numpy(what: Any, kind: str) -> None:
    read: Any = READS[what]
    program = tl.jit(read)
    for values in ([0, 1], [-2, 1], [0, 2], [-3, 0], [1, 3], [-4, 0], [6, 0], [-7, 0]):
        i = np.array(values).astype(kind)
        try:
            wanted = read(X, i)
        except IndexError:
            with pytest.raises(IndexError, match="out of range"):
                program(X, i)
            continue
        if what != "columns":
            check(program(X, i), wanted)
        else:
            check(program(X, i)["parts"][0], wanted["parts"][0])


def test_the_first_wrong_index_is_named_with_its_line() -> None:
    def f(x: Any, i: Any, j: Any) -> Any:
        rows = x[i]
        return rows[:, j]

    program = tl.jit(f)
    check(program(X, I32 * 0, I32 * 0 - 1), np.array([[2.0, 2.0], [2.0, 2.0]]))
    with pytest.raises(UserError, match="axis 1 with extent 3") as raised:
        program(X, np.array([0, 1]), np.array([0, 3]))
    assert "test_checks.py" in str(raised.value) and "rows[:, j]" in str(raised.value)
    with pytest.raises(IndexError, match="axis 0 with extent 2"):
        program(X, np.array([0, 2]), np.array([0, 1]))
    check(program(X, np.array([1]), np.array([1])), np.array([[4.0]]))


def test_a_number_as_an_index_and_no_index_at_all() -> None:
    program = tl.jit(lambda x, i: x[i])
    check(program(X, np.int64(-2)), X[0])
    with pytest.raises(IndexError):
        program(X, np.int64(2))
    assert program(X, np.zeros(0, np.int64)).shape == (0, 3)


def test_positions_that_are_found_need_no_check() -> None:
    assert len(tl.jit(lambda x: x[tnp.argmax(x, axis=0)]).graph(X).outputs) == 1
    check(tl.jit(lambda x: x[0][tnp.argsort(x[0])])(X[:, ::-1]), X[0])


def test_of_sizes_that_are_not_known() -> None:
    program = tl.jit(lambda x, i: x[i], dynamic_shapes={"x": {0: tl.Dim("n")}})
    for n in (2, 3, 5):
        x = np.ones((n, 3))
        check(program(x, np.full(2, n - 1)), np.ones((2, 3)))
        for wrong in (n, -n - 1):
            with pytest.raises(IndexError, match="axis 0"):
                program(x, np.full(2, wrong))
    assert program.compilations == 1


def test_of_the_functions_called_directly() -> None:
    with pytest.raises(IndexError):
        tnp.take(X, np.array([2]), axis=0)
    check(tnp.take(X, np.array([-1]), axis=0), X[1:])


def test_gpus_read_the_nearest_element() -> None:
    program = tl.jit(lambda x, i: x[i], target="cuda", device="emulator")
    check(program(X, np.array([7, -9])), X[[1, 0]])


# ---------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 300,
        lambda x: 300 - x,
        lambda x: x * -1,
        lambda x: np.maximum(x, 300),
        lambda x: x % 256,
        lambda x: x << 300,
        lambda x: x**-1,
        lambda x: np.subtract(x, -1),
        lambda x: x + 2**70,
    ],
)
def test_integers_that_the_type_does_not_have(function: Any) -> None:
    with pytest.raises(OverflowError):
        function(U8)
    for error in (OverflowError, DTypeError):
        with pytest.raises(error, match=r"range|64 bits"):
            tl.jit(function)(U8)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 255,
        lambda x: (x > 1) + 300,
        lambda x: x.astype("int32") * -300,
        lambda x: x.astype("float32") + 2**40,
        lambda x: x / 300,
        lambda x: (x < 300, x <= 300, x > 300, x >= 300, x == 300, x != 300),
        lambda x: (x < -1, x <= -1, x > -1, x >= -1, x == -1, x != -1),
        lambda x: (np.less(300, x), np.equal(300, x), np.less(-1, x), np.greater(-1, x)),
        lambda x: (np.clip(x, 0, 300), np.clip(x, -1, 30), np.clip(x, -5, 900)),
    ],
)
def test_integers_that_need_not_fit(function: Any) -> None:
    ours, theirs = tl.jit(function)(U8), function(U8)
    if not isinstance(theirs, tuple):
        ours, theirs = [ours], [theirs]
    for found, wanted in zip(ours, theirs, strict=True):
        check(found, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x**-1,
        lambda x: 2**x,
        lambda x: x**x,
        lambda x: np.power(x, -2),
        lambda x: x ** np.array([1, -1]),
        lambda x: (x > 0) ** -1,
    ],
)
def test_integers_have_no_negative_powers(function: Any) -> None:
    with pytest.raises(ValueError, match="powers"):
        function(I32)
    for error in (ValueError, UserError):
        with pytest.raises(error, match="powers"):
            tl.jit(function)(I32)


@pytest.mark.parametrize(
    "function", [lambda x: x**2, lambda x: x ** abs(x), lambda x: x**-1.0, lambda x: 2.0**x]
)
def test_powers_that_there_are(function: Any) -> None:
    check(tl.jit(function)(I32), function(I32))
