"""`tileloom trace`, called as users call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tileloom
from tileloom.base.settings import override
from tileloom.cli.app import cli
from tileloom.cli.programs import PROGRAMS
from tileloom.plan import read_traces

onnx = pytest.importorskip("onnx")
parser = pytest.importorskip("onnx.parser")

SCRIPT = """
@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
"""


def call(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.onnx"
    weights = ",".join(str(0.1 * k) for k in range(32))
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    mlp (float[batch, 8] x) => (float[batch, 4] y)
    <float[8,4] w = {{{weights}}}> {{ e = Exp(x) l = Log(e) h = MatMul(l, w) y = Softmax(h) }}"""
    onnx.save(parser.parse_model(text), path)
    return path


def test_a_model(model: Any) -> None:
    result = call("trace", model, "--dim", "batch=3")
    assert result.exit_code == 0, result.output
    for part in ("imported", "expanded", "optimized", "kernels: ", "float32[3, 4]", "not fused"):
        assert part in result.output, part


def test_rules_can_be_named(model: Any) -> None:
    assert "log-of-exp" not in call("trace", model).output
    assert "1 x log-of-exp" in call("trace", model, "--optimize", "+log-of-exp").output
    changes = call("trace", model, "--optimize", "reassociating", "--changes").output
    assert " - " in changes and "log(" in changes
    wrong = call("trace", model, "--optimize", "+log-of-ex")
    assert wrong.exit_code == 2 and "did you mean log-of-exp" in wrong.output


def test_a_stage_and_a_kernel(model: Any) -> None:
    listing = call("trace", model, "--stage", "imported").output
    assert "softmax(" in listing and "kernels" not in listing
    assert "softmax(" not in call("trace", model, "--stage", "expanded").output
    assert call("trace", model, "--stage", "roots").exit_code == 2
    every = call("trace", model, "--stage", "tir").output
    name = next(word for word in every.replace("(", " ").split() if word.startswith("kernel0"))
    one = call("trace", model, "--kernel", name, "--stage", "lowered")
    assert one.exit_code == 0 and f"def {name}" in one.output
    assert ".globl" in call("trace", model, "--kernel", name, "--stage", "asm").output
    assert call("trace", model, "--kernel", "nothing").exit_code == 2


