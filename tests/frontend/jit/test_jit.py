"""`jit` itself: specialisation, nests of arguments, static ones, tensors, errors, overhead."""

from __future__ import annotations

import threading
import timeit
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import BF16, check, wide
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError, UserError

ONE = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_one_compilation_for_each_shape_and_type() -> None:
    f = tl.jit(lambda x: x + 1)
    for x in (ONE, ONE * 2, ONE[:, ::-1], np.asfortranarray(ONE)):
        check(f(x), x + 1)
    assert f.compilations == 1
    check(f(ONE.astype("float64")), wide(ONE) + 1)
    check(f(ONE[:1]), ONE[:1] + 1)
    assert f.compilations == 3


def test_results_are_new_arrays() -> None:
    f = tl.jit(lambda x: (x, x + 0, x.T, x.reshape(-1)))
    results = f(ONE)
    for k, result in enumerate(results):
        assert not np.shares_memory(result, ONE)
        assert not any(np.shares_memory(result, other) for other in results[k + 1 :])
        result[...] = -1
    assert ONE[0, 1] == 1
    first, second = f(ONE)[1], f(ONE)[1]
    assert not np.shares_memory(first, second)


def test_nests_of_arguments_and_results() -> None:
    Point = namedtuple("Point", "x y")

    @tl.jit
    def f(pair: Any, table: Any, *, named: Any, rest: Any = None) -> Any:
        a, (b, c) = pair
        inner = {"sum": a + b, "list": [c, table["k"] * 2]}
        return Point(inner, (named.x - named.y, rest, "text", 3))

    found = f((ONE, [ONE + 1, ONE + 2]), {"k": ONE}, named=Point(ONE, ONE / 2))
    assert isinstance(found, Point)
    check(found.x["sum"], 2 * ONE + 1)
    check(found.x["list"][1], ONE * 2)
    check(found.y[0], ONE / 2)
    assert found.y[1:] == (None, "text", 3)


def test_keywords_and_defaults() -> None:
    @tl.jit
    def f(x: Any, y: float = 2.0, *, z: float = 0.5) -> Any:
        return x * y + z

    check(f(ONE), ONE * 2 + np.float32(0.5))
    check(f(x=ONE, y=3.0), ONE * 3 + np.float32(0.5))
    check(f(ONE, z=ONE), ONE * 2 + ONE)
    with pytest.raises(TypeError):
        f(ONE, w=1)
    with pytest.raises(TypeError):
        f()


def test_python_values_are_part_of_the_program() -> None:
    f = tl.jit(lambda x, n, name: tnp.concat([x] * n) if name == "many" else x)
    assert f(ONE, 3, "many").shape == (6, 3)
    assert f(ONE, 2, "many").shape == (4, 3)
    assert f(ONE, 2, "one").shape == (2, 3)
    assert f.compilations == 3


def test_static_arguments() -> None:
    @tl.jit(static_argnames=("power", "axes"))
    def f(x: Any, power: Any, axes: Any = (0,)) -> Any:
        return tnp.sum(x**power, axis=axes) if power > 1.5 else x

    check(f(ONE, 2.0), np.sum(ONE**2, 0))
    check(f(ONE, power=2.0, axes=(1,)), np.sum(ONE**2, 1))
    check(f(ONE, 1.0), ONE)
    assert f.compilations == 3
    with pytest.raises(ArgumentError, match="hashable"):
        f(ONE, 2.0, axes=[1])
    with pytest.raises(ArgumentError, match="nothing"):
        tl.jit(lambda x: x, static_argnames="nothing")
    check(tl.jit(lambda x, k: x[k], static_argnames="k")(ONE, 1), ONE[1])


def test_methods() -> None:
    class Scale:
        def __init__(self, by: Any) -> None:
            self.by = np.float32(by)

        @tl.jit
        def __call__(self, x: Any) -> Any:
            return x * self.by

    double, triple = Scale(2), Scale(3)
    check(double(ONE), ONE * 2)
    check(triple(ONE), ONE * 3)
    check(Scale.__call__(double, ONE), ONE * 2)
    assert Scale.__call__.compilations == 2


