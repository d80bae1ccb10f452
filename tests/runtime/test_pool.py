"""Pooled memory: reuse, alignment, lifetime, bounds, threads, fork."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.base.dtype import dtype
from tileloom.base.settings import override
from tileloom.runtime.pool import Pool, empty, size_class

FLOAT = dtype("float32")


@pytest.fixture
def fresh() -> Pool:
    return Pool()


@given(st.integers(1, 1 << 40))
def test_size_classes_waste_at_most_a_quarter(size: int) -> None:
    found = size_class(size)
    assert found >= size and found % 64 == 0
    assert found <= max(size * 1.25, size + 63) + (2 << 20 if size > 2 << 20 else 0)
    assert size_class(found) == found


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (7, 11, 13), (1 << 20,), (3 << 20,)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool", "int8", "float64"])
def test_arrays_are_aligned_writable_and_right(shape: tuple[int, ...], kind: str) -> None:
    array = empty(shape, kind)
    assert array.shape == shape and array.dtype == dtype(kind).numpy
    assert array.ctypes.data % (64 if array.nbytes >= 1024 else array.itemsize) == 0
    assert array.flags.c_contiguous and array.flags.writeable
    array[...] = 1
    assert np.all(array == 1)


def test_zero_size_and_negative(fresh: Pool) -> None:
    assert fresh.empty((3, 0, 2), FLOAT).shape == (3, 0, 2)
    assert fresh.allocator((0,), FLOAT)().shape == (0,)
    with pytest.raises(ValueError):
        fresh.empty((-1,), FLOAT)


@pytest.mark.parametrize("size", [1024, 3000, 1 << 20, 9 << 20])
def test_freed_blocks_are_reused(fresh: Pool, size: int) -> None:
    first = fresh.empty((size,), dtype("uint8"))
    place = first.ctypes.data
    second = fresh.empty((size,), dtype("uint8"))
    assert second.ctypes.data != place
    del first
    assert fresh.empty((size,), dtype("uint8")).ctypes.data == place


def test_allocator_shares_the_pool(fresh: Pool) -> None:
    allocate = fresh.allocator((50, 5), FLOAT)
    first, second = allocate(), allocate()
    assert not np.shares_memory(first, second)
    place = first.ctypes.data
    del first
    assert fresh.empty((50, 5), FLOAT).ctypes.data == place


def test_views_keep_the_block(fresh: Pool) -> None:
    array: Any = fresh.empty((1000,), FLOAT)
    array[:] = np.arange(1000)
    for view in (array[10:20], array.reshape(10, 100), memoryview(array), array.view(np.int32)):
        place = array.ctypes.data
        others = [fresh.empty((1000,), FLOAT) for _ in range(3)]
        assert all(other.ctypes.data != place for other in others)
        assert np.asarray(view).size
    view = array[10:20]
    del array, others
    gc.collect()
    for _ in range(5):
        fresh.empty((1000,), FLOAT)[:] = -1
    assert view.tolist() == list(range(10, 20))


def test_large_blocks_are_on_huge_page_boundaries(fresh: Pool) -> None:
    assert fresh.empty((5 << 20,), dtype("uint8")).ctypes.data % (2 << 20) == 0


def test_what_is_kept_is_bounded(fresh: Pool) -> None:
    with override(pool_size=20 << 20):
        arrays = [fresh.empty((4 << 20,), dtype("uint8")) for _ in range(10)]
        arrays.clear()
        assert 0 < fresh.kept_bytes() <= 20 << 20
    small = [fresh.empty((1 << 20,), dtype("uint8")) for _ in range(40)]
    small.clear()
    assert fresh.kept_bytes() <= (20 << 20) + (16 << 20)
    fresh.trim()
    assert fresh.kept_bytes() == 0


def test_too_much_is_a_memory_error(fresh: Pool) -> None:
    with pytest.raises(MemoryError):
        fresh.empty((1 << 60,), dtype("uint8"))


def test_threads_never_share_a_block(fresh: Pool) -> None:
    wrong = []

    def work(seed: int) -> None:
        for step in range(300):
            array = fresh.empty((1257 + step % 3,), dtype("int64"))
            array[:] = seed * 1000 + step
            if not np.all(array == seed * 1000 + step):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_its_own_copy(fresh: Pool) -> None:
    kept = fresh.empty((1000,), FLOAT)
    kept[:] = 7
    fresh.empty((1000,), FLOAT)
    child = os.fork()
    if child == 0:
        mine = fresh.empty((1000,), FLOAT)
        mine[:] = 1
        kept[:] = 2
        del mine
        os._exit(0 if np.all(kept == 2) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.all(kept == 7)


def test_bfloat16_item() -> None:
    assert empty((2,), "bfloat16").dtype == np.dtype(ml_dtypes.bfloat16)


def test_free_blocks_are_kept_while_there_is_memory(fresh: Pool) -> None:
    array = fresh.empty((4096,), FLOAT)
    del array
    kept = fresh.kept_bytes()
    assert kept > 0
    other = fresh.empty((1 << 20,), FLOAT)
    assert other.size and fresh.kept_bytes() == kept