def test_a_page(model: Any, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    result = call("trace", model, "--html", page)
    assert result.exit_code == 0 and "kernels:" not in result.output
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<details" in text and "kernel0" in text


def test_a_program_and_a_script(tmp_path: Path) -> None:
    listed = call("trace", "list")
    assert listed.exit_code == 0
    assert [tuple(line.split()) for line in listed.output.splitlines()] == [
        (program.name, program.shape) for program in PROGRAMS
    ]
    result = call("trace", "layer_norm")
    assert result.exit_code == 0 and "kernels: 1" in result.output, result.output
    assert call("trace", "no_such_thing").exit_code == 2
    path = tmp_path / "double.py"
    path.write_text(SCRIPT)
    result = call("trace", path)
    assert result.exit_code == 0 and "flatten_buffers" in result.output, result.output


def test_a_model_of_akg(tmp_path: Path) -> None:
    corpus = Path(__file__).resolve().parents[3] / "shared/data/akg-graphs-sample.jsonl.gz"
    if not corpus.exists():
        pytest.skip("the graphs are not here")
    import gzip

    with gzip.open(corpus, "rt") as file:
        entry = json.loads(next(iter(file)))
    path = tmp_path / "graph.info"
    path.write_text(json.dumps(entry.get("graph", entry)))
    result = call("trace", path)
    assert result.exit_code == 0 and "kernels: " in result.output, result.output


SOFTMAX = ("trace", "softmax", "--shape", "64x128", "--target", "cuda")


def test_a_kernel_step_by_step() -> None:
    steps = call(*SOFTMAX, "--steps")
    assert steps.exit_code == 0, steps.output
    for part in ("blocks: each op lowered by itself", "| ", "sch.bind(", "lower_thread_allreduce"):
        assert part in steps.output, part
    blocks = call(*SOFTMAX, "--steps", "--stage", "blocks").output
    assert [blocks.count(f'T.block("{name}")') for name in ("reduce_max", "sub", "div")] == [1] * 3
    last = call(*SOFTMAX, "--steps", "--stage", "merge_shared_memory_allocations").output
    assert "T.block(" not in last and 'T.launch_thread("threadIdx.x"' in last


def test_the_tactics_one_by_one() -> None:
    pytest.importorskip("islpy")
    output = call(*SOFTMAX, "--tactics").output
    names = ["blocks", "align_loops", "inline_compute", "factor_reductions", "fuse_horizontally",
             "fuse_vertically", "bind_axes", "place_storage", "lower_init_block"]  # fmt: skip
    places = [output.index(f"\n{name}") for name in names]
    assert places == sorted(places)
    assert "__rf" in output or "_rf" in call(*SOFTMAX, "--tactics", "--changes").output


def test_steps_and_shapes_that_do_not_fit() -> None:
    wrong = call("trace", "softmax", "--shape", "64x128", "--tactics")
    assert wrong.exit_code and "tactics schedule kernels of graphs for GPUs" in wrong.output
    wrong = call("trace", "layer_norm", "--shape", "64x128x2")
    assert wrong.exit_code and "cannot take an argument of shape '64x128x2'" in wrong.output
    assert "2 extents, as 8192x768" in wrong.output and "softmax" not in wrong.output
    wrong = call("trace", "encoder", "--steps")
    assert wrong.exit_code and "--steps shows one kernel" in wrong.output
    planned = call("trace", "softmax", "--shape", "8x32", "--steps").output
    assert 'ann_key="vector_lanes"' in planned and "by the steps of its trace" in planned
    product = call("trace", "dense", "--shape", "16x16x16", "--steps").output
    assert "decompose_reduction" in product and "by the steps of its trace" in product


def test_the_trace_of_each_kernel(tmp_path: Path) -> None:
    found = call("trace", "softmax", "--shape", "8x32", "--stage", "trace").output
    assert "def apply_trace" in found and "vector_lanes" in found
    blocks = call("trace", "softmax", "--shape", "8x32", "--stage", "blocks").output
    assert 'T.block("reduce_max")' in blocks and "vector_lanes" not in blocks
    path = tmp_path / "traces.json"
    assert call("trace", "softmax", "--shape", "8x32", "--save-traces", str(path)).exit_code == 0
    ((kernel, where),) = read_traces(path)
    assert where == "cpu" and kernel.endswith(":root,reduce_max,sub,exp,reduce_sum,div")
    with override(traces=path):
        again = call("trace", "softmax", "--shape", "8x32", "--stage", "trace").output
    assert "vector_lanes" in again
    product = call("trace", "dense", "--shape", "16x16x16", "--stage", "trace").output
    assert "transform_layout" in product and "decompose_reduction" in product


SMALL = {"softmax": "3x5", "layer_norm": "3x5", "bias_gelu": "3x5", "chain": "7", "col_sums": "3x5",
         "dense": "2x3x5", "encoder": "1x4x8"}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_program_takes_a_shape(program: Any) -> None:
    found = program.arguments(np.random.default_rng(0), SMALL[program.name])
    usual = [int(n) for n in program.shape.split("x")]
    assert len(usual) == SMALL[program.name].count("x") + 1
    np.testing.assert_allclose(
        tileloom.jit(program.function)(*found), program.function(*found), rtol=1e-4, atol=1e-4
    )
    traced = call("trace", program.name, "--shape", SMALL[program.name])
    compiled = call("compile", program.name, "--shape", SMALL[program.name])
    assert traced.exit_code == 0 and compiled.exit_code == 0, traced.output + compiled.output
    assert "kernel0" in traced.output and "kernel0" in compiled.output


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_program_is_that_of_pytorch(program: Any) -> None:
    torch = pytest.importorskip("torch")

    def tensors(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        if isinstance(value, dict):
            return {name: tensors(part) for name, part in value.items()}
        return [tensors(part) for part in value] if isinstance(value, list) else value

    found = program.arguments(np.random.default_rng(0), SMALL[program.name])
    wanted = program.torch(torch)(*map(tensors, found))
    np.testing.assert_allclose(program.function(*found), wanted, rtol=1e-3, atol=1e-4)


def test_heads_of_an_encoder_have_64_channels() -> None:
    (encoder,) = [program for program in PROGRAMS if program.name == "encoder"]
    shapes = ("1x2x64", "1x2x192", "1x2x16")
    assert [encoder.arguments(np.random.default_rng(0), s)[2] for s in shapes] == [1, 3, 1]
