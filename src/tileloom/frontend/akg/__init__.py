"""AKG graph files as models; see `tileloom.akg`."""

from __future__ import annotations

from .model import Model, TensorInfo, load

__all__ = ["Model", "TensorInfo", "load"]
