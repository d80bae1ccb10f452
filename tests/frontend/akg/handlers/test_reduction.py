"""Reductions and running sums of AKG's graphs against NumPy, their attributes one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg.build import single, tensor, values
from tileloom.akg import load
from tileloom.base.errors import UserError

NUMPY: dict[str, Any] = {
    "ReduceAll": np.all, "ReduceAnd": np.all, "ReduceAny": np.any, "ReduceOr": np.any,
    "ReduceMax": np.max, "ReduceMean": np.mean, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceSum": np.sum,
}  # fmt: skip


def numbers(kind: str, *shape: int) -> Any:
    found = np.random.default_rng(3).integers(0 if kind == "bool" else -3, 2, shape)
    return found.astype(kind)


def run(op: str, x: Any, shape: Any, kind: str, *more: Any, **attrs: Any) -> Any:
    made = single(
        op, [tensor("x", x.shape, str(x.dtype)), *more], tensor("y", shape, kind), **attrs
    )
    (found,) = values(made, x)
    assert found.dtype == kind
    return found


@pytest.mark.parametrize("keep", [None, True])
@pytest.mark.parametrize("axis", [None, [], 0, -1, [1], [-3, 1]])
@pytest.mark.parametrize("name", NUMPY)
def test_axes(name: str, axis: Any, keep: bool | None) -> None:
    kind = "bool" if NUMPY[name] in (np.all, np.any) else "float32"
    x = numbers(kind, 2, 3, 4)
    axes = None if axis in (None, []) else tuple(np.atleast_1d(axis).tolist())
    wanted = NUMPY[name](x, axis=axes, keepdims=bool(keep))
    found = run(name, x, wanted.shape, kind, axis=axis, keep_dims=keep)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("axis", [[1], [0, 2], [-1]])
def test_axes_may_be_a_literal(axis: list[int]) -> None:
    x = numbers("float32", 2, 3, 4)
    literal = tensor("axes", (len(axis),), "int32", value=axis)
    wanted = np.sum(x, tuple(axis))
    np.testing.assert_array_equal(run("ReduceSum", x, wanted.shape, "float32", literal), wanted)


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("kind", ["bool", "int32", "float16"])
def test_types(name: str, kind: str) -> None:
    """Bools are counted as numbers; numbers are bools where they are not zero."""
    x = numbers(kind, 3, 5)
    bools = NUMPY[name] in (np.all, np.any) or (kind == "bool" and name[6:] in ("Max", "Min"))
    made = "bool" if bools else "float32" if kind == "bool" else kind
    if kind == "int32" and name == "ReduceMean":
        with pytest.raises(UserError, match="must have a floating-point type"):
            run(name, x, (3,), made, axis=1)
        return
    wanted = NUMPY[name](x.astype(bool) if bools else x.astype("float64"), axis=1)
    np.testing.assert_allclose(run(name, x, (3,), made, axis=1), wanted, rtol=1e-3)


@pytest.mark.parametrize("name", ["Argmax", "ArgMax", "Argmin", "ArgMin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_places_of_extremes(name: str, axis: int | None) -> None:
    x = np.random.default_rng(5).permutation(12).reshape(3, 4).astype("float32")
    function = np.argmax if name.lower() == "argmax" else np.argmin
    wanted = function(x, -1 if axis is None else axis)
    np.testing.assert_array_equal(run(name, x, wanted.shape, "int32", axis=axis), wanted)


@pytest.mark.parametrize("reverse", [None, True])
@pytest.mark.parametrize("exclusive", [None, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
def test_running(name: str, axis: int | None, exclusive: Any, reverse: Any) -> None:
    x = np.random.default_rng(5).choice([1, 2, -1, 3], (4, 3)).astype("float32")
    along = axis or 0
    function = np.cumsum if name == "CumSum" else np.cumprod
    seen = np.flip(x, along) if reverse else x
    if exclusive:
        first = np.full_like(np.take(seen, [0], along), 0 if name == "CumSum" else 1)
        seen = np.concatenate([first, np.delete(seen, -1, along)], along)
    wanted = function(seen, along)
    wanted = np.flip(wanted, along) if reverse else wanted
    found = run(name, x, x.shape, "float32", axis=axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_any_element(shape: tuple[int, ...], kind: str) -> None:
    x = np.zeros((2, 3), "float32")
    assert not run("ElemAny", x, shape, kind).any()
    x[1, 2] = np.nan
    assert run("ElemAny", x, shape, kind).all()


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"axis": "1"}, "attribute 'axis' has an unusable value '1'"),
        ({"axis": [1.0]}, r"attribute 'axis' has an unusable value \[1.0\]"),
        ({"axis": [True]}, r"attribute 'axis' has an unusable value \[True\]"),
        ({"axis": True}, "attribute 'axis' has an unusable value True"),
        ({"axis": 2}, "axis 2 is out of range"),
        ({"axis": [1, -1]}, "repeated axis"),
        ({"axis": 1, "keep_dims": "yes"}, "attribute 'keep_dims' has an unusable value 'yes'"),
        ({"axis": 1, "keep_dims": []}, r"attribute 'keep_dims' has an unusable value \[\]"),
    ],
)
def test_attributes_that_are_refused(attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(single("ReduceSum", [tensor("x", (2, 3))], tensor("y", (2,)), **attrs))


def test_axes_that_only_a_run_would_know() -> None:
    made = single("ReduceSum", [tensor("x", (2, 3)), tensor("i", (1,), "int32")], tensor("y", (2,)))
    with pytest.raises(UserError, match="input 1 must be a literal"):
        load(made)


@pytest.mark.parametrize("value", [1.5, True, "0", [1, 2], []])
def test_one_axis_is_an_integer(value: Any) -> None:
    with pytest.raises(UserError, match="attribute 'axis' has an unusable value"):
        load(single("CumSum", [tensor("x", (2, 3))], tensor("y", (2, 3)), axis=value))
    one = single("CumSum", [tensor("x", (2, 3))], tensor("y", (2, 3)), axis=[1])
    np.testing.assert_array_equal(values(one, np.ones((2, 3), "f4"))[0], [[1, 2, 3]] * 2)
