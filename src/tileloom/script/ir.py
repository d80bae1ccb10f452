"""The `I` namespace of scripts: `from tileloom.script import ir as I`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .parse import ir_module


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attributes of a module; read from the source by `ir_module`."""


__all__ = ["ir_module", "module_attrs"]
