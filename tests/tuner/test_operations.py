"""How much programs compute."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.tuner.operations import count_bytes, count_operations


def product(dtype: str, out: str) -> Any:
    a, b = te.placeholder((4, 5), dtype, name="A"), te.placeholder((5, 6), dtype, name="B")
    k: Any = te.reduce_axis((0, 5), name="k")
    c = te.compute(
        (4, 6), lambda i, j: te.sum(a[i, k].astype(out) * b[k, j].astype(out), axis=k), name="C"
    )
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize(
    ("dtype", "out", "nbytes"),
    [("float32", "float32", 4 * 74), ("float16", "float32", 196), ("int8", "int32", 146)],
)
def test_a_product_takes_two_for_each_step(dtype: str, out: str, nbytes: int) -> None:
    func = product(dtype, out)
    assert count_operations(func) == 2 * 4 * 5 * 6
    assert count_bytes(func) == nbytes


def test_what_indices_take_does_not_count() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((4,), lambda i: a[i * 2 + 1] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[3 - i], name="C")
    assert count_operations(te.create_prim_func([a, c])) == 4
