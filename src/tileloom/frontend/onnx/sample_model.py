"""A small model to try things on, as a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_CHANNELS, _FEATURES, _CLASSES = 3, 8, 10


def sample(path: str | os.PathLike[str]) -> None:
    """Write a small network: images of any number and size in, ten logits and eight features out.

    Its weights are random and always the same.

    >>> import tempfile
    >>> from tileloom.frontend.onnx import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sample(f"{folder}/model.onnx")
    ...     model = load(f"{folder}/model.onnx")
    >>> logits, features = model(np.zeros((2, 3, 16, 16), np.float32))
    >>> logits.shape, features.shape
    ((2, 10), (2, 8))
    """
    onnx.save(_model(), os.fspath(path))


def _model() -> Any:
    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.standard_normal((_FEATURES, _CHANNELS, 3, 3)) / 5,
        "shift": rng.standard_normal(_FEATURES),
        "head": rng.standard_normal((_FEATURES, _CLASSES)),
        "bias": rng.standard_normal(_CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "shift"], ["mapped"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["mapped"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "head", "bias"], ["logits"]),
    ]
    single = onnx.TensorProto.FLOAT
    image = ["batch", _CHANNELS, "height", "width"]
    graph = helper.make_graph(
        nodes,
        "sample",
        [helper.make_tensor_value_info("image", single, image)],
        [
            helper.make_tensor_value_info("logits", single, ["batch", _CLASSES]),
            helper.make_tensor_value_info("features", single, ["batch", _FEATURES]),
        ],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
