"""What products are made for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A CPU.

    Attributes:
        vector_bits: the width of a vector.
        workers: how many threads there are.
        features: of the processor, in LLVM's spelling.
    """

    vector_bits: int = 512
    workers: int = 2
    features: frozenset[str] = frozenset()
