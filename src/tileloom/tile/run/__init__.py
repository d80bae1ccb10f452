"""Interpreters of tile IR: `run` tensor by tensor, `run_threads` thread by thread."""

from .tensor import run
from .threads import run_threads
from .values import ExecutionError

__all__ = ["ExecutionError", "run", "run_threads"]
