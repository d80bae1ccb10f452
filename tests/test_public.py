"""The public face: what `tileloom` offers, and that it loads nothing before it is used."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import numpy as tnp

ROOT = Path(__file__).resolve().parents[1]


NAMES = """
    jit Dim build lower compile_graph assembly Target set_num_threads get_num_threads
    IRModule PrimFunc Schedule tune Tuned TunedGraph
    UserError ScheduleError TraceError InternalError __version__
    akg compat driver graph numpy onnx schedule script simt sparse te tir
"""


def test_what_a_user_may_use() -> None:
    assert set(dir(tileloom)) == set(NAMES.split())
    assert sorted(tileloom.__all__) == dir(tileloom)


def test_every_listed_name_is_there() -> None:
    for name in dir(tileloom):
        if name != "onnx":  # an extra
            assert getattr(tileloom, name) is not None, name


def test_names_that_are_not_there() -> None:
    for name in ("no_such_thing", "_private", "sum", "exp", "where", "asarray"):
        with pytest.raises(AttributeError, match=name):
            getattr(tileloom, name)


def test_tile_is_no_array_function() -> None:
    """The name is that of the tile language."""
    assert not callable(getattr(tileloom, "tile", None))
    assert tnp.tile(np.arange(2), 2).tolist() == [0, 1, 0, 1]


def test_no_array_function_is_at_the_root() -> None:
    assert not (set(dir(tnp)) - {"linalg"}) & set(dir(tileloom))


def test_the_example_of_the_front_page() -> None:
    @tileloom.jit
    def normalise(x: Any) -> Any:
        return x / tnp.sum(x, axis=-1, keepdims=True)

    x = np.ones((2, 4), np.float32)
    assert normalise(x).tolist() == [[0.25] * 4] * 2


def test_lower_is_a_function_whatever_was_loaded_before() -> None:
    a = tileloom.te.placeholder((4,), name="A")
    func = tileloom.te.create_prim_func([a, tileloom.te.compute((4,), lambda i: a[i] * 2.0)])
    tileloom.build(func)
    assert "T.block" in str(func) and "T.block" not in str(tileloom.lower(func, "cpu"))
    from tileloom.lower import PIPELINE, lower

    assert PIPELINE and str(lower(func)) == str(tileloom.lower(func))


def test_what_is_loaded_when() -> None:
    """LLVM is loaded when something must be compiled, and NumPy not by the import alone."""
    script = """
import sys, tileloom
print('numpy' in sys.modules, 'llvmlite' in sys.modules)
dir(tileloom)
import numpy as np
double = tileloom.jit(lambda x: tileloom.numpy.add(x, x))
print('llvmlite' in sys.modules)
double(np.ones(3, 'float32'))
print('llvmlite' in sys.modules)
"""
    found = [run(script, name).split() for name in ("cold", "cold")]
    assert found[0][:3] == ["False", "False", "False"]
    assert found[1] == ["False", "False", "False", "False"], "a warm start needs no LLVM"


def run(script: str, cache: str) -> str:
    environment = {
        "PYTHONPATH": str(ROOT / "src"),
        "TILELOOM_CACHE_DIR": str(run.folder / cache),  # type: ignore[attr-defined]
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    run.folder = tmp_path  # type: ignore[attr-defined]


def test_errors_survive_pickling() -> None:
    error = tileloom.UserError("what", hint="this")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) or "what" in str(again)


def test_missing_extra_is_named() -> None:
    script = """
import sys
sys.modules['onnx'] = None
import tileloom
try:
    tileloom.onnx
except ImportError as error:
    print(error)
"""
    assert "tileloom[onnx]" in run(script, "none")


def test_the_version_is_one() -> None:
    text = (ROOT / "src/tileloom/__init__.py").read_text()
    assert re.findall(r'__version__ = "(.*)"', text) == [tileloom.__version__]


@pytest.mark.parametrize(("missing", "text"), [("onnx", "needs the package 'onnx'"), ("numpy", "")])
def test_a_package_that_is_missing_is_named(missing: str, text: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import tileloom.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ") and missing in last
    assert ("tileloom.onnx needs" in last) is bool(text) and text in last
