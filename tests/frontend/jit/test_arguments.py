"""What `jit` refuses to take, and what it hands out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import check
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError

ONE = np.arange(6, dtype=np.float32).reshape(2, 3)


# ---------------------------------------------------------------------------- refusals


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 99.0], [0, 0, 1])  # type: ignore[arg-type]
    for call in (
        lambda: tl.jit(np.sum)(masked),
        lambda: tnp.sum(masked),
        lambda: tl.jit(lambda x: x + masked)(np.ones(3)),
        lambda: tl.jit(lambda x: x)([{"in a nest": masked}]),
    ):
        with pytest.raises(ArgumentError, match="mask"):
            call()
    check(tl.jit(np.sum)(masked.filled(0)), np.float64(3))


def test_arrays_with_an_arithmetic_of_their_own_are_refused() -> None:
    class Metres(np.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> None:
            raise AssertionError

    for value in (np.ones((1, 2)).view(np.matrix), np.ones(2).view(Metres)):
        with pytest.raises(ArgumentError, match=type(value).__name__):
            tl.jit(lambda x: x * x)(value)


def test_subclasses_that_compute_as_arrays_do_are_taken(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", "float32", "w+", shape=(2, 3))
    mapped[...] = ONE
    check(tl.jit(lambda x: x + 1)(mapped), ONE + 1)


def test_tensors_that_require_gradients_are_refused() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(3))
    f = tl.jit(lambda x: x * 2)
    call: Any
    for call in (lambda: f(weight), lambda: tl.jit(lambda x: x + weight)(torch.ones(3))):
        with pytest.raises(ArgumentError, match="gradients") as raised:
            call()
        assert "no_grad" in str(raised.value) and "detach" in str(raised.value)
    torch.testing.assert_close(f(weight.detach()), torch.full((3,), 2.0))
    with torch.no_grad():
        torch.testing.assert_close(f(weight), torch.full((3,), 2.0))


def test_jit_of_what_is_no_function() -> None:
    with pytest.raises(ArgumentError, match="functions, not int"):
        tl.jit(3)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="str"):
        tl.jit(dynamic=True)("f")  # type: ignore[arg-type]


def test_representation_says_what_is_compiled() -> None:
    @tl.jit
    def twice(x: Any) -> Any:
        return x + x

    twice(ONE)
    assert "twice (" in repr(twice) and "test_arguments.py:" in repr(twice)
    assert "1 program compiled" in repr(twice)
    assert "sum" in repr(tl.jit(sum))


# ---------------------------------------------------------------------------- leaks


def _leaked() -> Any:
    kept: Any = []
    tl.jit(lambda x: (kept.append(x + 1), x)[1])(np.ones(2))
    return kept[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda leaked: tl.jit(lambda y: y + leaked)(np.ones(2)),
        lambda leaked: tl.jit(lambda y: leaked)(np.ones(2)),
        lambda leaked: tl.jit(lambda y: y)(leaked),
        lambda leaked: leaked + 1,
        lambda leaked: leaked[0],
        lambda leaked: tnp.exp(leaked),
        lambda leaked: np.exp(leaked),
        lambda leaked: float(leaked[0]),
        lambda leaked: bool(leaked),
    ],
)
def test_a_traced_array_that_outlives_its_trace_is_explained(use: Any) -> None:
    with pytest.raises(tl.TraceError, match="has ended") as raised:
        use(_leaked())
    text = str(raised.value)
    assert "float64[2]" in text and "<lambda> (" in text and "return it" in text


def test_an_array_of_a_function_that_is_still_traced() -> None:
    def outer(x: Any) -> Any:
        return tl.jit(lambda y: y + x)(np.ones(3))

    with pytest.raises(tl.TraceError, match="argument") as raised:
        tl.jit(outer)(np.ones(3))
    assert "outer" in str(raised.value)


# ---------------------------------------------------------------------------- results


def test_arrays_that_the_function_makes_are_fresh_in_each_call() -> None:
    table = np.arange(3.0)

    @tl.jit
    def f(x: Any) -> Any:
        return x + 1, np.zeros(3, "float32"), {"k": [table]}, {1, 2}, np.array(["a"]), x

    for _ in range(2):
        total, zeros, nest, some, words, given = f(ONE)
        check(total, ONE + 1)
        check(zeros, np.zeros(3, np.float32))
        check(nest["k"][0], np.arange(3.0))
        assert some == {1, 2} and words.tolist() == ["a"] and table[0] == 0
        for array in (total, zeros, nest["k"][0], given):
            array += 5
        some.add(3)
        words[0] = "b"
    assert ONE[0, 0] == 0


def test_an_array_that_changes_while_the_function_is_traced() -> None:
    def f(x: Any) -> Any:
        table = np.array([1.0, np.nan, 2.0])
        first = x + table
        table[0] = 5
        second = x * table
        table += 1
        return first, second, table

    for ours, theirs in zip(tl.jit(f)(np.ones(3)), f(np.ones(3)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "function", [lambda: np.zeros(3), lambda: tnp.zeros(3), lambda: np.ones(2)]
)
def test_a_constant_alone_is_fresh_too(function: Any) -> None:
    f = tl.jit(function)
    first = f()
    wanted = first.copy()
    first += 5
    check(f(), wanted)


def test_constants_of_tensors_are_tensors() -> None:
    torch = pytest.importorskip("torch")
    other = torch.ones(2)
    f = tl.jit(lambda x: (x, np.zeros(3), other))
    for _ in range(2):
        given, zeros, kept = f(torch.ones(2))
        assert isinstance(zeros, torch.Tensor) and zeros.tolist() == [0, 0, 0]
        assert kept.tolist() == given.tolist() == [1, 1]
        for tensor in (given, zeros, kept):
            tensor.add_(1)


def test_constants_on_the_emulated_gpu() -> None:
    f = tl.jit(lambda x: (x + 1, np.zeros(3, "float32"), x), target="cuda", device="emulator")
    for _ in range(2):
        total, zeros, given = f(ONE)
        check(total, ONE + 1)
        check(zeros, np.zeros(3, np.float32))
        check(given, ONE)
        zeros += 5
        given += 5