def test_constants_are_captured() -> None:
    weights = np.ones((3, 4), np.float32)
    f = tl.jit(lambda x: x @ weights)
    check(f(ONE), ONE @ weights)
    assert f.compilations == 1


def test_numpys_functions_are_traced_as_well() -> None:
    def f(x: Any) -> Any:
        shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
        mean = np.mean(x, axis=0)
        parts = np.concatenate([shifted, x, np.stack([mean, mean])])
        return np.where(parts > 0.1, parts, np.tanh(parts)), np.transpose(x).sum(0), x.T.mean(1)

    for ours, theirs in zip(tl.jit(f)(ONE), f(wide(ONE)), strict=True):
        check(ours, theirs, np.float32)
    with pytest.raises(UserError, match="nonzero"):
        tl.jit(lambda x: np.nonzero(x))(ONE)
    with pytest.raises(UserError, match=r"arctan2\.reduce"):
        tl.jit(lambda x: np.arctan2.reduce(x))(ONE)


def test_operators_and_methods() -> None:
    def f(x: Any, y: Any) -> Any:
        methods = (
            x.sum(),
            x.mean(axis=0),
            x.max(1),
            x.reshape(3, 2),
            x.transpose(),
            x.T,
            x.flatten(),
        )
        operators = (
            -x,
            +x,
            abs(x),
            x // y,
            x % y,
            x**2,
            2**x,
            1 / y,
            x < y,
            x >= 1,
            x == y,
            x != y,
        )
        return (*methods, *operators, x.astype("int32"), x.clip(0, 2), x.std(), (x > 2).any())

    y = ONE + 1
    for ours, theirs in zip(tl.jit(f)(ONE, y), f(ONE, y), strict=True):
        check(ours, np.asarray(theirs), np.asarray(theirs).dtype)


def test_functions_under_jit_call_each_other() -> None:
    inner = tl.jit(lambda x, *, k=1.0: tnp.exp(x) * k)
    outer = tl.jit(lambda x: inner(x, k=2.0) + inner(x))
    check(outer(ONE), 3 * np.exp(wide(ONE)), np.float32)
    assert inner.compilations == 0 and outer.compilations == 1


def test_outputs_that_are_inputs_constants_or_repeated() -> None:
    a, b, c, d = tl.jit(
        lambda x: (x, 1.0 * tnp.ones(2), x, np.array([1, 2], np.float32)[0] + x * 0)
    )(ONE)
    check(a, ONE)
    check(b, np.ones(2))
    check(c, ONE)
    check(d, np.ones((2, 3), np.float32))
    assert tl.jit(lambda x: None)(ONE) is None
    assert tl.jit(lambda: tnp.zeros(3))().tolist() == [0, 0, 0]


def test_without_arrays_and_eagerly() -> None:
    check(tnp.exp(ONE), np.exp(wide(ONE)), np.float32)
    check(tnp.add(ONE, 1), ONE + 1)
    assert isinstance(tnp.sum(ONE), np.ndarray)


@pytest.mark.parametrize("kind", ["float16", BF16, "float64", "int8", "uint64", "bool"])
def test_other_types_as_arguments(kind: Any) -> None:
    x = np.array([0, 1, 1, 0, 1]).astype(kind)
    check(tl.jit(lambda x: tnp.where(x == 1, x, x))(x), x)


def test_numpy_scalars_and_scalars_of_arrays() -> None:
    f = tl.jit(lambda x, s: x * s)
    check(f(ONE, np.float32(3)), ONE * 3)
    check(f(ONE, np.array(3, np.float32)), ONE * 3)
    assert f(ONE, np.float64(3)).dtype == np.float64


def test_threads_share_a_function() -> None:
    f = tl.jit(lambda x: tnp.tanh(x) + tnp.ones(3, dtype="float32"))
    results = []

    def work() -> None:
        results.append(f(ONE))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6 and f.compilations == 1
    for result in results:
        check(result, np.tanh(wide(ONE)) + 1, np.float32)


