"""The tower itself: right programs stand, and the floor that is wrong is the one named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.expr import SizeVar
from tileloom.tir import For, make_buffer, map_exprs, run
from tileloom.tir.run import run as interpret
from tir.programs import func, load, loops, matmul, softmax, store
from tower import TowerError, check_compiled, check_lowering, check_tower, random_inputs


def numpy_softmax(x: Any, y: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def doubled(n: int = 5, factor: Any = 2) -> Any:
    a, b = make_buffer((n,), name="A"), make_buffer((n,), name="B")
    return func((a, b), loops((n,), lambda i: store(b, (i,), load(a, i) * factor)))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (5, 7, 3), (0, 2, 3)])
def test_matmul_stands(rng: np.random.Generator, shape: Any) -> None:
    program = matmul(*shape)
    check_lowering(program, random_inputs(program, rng), lambda a, b, c: a @ b)


def test_symbolic_matmul_stands(rng: np.random.Generator) -> None:
    program = matmul(SizeVar("m"), SizeVar("n"), SizeVar("k"))
    inputs = random_inputs(program, rng, {"m": 3, "n": 5, "k": 2})
    check_lowering(program, inputs, {"C": inputs[0] @ inputs[1]})


def test_softmax_stands_with_a_kernel(rng: np.random.Generator) -> None:
    program = softmax(3, 5)

    def kernel(x: Any, y: Any) -> None:
        y[...] = numpy_softmax(x, y)

    check_lowering(program, random_inputs(program, rng), numpy_softmax, [("numpy", kernel)])


@pytest.mark.parametrize("kinds", [("float32", "float32"), ("int8", "int32")])
def test_machine_code_stands(rng: np.random.Generator, kinds: tuple[str, ...]) -> None:
    program = matmul(5, 7, 3, *kinds)
    inputs = random_inputs(program, rng)
    check_compiled(program, inputs, lambda a, b, c: a.astype(c.dtype) @ b.astype(c.dtype))


def test_the_wrong_floor_is_named(rng: np.random.Generator) -> None:
    right, wrong = doubled(), doubled(factor=3)
    inputs = random_inputs(right, rng)
    floors = [("one", right), ("two", right), ("three", wrong), ("four", wrong)]
    with pytest.raises(TowerError, match=r"floor 'three' fails .* 'two', is right") as caught:
        check_tower(right, inputs, None, floors)
    assert "B is wrong at 5 of 5 elements, first at [0]" in str(caught.value)
    assert (caught.value.floor, caught.value.below) == ("three", "two")


def test_the_ground_floor_is_compared_with_what_is_expected(rng: np.random.Generator) -> None:
    program = doubled()
    inputs = random_inputs(program, rng)
    check_tower(program, inputs, [None, inputs[0] * 2])
    for expected in ([None, inputs[0] * 3], {"B": inputs[0] * 3}, lambda a, b: a * 3):
        with pytest.raises(TowerError, match=r"floor 'blocks' fails .it is the ground floor"):
            check_tower(program, inputs, expected)
    with pytest.raises(TowerError, match="shape"):
        check_tower(program, inputs, {"B": np.zeros(4)})


def test_stray_writes_show(rng: np.random.Generator) -> None:
    program = doubled()

    def kernel(a: Any, b: Any) -> None:
        run(program, a, b)
        a[0] += 1

    with pytest.raises(TowerError, match=r"floor 'kernel' .* A is wrong at 1 of 5"):
        check_tower(program, random_inputs(program, rng), None, [("kernel", kernel)])


def test_errors_of_a_floor_belong_to_it(rng: np.random.Generator) -> None:
    program = doubled()
    shifted = program.replace(body=map_exprs(program.body, lambda e: e))
    loop = shifted.body
    assert isinstance(loop, For)
    too_far = shifted.replace(body=loop.replace(extent=loop.extent + 1))
    with pytest.raises(TowerError, match=r"floor 'far' .*VerifyError: index 5 is out of bounds"):
        check_tower(program, random_inputs(program, rng), None, [("far", too_far)])

    def crash(a: Any, b: Any) -> None:
        raise UserError("no")

    with pytest.raises(TowerError, match=r"floor 'crash' .*UserError: no"):
        check_tower(program, random_inputs(program, rng), None, [("crash", crash)])


def test_tolerance_is_for_kernels_alone(rng: np.random.Generator) -> None:
    program, near = doubled(), doubled(factor=2.000001)

    def kernel(a: Any, b: Any) -> None:
        interpret(near, a, b)

    inputs = random_inputs(program, rng)
    check_tower(program, inputs, None, [("kernel", kernel)])
    with pytest.raises(TowerError, match="'kernel'"):
        check_tower(program, inputs, None, [("kernel", kernel)], rtol=1e-9, atol=1e-9)
    with pytest.raises(TowerError, match="'near'"):
        check_tower(program, inputs, None, [("near", near)])


def test_inputs_are_kept_and_nan_equals_nan() -> None:
    program = doubled()
    inputs = [np.full(5, np.nan, "float32"), np.zeros(5, "float32")]
    result = check_tower(program, inputs, None, [("same", program)])
    assert np.isnan(result[1]).all()
    assert (inputs[1] == 0).all()
