"""The Python examples of the documentation run, page by page, as a reader would run them."""

from __future__ import annotations

import linecache
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tileloom.cli.app import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: Pages that another test runs. All others run here, in a namespace that holds nothing.
ELSEWHERE = {
    "schedules.md": "tests/schedule/test_library_docs.py",
    "cuda.md": "tests/runtime/cuda/test_docs.py",
    "tuning.md": "tests/tuner/test_tuner.py",
}
#: Pages whose examples take many seconds.
LONG = ("dynamic.md", "gpu-matmul.md")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What examples register, they register for themselves alone; PyTorch has compiled nothing."""
    for kind in filter(find_spec, ("onnx", "torch")):
        room = f"tileloom.frontend.{kind}"
        if kind == "onnx":
            import_module(f"{room}.handlers").load_handlers()
        else:
            import_module(f"{room}.ops")
        registry: Any = import_module(f"{room}.registry")
        monkeypatch.setattr(registry, "_HANDLERS", dict(registry._HANDLERS))
    yield
    if "torch" in sys.modules:
        sys.modules["torch"]._dynamo.reset()


def program(page: Path) -> str:
    """The examples of a page on their lines, and nothing else."""
    text, lines = page.read_text(), [""] * (page.read_text().count("\n") + 1)
    for found in BLOCK.finditer(text):
        start = text.count("\n", 0, found.start(1))
        for k, line in enumerate(found[1].splitlines()):
            lines[start + k] = line
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in LONG else ())
        for page in PAGES
        if BLOCK.search(page.read_text())
    ],
)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.name in ELSEWHERE:
        pytest.skip(ELSEWHERE[page.name])
    monkeypatch.chdir(tmp_path)
    code, name = program(page), f"<{page.name}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        exec(compile(code, name, "exec"), {"__name__": name})
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tileloom"):
            raise
        pytest.skip(f"{error.name} is not installed")


#: Commands that take long or ask about the machine; tests of their own run them.
SLOW = ("tileloom demo", "tileloom doctor")


@pytest.mark.parametrize("name", ["getting-started.md", "stages.md"])
def test_commands_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as they stand on the page."""
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / name).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    typed = [line for line in lines if line.startswith("tileloom ") and not line.startswith(SLOW)]
    assert len(typed) >= 2
    for line in typed:
        result = CliRunner().invoke(cli, shlex.split(line, comments=True)[1:])
        assert result.exit_code == 0, (line, result.output)
