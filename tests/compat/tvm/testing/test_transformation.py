"""`CompareBeforeAfter`: programs and transforms in all the ways in which they may be given."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.compat.tvm import testing
from tileloom.compat.tvm.script import tir as T
from tileloom.tir import IRModule, PrimFunc


@T.prim_func(private=True)
def ones(a: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        a[i] = 1.0


@T.prim_func(private=True)
def twos(a: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        a[i] = 2.0


def main_of(module: Any) -> PrimFunc:
    assert isinstance(module, IRModule)
    return module["main"]


class TestMethods(testing.CompareBeforeAfter):
    """Methods return programs; the transform gives a module, the program is a function."""

    def transform(self) -> Any:
        return lambda module: module

    def before(self) -> PrimFunc:
        return ones

    def expected(self) -> PrimFunc:
        return ones


class TestFunctions(testing.CompareBeforeAfter):
    """The transform gives a function."""

    def transform(self) -> Any:
        return main_of

    before = ones
    expected = ones


class TestModules(testing.CompareBeforeAfter):
    """A class is a module."""

    def transform(self) -> Any:
        return lambda module: module

    class before:
        @T.prim_func
        def main(a: T.Buffer((4,), "float32")) -> None:
            for i in range(4):
                a[i] = 1.0

    class expected:
        @T.prim_func
        def main(b: T.Buffer((4,), "float32")) -> None:
            for k in T.serial(4):
                b[k] = 1.0


class TestPrograms(testing.CompareBeforeAfter):
    """A function with the body of a program, among fixtures of pytest."""

    @pytest.fixture
    def transform(self) -> Any:
        return lambda module: module

    def before(a: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            a[i] = 2.0

    expected = twos


@pytest.mark.xfail(strict=True, raises=ValueError)
class TestDifferences(testing.CompareBeforeAfter):
    """Programs that differ are told apart."""

    def transform(self) -> Any:
        return lambda module: module

    before = ones
    expected = twos


class TestErrors(testing.CompareBeforeAfter):
    """The transform has to fail so."""

    def transform(self) -> Any:
        def fail(module: Any) -> Any:
            assert isinstance(module, PrimFunc), "as it is given"
            raise KeyError

        return fail

    before = ones
    expected = KeyError


@pytest.mark.parametrize("word", ["1", "true", "YES", " on ", "y", "T"])
def test_words_that_mean_yes(word: str) -> None:
    assert testing.strtobool(word)


@pytest.mark.parametrize("word", ["0", "false", "no", "off", "", "n", "yess", "2"])
def test_words_that_mean_no(word: str) -> None:
    assert not testing.strtobool(word)
