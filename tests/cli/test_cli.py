"""The command line, called as users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tileloom.base.settings import override
from tileloom.cli import demo_command, doctor_command, trial
from tileloom.cli.app import cli
from tileloom.cli.programs import PROGRAMS

onnx = pytest.importorskip("onnx")
parser = pytest.importorskip("onnx.parser")

SOURCES = Path(__file__).resolve().parents[2] / "src"
SCRIPT = """
@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
"""


def call(*arguments: object, text: str | None = None) -> Any:
    return CliRunner().invoke(cli, [str(a) for a in arguments], input=text)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.onnx"
    weights = ",".join(str(0.1 * k) for k in range(32))
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    mlp (float[batch, 8] x) => (float[batch, 4] y)
    <float[8,4] w = {{{weights}}}> {{ h = MatMul(x, w)  y = Softmax(h) }}"""
    onnx.save(parser.parse_model(text), path)
    return path


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "double.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def akg_graph(tmp_path: Path) -> Path:
    def tensor(name: Any) -> Any:
        return {"tensor_name": name, "shape": [4, 5], "data_type": "float32", "format": "NCHW"}

    add = {"name": "Add", "attr": None, "input_desc": [[tensor("x")], [tensor("p")]],
           "output_desc": [tensor("y")]}  # fmt: skip
    assign = {"name": "Assign", "attr": None, "input_desc": [[tensor("p")], [tensor("y")]],
              "output_desc": [tensor("z")]}  # fmt: skip
    path = tmp_path / "Fused_Add.info"
    path.write_text(json.dumps({
        "op": "Fused_Add", "op_desc": [add, assign], "output_desc": [tensor("z")],
        "input_desc": [[tensor("x")], [tensor("p")]],
    }))  # fmt: skip
    return path


# ---------------------------------------------------------------------------- run


def test_akg_graphs_are_run_compared_compiled_and_timed(akg_graph: Any) -> None:
    result = call("run", akg_graph, "--compare")
    assert result.exit_code == 0, result.output
    assert "[4, 5]" in result.output and "equal" in result.output
    result = call("compile", akg_graph)
    assert result.exit_code == 0, result.output
    assert "add" in result.output
    assert call("compile", akg_graph, "--stage", "asm").exit_code == 0
    result = call("bench", akg_graph)
    assert result.exit_code == 0, result.output
    assert "numpy" in result.output
    result = call("run", akg_graph, "--dim", "n=3")
    assert result.exit_code != 0


def test_run_describes_outputs_and_compares(model: Any) -> None:
    result = call("run", model, "--dim", "batch=3", "--compare")
    assert result.exit_code == 0, result.output
    assert "[3, 4]" in result.output and "equal" in result.output


