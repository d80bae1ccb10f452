"""`x[...]` with NumPy's meaning: index arrays together with slices, integers, None, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check
from tileloom import numpy as tnp
from tileloom.base.errors import ShapeError, UnsupportedError, UserError
from tileloom.graph.run import run

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
I, J = np.array([1, 0, -1]), np.array([2, -3, 0], np.int32)
COLUMN = np.array([[0], [-1]], np.int8)
MASK = np.array([True, False, True])

#: Of `x`, `i`, `j` and `c`, which stand for X, I, J and COLUMN.
READS = {
    "pairs": lambda x, i, j, c: x[i, j],
    "a grid": lambda x, i, j, c: x[c, j],
    "three": lambda x, i, j, c: x[i, j, i],
    "all": lambda x, i, j, c: x[i, j, i, j],
    "behind a slice": lambda x, i, j, c: x[:, i, j],
    "around a slice": lambda x, i, j, c: x[i, :, j],
    "around two slices": lambda x, i, j, c: x[i, 1:, ::-2, j],
    "after an integer": lambda x, i, j, c: x[0, j],
    "an integer apart": lambda x, i, j, c: x[0, :, j],
    "an integer behind": lambda x, i, j, c: x[:, j, -1],
    "around None": lambda x, i, j, c: x[i, None, j],
    "before None": lambda x, i, j, c: x[:, i, None],
    "dots between": lambda x, i, j, c: x[i, ..., j],
    "dots of no axis": lambda x, i, j, c: x[i, j, ..., i, j],
    "dots in front": lambda x, i, j, c: x[..., i, j],
    "several dimensions": lambda x, i, j, c: x[:, c],
    "several apart": lambda x, i, j, c: x[c, :, c + 1],
    "an element": lambda x, i, j, c: x[i[0], :, j[1]],
    "elements": lambda x, i, j, c: x[i[0], j[0], i[1], j[1]],
    "computed": lambda x, i, j, c: x[i * 0 + 1, abs(j) % 3],
    "a list": lambda x, i, j, c: x[[1, 0], 0, [3, -4]],
    "a nested list": lambda x, i, j, c: x[:, [[0, 1], [2, -1]]],
    "an empty list": lambda x, i, j, c: x[[], 0],
    "a list of elements": lambda x, i, j, c: x[:, [j[0], 1]],
    "a mask": lambda x, i, j, c: x[:, MASK],
    "a list of truth values": lambda x, i, j, c: x[[False, True]],
    "a mask and an array": lambda x, i, j, c: x[:, MASK, [1, 0]],
    "a mask of two axes": lambda x, i, j, c: x[np.arange(6).reshape(2, 3) % 2 == 0],
    "masks of all axes": lambda x, i, j, c: x[X > 100],
    "truth values": lambda x, i, j, c: (x[True], x[:, False], x[np.bool_(True), i], x[True, 0]),
    "a table": lambda x, i, j, c: x[tnp.arange(2), tnp.arange(2)],
    "slices": lambda x, i, j, c: (x[5:-9:-1], x[0, -9::-2], x[-3::-2], x[:, 7:], x[:0], x[1, ...]),
    "take": lambda x, i, j, c: (np.take(x, j, 1), x.take(c), np.take(x, [-1, 2], axis=2)),
    "likelihood": lambda x, i, j, c: -np.mean(x[0, 0][np.arange(3), j]),
}  # fmt: skip


def _same(ours: Any, theirs: Any) -> None:
    if not isinstance(theirs, tuple):
        ours, theirs = [ours], [theirs]
    for found, wanted in zip(ours, theirs, strict=True):
        check(found, np.asarray(wanted))


@pytest.mark.parametrize("what", READS)
def test_as_numpy(what: Any) -> None:
    read: Any = READS[what]
    _same(tl.jit(read)(X, I, J, COLUMN), read(X, I, J, COLUMN))
    known = tl.jit(lambda x: read(x, I, J, COLUMN))
    _same(known(X), read(X, I, J, COLUMN))


def test_with_sizes_that_are_not_known() -> None:
    f = tl.jit(lambda x, i, j: (x[i, j], x[:, i], x[0, :, j], x[[0, -1], 1]), dynamic=True)
    for n in (2, 3, 5):
        x, i, j = X[0, :n], np.arange(n) % 2, -1 - np.arange(n) % 2
        _same(f(x, i, j), (x[i, j], x[:, i], x[0, :, j], x[[0, -1], 1]))


def _random_index(rng: Any, shape: Any) -> Any:
    """An index of any kind that may fit the shape."""
    parts: list[Any] = []
    left = list(shape)
    while left and rng.random() < 0.9:
        n, kind = left[0], rng.integers(10)
        if kind == 0:
            parts.append(None)
            continue
        if kind == 1 and not any(part is Ellipsis for part in parts):
            parts.append(Ellipsis)
            del left[: rng.integers(len(left) + 1)]
            continue
        taken = 1
        if kind == 2 and n:
            parts.append(int(rng.integers(-n, n)))
        elif kind <= 4:
            ends: list[Any] = [
                None if rng.random() < 0.5 else int(v) for v in rng.integers(-n - 1, n + 2, 2)
            ]
            parts.append(slice(*ends, [None, 1, 2, -1, -2][rng.integers(5)]))  # type: ignore[call-overload]
        elif kind == 5:
            taken = int(rng.integers(1, min(len(left), 2) + 1))
            parts.append(rng.random(left[:taken]) < 0.5)
        else:
            sizes = [(), (2,), (1,), (3, 1), (2, 1), (3, 2)][rng.integers(6)]
            at: Any = rng.integers(-n, n, sizes) if n else np.zeros(0, np.int64)
            parts.append(at.tolist() if kind == 6 else at)
        del left[:taken]
    return tuple(parts)


@pytest.mark.parametrize("seed", range(4))
def test_random_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raised = 0
    for _ in range(150):
        shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, 3))
        x, key = rng.standard_normal(shape), _random_index(rng, shape)
        program = tl.jit(lambda x, key=key: x[key])
        try:
            wanted = x[key]
        except IndexError:
            raised += 1
            with pytest.raises(IndexError):
                program.graph(x)
            continue
        (found,) = run(program.graph(x), [x])
        np.testing.assert_array_equal(found, wanted, err_msg=f"{shape} {key}")
    assert raised < 75


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (2, "index 2 is out of range for axis 0"),
        ((0, -4), "index -4 is out of range for axis 1"),
        ((0, [0, 3]), "index 3 is out of range for axis 1"),
        ((None, [0, -3]), "index -3 is out of range for axis 0"),
        ((0, 0, 0, 0, 0), "5 indices"),
        ((..., 0, ...), "more than one"),
        (([0, 1, 0], [0, 1]), "broadcast"),
        (MASK, "mask"),
        (1.5, "float64"),
        ("a", "cannot be an index"),
        ([[0], [1, 0]], "list"),
    ],
)
def test_what_is_no_index_is_an_index_error_too(key: Any, words: str) -> None:
    for error in (IndexError, ShapeError):
        with pytest.raises(error, match=words):
            tl.jit(lambda x: x[key])(X)


def test_known_positions_of_take_are_checked() -> None:
    for function in (
        lambda x: np.take(x, [0, 3], 1),
        lambda x: np.take(x, -121),
        lambda x: tnp.take_along_axis(x, np.full((2, 3, 4, 1), 5), axis=-1),
    ):
        with pytest.raises(IndexError, match="out of range"):
            tl.jit(function)(X)
    with pytest.raises(IndexError, match="float64"):
        tl.jit(lambda x: tnp.take(x, 1.5))(X)


@pytest.mark.parametrize("shape", [(0, 3, 0), (0, 3, 2), (2, 0, 3)])
def test_positions_where_nothing_is_taken_may_be_any(shape: tuple[int, ...]) -> None:
    empty, places = np.zeros(shape), np.array([[-1, 7]])
    wanted = np.take(empty, places, 2)
    assert tl.jit(lambda x: np.take(x, places, 2))(empty).shape == wanted.shape
    assert tl.jit(lambda x, p: np.take(x, p, 2))(empty, places).shape == wanted.shape
    with pytest.raises(IndexError, match="float64"):
        tl.jit(lambda x: tnp.take(x, 1.5, axis=2))(empty)
    with pytest.raises(IndexError, match="out of range"):
        tl.jit(lambda x: np.take(x, places, 1))(np.zeros((2, 0, 3)))


def test_masks_that_are_computed_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="depends on the data") as raised:
        tl.jit(lambda x: x[x > 0])(X)
    assert "where" in str(raised.value)
    with pytest.raises(UserError, match="integer value"):
        tl.jit(lambda x, n: x[n:])(X, np.int64(1))
