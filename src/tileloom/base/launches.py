"""What a function for a GPU does on its host: kernels in order, with numbers for every size.

Lowering writes these lists, the runtime carries them out; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from .dtype import DType, dtype

Extents = tuple[int, int, int]  # x, y, z


class Argument(NamedTuple):
    """One argument of a kernel.

    `position` is that of the function's parameter ("param") or of the temporary ("temporary");
    a "number" has a value and its type.
    """

    kind: Literal["param", "temporary", "number"]
    position: int = 0
    value: int | float = 0
    number_type: DType = dtype("int32")


class Launch(NamedTuple):
    """One launch of one kernel."""

    kernel: str
    arguments: tuple[Argument, ...]
    grid: Extents
    block: Extents
    dynamic_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no thread to run."""
        return 0 in self.grid or 0 in self.block


class Launches(NamedTuple):
    """A whole call: the bytes of each device temporary, and the launches in order."""

    temporaries: tuple[int, ...]
    launches: tuple[Launch, ...]


class LaunchPlan(Protocol):
    """A function's host part, before the values of its scalars are known."""

    @property
    def steering(self) -> frozenset[int]:
        """Positions of the scalar parameters that decide about sizes."""

    def launches(self, values: Mapping[int, int | float]) -> Launches:
        """The launches for the values of the steering parameters, by position."""
