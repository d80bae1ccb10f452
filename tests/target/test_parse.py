"""Targets, from the machine and from text."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tileloom.base.errors import UnsupportedError, UserError
from tileloom.runtime import cuda
from tileloom.target import Target, at_hand, current_process_may_run, target
from tileloom.target.description import vector_bits
from tileloom.target.instructions import check_arch
from tileloom.target.limits import GPULimits

SOURCES = Path(__file__).resolve().parents[2] / "src"


def test_host_is_what_we_run_on() -> None:
    host = Target.host()
    assert host is Target.host() is target() is target("cpu") is target("llvm") is target(host)
    assert host.arch == os.uname().machine
    assert host.is_native and current_process_may_run(host)
    assert 1 <= host.cores <= (os.cpu_count() or 1)
    assert 0 < host.l1 <= host.l2 <= host.l3
    assert host.vector_bits in (128, 256, 512)


@pytest.mark.parametrize(
    ("text", "bits", "has", "lacks"),
    [
        ("cpu -mcpu=x86-64 -mtriple=x86_64-linux-gnu", 128, "sse2", "avx"),
        ("cpu -mcpu=haswell -mtriple=x86_64-linux-gnu", 256, "fma", "avx512f"),
        ("cpu -mcpu=znver4 -mtriple=x86_64-linux-gnu", 512, "avx512bf16", "amx-tile"),
        ("llvm -mcpu=sapphirerapids -mtriple=x86_64-linux-gnu", 512, "amx-int8", "neon"),
        ("cpu -mtriple=aarch64-linux-gnu", 128, "neon", "sse2"),
        ("cpu -mtriple=arm64-linux-gnu -mattr=+dotprod,+bf16", 128, "dotprod", "avx"),
        ("cpu -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f", 256, "avx2", "avx512f"),
    ],
)
def test_described_targets(text: str, bits: int, has: str, lacks: str) -> None:
    found = target(text)
    assert found.vector_bits == bits
    assert found.has(has) and not found.has(lacks)
    assert not found.is_native
    assert target(text) == found and target(text).key == found.key
    assert found.lanes(32) == bits // 32


def test_keys_tell_targets_apart() -> None:
    texts = [
        "cpu",
        "cpu -mcpu=znver4",
        "cpu -mcpu=znver3",
        "cpu -mcpu=znver4 -mattr=+amx-tile",
        "cpu -mcpu=znver4 -mattr=-fma",
        "cpu -mtriple=aarch64-linux-gnu",
        "cuda",
        "cuda -arch=sm_80",
    ]
    assert len({target(text).key for text in texts}) == len(texts)
    assert target("cpu -num-cores=1").key == target("cpu -num-cores=2").key
    assert hash(target("cuda")) == hash(target("cuda"))


def test_cores_can_be_given() -> None:
    assert target("cpu -num-cores=3").cores == 3
    assert target("cpu -num-cores=3").is_native


def test_cuda() -> None:
    found = target("cuda -arch=sm_90a")
    assert (found.kind, found.sm, found.warp_size, found.max_threads) == ("cuda", 90, 32, 1024)
    assert found.shared_memory == 227 << 10
    assert found.triple == "nvptx64-nvidia-cuda"
    assert str(found) == "cuda -arch=sm_90a" and target(str(found)) == found
    assert not current_process_may_run(found)
    assert target("cuda").lanes(16) == 8


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ("", "a target is a string"),
        (3, "a target is a string"),
        ("tpu", "unknown target 'tpu'"),
        ("cpu znver4", "cannot read 'znver4'"),
        ("cpu -mcpu", "cannot read '-mcpu'"),
        ("cpu -colour=red", "unknown option -colour"),
        ("cpu -mtriple=sparc-linux", "unknown architecture"),
        ("cpu -num-cores=0", "not a positive number"),
        ("cpu -num-cores=x", "not a positive number"),
        ("cuda -arch=volta", "unknown GPU architecture"),
        ("cuda -arch=sm_20", "unknown GPU architecture"),
        ("cuda -mattr=+x", "unknown option"),
    ],
)
def test_descriptions_that_mean_nothing(bad: str | int, text: str) -> None:
    with pytest.raises(UserError, match=text):
        target(bad)


def test_targets_do_not_load_llvm() -> None:
    script = (
        "import sys; from tileloom.target import Target; Target.host().key; "
        "print('llvmlite' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
    )
    assert shown.stdout.strip() == "False", shown.stderr


@pytest.mark.parametrize(
    ("arch", "shared", "processors"),
    [
        (61, 48, 100), (70, 96, 80), (75, 64, 40), (80, 163, 108), (86, 99, 84), (87, 163, 16),
        (89, 99, 128), (90, 227, 132), (100, 227, 148), (103, 227, 100), (120, 48, 100),
    ],
)  # fmt: skip
def test_gpus(arch: int, shared: int, processors: int) -> None:
    gpu = target(f"cuda -arch=sm_{arch}")
    assert (gpu.sm, gpu.shared_memory, gpu.processors) == (arch, shared << 10, processors)
    assert (gpu.cores, gpu.max_threads, gpu.warp_size, gpu.vector_bits) == (1, 1024, 32, 128)


@pytest.mark.parametrize(("found", "arch"), [("sm_86", "sm_86"), (None, "sm_90")])
def test_cuda_is_the_gpu_at_hand(
    monkeypatch: pytest.MonkeyPatch, found: str | None, arch: str
) -> None:
    monkeypatch.setattr(at_hand, "find_gpu", lambda: found)
    assert target("cuda").arch == arch
    assert target("cuda -arch=sm_75").arch == "sm_75"


def test_the_package_says_which_gpu_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "native_arch", lambda: "sm_61")
    assert target("cuda").arch == "sm_61"


def test_numbers_of_gpus_and_cpus() -> None:
    cpu = target("cpu -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    assert (cpu.sm, cpu.warp_size, cpu.processors, cpu.max_threads) == (0, 0, 0, 0)
    assert [cpu.lanes(bits) for bits in (0, 1, 8, 64, 128, 256)] == [128, 128, 16, 2, 1, 1]
    assert cpu.triple == "aarch64-unknown-linux-gnu" and not cpu.is_asynchronous
    assert str(cpu) == "cpu -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a76"
    gpu = target("cuda -arch=100a -fast-math")
    assert gpu.sm == 100 and gpu.is_asynchronous and not gpu.is_native and gpu.has("fast-math")
    assert str(gpu) == "cuda -arch=sm_100a -fast-math" and target(str(gpu)) == gpu
    assert str(target()) == "cpu"


@pytest.mark.parametrize(
    ("arch", "features", "bits"),
    [("x86_64", ("avx", "avx512f"), 512), ("x86_64", ("avx",), 256), ("x86_64", ("sse2",), 128),
     ("aarch64", ("avx512f",), 128), ("aarch64", ("avx", "neon"), 128)],
)  # fmt: skip
def test_widths_of_vectors(arch: str, features: tuple[str, ...], bits: int) -> None:
    assert vector_bits(arch, features) == bits


def test_code_that_this_process_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Target.host()
    named = replace(host, cpu="named")
    assert current_process_may_run(named)
    assert current_process_may_run(replace(named, features=host.features[1:]))
    assert not current_process_may_run(replace(named, features=(*host.features, "of-tomorrow")))
    assert current_process_may_run(replace(host, features=(*host.features, "of-tomorrow")))
    assert not current_process_may_run(replace(host, arch="riscv64"))
    assert not current_process_may_run(replace(named, kind="cuda"))
    monkeypatch.setattr(os, "name", "nt")
    assert not current_process_may_run(named)


def test_limits_of_kernels() -> None:
    plain = GPULimits()
    assert GPULimits.of(target("cpu")) == plain
    for text, bytes_ in (("cuda -arch=sm_90", 227 << 10), ("cuda -arch=sm_75", 64 << 10)):
        gpu = replace(target(text), max_threads=512)
        limits = GPULimits.of(gpu)
        assert (limits.max_threads_per_block, limits.max_shared_memory_per_block) == (512, bytes_)
        assert limits.constant_threads and limits.max_vector_bytes == 16
        hardware = GPULimits.of_hardware(gpu)
        assert hardware.max_threads_per_block == 512 and not hardware.constant_threads
        assert hardware.max_local_memory_per_thread == 512 << 10
        assert min(hardware.max_vector_bytes, hardware.max_vthread) > 1 << 40
        assert hardware.max_grid_x == (1 << 31) - 1 and hardware.max_thread_z == 64


@pytest.mark.parametrize(
    ("arch", "text", "fits"),
    [("sm_80", "cuda -arch=sm_80", True), ("sm_80", "cuda -arch=sm_79", False),
     ("sm_80", "cuda -arch=sm_90a", True), ("sm_90a", "cuda -arch=sm_90a", True),
     ("sm_90a", "cuda -arch=sm_90", False), ("sm_90a", "cuda -arch=sm_100a", False)],
)  # fmt: skip
def test_instructions_of_architectures(arch: str, text: str, fits: bool) -> None:
    if fits:
        check_arch("this", arch, target(text))
        return
    with pytest.raises(UnsupportedError, match="this ") as error:
        check_arch("this", arch, target(text))
    assert error.value.hint == f'compile for "cuda -arch={arch}"'
