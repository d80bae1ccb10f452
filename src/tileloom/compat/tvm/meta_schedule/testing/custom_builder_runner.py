"""Builders and runners for code of other machines: refused, there is no RPC."""

from __future__ import annotations

from typing import Any

from ..._names import missing
from ..runner.rpc_runner import refusal


def run_module_via_rpc(*_args: Any, **_options: Any) -> Any:
    """Refused."""
    raise refusal("run_module_via_rpc")


__getattr__ = missing(__name__)
