"""What `tune_choice` has chosen, for those who compute it."""

from __future__ import annotations

from collections.abc import Callable

from ..records import chosen_trace, has_records, target_key
from ..target import Target


def chosen(key: Callable[[], str]) -> str | None:
    """What was chosen on this machine, in the place that the settings name.

    Args:
        key: says what is computed, as of `tune_choice`; asked where there are records at all.
    """
    if not has_records():
        return None
    trace = chosen_trace(key(), target_key(Target.host()))
    return trace[0] if isinstance(trace, list) and trace and isinstance(trace[0], str) else None
