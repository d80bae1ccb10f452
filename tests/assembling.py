"""`pytest --assemble`: every kernel that the emulator runs must be taken by `ptxas` as well."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu import ARCHS, assemble, ptxas
from tileloom.base.errors import UnsupportedError
from tileloom.codegen import jit
from tileloom.codegen.nvptx import emit_kernels
from tileloom.lower.gpu.split_host_device import split_host_device
from tileloom.simt.launch import _Host
from tileloom.target import target
from tileloom.tir import PrimFunc, structural_hash


def assembled(func: PrimFunc, folder: Path) -> None:
    """Assemble the kernels of a flat function for each architecture that has what they use."""
    for arch in ARCHS:
        wanted = target(f"cuda -arch={arch}")
        try:
            text = emit_kernels(split_host_device(func), wanted)
        except UnsupportedError:
            continue  # of another architecture
        assemble(jit.assembly(text, wanted), arch, folder)


@pytest.fixture(autouse=True, scope="session")
def _assemble_what_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--assemble"):
        yield
        return
    if ptxas() is None:
        pytest.exit("--assemble needs ptxas: pip install nvidia-cuda-nvcc-cu12, or set PTXAS")
    known: set[int] = set()
    run = _Host.run

    def both(self: Any) -> int:
        key = structural_hash(self.func)
        if key not in known:
            known.add(key)
            assembled(self.func, Path(folder))
        return run(self)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Host, "run", both)
        yield
    print(f"\nassembled {len(known)} functions for {' and '.join(ARCHS)}")
