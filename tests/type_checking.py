"""What mypy says of a user's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def mypy_says(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The run of mypy over a program in a file `user.py` of a folder."""
    (folder / "user.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache"),
         "--config-file=", str(folder / "user.py")],
        capture_output=True, text=True, cwd=folder,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}, check=False,
    )  # fmt: skip
