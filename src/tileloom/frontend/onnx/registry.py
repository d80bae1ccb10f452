"""The table of operators: one decorated function for each, and since when it means that.

>>> @handler("Frobnicate", since=13, domain="com.example")
... def frobnicate(call): ...
>>> lookup("com.example", "Frobnicate", 14) is frobnicate
True
>>> lookup("com.example", "Frobnicate", 12) is None
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ...base.errors import InternalError

if TYPE_CHECKING:
    from .call import Call
    from .values import Value

#: One value, or a tuple of the node's outputs. (A list is one value: a sequence.)
Handler: TypeAlias = "Callable[[Call], Value | tuple[Value, ...]]"

#: The versions of the default domain whose semantics the handlers know.
OLDEST, NEWEST = 1, 28
#: Versions of the other domains that are understood.
DOMAINS = {
    "": (OLDEST, NEWEST),
    "ai.onnx.ml": (1, 5),
    "ai.onnx.preview": (1, 1),
    "ai.onnx.preview.training": (1, 1),
}
_HANDLERS: dict[tuple[str, str], dict[int, Handler]] = {}


def handler(*names: str, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Register a handler for operators from this version of the domain on."""

    def decorate(function: Handler) -> Handler:
        for name in names:
            versions = _HANDLERS.setdefault((domain, name), {})
            if since in versions:
                raise InternalError(f"two handlers for {name} since {since}")
            versions[since] = function
        return function

    return decorate


def lookup(domain: str, name: str, version: int) -> Handler | None:
    """The handler that holds for an operator at a version of its domain."""
    versions = _HANDLERS.get((domain, name), {})
    since = max((v for v in versions if v <= version), default=None)
    return None if since is None else versions[since]


def operators() -> list[tuple[str, str]]:
    """(domain, name) of all operators that have a handler."""
    return sorted(_HANDLERS)
