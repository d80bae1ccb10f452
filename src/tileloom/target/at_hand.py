"""The GPU at hand, which targets do not know: who finds drivers tells this room how."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _none() -> str | None:
    return None


#: Finds the architecture of the first GPU, None where there is none. The package's root sets it.
find_gpu: Callable[[], str | None] = _none
