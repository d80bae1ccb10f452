"""Inputs: what suits a type and a program, and memory that notices who writes beside it."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base.dtype import dtype
from tileloom.base.errors import UnsupportedError
from tileloom.runtime.params import ParamSpec
from tileloom.tuner.measure.inputs import (
    Ranges,
    guarded,
    index_bounds,
    is_intact,
    random_inputs,
    refill,
)
from tuner.measure.programs import MATMUL, function

KINDS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "bool"]
KINDS += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def drawn(kind: str, ranges: Ranges | None = None) -> np.ndarray:
    """Numbers of a type, as a program that does not index by them gets them."""
    spec = ParamSpec("A", "buffer", dtype(kind), (1000,))
    (found,) = random_inputs(function(MATMUL), [spec], 0, ranges or Ranges())
    assert found.dtype == dtype(kind).numpy and found.ctypes.data % 64 == 0
    return found.astype(np.float64)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_small_and_differ(kind: str) -> None:
    values = drawn(kind)
    assert len(np.unique(values)) >= (2 if kind == "bool" else 4)
    if "int" in kind:
        assert (values != 0).all() and np.abs(values).max() == 4
        assert (values.min() > 0) == kind.startswith("u")
    elif kind != "bool":
        assert values.min() == -1 and values.max() == 1
        assert drawn(kind, Ranges(positive=True)).min() > 0


@pytest.mark.parametrize(
    ("kind", "terms"), [("float32", 20000), ("float16", 256), ("bfloat16", 16)]
)
def test_sums_of_products_are_exact(kind: str, terms: int) -> None:
    """In the precision of the type itself, from the front and from the back."""
    values = np.resize(drawn(kind), terms).astype(dtype(kind).numpy)
    products = values * np.roll(values, 7)
    forwards = sum(products, start=products.dtype.type(0))
    backwards = sum(products[::-1], start=products.dtype.type(0))
    assert forwards == backwards == products.astype(np.float64).sum()


CSR = """
@T.prim_func
def main(
    starts: T.Buffer((9,), "int32"), columns: T.Buffer((40,), "int32"), last: T.int32,
    data: T.Buffer((40,)), x: T.Buffer((7,)), count: T.Buffer((1,), "int32"), y: T.Buffer((8,)),
):
    for i in range(8):
        for j in range(starts[i + 1] - starts[i]):
            y[i] = y[i] + data[starts[i] + j] * x[columns[starts[i] + j]]
    for i in range(count[0]):
        y[last] = y[last] + T.float32(1)
"""


def test_integers_that_index_stay_below_what_they_index() -> None:
    func = function(CSR)
    assert index_bounds(func) == {"starts": 40, "columns": 7, "last": 8, "count": 8}
    integers = [ParamSpec(b.name, "buffer", b.dtype, b.static_shape or ()) for b in func.buffers]
    found = dict(zip((spec.name for spec in integers), random_inputs(func, integers, 0)))
    assert found["columns"].min() == 0 and found["columns"].max() == 6
    assert found["data"].min() < 0


@pytest.mark.parametrize(
    "spec",
    [
        ParamSpec("A", "buffer", dtype("float32"), (4, "n")),
        ParamSpec("n", "scalar", dtype("int32"), implicit=True),
        ParamSpec("m", "map", dtype("handle")),
        ParamSpec("A", "buffer", dtype("float32"), (4, 4), (8, 1)),
    ],
    ids=str,
)
def test_what_cannot_be_filled_is_refused(spec: ParamSpec) -> None:
    with pytest.raises(UnsupportedError, match=spec.name):
        random_inputs(function(MATMUL), [spec], 0)


@pytest.mark.parametrize("place", [-1, 12])
def test_a_write_beside_an_array_is_noticed(place: int) -> None:
    array = guarded((3, 4), dtype("float32"))
    assert is_intact(array) and array.shape == (3, 4)
    memory = np.lib.stride_tricks.as_strided(array.reshape(-1)[:1], (1,), (4,))
    address = memory.__array_interface__["data"][0] + 4 * place
    beside = np.ctypeslib.as_array((__import__("ctypes").c_float * 1).from_address(address))
    beside[0] = 1.0
    assert not is_intact(array)
    refill([array], [np.ones((3, 4), "float32")])
    assert is_intact(array) and (array == 1).all()
