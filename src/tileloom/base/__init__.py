"""The ground floor: data types, targets, source spans, errors and settings. Knows no IR."""

from .dtype import DType, dtype
from .errors import InternalError, TileloomError, UserError
from .span import Span

__all__ = ["DType", "InternalError", "Span", "TileloomError", "UserError", "dtype"]
