"""Decisions of device memory: size classes, slabs, what is kept and given up, names of devices."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from runtime.cuda.fake_driver import FakeDriver
from tileloom.runtime import cuda
from tileloom.runtime.cuda import api, memory, streams
from tileloom.runtime.cuda.device import GPU, _device, device_count, is_available
from tileloom.runtime.cuda.errors import DeviceMemoryError

KB, MB = 1 << 10, 1 << 20


class Driver:
    """Counts what is asked of a driver; memory begins at multiples of 1 GiB."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit, self.used, self.count = limit, 0, 0
        self.sizes: dict[int, int] = {}
        self.calls: list[tuple[Any, ...]] = []

    def call(self, name: str, *arguments: Any) -> Any:
        self.calls.append((name, *arguments))
        if name.startswith("cuMemAlloc"):
            size = arguments[0]
            if self.used + size > self.limit:
                raise DeviceMemoryError("out of memory", code="CUDA_ERROR_OUT_OF_MEMORY")
            self.used += size
            self.count += 1
            self.sizes[self.count << 30] = size
            return self.count << 30
        if name.startswith("cuMemFree"):
            self.used -= self.sizes.pop(arguments[0])
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(api, "call", made.call)
    monkeypatch.setattr(api, "handle", int)
    monkeypatch.setattr(streams, "order", lambda *given: made.calls.append(("order", *given[1:])))
    return made


def pool(pools: bool = True) -> memory.DevicePool:
    return memory.DevicePool(
        SimpleNamespace(  # type: ignore[arg-type]
            active=nullcontext, has_memory_pools=pools, memory=8 * MB, free_memory=lambda: 3 * MB
        )
    )


@pytest.mark.parametrize(
    ("size", "block"),
    [(1, 256), (256, 256), (257, 320), (32 * MB, 32 * MB), (32 * MB + 1, 34 * MB),
     (34 * MB, 34 * MB), (34 * MB + 1, 36 * MB)],
)  # fmt: skip
def test_size_classes(size: int, block: int) -> None:
    assert memory._class_of(size) == block


@pytest.mark.parametrize(
    ("size", "taken", "kept"),
    [(256, 2 * MB, 2 * MB - 256), (320, 2 * MB, 4095 * 320), (256 * KB, 2 * MB, 7 * 256 * KB),
     (256 * KB + 1, 320 * KB, 0), (MB, MB, 0)],
)  # fmt: skip
def test_small_blocks_are_cut_from_slabs(size: int, taken: int, kept: int, driver: Driver) -> None:
    own = pool()
    block = own.take(size, 5)
    assert (own.taken_bytes(), own.kept_bytes()) == (taken, kept)
    assert block.pointer == 1 << 30 and block.home == block.last == 5
    others = [each for blocks in own._free.values() for each in blocks]
    step = -(-size // 256) * 256
    assert sorted(others) == [(1 << 30) + k * step for k in range(1, len(others) + 1)]
    assert all(each + step <= (1 << 30) + 2 * MB for each in others)


def test_nothing_is_asked_for_no_bytes(driver: Driver) -> None:
    for size in (0, -1):
        block = pool().take(size, 3)
        assert (block.pool, block.pointer, block.size, block.last) == (None, 0, 0, 3)
    assert driver.calls == []
    assert pool().take(1, 3).size == 256


def test_blocks_are_ordered_after_their_last_use(driver: Driver) -> None:
    own = pool()
    block = own.take(MB, 1)
    for stream in (1, 2, 2, 1, 2):
        block.use(own.device, stream)
    orders = [call[1:] for call in driver.calls if call[0] == "order"]
    assert orders == [(1, 2), (2, 1), (1, 2)] and block.last == 2
    place = block.pointer
    del block
    assert len(own.returned) == 1 and own.take(MB, 2).pointer != place
    assert driver.calls.count(("order", 2, 1)) == 2
    assert own.take(MB, 1).pointer == place
    borrowed = memory.Borrowed("owner", 77, 4)
    assert (borrowed.size, borrowed.last, borrowed.owner) == (0, 4, "owner")
    other = pool()
    empty = memory.MemoryBlock(other, 0, 0, 1)
    del empty, borrowed
    assert other.returned == []


@pytest.mark.parametrize("pools", [True, False])
def test_large_blocks_are_given_up(pools: bool, driver: Driver) -> None:
    own = pool(pools)
    sizes = [256, 256 * KB, 320 * KB, MB]
    blocks = [own.take(size, 1) for size in sizes]
    held = own.taken_bytes()
    assert held == 4 * MB + 320 * KB + MB == driver.used
    kept = own.kept_bytes()
    own.trim()
    assert own.taken_bytes() == held and own.kept_bytes() == kept
    blocks.clear()
    assert own.kept_bytes() == kept + sum(sizes)
    own.trim()
    assert own.taken_bytes() == 4 * MB == driver.used == own.kept_bytes()
    names = {call[0] for call in driver.calls if call[0].startswith("cuMem")}
    suffix = "Async" if pools else ""
    assert names == {f"cuMemAlloc{suffix}", f"cuMemFree{suffix}"}
    assert driver.calls[-1] == ("cuCtxSynchronize",)


def test_kept_blocks_are_given_up_before_memory_runs_out(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.limit = 4 * MB
    own = pool()
    block = own.take(3 * MB, 1)
    for torch, hint in ((True, "torch.cuda.empty_cache"), (False, None)):
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "torch", raising=False)
            if torch:
                patch.setitem(sys.modules, "torch", ModuleType("torch"))
            with pytest.raises(DeviceMemoryError) as caught:
                own.take(2 * MB, 1)
        assert (caught.value.hint or "").startswith(hint or "") and (hint or not caught.value.hint)
    words = "no 2.00 MiB of memory left: 3.00 MiB of 8.00 MiB are free, arrays of Tileloom hold"
    assert words in str(caught.value) and caught.value.code == "CUDA_ERROR_OUT_OF_MEMORY"
    del block
    assert own.take(2 * MB, 1).size == 2 * MB and own.taken_bytes() == 2 * MB


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.00 KiB"), (MB - 1, "1024.00 KiB"),
     (MB, "1.00 MiB"), (1 << 30, "1.00 GiB"), (5 << 29, "2.50 GiB")],
)  # fmt: skip
def test_sizes_for_people(size: int, text: str) -> None:
    assert memory.show_size(size) == text


