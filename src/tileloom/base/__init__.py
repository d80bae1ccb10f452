"""The ground floor: data types, source spans, errors and settings. Knows no IR."""

from __future__ import annotations

from .dtype import DType, dtype
from .errors import InternalError, TileloomError, UserError
from .late import TYPE_CHECKING, room
from .span import Span

if TYPE_CHECKING:
    from .settings import Settings, override, settings

room(__name__, settings="Settings override settings")

__all__ = [
    "DType",
    "InternalError",
    "Settings",
    "Span",
    "TileloomError",
    "UserError",
    "dtype",
    "override",
    "settings",
]
