"""The object cache: found again, damaged, full, shared by processes, not writable."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.base.settings import Settings, override
from tileloom.runtime.cache import ObjectCache, cache_key, object_cache, package_stamp


def test_what_is_put_is_found_by_another_cache(tmp_path: Path) -> None:
    ObjectCache(tmp_path / "deep" / "er", 1 << 20).put("k", b"payload")
    assert ObjectCache(tmp_path / "deep" / "er", 1 << 20).get("k") == b"payload"
    assert ObjectCache(tmp_path / "deep" / "er", 1 << 20).get("other") is None


def test_empty_payload(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path, 1 << 20)
    store.put("k", b"")
    assert store.get("k") == b""


def test_keys_keep_parts_apart() -> None:
    parts = [("a", "b"), ("ab",), ("", "ab"), ("ab", ""), (b"a\0b",), ("a", "b", "")]
    assert len({cache_key(*part) for part in parts}) == len(parts)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"x" + data[1:],
        lambda data: data[:12] + bytes([data[12] ^ 0x80]) + data[13:],
    ],
)
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: Callable[..., Any]) -> None:
    store = ObjectCache(tmp_path, 1 << 20)
    store.put("k", b"some payload")
    [path] = tmp_path.glob("*.bin")
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("k") is None
    assert not path.exists()
    assert store.get_or_make("k", lambda: b"new") == b"new"
    assert store.get("k") == b"new"


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path, 10_000)
    for number in range(5):
        store.put(str(number), bytes(1500))
        os.utime(tmp_path / f"{number}.bin", (1000 + number, 1000 + number))
    assert store.get("0") is not None  # notes the use
    store.put("5", bytes(3000))
    assert store.prune() <= 8_000
    left = {path.stem for path in tmp_path.glob("*.bin")}
    assert {"0", "5"} <= left and "1" not in left


def test_a_full_cache_stays_in_its_limit(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path, 50_000)
    for number in range(100):
        store.put(str(number), bytes(2000))
    assert store.size()[1] < 60_000
    store.clear()
    assert store.size() == (0, 0)


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".old.tmp", tmp_path / ".new.tmp"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (time.time() - 9999,) * 2)
    ObjectCache(tmp_path, 1 << 20).prune()
    assert not old.exists() and new.exists()


def test_a_folder_that_cannot_be_made_warns_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ObjectCache(tmp_path / "file" / "sub", 1 << 20)
    with pytest.warns(UserWarning, match="TILELOOM_CACHE_DIR"):
        store.put("a", b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("b", b"2")
        assert (store.get("a"), store.get("b")) == (b"1", b"2")


def test_without_a_folder_memory_serves() -> None:
    store = ObjectCache(None, 1 << 20)
    assert store.get("k") is None
    assert store.get_or_make("k", lambda: b"1") == b"1"
    assert store.get_or_make("k", lambda: b"2") == b"1"


def quiet_about(store: ObjectCache) -> bool:
    """Whether a cache serves from memory, and says no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("b", b"2")
        return store.get("b") == b"2"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    ObjectCache(tmp_path, 1 << 20).put("a", b"their code")
    tmp_path.chmod(mode)
    store = ObjectCache(tmp_path, 1 << 20)
    with pytest.warns(UserWarning, match=f"others.*{mode:o}") as said:
        assert store.get("a") is None
    assert len(said) == 1 and "\n" not in str(said[0].message)
    assert quiet_about(store)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ObjectCache(tmp_path, 1 << 20).put("a", b"their code")
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("tileloom.runtime.cache.os.getuid", lambda: owner + 1)
    store = ObjectCache(tmp_path, 1 << 20)
    if owner == 0:
        assert store.get("a") == b"their code"  # root may do anything anyway
        os.chown(tmp_path, 12345, -1)
    with pytest.warns(UserWarning, match="belongs to user"):
        assert store.get("a") is None
    assert quiet_about(store)


def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = ObjectCache(tmp_path / "new", 1 << 20)
        store.put("a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert ObjectCache(tmp_path / "new", 1 << 20).get("a") == b"1"


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, a_socket, lambda path: path.symlink_to("/")])
def test_what_is_no_file_is_no_entry(tmp_path: Path, make: Callable[..., Any]) -> None:
    make(tmp_path / "k.bin")
    store = ObjectCache(tmp_path, 1 << 20)
    assert store.get("k") is None
    assert store.get_or_make("k", lambda: b"1") == b"1"
    assert store.get_or_make("k", lambda: b"2") == b"1"
    store.put("other", b"3")
    assert ObjectCache(tmp_path, 1 << 20).get("other") == b"3"
    assert store.prune() < 1 << 10


def test_an_entry_under_another_name_is_none(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path, 1 << 20)
    store.put("a", b"code of a")
    (tmp_path / "a.bin").rename(tmp_path / "b.bin")
    assert store.get("b") is None


def test_what_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    def number(data: bytes) -> int:
        return int(data)

    store = ObjectCache(tmp_path, 1 << 20)
    store.put("k", b"no number")
    assert store.read("k", number) is None
    assert store.get("k") is None
    store.put("k", b"7")
    assert store.read("k", number) == 7


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.runtime.cache._MOST_IN_MEMORY", 1000)
    store = ObjectCache(None, 1 << 20)
    for number in range(20):
        store.put(str(number), bytes(300))
    assert [number for number in range(20) if store.get(str(number))] == [17, 18, 19]
    store.put("large", bytes(5000))
    assert store.get("large") == bytes(5000)
    for name in "ab":
        store.put(name, bytes(500))
    assert [store.get(name) for name in ("large", "a", "b")] == [None, bytes(500), bytes(500)]


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME", "TILELOOM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert Settings.from_environment().cache_dir is None
    with pytest.raises(UserError, match="no home"):
        Settings.from_environment({"TILELOOM_CACHE_DIR": "~/kernels"})
    with override(cache_dir=None):
        assert object_cache().get_or_make("homeless", lambda: b"1") == b"1"


def test_settings_choose_the_cache(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path):
        object_cache().put("k", b"1")
        assert object_cache() is object_cache()
    assert (tmp_path / "k.bin").exists()
    with override(cache=False, cache_dir=tmp_path):
        assert object_cache().get("k") is None


def hammer(folder: Path, seed: int, failures: Any) -> None:
    store = ObjectCache(folder, 40_000)  # small: pruning goes on all the time
    for step in range(150):
        key = str((step * 7 + seed) % 12)
        wanted = key.encode() * 2000
        if store.get_or_make(key, lambda wanted=wanted: wanted) != wanted:  # type: ignore[misc]
            failures.put((seed, step))


def test_many_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    failures = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        workers = [
            context.Process(target=hammer, args=(tmp_path, seed, failures)) for seed in range(6)
        ]
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert failures.empty()
    assert not list(tmp_path.glob("*.tmp"))


def test_package_stamp_does_not_import() -> None:
    assert package_stamp("numpy") == package_stamp("numpy")
    assert package_stamp("numpy") != package_stamp("llvmlite")
    assert "missing" in package_stamp("no_such_package_here")


def test_a_removed_folder_is_made_again(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path / "sub", 1 << 20)
    store.put("a", b"1")
    for path in (tmp_path / "sub").iterdir():
        path.unlink()
    (tmp_path / "sub").rmdir()
    assert store.get("a") is None
    store.put("a", b"2")
    assert store.get("a") == b"2"
