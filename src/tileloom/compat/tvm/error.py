"""`tvm.error`: the errors of Tileloom under TVM's names."""

from __future__ import annotations

from ...base.errors import InternalError, ParseError, TileloomError, UserError
from ...base.errors import UnsupportedError as OpNotImplemented
from ._names import missing

TVMError = TileloomError
OpError = UserError
DiagnosticError = ParseError

__all__ = ["DiagnosticError", "InternalError", "OpError", "OpNotImplemented", "TVMError"]
__getattr__ = missing(__name__)
