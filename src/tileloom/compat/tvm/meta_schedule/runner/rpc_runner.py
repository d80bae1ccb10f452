"""`RPCRunner`: refused; other machines are reached in other ways."""

from __future__ import annotations

from typing import Any

from .....base.errors import UnsupportedError
from ..._names import missing
from .config import EvaluatorConfig, RPCConfig
from .local_runner import (
    T_ARG_INFO_JSON_OBJ,
    T_ARG_INFO_JSON_OBJ_LIST,
    T_ARGUMENT,
    T_ARGUMENT_LIST,
)
from .runner import Runner


class RPCRunner(Runner):
    """Refused: there is no RPC."""

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        *_more: Any,
        **_options: Any,
    ) -> None:
        raise refusal("RPCRunner")


def default_alloc_argument(*_args: Any) -> Any:
    """Refused: there is no RPC."""
    raise refusal("rpc_runner.default_alloc_argument")


def refusal(what: str) -> UnsupportedError:
    """What is said where the RPC is asked for."""
    return UnsupportedError(
        f"{what} needs TVM's RPC, which Tileloom has not",
        hint='use LocalRunner here; tileloom.tune(..., executor="dask://host:port") or "ray://..." '
        "measures on other machines",
    )


__all__ = [
    "RPCRunner", "T_ARGUMENT", "T_ARGUMENT_LIST", "T_ARG_INFO_JSON_OBJ",
    "T_ARG_INFO_JSON_OBJ_LIST", "default_alloc_argument",
]  # fmt: skip
__getattr__ = missing(__name__)
