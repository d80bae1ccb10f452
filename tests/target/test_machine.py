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
        ({"cpu.max": "250000 100000\n"}, "0::/\n", 3),
        ({"cpu.max": "250000 100000\n"}, "0::/a/b\n", 3),
        ({"unified/cpu.max": "700000 100000\n"}, "0::/a\n", 7),
        ({"a:b/cpu.max": "500000 100000\n"}, "0::/a:b\n", 5),
        ({"a/cpu.max": "500000 0\n"}, "0::/a\n", None),
        ({"a/cpu.max": "500000 100000\n"}, "5:memory:/a\n", None),
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


CACHES = "/sys/devices/system/cpu/cpu0/cache/index"


@pytest.mark.parametrize(
    ("caches", "wanted"),
    [
        ([], (32, 1024, 8192)),
        ([("Data", 1, "48K"), ("Instruction", 1, "64K"), ("Unified", 2, "2M")], (48, 1024, 8192)),
        ([("Instruction", 2, "64K"), ("Unified", 2, "2048K")], (32, 2048, 8192)),
        ([("Data", 1, "16K"), ("Unified", 2, "512K"), ("Unified", 3, "4096K")], (16, 512, 4096)),
        ([("Unified", 2, "16384K")], (32, 16384, 16384)),
        ([("Unified", 3, "32M")], (32, 1024, 8192)),
        ([("Unified", 4, "65536K"), ("Data", 1, "")], (32, 1024, 8192)),
        ([("Data", 0, "7K"), ("Unified", 2, "")], (32, 1024, 8192)),
        ([("Unified", 3, "9K")] * 7 + [("Data", 1, "24K")], (24, 1024, 9)),
    ],
)  # fmt: skip
def test_caches(
    monkeypatch: pytest.MonkeyPatch, caches: list[tuple[str, int, str]], wanted: tuple[int, ...]
) -> None:
    """What Linux says of the first core; in KiB here."""
    files = {
        f"{CACHES}{k}/{name}": f"{value}\n"
        for k, row in enumerate(caches)
        for name, value in zip(("type", "level", "size"), row, strict=True)
    }
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, ""))
    assert machine.cache_sizes.__wrapped__() == tuple(size << 10 for size in wanted)


def test_the_first_processor_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor\t: 0\nflags\t\t: sse2 avx : fma\nbare\n\nprocessor\t: 1\nflags\t: none\n"
    monkeypatch.setattr(machine, "_read", lambda path: text if path == "/proc/cpuinfo" else "")
    assert machine._processor.__wrapped__() == {
        "processor": "0", "flags": "sse2 avx : fma", "bare": "",
    }  # fmt: skip


def test_identities_differ_by_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(**about: str) -> str:
        named = {name.replace("_", " ").capitalize(): value for name, value in about.items()}
        monkeypatch.setattr(machine, "_processor", lambda: {**about, **named})
        return str(machine.identity.__wrapped__())

    found = [
        identity(flags="sse", model="1"), identity(flags="avx", model="1"),
        identity(flags="sse", model="2"), identity(flags="sse", model="1", stepping="3"),
    ]  # fmt: skip
    assert len(set(found)) == len(found) and {len(name) for name in found} == {16}
    assert identity(flags="sse", model="1", mhz="2000") == found[0]


@pytest.mark.parametrize(
    ("named", "name"),
    [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("arm64", "aarch64"), ("riscv64", "riscv64")],
)
def test_architectures(monkeypatch: pytest.MonkeyPatch, named: str, name: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=named))
    assert machine.architecture() == name


def test_systems_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(machine, "cpu_quota", lambda: None)
    for count, cores in ((6, 6), (None, 1), (1, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert machine.usable_cores() == cores
