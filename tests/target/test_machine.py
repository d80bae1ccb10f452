"""What the machine says of itself: features, cores, quotas."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tileloom.target import Target, machine


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("answer", "allowed"), [(0, True), (-1, False), (1, False)])
def test_linux_is_asked_for_tiles(
    answer: int, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(syscall=lambda *_: answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert machine.may_use_tiles.__wrapped__() == allowed
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert not machine.may_use_tiles.__wrapped__()  # a system without calls by number


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x86_64", "flags : sse2 avx2 unknown", ("avx2", "sse2")),
        ("x86_64", "flags : sse2 amx_tile amx_int8", None),
        ("aarch64", "Features : aes crc32 nothing", ("aes", "crc", "neon")),
        ("aarch64", "", ("neon",)),
    ],
)
def test_features_of_processors(
    name: str, text: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "architecture", lambda: name)
    key, _, value = text.partition(":")
    monkeypatch.setattr(machine, "_processor", lambda: {key.strip(): value.strip()})
    if expected is not None:
        assert machine.features.__wrapped__() == expected
        return
    for allowed, wanted in ((True, ("amx-int8", "amx-tile", "sse2")), (False, ("sse2",))):
        monkeypatch.setattr(machine, "may_use_tiles", lambda allowed=allowed: allowed)
        assert machine.features.__wrapped__() == wanted


def test_features_agree_with_llvm() -> None:
    """Every feature that we read off the system has LLVM's spelling, and LLVM sees it too."""
    llvm = pytest.importorskip("llvmlite.binding")
    seen = llvm.get_host_cpu_features()
    for feature in Target.host().features:
        assert seen.get(feature), feature


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({}, "0::/\n", None),
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/b/cpu.max": "150000 100000\n"}, "0::/a/b\n", 2),
        ({"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"}, "0::/a/b\n", 1),
        ({"a/cpu.max": "10000 100000\n"}, "0::/a\n", 1),
        (
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "300000", "cpu,cpuacct/x/cpu.cfs_period_us": "1e5"},
            "3:cpu,cpuacct:/x\n",
            None,
        ),
        (
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            "4:memory:/y\n3:cpu,cpuacct:/x\n0::/\n",
            3,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/\n", None),
        ({"unified/a/cpu.max": "400000 100000\n"}, "0::/a\n", 4),
    ],
)
def test_cpu_quota(
    tmp_path: Path, files: dict[str, str], membership: str, expected: int | None
) -> None:
    for name, text in files.items():
        write(tmp_path / "cgroup" / name, text)
    write(tmp_path / "membership", membership)
    found = machine.cpu_quota(str(tmp_path / "cgroup"), str(tmp_path / "membership"))
    assert found == expected


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert machine.cpu_quota(str(tmp_path / "no"), str(tmp_path / "none")) is None


def test_usable_cores_follow_affinity_and_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 4, 6})
    monkeypatch.setattr(machine, "cpu_quota", lambda: None)
    assert machine.usable_cores() == 4
    monkeypatch.setattr(machine, "cpu_quota", lambda: 2)
    assert machine.usable_cores() == 2
    monkeypatch.setattr(machine, "cpu_quota", lambda: 64)
    assert machine.usable_cores() == 4
