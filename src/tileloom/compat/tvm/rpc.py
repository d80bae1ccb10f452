"""`tvm.rpc`: names that scripts import; there is no RPC."""

from __future__ import annotations

from typing import Any

from ...base.errors import UnsupportedError
from ._names import missing


class RPCSession:
    """Refused: there is no RPC."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        raise UnsupportedError("RPCSession needs TVM's RPC, which Tileloom has not")


__getattr__ = missing(__name__)
