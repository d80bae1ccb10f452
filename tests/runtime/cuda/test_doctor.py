"""What `tileloom doctor` says of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tileloom
from runtime.cuda.fake_driver import FakeDevice
from tileloom.cli import doctor_command
from tileloom.runtime import cuda


def test_devices_are_described(plug: Callable[..., Any]) -> None:
    plug(FakeDevice("A [big] one", memory=8 << 30), FakeDevice("Another", capability=(9, 0)))
    rows = dict(doctor_command._gpus())
    assert rows["cuda"] == "the driver is that of CUDA 12.4"
    assert rows["cuda:0"] == (
        r"A \[big] one, sm_80, 4 multiprocessors, 8.0 GiB, 163 KiB shared memory a block"
    )
    assert "sm_90a" in rows["cuda:1"]


def test_no_device_is_a_line_too(plug: Callable[..., Any]) -> None:
    plug(no_device=100)
    [(name, text)] = doctor_command._gpus()
    assert (name, text) == ("cuda", "the CUDA driver finds no GPU (CUDA_ERROR_NO_DEVICE)")


def test_a_kernel_is_tried_on_each(
    plug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = plug(FakeDevice(), FakeDevice(capability=(8, 6)))
    build = tileloom.build

    def known(*given: Any, **options: Any) -> Any:
        made = build(*given, **options)
        driver.programs[made.ptx] = dict(made._plan.kernels)
        return made

    monkeypatch.setattr(tileloom, "build", known)
    assert [doctor_command.try_on_gpu(k) for k in range(cuda.device_count())] == ["", ""]
    assert [each.device for each in driver.launched] == [0, 1]
    driver.inject["cuLaunchKernel"] = [701]
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in doctor_command.try_on_gpu(0)
