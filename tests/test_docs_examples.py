"""The Python examples of the documentation run, page by page, as a reader would run them."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import te
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: Pages that other tests run, and those whose examples are parts of programs.
ELSEWHERE = {
    "schedules.md": "tests/schedule/test_library_docs.py",
    "tutorial-matmul.md": "tests/schedule/test_library_tutorial.py",
    "cuda.md": "tests/runtime/cuda/test_docs.py",
    "akg.md": "needs a file of MindSpore",
    "torch.md": "needs a model of the reader's",
    "onnx.md": "needs a model of the reader's",
    "tvm-users.md": "tests/compat",
}


def graph() -> dict[str, Any]:
    x = Tensor(tensor_type((4, 8), "float32"), "x")
    return {"graph": Graph([x], [ops.softmax(x)])}


def arrays(*names: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((128, 64)).astype("float32") for name in names}


def onnx_model() -> dict[str, Any]:
    """A model beside the examples, and something to feed it."""
    onnx = pytest.importorskip("onnx")
    parser = pytest.importorskip("onnx.parser")
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[1, 3] image) => (float[1, 3] logits) { logits = Softmax(image) }"""
    onnx.save(parser.parse_model(text), "model.onnx")
    return {"image": np.ones((1, 3), "float32")}


def stages() -> dict[str, Any]:
    a = te.placeholder((4,), name="A")

    class Model:
        def graph(self, feeds: object) -> Graph:
            found: Graph = graph()["graph"]
            return found

    return {
        "function": tileloom.jit(lambda x, y: x + y),
        "model": Model(),
        "image": None,
        "prim_func": te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="B")]),
        **arrays("x", "y"),
    }


#: What a page takes for granted.
GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "README.md": onnx_model,
    "fusion.md": graph,
    "graph.md": graph,
    "getting-started.md": lambda: {**arrays("a"), "b": np.zeros(128, "float32")},
    "jit.md": lambda: {"tileloom": tileloom, "np": np},
    "stages.md": stages,
}


def program(page: Path) -> str:
    """The examples of a page on their lines, and nothing else."""
    text, lines = page.read_text(), [""] * (page.read_text().count("\n") + 1)
    for found in BLOCK.finditer(text):
        start = text.count("\n", 0, found.start(1))
        for k, line in enumerate(found[1].splitlines()):
            lines[start + k] = line
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda page: page.name
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
        exec(compile(code, name, "exec"), {"__name__": name, **GIVEN.get(page.name, dict)()})
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tileloom"):
            raise
        pytest.skip(f"{error.name} is not installed")
