"""ONNX models: `tileloom.onnx.load("model.onnx")`. Needs the package onnx (`tileloom[onnx]`)."""

from __future__ import annotations

try:
    from .frontend.onnx import Backend, Model, ValueInfo, load, sample
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith(("onnx", "google")):
        raise
    raise ModuleNotFoundError(
        "tileloom.onnx needs the package 'onnx': pip install 'tileloom[onnx]'", name=error.name
    ) from None

__all__ = ["Backend", "Model", "ValueInfo", "load", "sample"]
