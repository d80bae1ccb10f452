"""The networks that come with onnx: old files, with constants for weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tileloom.frontend.onnx import load

onnxruntime = pytest.importorskip("onnxruntime")
FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.onnx")), ids=lambda path: path.stem)
def test_matches_onnx_runtime(path: Any) -> None:
    model: Any = load(path)
    generator = np.random.default_rng(0)
    feeds = {
        info.name: generator.standard_normal(info.shape, np.float32) for info in model.get_inputs()
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(model.run(None, feeds), session.run(None, feeds), strict=True):
        assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()