def test_run_describes_outputs_without_numbers(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> some (float[n, 3] x) => (bool[n, 3] y,
        int64[k, m] z, int64[2] s) { y = IsNaN(x) z = NonZero(y) s = Shape(x) }"""
    )
    onnx.save(proto, tmp_path / "some.onnx")
    result = call("run", tmp_path / "some.onnx", "--dim", "n=4")
    assert result.exit_code == 0, result.output
    rows = [" ".join(line.split()) for line in result.output.splitlines()]
    assert {"y bool [4, 3] 0 0 0", "z int64 [2, 0]", "s int64 [2] 3 3.5 4"} <= set(rows)


def test_run_reads_and_saves_arrays(model: Any, tmp_path: Path) -> None:
    x = np.eye(8, dtype=np.float32)[:2]
    np.save(tmp_path / "x.npy", x)
    saved = tmp_path / "out.npz"
    result = call("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--save", saved)
    assert result.exit_code == 0, result.output
    weights = np.arange(32).reshape(8, 4) * 0.1
    expected = np.exp(x @ weights)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.load(saved)["y"], expected, rtol=1e-5)


def test_run_fails_when_the_comparison_does(model: Any) -> None:
    result = call("run", model, "--compare", "--rtol", "-1")
    assert result.exit_code in (0, 1)  # exact agreement is agreement at any tolerance
    if result.exit_code == 1:
        assert "different" in result.output


def test_run_measures(model: Any) -> None:
    result = call("run", model, "--time")
    assert result.exit_code == 0 and "tileloom" in result.output and "1.00x" in result.output


# ---------------------------------------------------------------------------- compile, opt


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("graph", "softmax"),
        ("groups", "matmul"),
        ("tir", "@T.prim_func"),
        ("loops", "@T.prim_func"),
        ("flat", "@T.prim_func"),
        ("llvm", "define"),
        ("asm", ".globl"),
    ],
)
def test_compile_shows_each_stage(model: Any, stage: Any, text: Any) -> None:
    result = call("compile", model, "--stage", stage)
    assert result.exit_code == 0, result.output
    assert text in result.output


@pytest.mark.parametrize(
    ("stages", "heads"),
    [
        ([], []),
        (["tir"], []),
        (["tir", "llvm"], ["# ---- tir", "# ---- llvm"]),
        (["llvm", "loops", "tir"], ["# ---- llvm", "# ---- loops", "# ---- tir"]),
    ],
)
def test_compile_names_the_stages_where_there_are_several(
    script: Any, stages: list[str], heads: list[str]
) -> None:
    """What is printed for one stage is the program, so that it can be given to `opt`."""
    result = call("compile", script, *(word for stage in stages for word in ("--stage", stage)))
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if line.startswith("# ----")] == heads


def test_compile_writes_one_file_or_a_folder(model: Any, script: Any, tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    assert call("compile", script, "-o", one).exit_code == 0
    assert "T.block" not in one.read_text() and "def double" in one.read_text()
    folder = tmp_path / "all"
    assert call("compile", model, "--stage", "tir", "--stage", "asm", "-o", folder).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["asm.txt", "tir.txt"]


def test_compile_for_another_machine(script: Any) -> None:
    arm = call("compile", script, "--stage", "asm", "--target", "cpu -mtriple=aarch64-linux-gnu")
    assert arm.exit_code == 0, arm.output
    assert "ret" in arm.output and "vmulps" not in arm.output


def test_what_compile_prints_goes_through_opt(model: Any, tmp_path: Path) -> None:
    text = call("compile", model, "--stage", "tir").output
    result = call("opt", "-", "--until", "flat", text=text)
    assert result.exit_code == 0, result.output
    assert result.output.count("@T.prim_func") == text.count("@T.prim_func")


def test_opt_runs_named_passes(script: Any) -> None:
    assert "T.block" in call("opt", script).output
    until = call("opt", script, "--until", "loops", "--verify").output
    assert "T.block" not in until and "B[i] = A[i]" in until
    every = call("opt", script, "--until", "flat", "--print-all").output
    assert "# ---- flatten_buffers" in every
    named = call("opt", script, "--pass", "lower_init_block", "--pass", "simplify")
    assert named.exit_code == 0 and "T.block" in named.output
    assert "flatten_buffers" in call("opt", "list").output


# ---------------------------------------------------------------------------- the others


def test_bench(model: Any) -> None:
    result = call("bench", model, "--dim", "batch=2")
    assert result.exit_code == 0 and "tileloom" in result.output
    assert "softmax" in call("bench", "list").output


def test_doctor_finds_the_assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ptxas_of(output: Any) -> Any:
        (row,) = [line.split() for line in output.splitlines() if line.split()[:1] == ["ptxas"]]
        return row[1:]

    monkeypatch.setenv("PTXAS", "/of/the/variable/ptxas")
    assert ptxas_of(call("doctor").output) == ["/of/the/variable/ptxas"]
    monkeypatch.delenv("PTXAS")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: None)
    assert ptxas_of(call("doctor").output)[:2] == ["not", "found"]
    wheel = tmp_path / "nvcc" / "bin" / "ptxas"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(doctor_command, "find_spec", lambda name: found)
    assert ptxas_of(call("doctor").output)[0].startswith(str(tmp_path)[:30])  # the rest is below


def test_doctor() -> None:
    result = call("doctor")
    assert result.exit_code == 0, result.output
    for word in ("target", "threads", "llvmlite", "cache", "works"):
        assert word in result.output


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cache": False}, "switched off by TILELOOM_CACHE"),
        ({"cache_dir": None}, "none: this user has no home folder"),
    ],
)
def test_doctor_says_where_the_cache_is(changes: dict[str, bool | None], text: str) -> None:
    with override(**changes):
        assert text in doctor_command._cache()
    assert "MiB" in doctor_command._cache()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ({}, "-"),
        ({"tileloom": 2.0}, "-"),
        ({"tileloom": 2.0, "numpy": 1.0}, "0.50"),
        ({"tileloom": 2.0, "numpy": 2.0}, "[green]1.00[/]"),
        ({"tileloom": 1.0, "numpy": 2.5}, "[green]2.50[/]"),
    ],
)
def test_speeds(seconds: dict[str, float], text: str) -> None:
    found = trial.Trial(PROGRAMS[0], 1, None, 0.0, 0.0, seconds)  # type: ignore[arg-type]
    assert demo_command._speed(found, "numpy") == text


def test_demo_checks_and_times() -> None:
    result = call("demo", "--only", "col_sums", "--seconds", "0.01", "--show")
    assert result.exit_code == 0, result.output
    assert "col_sums" in result.output and "x numpy" in result.output
    assert "fused into 1 kernel" in result.output


def test_demo_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.Trial, "is_right", property(lambda self: False))
    result = call("demo", "--only", "col_sums")
    assert result.exit_code == 1 and "wrong: col_sums" in result.output


@pytest.mark.slow
def test_the_whole_demo() -> None:
    result = call("demo", "--seconds", "0.01")
    assert result.exit_code == 0, result.output
    assert "encoder" in result.output


# ---------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "missing.onnx"), "does not exist"),
        (("run", __file__), "ONNX"),
        (("run", "MODEL", "--input", "z=random"), "no input 'z'"),
        (("run", "MODEL", "--input", "x"), "NAME=VALUE"),
        (("run", "MODEL", "--input", "x=missing.npy"), "missing.npy"),
        (("run", "MODEL", "--input", f"x={__file__}"), "holds no array"),
        (("run", "MODEL", "--dim", "batch=two"), "no extent"),
        (("run", "MODEL", "--dim", "batches=2"), "batches"),
        (("compile", "MODEL", "--stage", "nothing"), "nothing"),
        (("compile", "SCRIPT", "--stage", "graph"), "begin with tir"),
        (("compile", "SCRIPT", "--target", "toaster"), "toaster"),
        (("compile", __file__), "-->"),
        (("opt", "missing.py"), "missing.py"),
        (("opt", "SCRIPT", "--pass", "fly"), "no pass 'fly'"),
        (("opt", "SCRIPT", "--until", "nowhere"), "nowhere"),
        (("bench", "nothing"), "built-in program 'nothing'"),
        (("demo", "--only", "nothing"), "nothing"),
        (("demo", "--seconds", "-1"), "-1"),
        (("bench", "softmax", "--seconds", "-1"), "-1"),
        (("compile", "nothing"), "built-in program 'nothing'"),
        (("compile", "dense", "--shape", "3x3"), "3 extents, as 512x768x768"),
        (("nothing",), "nothing"),
    ],
)
def test_mistakes_end_in_one_message(
    arguments: Any, complaint: str, model: Any, script: Any
) -> None:
    places = {"MODEL": model, "SCRIPT": script}
    result = call(*(places.get(a, a) for a in arguments))
    assert result.exit_code == 2, (result.output, result.exception)
    assert complaint in result.output
    assert "Traceback" not in result.output and "internal" not in result.output


def test_wrong_shape_is_a_message(model: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 9), np.float32))
    result = call("run", model, "--input", f"x={tmp_path / 'x.npy'}")
    assert result.exit_code == 2 and "fixed to 8" in result.output


def test_full_traceback_is_for_those_who_ask() -> None:
    with override(full_traceback=True):
        result = call("bench", "nothing")
    assert result.exception is not None and "nothing" in str(result.exception)


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "tileloom", "--version"]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=True
    )
    assert "tileloom, version" in done.stdout
