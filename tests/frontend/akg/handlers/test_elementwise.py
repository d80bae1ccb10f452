"""Elementwise operators of AKG's graphs: the types in which they compute, and their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg import reference
from frontend.akg.build import single, tensor, values
from tileloom.akg import load
from tileloom.base.errors import UserError


def run(op: str, made: str, *arrays: Any, shape: Any = None, **attrs: Any) -> Any:
    inputs = [tensor(f"x{k}", x.shape, str(x.dtype)) for k, x in enumerate(arrays)]
    shape = np.broadcast_shapes(*(x.shape for x in arrays)) if shape is None else shape
    (found,) = values(single(op, inputs, tensor("y", shape, made), **attrs), *arrays)
    assert found.dtype == made
    return found


NAMES = sorted(
    {*reference.UNARY, "Atanh", "Cosh", "Sinh", "Tan", "Log1p", "Trunc"} - {"LogicalNot"}
)
MORE: dict[str, Any] = {"Atanh": np.arctanh, "Cosh": np.cosh, "Sinh": np.sinh, "Tan": np.tan,
                        "Log1p": np.log1p, "Trunc": np.trunc}  # fmt: skip
SAME = {"Acos": "ACos", "ReLU": "Relu"}


@pytest.mark.parametrize("name", [*NAMES, *SAME])
def test_functions_of_one_number(name: str) -> None:
    x = np.array([-2.5, -1, -0.75, -0.0, 0.25, 0.5, 1, 1.5, 3.5, np.inf, np.nan], "float32")
    made = "bool" if name.startswith("Is") else "float32"
    function = MORE.get(name) or reference.UNARY[SAME.get(name, name)]
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(x.astype("float64"))).astype(made)
    np.testing.assert_allclose(run(name, made, x), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", sorted(reference.BINARY))
def test_functions_of_two_numbers(name: str) -> None:
    kind = "bool" if name.startswith("Logical") else "int32"
    compares = "Equal" in name or name.startswith(("Greater", "Less", "Logical"))
    a = np.array([[-7, 0, 5, 2]], "int32")
    b = np.array([[-3], [2], [5]], "int32")
    if name in ("Atan2", "Pow"):
        a, b, kind = np.abs(a).astype("float32"), np.abs(b).astype("float32"), "float32"
    a, b = a.astype(kind), b.astype(kind)
    made = "float64" if "Div" in name and name != "FloorDiv" else "bool" if compares else kind
    wanted = reference.BINARY[name](a, b)
    np.testing.assert_allclose(run(name, made, a, b), wanted, rtol=1e-6)


@pytest.mark.parametrize(("name", "function"), [("BitwiseAnd", np.bitwise_and),
                                                ("BitwiseOr", np.bitwise_or),
                                                ("BitwiseXor", np.bitwise_xor)])  # fmt: skip
def test_bits(name: str, function: Any) -> None:
    a, b = np.array([12, -1, 0], "int32"), np.array([10, 7, 5], "int32")
    np.testing.assert_array_equal(run(name, "int32", a, b), function(a, b))


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ("float16", "float32", "float32"),
        ("float32", "float16", "float32"),
        ("int32", "float16", "float16"),
        ("float16", "int64", "float16"),
        ("int32", "int64", "int64"),
        ("int8", "int32", "int32"),
        ("bool", "int8", "int8"),
        ("int8", "bool", "int8"),
    ],
)
def test_two_types_meet_in_the_wider_one(left: str, right: str, kind: str) -> None:
    """Floats before integers, those before bools; the result says which it was."""
    a, b = np.array([1, 0, 1], left), np.array([1, 1, 0], right)
    graph = load(
        single("Add", [tensor("a", (3,), left), tensor("b", (3,), right)], tensor("y", (3,), kind)),
        target="reference",
    )
    assert [str(n.outputs[0].dtype) for n in graph.graph.nodes if n.op.name == "add"] == [kind]
    np.testing.assert_array_equal(graph(a, b)[0], [2, 1, 1])


@pytest.mark.parametrize("value", [2.5, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_literals_take_the_type_of_the_tensor(value: float, swapped: bool) -> None:
    literal, x = tensor("c", (1,), "float32", value=value), tensor("x", (3,), "float16")
    pair = [literal, x] if swapped else [x, literal]
    given = np.array([1, 2048, -4], "float16")
    wanted = (given - np.float16(value)) * (-1 if swapped else 1)
    found = values(single("Sub", pair, tensor("y", (3,), "float16")), given)[0]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["Div", "RealDiv"])
@pytest.mark.parametrize("kind", ["int8", "int32", "float32"])
def test_quotients(name: str, kind: str) -> None:
    """Of integers they are no integers, and have the digits of integers of 32 bits."""
    a, b = np.array([7, -7, 1, 100], kind), np.array([2, 2, 3, 7], kind)
    made = "float64" if kind[0] == "i" else "float32"
    np.testing.assert_array_equal(run(name, made, a, b), (a.astype(made) / b.astype(made)))
    np.testing.assert_array_equal(
        run(name, "int32", a, b), np.trunc(a.astype("f8") / b.astype("f8"))
    )


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_sums_of_several(count: int, grouped: bool) -> None:
    arrays = [np.array([k + 1, 10 * k], "float32") for k in range(count)]
    descs: Any = [tensor(f"x{k}", (2,)) for k in range(count)]
    made = single("AddN", [descs] if grouped else descs, tensor("y", (2,)))
    np.testing.assert_array_equal(values(made, *arrays)[0], sum(arrays))


def test_a_sum_of_nothing() -> None:
    with pytest.raises(UserError, match="it has no inputs"):
        load({**single("AddN", [], tensor("y", (2,))), "input_desc": []})


@pytest.mark.parametrize("made", ["float32", "float16", "int32"])
def test_choices(made: str) -> None:
    chosen = np.array([True, False, True])
    a, b = np.array([1, 2, 3], "float16"), np.array([[10], [20]], "int32")
    found = run("Select", made, chosen, a, b)
    np.testing.assert_array_equal(found, np.where(chosen, a, b))
    numbers = np.array([2, 0, -1], "int32")
    np.testing.assert_array_equal(run("Select", made, numbers, a, b), np.where(numbers != 0, a, b))


@pytest.mark.parametrize("name", ["SelectGT", "SelectLT"])
def test_choices_by_order(name: str) -> None:
    a, b = np.array([1, 2, 3, np.nan], "float32"), np.full((1,), 2, "float32")
    yes, no = np.array([5, 6, 7, 8], "int32"), np.array([-5, -6, -7, -8], "int32")
    wanted = np.where(a > b if name == "SelectGT" else a < b, yes, no)
    np.testing.assert_array_equal(run(name, "int32", a, b, yes, no), wanted)


@pytest.mark.parametrize(("name", "wanted"), [("ZerosLike", 0), ("OnesLike", 1)])
def test_constants_like_a_tensor(name: str, wanted: int) -> None:
    found = run(name, "float16", np.full((2, 3), 7, "float32"))
    np.testing.assert_array_equal(found, np.full((2, 3), wanted))


@pytest.mark.parametrize("name", ["Identity", "EquivFormat"])
def test_what_stays(name: str) -> None:
    x = np.array([[1, np.nan], [-0.0, 4]], "float32")
    np.testing.assert_array_equal(run(name, "float32", x), x)


@pytest.mark.parametrize("made", ["int32", "float16", "bool", "float64"])
def test_casts(made: str) -> None:
    x = np.array([-2.75, 0, 0.5, 3], "float32")
    np.testing.assert_array_equal(run("Cast", made, x), x.astype(made))


@pytest.mark.parametrize(
    ("name", "count"), [("Abs", 0), ("Add", 1), ("Select", 2), ("SelectGT", 3)]
)
def test_inputs_that_are_missing(name: str, count: int) -> None:
    inputs = [tensor(f"x{k}", (2,)) for k in range(count)]
    made = {**single(name, inputs, tensor("y", (2,))), "input_desc": [[t] for t in inputs]}
    with pytest.raises(UserError, match=f"input {count} is missing"):
        load(made)
