"""AKG graph files (MindSpore's fused subgraphs): `tileloom.akg.load("graph.info")`."""

from __future__ import annotations

from .frontend.akg import Model, TensorInfo, load

__all__ = ["Model", "TensorInfo", "load"]
