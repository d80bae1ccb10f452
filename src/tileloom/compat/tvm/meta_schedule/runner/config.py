"""`EvaluatorConfig` and `RPCConfig`."""

from __future__ import annotations

from typing import NamedTuple

from ..._names import missing


class EvaluatorConfig(NamedTuple):
    """How often a candidate is run; what is left out of it is TVM's default."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False

    @staticmethod
    def _normalized(config: EvaluatorConfig | None) -> EvaluatorConfig:
        return EvaluatorConfig() if config is None else EvaluatorConfig(*config)


class RPCConfig(NamedTuple):
    """Where other machines are found."""

    tracker_host: str | None = None
    tracker_port: int | None = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10


__getattr__ = missing(__name__)
