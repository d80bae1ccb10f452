"""Holding the garbage collector back, and recursing deeply."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from tileloom.base.compiling import compiling
from tileloom.base.errors import UserError


def test_it_resumes_after_errors_and_nesting() -> None:
    @compiling
    def fail() -> None:
        compiling(lambda: None)()
        assert not gc.isenabled()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        compiling(lambda: None)()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_of_several_threads_resumes() -> None:
    inside, go_on = threading.Event(), threading.Event()

    @compiling
    def wait() -> None:
        inside.set()
        go_on.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    inside.wait()
    compiling(lambda: None)()
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert gc.isenabled()


def test_recursion_goes_deep_and_the_limit_returns() -> None:
    def depth(n: int) -> int:
        return 0 if n == 0 else 1 + depth(n - 1)

    before = sys.getrecursionlimit()
    assert compiling(depth)(3000) == 3000
    assert sys.getrecursionlimit() == before


def test_a_limit_that_is_raised_inside_stays() -> None:
    before = sys.getrecursionlimit()
    try:
        compiling(lambda: sys.setrecursionlimit(before + 7000))()
        assert sys.getrecursionlimit() == before + 7000
    finally:
        sys.setrecursionlimit(before)


def test_recursion_without_end_is_the_users() -> None:
    def deeper(n: int) -> int:
        return 1 + deeper(n + 1)

    before = sys.getrecursionlimit()
    with pytest.raises(UserError, match="nested too deeply") as caught:
        compiling(lambda: compiling(deeper)(0))()
    assert isinstance(caught.value.__cause__, RecursionError)
    assert sys.getrecursionlimit() == before
