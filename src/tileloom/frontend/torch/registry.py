"""The table of ATen operators: one decorated function for each family of overloads.

>>> @aten("frobnicate.default")
... def frobnicate(call, x): ...
>>> lookup("aten.frobnicate.default") is frobnicate
True
>>> del _HANDLERS["aten.frobnicate.default"]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ...base.errors import InternalError
from ...base.late import load

#: Takes the call and its arguments, tensors of the graph where PyTorch has tensors; gives one
#: tensor, or a tuple of them for operators with several results.
Handler: TypeAlias = "Callable[..., Any]"

F = TypeVar("F", bound=Handler)
_HANDLERS: dict[str, Handler] = {}


def aten(*names: str, namespace: str = "aten") -> Callable[[F], F]:
    """Register a handler for overloads: "add.Tensor", "relu.default"."""

    def decorate(function: F) -> F:
        for name in (f"{namespace}.{overload}" for overload in names):
            if name in _HANDLERS:
                raise InternalError(f"two handlers for {name}")
            _HANDLERS[name] = function
        return function

    return decorate


def direct(rule: Callable[..., Any]) -> Handler:
    """A handler that hands its arguments on as they are."""
    return lambda call, *args, **options: rule(*args, **options)


def lookup(name: str) -> Handler | None:
    """The handler of an overload by its full name, "aten.add.Tensor"."""
    return _HANDLERS.get(name)


def operators() -> list[str]:
    """The overloads that are compiled, by name."""
    load(f"{__package__}.ops")  # registers them
    return sorted(_HANDLERS)
