"""Rules written as functions, for what patterns cannot say: shapes, axes, attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .options import Safety
from .rule import Apply, Key, Kind, Rule, every_kind


def coded(
    id: str, family: str, text: str, *at: Key | tuple[str, str] | str,
    safety: Safety | Mapping[Kind, Safety] = "exact", source: int | None = None, note: str = "",
    default: bool = True,
) -> Callable[[Apply], Rule]:  # fmt: skip
    """Make a rule of a function.

    Args:
        at: where to try it: the op, or the op and the op that makes its first input, or a key.
    """
    keys = [_key(place) for place in at]
    classes = every_kind(safety) if isinstance(safety, str) else safety

    def make(function: Apply) -> Rule:
        cases = tuple((key, function) for key in keys)
        return Rule(id, family, text, classes, cases, source, note, default)

    return make


def _key(place: Key | tuple[str, str] | str) -> Key:
    if isinstance(place, str):
        return (place, None, None)
    return place if len(place) == 3 else (*place, None)
