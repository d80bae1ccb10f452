"""How long torch.compile takes for a network: each measurement in a fresh process.

Cold means that every cache on disk is empty, warm that a process has done the same before. The
clock runs from the call of torch.compile to the first result; eager has run once by then, and the
model and PyTorch are there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_PROGRAM = """
import sys, time
from benchmarks import models
network, backend = models.networks()[sys.argv[1]], models._backend(sys.argv[2])
model, inputs = network.get()
torch = models._torch()
with torch.no_grad():
    expected = models.Results(model(*inputs))
    start = time.perf_counter()
    got = models.Results(torch.compile(model, backend=backend)(*inputs))
    seconds = time.perf_counter() - start
import numpy as np
error = np.abs(np.asarray(got) - np.asarray(expected)).max()
if not error < 1e-2:
    sys.exit(f"wrong by {error}")
print(seconds)
"""


@dataclass(frozen=True)
class Compiled:
    """Seconds until the first result."""

    network: str
    backend: str
    cold: float
    warm: float


def measure(names: Sequence[str], backends: Sequence[str]) -> list[Compiled]:
    """Every network with every backend, cold and then warm."""
    found = []
    for name in names:
        for backend in backends:
            with tempfile.TemporaryDirectory() as folder:
                cold, warm = (_seconds(name, backend, folder) for _ in range(2))
            found.append(Compiled(name, backend, cold, warm))
    return found


def _seconds(name: str, backend: str, folder: str) -> float:
    caches = {"TILELOOM_CACHE_DIR": f"{folder}/a", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/b"}
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, name, backend],
        env={**os.environ, **caches, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def table(rows: Sequence[Compiled]) -> str:
    """In Markdown."""
    lines = ["| network | backend | cold s | warm s |", "|---|---|---|---|"]
    lines += [f"| {r.network} | {r.backend} | {r.cold:.1f} | {r.warm:.1f} |" for r in rows]
    return "\n".join(lines) + "\n"


__all__ = ["Compiled", "measure", "table"]
