"""Holding the garbage collector back."""

from __future__ import annotations

import gc
import threading

import pytest

from tileloom.base.collector import without_collection


def test_it_resumes_after_errors_and_nesting() -> None:
    @without_collection
    def fail() -> None:
        without_collection(lambda: None)()
        assert not gc.isenabled()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        without_collection(lambda: None)()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_of_several_threads_resumes() -> None:
    inside, go_on = threading.Event(), threading.Event()

    @without_collection
    def wait() -> None:
        inside.set()
        go_on.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    inside.wait()
    without_collection(lambda: None)()
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert gc.isenabled()
