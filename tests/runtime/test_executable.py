"""Programs of kernels and host steps: new results, layouts of inputs, sharing, errors."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tileloom.base.dtype import dtype
from tileloom.base.errors import ArgumentError
from tileloom.runtime import Kernel, ParamSpec
from tileloom.runtime.executable import Executable, HostStep, NativeStep, Value

# b[i] = a[i] + a[i], by way of the arena; n is 6.
DOUBLE = """
define i32 @double__packed(ptr %args) {
  %a = load ptr, ptr %args
  %b.place = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.place
  %arena.place = getelementptr ptr, ptr %args, i64 2
  %arena = load ptr, ptr %arena.place
  %x = load <6 x float>, ptr %a, align 4
  %y = fadd <6 x float> %x, %x
  store <6 x float> %y, ptr %arena, align 4
  %z = load <6 x float>, ptr %arena, align 4
  store <6 x float> %z, ptr %b, align 4
  ret i32 0
}
"""
FLOAT = dtype("float32")


def value(slot: int, shape: tuple[int, ...] = (2, 3)) -> Value:
    return Value(slot, shape, FLOAT)


def buffer(name: str, access: Any = "r", shape: tuple[int, ...] = (2, 3)) -> ParamSpec:
    return ParamSpec(name, "buffer", FLOAT, shape, access=access)


@pytest.fixture
def double(assemble: Callable[..., Any]) -> Callable[..., Any]:
    """A step from one slot to another."""
    loaded = assemble(DOUBLE)
    arena = ParamSpec("arena", "buffer", dtype("uint8"), (64,), access="w")
    params = [buffer("a"), buffer("b", "w"), arena]
    kernel = Kernel("double", loaded.address("double__packed"), params, loaded)
    return lambda source, to: NativeStep(kernel, (value(source),), (value(to),), 64)


@pytest.fixture
def a() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_one_kernel(double: Callable[..., Any], a: np.ndarray[Any, Any]) -> None:
    function = Executable("f", [buffer("x")], [value(1)], [double(0, 1)], {})
    first, second = function(a)[0], function(a + 1)[0]
    assert np.array_equal(first, a * 2) and np.array_equal(second, a * 2 + 2)
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("shape", [(6,), (3, 2), (1, 6, 1)])
def test_an_output_in_another_shape_than_it_is_made_in(
    double: Callable[..., Any], a: np.ndarray[Any, Any], shape: tuple[int, ...]
) -> None:
    function = Executable("f", [buffer("x")], [value(1, shape)], [double(0, 1)], {})
    for given in (a, np.asfortranarray(a)):
        (result,) = function(given)
        assert result.shape == shape and function.single(given).shape == shape
        assert np.array_equal(result.reshape(2, 3), a * 2)
    kept, other = function(a)[0], function(a + 1)[0]
    assert np.array_equal(kept.reshape(2, 3), a * 2)
    assert np.array_equal(other.reshape(2, 3), a * 2 + 2)


@pytest.mark.parametrize("outputs", [(1,), (1, 9)])
def test_programs_are_freed_without_the_collector(
    double: Callable[..., Any], a: np.ndarray[Any, Any], outputs: tuple[int, ...]
) -> None:
    """Their constants may be all weights of a model."""
    constants = {9: np.ones((2, 3), np.float32)}
    function = Executable(
        "f", [buffer("x")], [value(slot) for slot in outputs], [double(0, 1)], constants
    )
    single, gone = function.single, weakref.ref(function)
    gc.disable()
    try:
        del function
        assert np.array_equal(single(a), a * 2)
        del single
        assert gone() is None
    finally:
        gc.enable()


def test_steps_of_both_kinds(double: Callable[..., Any], a: np.ndarray[Any, Any]) -> None:
    def negate_and_sum(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        return [-arrays[0], arrays[0] + arrays[1].astype(np.float64)]

    host = HostStep(negate_and_sum, (value(1), value(9)), (value(2), value(3, (3, 2))))
    steps = [double(0, 1), host, double(2, 4)]
    constants = {9: np.ones((2, 3), np.float32)}
    function = Executable(
        "f", [buffer("x")], [value(4), value(3, (6,)), value(1)], steps, constants
    )
    results = function(a)
    assert np.array_equal(results[0], a * -4)
    assert np.array_equal(results[1], (a * 2 + 1).ravel()) and results[1].dtype == np.float32
    assert np.array_equal(results[2], a * 2)


@pytest.mark.parametrize("outputs", [(0,), (0, 0), (9,), (9, 9), (1, 1), (1, 0, 1, 9)])
def test_results_never_share_memory(
    double: Callable[..., Any], a: np.ndarray[Any, Any], outputs: tuple[int, ...]
) -> None:
    constants = {9: np.ones((2, 3), np.float32)}
    function = Executable(
        "f", [buffer("x")], [value(slot) for slot in outputs], [double(0, 1)], constants
    )
    results = function(a)
    everything = [a, constants[9], *results]
    for k, one in enumerate(everything):
        assert not any(np.shares_memory(one, other) for other in everything[k + 1 :])
    for slot, result in zip(outputs, results, strict=True):
        assert np.array_equal(result, {0: a, 1: a * 2, 9: constants[9]}[slot])


def test_inputs_of_any_layout(double: Callable[..., Any], a: np.ndarray[Any, Any]) -> None:
    function = Executable("f", [buffer("x")], [value(1)], [double(0, 1)], {})
    wide = np.zeros((4, 6), np.float32)
    for view in (wide[::2, ::2], wide[::-2, ::-2], np.asfortranarray(a), a[::-1]):
        assert np.array_equal(function(view)[0], view * 2)
    frozen = a.copy()
    frozen.flags.writeable = False
    assert np.array_equal(function(frozen)[0], a * 2)


def test_tensors_are_taken(double: Callable[..., Any], a: np.ndarray[Any, Any]) -> None:
    torch = pytest.importorskip("torch")
    function = Executable("f", [buffer("x")], [value(1)], [double(0, 1)], {})
    assert np.array_equal(function(torch.from_numpy(a))[0], a * 2)
    assert np.array_equal(function(torch.from_numpy(a.T.copy()).T)[0], a * 2)


@pytest.mark.parametrize("native_only", [True, False])
def test_wrong_inputs_name_the_program_and_the_input(
    double: Callable[..., Any], a: np.ndarray[Any, Any], native_only: bool
) -> None:
    steps = [double(0, 1)] if native_only else [double(0, 1), double(1, 2)]
    function = Executable("model", [buffer("image")], [value(1)], steps, {})
    with pytest.raises(ArgumentError, match=r"model\(\) argument 1 \(image\).*float64"):
        function(a.astype(float))
    with pytest.raises(ArgumentError, match=r"model\(\) argument 1 \(image\).*\(2, 3\).*\(3, 2\)"):
        function(a.T)
    with pytest.raises(ArgumentError, match=r"model\(\) takes 1 arguments \(image\), got 2"):
        function(a, a)
    with pytest.raises(ArgumentError, match="not an array"):
        function([[1.0, 2.0, 3.0]] * 2)


def test_many_threads_run_one_program(double: Callable[..., Any], a: np.ndarray[Any, Any]) -> None:
    function = Executable("f", [buffer("x")], [value(2)], [double(0, 1), double(1, 2)], {})
    wrong = []

    def work(seed: int) -> None:
        mine = a + seed
        if not all(np.array_equal(function(mine)[0], mine * 4) for _ in range(200)):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