@pytest.mark.parametrize(
    ("which", "words"),
    [(-1, "no device cuda:-1"), ("cuda:7", "no device cuda:7"), ("cpu", "is no CUDA device"),
     ("cuda:x", "is no CUDA device"), ("cpu:0", "is no CUDA device"), ("cuda:", None),
     ("cuda", None), (0, None), (None, None), ("cuda:0", None)],
)  # fmt: skip
def test_names_of_devices(which: object, words: str | None, gpu: FakeDriver) -> None:
    if words is None:
        found = cuda.device(which)
        assert found.index == 0 and cuda.device(found) is found
        return
    with pytest.raises(cuda.CudaError, match=words):
        cuda.device(which)


@pytest.mark.parametrize(
    ("count", "index", "hint"),
    [
        (1, 1, "the only one is cuda:0"),
        (2, 2, "there are cuda:0 to cuda:1"),
        (2, 1, None),
        (1, 0, None),
    ],
)
def test_numbers_of_devices(
    count: int, index: int, hint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "call", lambda name, *_: count)
    _device.cache_clear()
    try:
        assert device_count() == count and is_available()
        if hint is None:
            found = _device(index)
            assert found.index == index and cuda.device(found) is found
        else:
            with pytest.raises(cuda.CudaError) as caught:
                _device(index)
            assert caught.value.hint == hint
    finally:
        _device.cache_clear()


def test_drivers_without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str, *_: object) -> int:
        raise cuda.NoDriverError("none")

    for call, words in ((lambda *_: 0, "finds no GPU"), (none, "none")):
        monkeypatch.setattr(api, "call", call)
        _device.cache_clear()
        assert device_count() == 0 and not is_available()
        with pytest.raises(cuda.NoDriverError, match=words):
            _device(0)


def test_what_devices_can_do() -> None:
    one = object.__new__(GPU)
    one.__dict__["attribute"] = {
        "COMPUTE_CAPABILITY_MAJOR": 8, "COMPUTE_CAPABILITY_MINOR": 6
    }.__getitem__  # fmt: skip
    assert one.capability == 86


def test_shared_memory_of_a_block() -> None:
    for own, most in ((0, 48), (96, 48)):
        one = object.__new__(GPU)
        names = {
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": own, "MAX_SHARED_MEMORY_PER_BLOCK": most
        }  # fmt: skip
        one.__dict__["attribute"] = names.__getitem__
        assert one.shared_memory == max(own, most)
