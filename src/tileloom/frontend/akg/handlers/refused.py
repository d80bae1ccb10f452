"""What is known and not supported, and why."""

from __future__ import annotations

from collections.abc import Callable

from ....base.errors import UnsupportedError
from ....graph.nodes import Tensor
from ..call import Call, handler

_REASONS = {
    "Custom": "it runs source code that the file brings along",
    "StandardNormal": "its result is random",
    "CReal": "complex numbers are not supported",
    "CImag": "complex numbers are not supported",
    "Complex": "complex numbers are not supported",
}


def _refusal(reason: str) -> Callable[[Call], Tensor]:
    def refuse(call: Call) -> Tensor:
        raise UnsupportedError(reason)

    return refuse


for _name, _reason in _REASONS.items():
    handler(_name)(_refusal(_reason))
