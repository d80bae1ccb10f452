"""What tests of GPU code share: the assembler, and kernels built for the emulator."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

#: What the done-when of GPU code names.
ARCHS = ("sm_80", "sm_90a")
_UNKNOWN = re.compile(r"Value 'sm_\w+' is not defined for option 'gpu-name'")


@cache
def ptxas() -> str | None:
    """The assembler: $PTXAS, the one on the path, or the one in NVIDIA's wheel."""
    given = os.environ.get("PTXAS") or shutil.which("ptxas")
    if given:
        return given
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found else ():
        for path in Path(folder).glob("**/bin/ptxas"):
            return str(path) if os.access(path, os.X_OK) else _executable_copy(path)
    return None


def _executable_copy(path: Path) -> str:
    """Wheels are unpacked without the right to execute; the package is not ours to change."""
    folder = tempfile.mkdtemp(prefix="ptxas-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(shutil.copy(path, folder))
    copy.chmod(0o755)
    return str(copy)


def assemble(ptx: str, arch: str, tmp_path: Path) -> str:
    """What the assembler says of a program, which it must accept.

    The test is skipped where there is no assembler, or one that does not know the architecture.
    """
    program = ptxas()
    if program is None:
        pytest.skip("ptxas is not installed")
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    command = [program, f"-arch={arch}", "-v", "-o", str(tmp_path / "kernel.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode and _UNKNOWN.search(said):
        pytest.skip(f"this assembler does not know {arch}")
    assert done.returncode == 0, said
    return said


def spills(said: str) -> bool:
    """Whether registers of some kernel do not fit, or arrays stay in local memory."""
    sizes = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    return any(int(size) for size in sizes)
