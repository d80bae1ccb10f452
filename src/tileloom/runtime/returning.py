"""Compiled functions that return a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import DType
from .kernel import Kernel
from .params import ParamSpec


class ReturningKernel:
    """A kernel whose last argument, an array of one element, is what calls return.

    Args:
        kernel: what runs.
        dtype: of the result.
    """

    def __init__(self, kernel: Kernel, dtype: DType) -> None:
        self._kernel, self._dtype = kernel, dtype

    @property
    def name(self) -> str:
        """The function's name."""
        return self._kernel.name

    @property
    def params(self) -> tuple[ParamSpec, ...]:
        """What callers pass."""
        return self._kernel.params[:-1]

    def __call__(self, *arguments: Any) -> Any:
        """Run it: its result as a Python number."""
        result = np.zeros(1, self._dtype.numpy)
        self._kernel(*arguments, result)
        return result[0].item()

    def __repr__(self) -> str:
        inner = ", ".join(f"{p.name}: {p}" for p in self.params if not p.implicit)
        return f"<Kernel {self.name}({inner}) -> {self._dtype}>"
