"""Powers of integers, which have no negative exponents."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...base import Span
from ...graph import ops
from ...graph.checks import Check
from ...graph.nodes import Tensor
from .array import NumberError, caller
from .context import current


def power(x: Tensor, exponent: Tensor) -> Tensor:
    """Elementwise powers.

    Raises:
        NumberError: integers have a negative exponent; where exponents are arguments, the compiled
            program raises it.
    """
    if exponent.dtype.is_int and not exponent.dtype.is_unsigned and exponent.type.size:
        trace, known = current(), _known(exponent)
        if known is not None and np.min(known) < 0:
            raise _error()
        if known is None and trace is not None:
            trace.checks.append(Check(ops.less(exponent, 0), partial(_error, caller())))
    return ops.pow(x, exponent)


def _error(span: Span | None = None) -> NumberError:
    return NumberError(
        "integers have no negative integer powers", span=span, hint="make one of them a float"
    )


def _known(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The values of a constant, before it was converted."""
    while tensor.node is not None and tensor.node.op.name == "cast":
        tensor = tensor.node.inputs[0]
    return tensor.value
