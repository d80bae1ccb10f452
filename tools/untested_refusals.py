"""Refusals that no test meets: every `raise` of an error for users that a test run does not reach.

    python tools/untested_refusals.py schedule tests/schedule tests/compat
    python tools/untested_refusals.py frontend/jit tests/frontend/jit -n 2

The first word is the part of the sources, relative to the package; what follows goes to pytest.
An error that is raised need not be looked at by the test; one that never is cannot be. What is
listed is either a missing test or a refusal that nobody can get.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tileloom"
#: Our own faults, and what Python's protocols want raised.
OTHERS = {"InternalError", "AttributeError", "KeyError", "NotImplementedError", "StopIteration"}
#: So many callers of the error's constructor are looked at; helpers make some of the errors.
DEPTH = 6

# ---------------------------------------------------------------------------- in the test run

_met: set[tuple[str, int]] = set()


def pytest_configure(config: Any) -> None:
    """Note where errors are made."""
    from tileloom.base.errors import TileloomError

    def noted(self: TileloomError, *args: object, **options: object) -> None:
        frame = sys._getframe(1)
        for _ in range(DEPTH):
            _met.add((frame.f_code.co_filename, frame.f_lineno))
            if frame.f_back is None:
                break
            frame = frame.f_back
        Exception.__init__(self, *args)

    TileloomError.__init__ = noted  # type: ignore[method-assign, assignment]


def pytest_unconfigure(config: Any) -> None:
    """Write down what was met, a file for each process."""
    folder = os.environ["TILELOOM_REFUSALS"]
    Path(folder, f"{os.getpid()}.json").write_text(json.dumps(sorted(_met)))


# ---------------------------------------------------------------------------- the report


def refusals(folder: Path) -> Iterator[tuple[Path, ast.Raise, str]]:
    """Every statement that raises an error for users, with what it says."""
    for file in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            name = ast.unparse(node.exc.func).split(".")[-1]
            if name not in OTHERS:
                yield file, node, ast.unparse(node.exc)


def main() -> None:
    """Run the tests, and list the statements of the room that none has reached."""
    room, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="tileloom-refusals-") as folder:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools")])
        env = {**os.environ, "TILELOOM_REFUSALS": folder, "PYTHONPATH": paths}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "untested_refusals", *arguments]
        subprocess.run(command, cwd=ROOT, env=env, check=False)
        met: dict[str, set[int]] = {}
        for part in Path(folder).glob("*.json"):
            for file, line in json.loads(part.read_text()):
                met.setdefault(file, set()).add(line)
    count = left = 0
    for path, node, text in refusals(PACKAGE / room):
        count += 1
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if met.get(str(path), set()).isdisjoint(lines):
            left += 1
            print(f"{path.relative_to(PACKAGE)}:{node.lineno}: {' '.join(text.split())[:160]}")
    print(f"{left} of {count} refusals were not met")


if __name__ == "__main__":
    main()
