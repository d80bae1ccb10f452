"""One model through every door, for a GPU: the emulator runs it. PyTorch's is torch/test_place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from frontend.akg.build import graph, op, tensor
from tileloom import akg
from tileloom import numpy as tnp

WHERE: dict[str, Any] = {"target": "cuda -arch=sm_80", "device": "emulator"}


def weights(rng: np.random.Generator) -> list[Any]:
    shapes = ((13, 33), (33,), (33, 7), (7,))
    return [rng.standard_normal(shape).astype("float32") / 4 for shape in shapes]


def reference(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    hidden = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    e = np.exp(hidden - hidden.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_jit(rng: np.random.Generator) -> None:
    @tileloom.jit(**WHERE)  # type: ignore[untyped-decorator]
    def model(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return tnp.softmax(tnp.maximum(x @ w1 + b1, 0.0) @ w2 + b2)

    given = weights(rng)
    for rows in (5, 1):
        x = rng.standard_normal((rows, 13)).astype("float32")
        found = model(x, *given)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, reference(x, *given), 1e-4, 1e-6)


@pytest.mark.parametrize("batch", ["5", "n"])
def test_onnx(rng: np.random.Generator, batch: str) -> None:
    onnx = pytest.importorskip("onnx")
    given = weights(rng)
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> mlp (float[{batch}, 13] x)
        => (float[{batch}, 7] y) {{
        h = MatMul(x, w1) i = Add(h, b1) j = Relu(i) k = MatMul(j, w2) l = Add(k, b2)
        y = Softmax(l) }}"""
    )
    for name, array in zip(("w1", "b1", "w2", "b2"), given, strict=True):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    session = tileloom.onnx.load(proto.SerializeToString(), **WHERE)
    for rows in (5,) if batch == "5" else (5, 1, 33):
        x = rng.standard_normal((rows, 13)).astype("float32")
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, reference(x, *given), 1e-4, 1e-6)


@pytest.mark.parametrize("shape", [(48,), (1,), (0,), (31, 3)])
def test_akg(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    """A step of an optimizer: m <- 0.9 m + g; p <- p - 0.01 m."""

    def t(name: str) -> Any:
        return tensor(name, shape)

    steps = [
        op("Mul", [t("m"), tensor("c", (1,), value=0.9)], [t("a")]),
        op("Add", [t("a"), t("g")], [t("b")]),
        op("Mul", [t("b"), tensor("d", (1,), value=0.01)], [t("e")]),
        op("Sub", [t("p"), t("e")], [t("f")]),
        op("InplaceAssign", [t("m"), t("b"), t("b")], [t("n")], fake_output=True),
        op("InplaceAssign", [t("p"), t("f"), t("f")], [t("q")], fake_output=True),
    ]
    given = {name: rng.standard_normal(shape).astype("float32") for name in "mpg"}
    m = np.float32(0.9) * given["m"] + given["g"]
    p = given["p"] - np.float32(0.01) * m
    model = akg.load(graph(steps, [t("m"), t("p"), t("g")], [t("q")]), **WHERE)
    written = {value.slot for step in model.executable.steps for value in step.writes}
    assert written == {0, 1} or not given["m"].size  # nothing is copied at the end
    (found,) = model.run(None, given)
    assert found is given["p"]
    np.testing.assert_allclose(given["m"], m, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, p, rtol=1e-6, atol=1e-6)
