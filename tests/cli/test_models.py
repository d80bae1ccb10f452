"""Inputs of models and the comparison of results, without a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, UserError
from tileloom.cli import models
from tileloom.cli.models import make_inputs, parse_dims, random_array, read_array
from tileloom.cli.run_command import difference

INF, NAN = float("inf"), float("nan")


def info(name: str = "x", shape: Any = (2, "n", None), dtype: str = "float32", **more: Any) -> Any:
    kind = np.dtype(dtype)
    return SimpleNamespace(
        **{"name": name, "shape": shape, "dtype": kind, "type": dtype, "is_tensor": True, **more}
    )


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float32", "float16"])
def test_random_arrays(kind: str) -> None:
    rng = np.random.default_rng(0)
    found = random_array(info(dtype=kind, shape=(2, "n", None, "m")), {"n": 50}, rng)
    assert found.shape == (2, 50, 1, 1) and found.dtype == kind
    if kind.startswith("float"):
        assert (found < 0).any() and len(np.unique(found)) > 50
    else:
        assert set(np.unique(found).tolist()) == {0, 1}


@pytest.mark.parametrize(
    "what", [{"is_tensor": False}, {"shape": None}, {"dtype": "object"}], ids=str
)
def test_what_cannot_be_random(what: dict[str, Any]) -> None:
    with pytest.raises(
        ArgumentError, match="random numbers cannot be made for input 'x'"
    ) as caught:
        random_array(info(**what), {}, np.random.default_rng(0))
    assert "--input x=FILE.npy" in str(caught.value)


def test_inputs_come_from_files_or_at_random(tmp_path: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    infos = [info("x", (3,)), info("y", (2,))]
    found = make_inputs(infos, [f"x={tmp_path}/a.npy", "y=random"], {}, 3)
    assert found["x"].tolist() == [0, 1, 2] and found["y"].shape == (2,)
    assert (make_inputs(infos, [], {}, 3)["y"] == make_inputs(infos, [], {}, 3)["y"]).all()
    with pytest.raises(ArgumentError, match="no input 'z'") as caught:
        make_inputs(infos, ["z=random"], {}, 0)
    assert "it has 'x', 'y'" in str(caught.value)
    (tmp_path / "b.npy").write_text("no array")
    with pytest.raises(UserError, match=r"b\.npy holds no array"):
        read_array(f"{tmp_path}/b.npy")


@pytest.mark.parametrize("text", ["batch", "batch=", "=4", "="])
def test_pairs(text: str) -> None:
    with pytest.raises(ArgumentError, match="is not of the form NAME=VALUE"):
        parse_dims([text])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], (True, 0.0, 2.0)),
        ([1.0, 2.0], [1.0, 2.2], (True, 0.2, 2.2)),
        ([1.0, 2.0], [1.0, -2.4], (False, 4.4, 2.4)),
        ([1.0, 2.0], [1.0, 2.0, 3.0], (False, INF, NAN)),
        ([0.0, 0.0], [0.0, 0.0], (True, 0.0, 0.0)),
        ([], [], (True, 0.0, 0.0)),
        ([NAN, 1.0], [NAN, 1.0], (True, 0.0, 1.0)),
        ([INF, 1.0], [INF, 1.0], (True, 0.0, 1.0)),
        ([INF, 1.0], [5.0, 1.0], (False, INF, 5.0)),
        ([1, 2], [1, 2], (True, 0.0, 2.0)),
        ([1, 2], [1.0, 2.0], (False, INF, NAN)),
        (["a", "b"], ["a", "b"], (True, 0.0, 0.0)),
        (["a", "b"], ["a", "c"], (False, 0.0, 0.0)),
    ],
)
def test_differences(ours: Any, theirs: Any, expected: tuple[Any, ...]) -> None:
    found = difference(np.array(ours), np.array(theirs), 0.1)
    assert found[0] is expected[0]
    np.testing.assert_allclose(found[1:], expected[1:])


def test_differences_of_several_results() -> None:
    one, other = np.array([1.0, 4.0]), np.array([2.0, 4.0])
    assert difference([one, other], (one, other), 0.0) == (True, 0.0, 4.0)
    assert difference([one, one], [one, other], 0.1) == (False, 1.0, 4.0)
    assert difference([other, one], [one, one], 0.1) == (False, 1.0, 4.0)
    assert difference([], [], 0.1) == (True, 0.0, 0.0)


@pytest.mark.parametrize(("dims", "rows"), [([], 1), (["batch=3"], 3)])
def test_open_dimensions_become_numbers(dims: list[str], rows: int, tmp_path: Any) -> None:
    """One unless told: what is shown and timed is one program of known sizes."""
    onnx, parser = pytest.importorskip("onnx"), pytest.importorskip("onnx.parser")
    text = """<ir_version: 8, opset_import: ["": 17]>
    one (float[batch, 8] x) => (float[batch, 8] y) { y = Relu(x) }"""
    path = tmp_path / "one.onnx"
    onnx.save(parser.parse_model(text), path)
    extents = models.parse_dims(dims)
    model = models.load(str(path), extents)
    feeds = models.make_inputs(model.get_inputs(), [], extents, 0)
    graph = models.graph_of(model, feeds)
    assert [tensor.shape for tensor in (*graph.inputs, *graph.outputs)] == [(rows, 8)] * 2
