"""The ground floor: data types, targets, source spans, errors and settings. Knows no IR."""

from .dtype import DType, dtype
from .errors import InternalError, TileloomError, UserError
from .settings import Settings, override, settings
from .span import Span
from .target import Target, target

__all__ = [
    "DType",
    "InternalError",
    "Settings",
    "Span",
    "Target",
    "TileloomError",
    "UserError",
    "dtype",
    "override",
    "settings",
    "target",
]
