"""Backward passes that are not differentiated themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ...base.errors import UnsupportedError

Backward = Callable[..., Any]


def differentiated_once(backward: Backward) -> Backward:
    """A backward pass whose own derivative is an error, where one is asked for.

    `torch.autograd.function.once_differentiable` lets second derivatives be silently incomplete
    where the gradients that are given are constants, as those of sums are.
    """

    @wraps(backward)
    def wrapped(ctx: Any, *gradients: torch.Tensor) -> Any:
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():  # it is with create_graph=True
            return found
        sources = [x for x in (*ctx.saved_tensors, *gradients) if x.requires_grad]
        several = found if isinstance(found, tuple) else (found,)
        return tuple(None if x is None else _Once.apply(x, *sources) for x in several)

    return wrapped


class _Once(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, found: torch.Tensor, *sources: torch.Tensor) -> torch.Tensor:
        """What was found, which depends on the sources."""
        return found.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Refuse."""
        raise UnsupportedError("operators of tileloom.sparse have no second derivatives")
