"""Functions that return a value, and calls between functions of a module whose value is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.script import from_source
from tileloom.tir import run, structural_equal

MODULE = """
@I.ir_module
class Module:
    @T.prim_func
    def inc(x: T.int32) -> T.int32:
        T.ret(x + 1)

    @T.prim_func
    def collatz(x: T.int32) -> T.int32:
        if x % 2 == 1:
            T.ret(3 * x + 1)
        T.ret(x // 2)

    @T.prim_func
    def half(x: T.float32) -> T.float32:
        T.ret(x * T.float32(0.5))

    @T.prim_func
    def odd(x: T.int32) -> T.bool:
        T.ret(x % 2 == 1)

    @T.prim_func
    def factorial(n: T.int64) -> T.int64:
        if n < T.int64(2):
            T.ret(T.int64(1))
        T.ret(n * Module.factorial(n - T.int64(1)))

    @T.prim_func
    def main(A: T.Buffer((13,), "int32"), B: T.Buffer((13,), "float32")):
        for i in {loop}(13):
            with T.block("A"):
                vi = T.axis.spatial(13, i)
                A[vi] = Module.inc(vi) * 100 + Module.collatz(Module.inc(vi))
        for i in {loop}(13):
            with T.block("B"):
                vi = T.axis.spatial(13, i)
                B[vi] = T.if_then_else(Module.odd(vi), Module.half(T.Cast("float32", vi)), B[vi])
"""


def wanted(b: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    i = np.arange(1, 14)
    a = i * 100 + np.where(i % 2 == 1, 3 * i + 1, i // 2)
    return a.astype("int32"), np.where(np.arange(13) % 2 == 1, np.arange(13) / 2, b)


@pytest.mark.parametrize("loop", ["range", "T.parallel", "T.vectorized", "T.unroll"])
def test_calls_inside_expressions(loop: str) -> None:
    module = from_source(MODULE.format(loop=loop))
    again = from_source(module.script())
    assert structural_equal(module, again)
    for program in (lambda *args: run(module, *args), tileloom.build(module)["main"]):
        a, b = np.zeros(13, "int32"), np.full(13, 7, "float32")
        program(a, b)
        for got, expected in zip((a, b), wanted(np.full(13, 7)), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("inc", 41, 42),
        ("inc", 2**31 - 1, -(2**31)),
        ("collatz", 7, 22),
        ("collatz", 10, 5),
        ("half", 3.0, 1.5),
        ("odd", 3, True),
        ("odd", 4, False),
        ("factorial", 20, 2432902008176640000),
    ],
)
def test_values_come_back_to_python(name: str, argument: float, result: float) -> None:
    module = from_source(MODULE.format(loop="range"))
    assert run(module, argument, name=name) == result
    kernel = tileloom.build(module)[name]
    got = kernel(argument)
    assert got == result
    assert type(got) is type(result)
    assert len(kernel.params) == 1


def test_a_result_that_memory_decides() -> None:
    """The first element above a limit; symbols of shapes come before the result."""
    func = from_source("""
@T.prim_func
def main(a: T.handle, limit: T.float32) -> T.int64:
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        if A[i] > limit:
            T.ret(i)
    T.ret(T.int64(-1))
""")
    kernel = tileloom.build(func)
    values = np.arange(11, dtype="float32")
    for program in (kernel, lambda *args: run(func, *args)):
        assert program(values, 4.5) == 5
        assert program(values, 99.0) == -1
        assert program(values[:0], 0.0) == -1
    assert np.array_equal(values, np.arange(11))


def test_a_call_whose_value_is_dropped() -> None:
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def five() -> T.int32:
        T.ret(5)

    @T.prim_func
    def main(A: T.Buffer((1,), "int32")):
        T.evaluate(Module.five())
        A[0] = 3
""")
    for program in (lambda *args: run(module, *args), tileloom.build(module)["main"]):
        a = np.zeros(1, "int32")
        program(a)
        assert a[0] == 3


def test_assertions_in_the_function_called() -> None:
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def root(x: T.int32) -> T.int32:
        assert x >= 0, "no root of a negative number"
        T.ret(x)

    @T.prim_func
    def main(x: T.int32, A: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            A[i] = Module.root(x - i)
""")
    kernel = tileloom.build(module)["main"]
    out = np.zeros(64, "int32")
    kernel(63, out)
    assert np.array_equal(out, np.arange(63, -1, -1))
    with pytest.raises(UserError, match="no root of a negative number"):
        kernel(62, out)


def test_returns_that_are_refused() -> None:
    silent = from_source("""
@T.prim_func
def main(x: T.int32):
    T.ret(x + 1)
""")
    with pytest.raises(UnsupportedError, match="does not say so"):
        tileloom.build(silent)
    parallel = from_source("""
@T.prim_func
def main(A: T.Buffer((64,), "int32")) -> T.int32:
    for i in T.parallel(64):
        T.ret(A[i])
""")
    with pytest.raises(UnsupportedError, match="parallel loop cannot return"):
        tileloom.build(parallel)


def test_kernels_of_gpus_call_no_functions() -> None:
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def inc(x: T.int32) -> T.int32:
        T.ret(x + 1)

    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[i] = Module.inc(i)
""")
    with pytest.raises(UnsupportedError, match="GPUs cannot call"):
        tileloom.assembly(module, "cuda")
