"""Vectors of elements that lie a few apart."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import driver
from tileloom.expr import Ramp, Var, const
from tileloom.tir import BufferLoad, BufferStore, PrimFunc, make_buffer


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["float32", "int8", "bool"])
def test_strided_load(step: int, lanes: int, kind: str, rng: np.random.Generator) -> None:
    size = (lanes - 1) * step + 1 + 3  # ends with the last element wanted
    a, b = Var("a", "handle"), Var("b", "handle")
    source, result = make_buffer((size,), kind, "A"), make_buffer((lanes,), kind, "B")
    value = BufferLoad(source, [Ramp(const(3), const(step), lanes)])
    body = BufferStore(result, value, (Ramp(const(0), const(1), lanes),))
    kernel = driver.build(PrimFunc((a, b), body, {a: source, b: result}))
    array = (rng.standard_normal(size) * 50).astype(kind)
    out = np.zeros(lanes, kind)
    kernel(array, out)
    np.testing.assert_array_equal(out, array[3::step])


@pytest.mark.parametrize("step", [2, 3, 4])
def test_masked_strided_load(step: int, rng: np.random.Generator) -> None:
    lanes = 16
    a, b, m = Var("a", "handle"), Var("b", "handle"), Var("m", "handle")
    source = make_buffer((lanes * step,), "float32", "A")
    result, mask = make_buffer((lanes,), "float32", "B"), make_buffer((lanes,), "bool", "M")
    whole = Ramp(const(0), const(1), lanes)
    value = BufferLoad(source, [Ramp(const(0), const(step), lanes)], BufferLoad(mask, [whole]))
    body = BufferStore(result, value, (whole,), BufferLoad(mask, [whole]))
    kernel = driver.build(PrimFunc((a, b, m), body, {a: source, b: result, m: mask}))
    array = rng.standard_normal(lanes * step).astype("float32")
    wanted = rng.random(lanes) < 0.5
    out = np.zeros(lanes, "float32")
    kernel(array, out, wanted)
    np.testing.assert_array_equal(out, np.where(wanted, array[::step], 0))
