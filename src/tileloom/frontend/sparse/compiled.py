"""Kernels of the sparse operators, compiled when they are first wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ... import target as targets
from ...driver import build


@lru_cache(maxsize=512)
def compiled(
    make: Callable[..., Any], *case: Any, target: Any = "cpu", device: str | None = None
) -> Any:
    """The kernel that a function makes for a case; for this machine, unless told otherwise."""
    return build(make(*case), target, device)


@lru_cache(maxsize=1)
def vector_bytes() -> int:
    """The bytes of this machine's vectors."""
    return targets.target("cpu").vector_bits // 8