# ---------------------------------------------------------------------------- tensors


def test_tensors_in_tensors_out() -> None:
    torch = pytest.importorskip("torch")
    f = tl.jit(lambda x, y: {"sum": x + y, "exp": tnp.exp(x)})
    x = torch.arange(6.0).reshape(2, 3)
    found = f(x, torch.ones(2, 3))
    assert isinstance(found["sum"], torch.Tensor)
    torch.testing.assert_close(found["sum"], x + 1)
    torch.testing.assert_close(found["exp"], torch.exp(x))
    torch.testing.assert_close(f(x.T, torch.ones(3, 2))["sum"], x.T + 1)
    half = tl.jit(lambda x: x * 2)(x.to(torch.bfloat16))
    assert half.dtype == torch.bfloat16 and half[0, 1] == 2
    mixed = tl.jit(lambda x, y: x + y)(x, ONE)
    torch.testing.assert_close(mixed, x + torch.from_numpy(ONE))


# ---------------------------------------------------------------------------- refusals


def _branch(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def _loop(x: Any) -> Any:
    while x.sum() > 1:
        x = x / 2
    return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_branch, ("if x > 0", "truth value", "where")),
        (_loop, ("while x.sum() > 1", "truth value")),
        (lambda x: float(x[0, 0]), ("value",)),
        (lambda x: int(x[0, 0]), ("integer value",)),
        (lambda x: x[0, 0].item(), ("value",)),
        (lambda x: x.tolist(), ("list",)),
        (lambda x: np.asarray(x), ("contents",)),
        (lambda x: list(range(x[0, 0])), ("integer value", "static_argnames")),
        (lambda x: x.__setitem__(0, 1), ("not changed in parts", "where")),
    ],
)
def test_decisions_that_need_values_are_refused_at_their_line(
    function: Any, words: tuple[str, ...]
) -> None:
    with pytest.raises(tl.TraceError) as raised:
        tl.jit(function)(ONE)
    text = str(raised.value)
    assert "test_jit.py" in text and "^" in text
    for word in words:
        assert word in text


def test_a_failed_trace_leaves_nothing_behind() -> None:
    f = tl.jit(_branch)
    for _ in range(2):
        with pytest.raises(tl.TraceError):
            f(ONE)
    check(tnp.ones(2), np.ones(2))  # outside of a trace again
    assert f.compilations == 0


@pytest.mark.parametrize(
    "argument",
    [np.array(["a"]), np.array([1j]), np.array([object()]), np.zeros(2, "M8[s]"), {1, 2}],
)
def test_arguments_that_are_no_arrays_of_numbers(argument: Any) -> None:
    with pytest.raises(UserError):
        tl.jit(lambda x: x)(argument)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = tl.no_such_function  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        tl.jit(lambda x: x.no_such_method())(ONE)


# ---------------------------------------------------------------------------- overhead


@pytest.mark.benchmark
def test_a_call_costs_little() -> None:
    f, x = tl.jit(lambda a, b: a + b), np.ones(16, np.float32)
    f(x, x)
    assert min(timeit.repeat(lambda: f(x, x), number=10_000, repeat=7)) / 10_000 < 4e-6


@pytest.mark.parametrize("depth", [3, 30, 600, 5000])
def test_deep_nests_work_or_are_refused(depth: int) -> None:
    def nested(inner: Any) -> Any:
        for _ in range(depth):
            inner = [inner]
        return inner

    def innermost(found: Any) -> Any:
        for _ in range(depth):
            (found,) = found
        return found

    x = np.ones(2)
    call: Any
    for call in (
        lambda: tl.jit(lambda d: innermost(d) + 1)(nested(x)),
        lambda: innermost(tl.jit(lambda d: nested(d + 1))(x)),
    ):
        try:
            np.testing.assert_array_equal(call(), [2, 2])
        except UserError as error:
            assert depth > 100 and "nested too deeply" in str(error)
