"""Compressed sparse rows of AKG's graphs against the dense matrix that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg.build import single, tensor, values

#: Where rows begin, and the columns of the entries, of matrices of 4 columns.
MATRICES = {
    "empty rows": ([0, 2, 2, 5, 6, 6], [1, 3, 0, 1, 2, 3]),
    "full rows": ([0, 4, 8], [0, 1, 2, 3, 3, 2, 1, 0]),
    "one row": ([0, 2], [3, 1]),
    "first rows empty": ([0, 0, 0, 1], [2]),
    "a column twice": ([0, 3], [1, 1, 2]),
}
EACH = pytest.mark.parametrize("name", MATRICES)


def parts(name: str, *more: int) -> tuple[Any, Any, Any, Any]:
    starts, columns = (
        np.array(part, "int64" if len(more) == 2 else "int32") for part in MATRICES[name]
    )
    entries = np.arange(2, 2 + len(columns) * int(np.prod(more)), dtype="float32")
    rows = [row for row in range(len(starts) - 1) for _ in range(starts[row], starts[row + 1])]
    return starts, columns, entries.reshape(len(columns), *more), np.array(rows)


def run(op: str, shape: Any, *arrays: Any, **attrs: Any) -> Any:
    inputs = [tensor(f"x{k}", x.shape, str(x.dtype)) for k, x in enumerate(arrays)]
    return values(single(op, inputs, tensor("y", shape), **attrs), *arrays)[0]


@EACH
def test_elements_at_the_entries(name: str) -> None:
    starts, columns, _, rows = parts(name)
    dense = np.random.default_rng(0).standard_normal((len(starts) - 1, 4)).astype("float32")
    found = run("CSRGather", columns.shape, starts, columns, dense)
    np.testing.assert_array_equal(found, dense[rows, columns])


@EACH
@pytest.mark.parametrize("operator", ["CSRMul", "CSRDiv"])
@pytest.mark.parametrize("spread", ["matrix", "row", "column", "number"])
def test_entries_scaled(operator: str, spread: str, name: str) -> None:
    starts, columns, entries, rows = parts(name)
    shape = (len(starts) - 1, 4)
    sizes = {"matrix": shape, "row": (1, 4), "column": (shape[0], 1), "number": (1, 1)}
    dense = np.random.default_rng(0).choice([0.5, 2, 4, -8], sizes[spread]).astype("float32")
    other = np.broadcast_to(dense, shape)[rows, columns]
    found = run(operator, entries.shape, starts, columns, entries, dense, dense_shape=list(shape))
    np.testing.assert_array_equal(
        found, entries * other if operator == "CSRMul" else entries / other
    )


@EACH
@pytest.mark.parametrize(("more", "axes"), [((), (1, -1)), ((3,), (1, -2)), ((2, 2), (1, -3))])
def test_sums_of_rows(more: tuple[int, ...], axes: tuple[int, int], name: str) -> None:
    starts, columns, entries, rows = parts(name, *more)
    shape = [len(starts) - 1, 4, *more]
    wanted = np.zeros((shape[0], *more), "float32")
    np.add.at(wanted, rows, entries)
    for axis in axes:
        found = run("CSRReduceSum", wanted.shape, starts, columns, entries, axis=axis,
                    dense_shape=shape)  # fmt: skip
        np.testing.assert_array_equal(found, wanted)


@EACH
@pytest.mark.parametrize(("operator", "width"), [("CSRMV", 1), ("CSRMM", 1), ("CSRMM", 3)])
def test_products(operator: str, width: int, name: str) -> None:
    starts, columns, entries, rows = parts(name)
    matrix = np.zeros((len(starts) - 1, 4), "float32")
    np.add.at(matrix, (rows, columns), entries)
    dense = np.random.default_rng(0).integers(-4, 5, (4, width)).astype("float32")
    found = run(operator, (len(matrix), width), starts, columns, entries, dense,
                dense_shape=list(matrix.shape))  # fmt: skip
    np.testing.assert_array_equal(found, matrix @ dense)
