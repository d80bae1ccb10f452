"""What `tileloom doctor` says of machines and installations that this one is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tileloom
from tileloom.base.settings import override
from tileloom.cli import doctor_command
from tileloom.cli.app import cli
from tileloom.driver import build


def fact(name: str) -> str:
    """The text of one fact."""
    return dict(doctor_command.facts())[name]


@pytest.mark.parametrize(
    ("name", "there", "missing"),
    [
        ("numpy", np.__version__, "[red]missing[/]"),
        ("islpy", "", r"not installed (pip install 'tileloom\[poly]')"),
    ],
)
def test_versions(name: str, there: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fact(name).startswith(there)
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: None)
    assert fact(name) == missing
    assert "torch.compile" not in dict(doctor_command.facts())


def test_modules_without_metadata_have_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: SimpleNamespace())
    assert doctor_command._version("no_such_package") == ""
    assert doctor_command._version("numpy") == np.__version__


@pytest.mark.parametrize(("found", "text"), [((), "knows no backend"), ((1,), "knows the backend")])
def test_torch_backend(found: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command.metadata, "entry_points", lambda **_: found)
    assert doctor_command._torch_backend().startswith(text)


def test_only_changed_settings_are_listed() -> None:
    with override(num_threads=3, full_traceback=True):
        found = list(doctor_command._changed_settings())
        assert fact("settings") == ", ".join(found)
    assert "num_threads = 3" in found and "full_traceback = True" in found
    assert not any(text.startswith(("index_bits", "cache =")) for text in found)


def test_settings_that_nobody_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "_changed_settings", lambda: iter(()))
    assert fact("settings") == "all at their defaults"


def test_the_assembler_is_searched_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PTXAS", raising=False)
    monkeypatch.setattr(doctor_command.shutil, "which", lambda name: f"/bin/{name}")
    for folder in ("a", "b"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin" / "ptxas").touch()
    wheel = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: wheel)
    assert doctor_command._ptxas() == "/bin/ptxas"
    monkeypatch.setattr(doctor_command.shutil, "which", lambda name: None)
    assert doctor_command._ptxas() == str(tmp_path / "a" / "bin" / "ptxas")
    wheel.submodule_search_locations = None
    assert doctor_command._ptxas() == ""


def test_kernels_that_go_wrong_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tileloom.numpy, "tanh", lambda x: np.tanh(x) + 1e-3, raising=False)
    assert doctor_command.try_kernel() == "tanh is wrong"
    shown = CliRunner().invoke(cli, ["doctor"])
    assert shown.exit_code == 1 and "a small kernel does not work: tanh is wrong" in shown.output

    def fails(x: Any) -> Any:
        raise OSError("no memory")

    monkeypatch.setattr(tileloom.numpy, "tanh", fails, raising=False)
    assert doctor_command.try_kernel() == "no memory"


class FakeCuda:
    """One device, which the emulator stands for."""

    CudaError = tileloom.UserError

    def __init__(self, gain: float = 0.0) -> None:
        self.gain = gain

    def device_count(self) -> int:
        return 1

    def asarray(self, array: Any, number: int) -> Any:
        assert number == 0
        return array + np.float32(self.gain)

    def zeros(self, extent: int, device: int) -> Any:
        zeros = np.zeros(extent, "float32")
        return SimpleNamespace(numpy=lambda: zeros, array=zeros)

    def device(self, number: int = 0) -> Any:
        return SimpleNamespace(
            name="Card [x]", arch="sm_90", multiprocessors=132, memory=3 << 29,
            shared_memory=227 << 10,
        )  # fmt: skip

    def driver_version(self) -> tuple[int, int]:
        return 12, 4


@pytest.mark.parametrize(("gain", "problem"), [(0.0, ""), (1.0, "it computes something else")])
def test_devices(gain: float, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def emulated(func: Any, target: str, device: str) -> Any:
        assert (target, device) == ("cuda", "cuda:0")
        kernel = build(func, "cuda", device="emulator")
        return lambda given, result: kernel(given, result.array)

    monkeypatch.setattr(doctor_command, "cuda", FakeCuda(gain))
    monkeypatch.setattr(tileloom, "build", emulated, raising=False)
    assert doctor_command.try_on_gpu(0) == problem
    rows = dict(doctor_command._gpus())
    assert rows["cuda"] == "the driver is that of CUDA 12.4"
    (card,) = [text for name, text in rows.items() if name != "cuda"]
    assert "132 multiprocessors, 1.5 GiB, 227 KiB shared" in card
