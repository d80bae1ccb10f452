"""The driver: building, caching whole programs, stages, several segments."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import te
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.driver import STAGES, backend_of, compile_graph, graphs, keys, plan_graph, show_stage
from tileloom.driver.keys import constants_of, graph_key
from tileloom.expr import Var, const
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.runtime.cache import object_cache
from tileloom.runtime.serialized import SerializedExecutable, digest
from tileloom.tir import SERIAL, BufferLoad, BufferStore, For, PrimFunc, make_buffer

SOURCE = Path(tileloom.__file__).parent


def softmax_graph(rows: int = 4, name: str = "main") -> Graph:
    x = Tensor(tensor_type((rows, 8), "float32"), "x")
    return Graph([x], [ops.softmax(ops.mul(x, 2.0), 1)], name=name)


def weighted(weight: np.ndarray[Any, Any]) -> Graph:
    x = Tensor(tensor_type((2, 3), "float32"), "x")
    return Graph([x], [ops.matmul(x, ops.constant(weight))])


def key(graph: Graph) -> str:
    digests = {id(array): digest(array) for array in constants_of(graph)}
    return graph_key(graph, digests)


# ---------------------------------------------------------------------------- keys


def test_equal_graphs_have_equal_keys() -> None:
    assert key(softmax_graph()) == key(softmax_graph())
    weight = np.ones((3, 5), np.float32)
    assert key(weighted(weight)) == key(weighted(weight.copy()))


def test_graphs_that_differ_have_other_keys() -> None:
    x = Tensor(tensor_type((4, 8), "float32"), "x")
    y = Tensor(tensor_type((4, 8), "float32"), "y")
    half = Tensor(tensor_type((4, 8), "float16"), "x")
    keys = [
        key(Graph([x], [ops.softmax(x, 1)])),
        key(Graph([x], [ops.softmax(x, 0)])),
        key(Graph([x], [ops.exp(x)])),
        key(Graph([half], [ops.exp(half)])),
        key(Graph([x, y], [ops.sub(x, y)])),
        key(Graph([x, y], [ops.sub(y, x)])),
        key(Graph([x], [ops.exp(x), ops.exp(x)])),
        key(weighted(np.ones((3, 5), np.float32))),
        key(weighted(np.full((3, 5), 2, np.float32))),
        key(weighted(np.ones((3, 6), np.float32))),
        key(Graph([x], [ops.mul(x, 2.0)])),
        key(Graph([x], [ops.mul(x, 3.0)])),
    ]
    assert len(set(keys)) == len(keys)


def test_attributes_nobody_knows_are_never_equal() -> None:
    assert keys._plain(object()) != keys._plain(object())
    assert keys._plain([1, True, "a", None, 2.5]) == keys._plain([1, True, "a", None, 2.5])
    assert keys._plain([1]) != keys._plain([True]) != keys._plain([1.0])


# ---------------------------------------------------------------------------- the cache


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """How often a program was made, with a cache of its own."""
    made: Any = []
    make = graphs._make
    monkeypatch.setattr(graphs, "_make", lambda *a: made.append(1) or make(*a))
    with override(cache_dir=tmp_path / "cache"):
        yield made


def test_programs_are_found_again(counted: list[Any], rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 8)).astype(np.float32)
    first, second = (compile_graph(softmax_graph())(x)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(counted) == 1
    compile_graph(softmax_graph(5))
    assert len(counted) == 2


def test_programs_with_constants_are_found_again(
    counted: list[Any], rng: np.random.Generator
) -> None:
    weight = rng.standard_normal((3, 5)).astype(np.float32)
    x = rng.standard_normal((2, 3)).astype(np.float32)
    for array in (weight, weight.copy(), weight + 1):
        np.testing.assert_allclose(compile_graph(weighted(array))(x)[0], x @ array, rtol=1e-5)
    assert len(counted) == 2


def test_equal_constants_twice(counted: list[Any], rng: np.random.Generator) -> None:
    x = Tensor(tensor_type((4,), "float32"), "x")
    parts = [ops.constant(np.arange(4, dtype=np.float32)) for _ in range(2)]
    graph = Graph([x], [ops.add(ops.mul(x, parts[0]), parts[1])])
    for _ in range(2):
        result = compile_graph(graph)(np.ones(4, np.float32))[0]
        np.testing.assert_array_equal(result, 2 * np.arange(4))
    assert len(counted) == 1


def test_programs_of_the_host_are_made_anew(counted: list[Any]) -> None:
    x = Tensor(tensor_type((3, 2), "float32"), "x")
    graph = Graph([x], [ops.sort(x, 0)])
    value = np.array([[3, 1], [2, 5], [1, 4]], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(compile_graph(graph)(value)[0], np.sort(value, 0))


def test_a_damaged_cache_is_made_anew(counted: list[Any], tmp_path: Path) -> None:
    compile_graph(softmax_graph())
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    x = np.zeros((4, 8), np.float32)
    np.testing.assert_allclose(compile_graph(softmax_graph())(x)[0], 0.125)
    assert len(counted) == 2


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\xff", b"[]\n", b"{}\n", b'{"name": "main"}\n', b"null\n"],
)
def test_a_payload_of_something_else_is_made_anew(
    counted: list[Any], tmp_path: Path, payload: bytes
) -> None:
    """Whole files whose checksums are right, written by another program."""
    compile_graph(softmax_graph())
    for path in list((tmp_path / "cache").glob("*.bin")):
        object_cache().put(path.stem, payload)
    x = np.zeros((4, 8), np.float32)
    np.testing.assert_allclose(compile_graph(softmax_graph())(x)[0], 0.125)
    assert len(counted) == 2
    compile_graph(softmax_graph())
    assert len(counted) == 2


def test_a_program_without_its_code_is_made_anew(counted: list[Any], tmp_path: Path) -> None:
    compile_graph(softmax_graph())
    cache = object_cache()
    for path in list((tmp_path / "cache").glob("*.bin")):
        kept: Any = cache.get(path.stem)
        if kept.startswith(b"{"):  # the program; the object file by itself is another entry
            cache.put(path.stem, kept.replace(b"__packed", b"__pecked"))
    x = np.zeros((4, 8), np.float32)
    np.testing.assert_allclose(compile_graph(softmax_graph())(x)[0], 0.125)
    assert len(counted) == 2


def test_an_object_of_something_else_is_made_anew(tmp_path: Path) -> None:
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="B")])
    with override(cache_dir=tmp_path / "cache"):
        tileloom.build(func)
        for payload in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(100)):
            for path in list((tmp_path / "cache").glob("*.bin")):
                object_cache().put(path.stem, payload)
            given, found = np.ones(4, np.float32), np.zeros(4, np.float32)
            tileloom.build(func)(given, found)
            np.testing.assert_array_equal(found, 2)


def test_it_runs_from_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "tileloom.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(SOURCE.rglob("*.py")):
            file.write(path, path.relative_to(SOURCE.parent))
    script = (
        "import numpy as np, tileloom; assert 'tileloom.zip' in tileloom.__file__;"
        "print(tileloom.jit(lambda x: x * 2)(np.ones(3, 'f4')))"
    )
    where = {"PYTHONPATH": str(archive), "TILELOOM_CACHE_DIR": str(tmp_path / "cache")}
    said = subprocess.run(
        [sys.executable, "-c", script], env=where, capture_output=True, text=True, cwd=tmp_path
    )
    assert said.stdout == "[2. 2. 2.]\n", said.stderr


def test_threads_are_part_of_the_key(counted: list[Any]) -> None:
    compile_graph(softmax_graph(64))
    with override(num_threads=1):
        compile_graph(softmax_graph(64))
    assert len(counted) == (2 if tileloom.Target.host().cores > 1 else 1)


@pytest.mark.parametrize("where", [("cpu",), ("cuda -arch=sm_80", "emulator")])
def test_executables_survive_the_way_to_disk(where: tuple[str, ...]) -> None:
    program, code = graphs._make(weighted(np.ones((3, 5), np.float32)), backend_of(*where))
    data: Any = program.to_bytes({}, code)
    again, code_again = SerializedExecutable.from_bytes(data, {})
    assert code_again == code
    assert again.steps == program.steps and again.inputs == program.inputs
    assert again.outputs == program.outputs and again.numbers == program.numbers
    for name, array in program.symbols.items():
        np.testing.assert_array_equal(again.symbols[name], array)


# ---------------------------------------------------------------------------- stages


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_text(stage: str) -> None:
    text = show_stage(softmax_graph(), stage)
    assert ("softmax" in text) if stage == "graph" else text


def test_kernels_of_a_graph_are_compiled_once() -> None:
    labels = re.findall(r"^([A-Za-z]\w*):", show_stage(softmax_graph(), "asm"), re.MULTILINE)
    kernel, entry = sorted(labels)
    assert kernel.startswith("kernel0") and entry == "main_0__packed"


def test_stages_of_tensor_ir() -> None:
    A = te.placeholder((4,), name="A")
    f = te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2.0, name="B")])
    assert "T.block" in show_stage(f, "tir") and "T.block" not in show_stage(f, "loops")
    assert "fmul" in show_stage(f, "llvm")
    for stage, words in (("graph", "begin with tir"), ("soup", "flat")):
        with pytest.raises(UserError, match=words):
            show_stage(f, stage)


def test_stages_of_tensor_ir_with_symbolic_shapes() -> None:
    size = Var("n", "int32")
    A = te.placeholder((size,), name="A")
    f = te.create_prim_func([A, te.compute((size,), lambda i: A[i] * 2.0, name="B")])
    for stage in ("tir", "flat", "llvm", "asm"):
        assert "main" in show_stage(f, stage)
    assert "main" in tileloom.assembly(f)


def test_stages_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "dump"
    with override(print_ir=("groups", "asm"), dump_dir=folder):
        compile_graph(softmax_graph(name="noisy"))
    shown = capsys.readouterr().err
    assert "# noisy: groups" in shown and "# noisy: asm" in shown and "# noisy: tir" not in shown
    assert {path.name for path in folder.iterdir()} == {f"noisy.{stage}.txt" for stage in STAGES}
    with override(dump_dir=folder):
        compile_graph(softmax_graph(name="quiet"))
    assert len(list(folder.iterdir())) == 2 * len(STAGES)
    assert not capsys.readouterr().err


def test_one_kernel_for_what_belongs_together() -> None:
    program = plan_graph(softmax_graph(), tileloom.Target.host())
    assert program.kernel_count == 1


# ---------------------------------------------------------------------------- build


def test_build_of_a_module() -> None:
    def scale(name: str, by: float) -> PrimFunc:
        A = te.placeholder((4,), name="A")
        function = te.create_prim_func([A, te.compute((4,), lambda i: A[i] * by, name="B")])
        return function.with_attr("global_symbol", name)

    functions = {name: scale(name, by) for name, by in (("double", 2.0), ("triple", 3.0))}
    kernels = tileloom.build(tileloom.IRModule(functions))
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for name, by in (("double", 2), ("triple", 3)):
        kernels[name](x, y)
        assert (y == by).all()


def test_strides_and_symbols_are_parameters() -> None:
    n = Var("n", "int32")
    A = make_buffer((4, 6), "float32", "A", strides=(12, 2))
    B = make_buffer((n,), "float32", "B")
    i: Any = Var("i", "int32")
    value = BufferLoad(A, [i, const(1)]) + 1.0
    body = For(i, const(0), n, SERIAL, BufferStore(B, value, (i,)))
    a, b = Var("a", "handle"), Var("b", "handle")
    kernel = tileloom.build(PrimFunc((a, b), body, {a: A, b: B}, {"global_symbol": "column"}))
    wide = np.arange(48, dtype=np.float32).reshape(4, 12)
    found = np.zeros(3, np.float32)
    kernel(wide[:, ::2], found)
    np.testing.assert_array_equal(found, wide[:3, 2] + 1)
    with pytest.raises(UserError, match="strides"):
        kernel(wide[:, :6].copy(), found)


@pytest.mark.parametrize("program", ["nope", 3, None, lambda x: x])
def test_what_is_no_program_is_not_built(program: Any) -> None:
    with pytest.raises(UserError, match="a PrimFunc or an IRModule"):
        tileloom.build(program)


def test_code_for_another_machine_is_not_run_here() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="y")])
    other = "x86_64" if tileloom.Target.host().arch != "x86_64" else "aarch64"
    target = f"cpu -mtriple={other}-unknown-linux-gnu"
    assert tileloom.assembly(func, target) != tileloom.assembly(func)
    for make in (
        lambda: tileloom.build(func, target=target),
        lambda: compile_graph(softmax_graph(), target=target),
    ):
        with pytest.raises(UserError, match="cannot run code for the target") as caught:
            make()
        assert 'device="emulator"' in str(caught.value)
