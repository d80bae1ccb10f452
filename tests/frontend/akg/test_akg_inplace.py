"""Graphs that give inputs new values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg.build import check, graph, op, tensor
from tileloom.akg import load
from tileloom.base.errors import ArgumentError, UserError

N = 48


def t(name: Any, shape: Any = (N,), kind: str = "float32") -> Any:
    return tensor(name, shape, kind)


def momentum(shape: Any = (N,)) -> Any:
    """m <- 0.9 m + g; p <- p - 0.01 m; the output is the new p."""

    def new(name: Any) -> Any:
        return t(name, shape)

    m, p, g = new("m"), new("p"), new("g")
    steps = [
        op("Mul", [m, tensor("c", (1,), value=0.9)], [new("a")]),
        op("Add", [new("a"), g], [new("b")]),
        op("Mul", [new("b"), tensor("d", (1,), value=0.01)], [new("e")]),
        op("Sub", [p, new("e")], [new("f")]),
        op("InplaceAssign", [m, new("b"), new("b")], [new("n")], fake_output=True),
        op("InplaceAssign", [p, new("f"), new("f")], [new("q")], fake_output=True),
    ]
    return graph(steps, [m, p, g], [new("q")])


def arrays(rng: np.random.Generator, *names: Any, shape: Any = (N,)) -> Any:
    return {name: rng.standard_normal(shape).astype("float32") for name in names}


@pytest.mark.parametrize("shape", [(N,), (37,), (1,), (0,), (8, 16, 3), (1031, 3)])
def test_momentum(rng: np.random.Generator, shape: Any) -> None:
    check(momentum(shape), arrays(rng, "m", "p", "g", shape=shape))


def test_an_output_that_is_a_new_value_is_the_inputs_array(rng: np.random.Generator) -> None:
    given = arrays(rng, "m", "p", "g")
    (result,) = load(momentum()).run(None, given)
    assert result is given["p"]


def test_three_operands_write_one_and_give_another(rng: np.random.Generator) -> None:
    steps = [
        op("Neg", [t("x")], [t("a")]),
        op("Exp", [t("x")], [t("b")]),
        op("InplaceAssign", [t("p"), t("a"), t("b")], [t("y")], fake_output=False),
    ]
    given = arrays(rng, "x", "p")
    found = check(graph(steps, [t("p"), t("x")], [t("y")]), given)
    assert np.array_equal(found["p"], -given["x"])


def test_assign_gives_the_new_value(rng: np.random.Generator) -> None:
    steps = [op("Neg", [t("x")], [t("a")]), op("Assign", [t("p"), t("a")], [t("y")])]
    check(graph(steps, [t("p"), t("x")], [t("y")]), arrays(rng, "x", "p"))


def test_a_parameter_may_be_given_an_input(rng: np.random.Generator) -> None:
    steps = [op("Assign", [t("p"), t("x")], [t("y")])]
    found = check(graph(steps, [t("p"), t("x")], [t("y")]), arrays(rng, "x", "p"))
    assert found["y"] is found["p"]


def test_two_inputs_change_places(rng: np.random.Generator) -> None:
    """Each is read before either is written, as the intermediate results say."""
    zero = tensor("zero", (1,), value=0.0)
    steps = [
        op("Add", [t("x"), zero], [t("a")]),
        op("Add", [t("y"), zero], [t("b")]),
        op("Assign", [t("x"), t("b")], [t("c")]),
        op("Assign", [t("y"), t("a")], [t("d")]),
    ]
    given = arrays(rng, "x", "y")
    found = check(graph(steps, [t("x"), t("y")], [t("c")]), given)
    assert np.array_equal(found["x"], given["y"])
    assert np.array_equal(found["y"], given["x"])


def test_later_operators_read_the_new_value(rng: np.random.Generator) -> None:
    steps = [
        op("Neg", [t("x")], [t("a")]),
        op("Assign", [t("p"), t("a")], [t("b")]),
        op("Mul", [t("p"), t("x")], [t("y")]),
        op("Assign", [t("p"), t("y")], [t("c")]),
    ]
    check(graph(steps, [t("p"), t("x")], [t("y")]), arrays(rng, "x", "p"))


def test_one_result_for_two_parameters(rng: np.random.Generator) -> None:
    steps = [
        op("Neg", [t("x")], [t("a")]),
        op("Assign", [t("p"), t("a")], [t("b")]),
        op("Assign", [t("q"), t("a")], [t("c")]),
    ]
    given = arrays(rng, "x", "p", "q")
    found = check(graph(steps, [t("p"), t("q"), t("x")], [t("a"), t("b")]), given)
    assert found["a"] is not found["p"] or found["b"] is not found["p"]


def test_a_reduction_replaces_a_vector(rng: np.random.Generator) -> None:
    x, p = t("x", (64, 30)), t("p", (30,))
    steps = [
        op("ReduceSum", [x], [t("s", (30,))], axis=[0], keep_dims=False, enable_atomic_add=True),
        op("InplaceAssign", [p, t("s", (30,)), t("s", (30,))], [t("y", (30,))], fake_output=True),
    ]
    given = {**arrays(rng, "x", shape=(64, 30)), **arrays(rng, "p", shape=(30,))}
    check(graph(steps, [x, p], [t("y", (30,))]), given)


def test_a_sum_of_a_parameter_replaces_it_after_all_is_read(rng: np.random.Generator) -> None:
    """Every element of the new value needs all of the old: it cannot be written in place."""
    x = t("x", (40, 40))
    steps = [
        op("Transpose", [x], [t("a", (40, 40))], perm=[1, 0]),
        op("Add", [x, t("a", (40, 40))], [t("b", (40, 40))]),
        op("Assign", [x, t("b", (40, 40))], [t("y", (40, 40))]),
    ]
    check(graph(steps, [x], [t("y", (40, 40))]), arrays(rng, "x", shape=(40, 40)))


# ---------------------------------------------------------------------------- the caller's arrays


def expected(given: Any) -> Any:
    m = given["m"] * np.float32(0.9) + given["g"]
    return m, given["p"] - np.float32(0.01) * m


def close(a: Any, b: Any) -> Any:
    return np.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_arrays_that_lie_otherwise_are_changed_too(rng: np.random.Generator) -> None:
    kept = arrays(rng, "m", "p", "g", shape=(8, 6))
    strided = np.zeros((8, 12), "float32")
    given = {"m": strided[:, ::2], "p": np.asfortranarray(kept["p"]), "g": kept["g"][:, ::1]}
    given["m"][...] = kept["m"]
    (result,) = load(momentum((8, 6))).run(None, given)
    m, p = expected(kept)
    assert close(given["m"], m)
    assert close(given["p"], p)
    assert result is given["p"]
    assert not strided[:, 1::2].any()


def test_an_array_fed_twice_is_read_before_it_is_written(rng: np.random.Generator) -> None:
    kept = arrays(rng, "m", "p", "g")
    given = {"m": kept["m"].copy(), "p": kept["p"].copy()}
    given["g"] = given["p"]  # the gradient is the parameter's own memory
    load(momentum()).run(None, given)
    m, p = expected({**kept, "g": kept["p"]})
    assert close(given["m"], m)
    assert close(given["p"], p)


def test_overlapping_arrays(rng: np.random.Generator) -> None:
    memory = rng.standard_normal(2 * N).astype("float32")
    kept = memory.copy()
    given = {"m": memory[:N], "g": memory[5 : 5 + N], "p": memory[N + 5 : 2 * N + 5]}
    given["p"] = rng.standard_normal(N).astype("float32")
    wanted = expected({"m": kept[:N], "g": kept[5 : 5 + N], "p": given["p"].copy()})
    load(momentum()).run(None, given)
    assert close(given["m"], wanted[0])
    assert close(given["p"], wanted[1])


def test_read_only_arrays_are_refused_before_anything_is_written(rng: np.random.Generator) -> None:
    given = arrays(rng, "m", "p", "g")
    kept = given["m"].copy()
    given["p"].flags.writeable = False
    with pytest.raises(ArgumentError, match="'p' is written, and read-only"):
        load(momentum()).run(None, given)
    assert np.array_equal(given["m"], kept)


def test_the_interpreter_writes_too(rng: np.random.Generator) -> None:
    given = arrays(rng, "m", "p", "g")
    m, p = expected({name: array.copy() for name, array in given.items()})
    load(momentum(), target="reference").run(None, given)
    assert close(given["m"], m)
    assert close(given["p"], p)


def test_wrong_assignments() -> None:
    with pytest.raises(UserError, match="writes to a literal"):
        step = op("Assign", [tensor("c", (N,), value=1.0), t("x")], [t("y")])
        load(graph([step], [t("x")], [t("y")]))
    with pytest.raises(UserError, match="needs a parameter and its new value"):
        load(graph([op("Assign", [t("x")], [t("y")])], [t("x")], [t("y")]))
