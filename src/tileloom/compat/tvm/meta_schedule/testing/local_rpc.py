"""`LocalRPC`: refused, there is no RPC."""

from __future__ import annotations

from typing import Any

from ..._names import missing
from ..runner.rpc_runner import refusal


class LocalRPC:
    """Refused."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        raise refusal("LocalRPC")


__getattr__ = missing(__name__)
