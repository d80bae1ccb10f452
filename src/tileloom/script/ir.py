"""The `I` namespace of scripts: `from tileloom.script import ir as I`."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from .parse import ir_module

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attributes of a module; read from the source by `ir_module`."""


__all__ = ["ir_module", "module_attrs"]
