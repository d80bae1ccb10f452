"""What type checkers and editors see of the package and of `tileloom.numpy`."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

import tileloom
from type_checking import mypy_says

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "tileloom"


def written() -> dict[str, str]:
    path = ROOT / "tools" / "array_stubs.py"
    if not path.exists():
        pytest.skip("the tool is not part of this copy")
    spec = importlib.util.spec_from_file_location("array_stubs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, str] = module.pages()
    return pages


def test_the_stubs_are_fresh() -> None:
    for file, page in written().items():
        assert (SOURCES / "numpy" / file).read_text() == page, "run python tools/array_stubs.py"


@pytest.mark.parametrize("name", ["__init__", "linalg"])
def test_the_stubs_have_every_public_name(name: str) -> None:
    room = tileloom.numpy if name == "__init__" else tileloom.numpy.linalg
    tree = ast.parse((SOURCES / "numpy" / f"{name}.pyi").read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname}
    assert {name for name in found if not name.startswith("_")} == set(dir(room))


def test_the_root_loads_late_what_type_checkers_see() -> None:
    """The imports under `TYPE_CHECKING` say what `__getattr__` finds at run time."""
    seen = {}
    for block in ast.parse((SOURCES / "__init__.py").read_text()).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                assert isinstance(node, ast.ImportFrom)
                if node.level:
                    home = node.module or ""
                    seen.update({a.asname or a.name: home or f"{a.name}." for a in node.names})
    modules = {name: home for name, home in seen.items() if home.endswith(".")}
    assert modules.pop("te") == "compute."
    assert all(home == f"{name}." for name, home in modules.items())
    assert {n: h for n, h in seen.items() if not h.endswith(".")} == tileloom._HOMES
    assert {*seen, "__version__"} == set(tileloom.__all__)


PROGRAM = """
from typing import Any

import numpy as np
import tileloom
from tileloom import numpy as tnp, te

x = np.ones((2, 3), tnp.float32)
total: np.ndarray[Any, Any] = tnp.sum(tnp.exp(x), axis=-1, dtype="float64")
rows = tnp.concat([x, [[1.0, 2.0, 3.0]]], axis=0).shape
tnp.linalg.norm(tnp.where(x > 0, x, 0.5), ord=1)
tileloom.build(te.create_prim_func([te.placeholder((4,))]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", ""),
        ("tnp.summ(x)", 'has no attribute "summ"'),
        ("tnp.sum(x, 0)", "Too many positional arguments"),
        ("tnp.sum(x, axes=0)", "Unexpected keyword argument"),
        ('tnp.max(x, axis="rows")', "incompatible type"),
        ('tnp.exp("x")', "incompatible type"),
        ("tnp.matmul(x)", "Too few arguments"),
        ("tnp.linalg.det(x)", 'has no attribute "det"'),
        ("n: str = tnp.mean(x)", "Incompatible types in assignment"),
        ("tileloom.sum(x)", 'has no attribute "sum"'),
        ("tileloom.build()", "Missing positional argument"),
        ("tileloom.tune(tileloom.jit(np.exp).graph(x), trials=64, workers=None)", ""),
        ("tileloom.tune(tileloom.jit(np.exp).graph(x), trails=64)", "Unexpected keyword argument"),
        ('tileloom.tune(tileloom.jit(np.exp).graph(x), trials="64")', "No overload variant"),
    ],
)
def test_mypy_sees_mistakes(line: str, complaint: str, tmp_path: Path) -> None:
    done = mypy_says(f"{PROGRAM}{line}\n", tmp_path)
    found = "\n".join(text for text in done.stdout.splitlines() if text.startswith("user.py"))
    assert (complaint in found) and ("error" in found) == bool(complaint), done.stdout
