"""sample_categorical: draw one of several numbers."""

from __future__ import annotations

from ..errors import refuse
from ..instruction import IntRef, Sampled, primitive
from ..state import ScheduleState


@primitive("SampleCategorical")
def sample_categorical(
    state: ScheduleState,
    candidates: list[int],
    probs: list[float],
    decision: int | None = None,
) -> IntRef:
    """One of the candidates, drawn with these probabilities; the decision is its index."""
    if not candidates or len(candidates) != len(probs):
        raise refuse(
            f"one probability for each candidate is needed, got {len(candidates)} candidates "
            f"and {len(probs)} probabilities"
        )
    if decision is None:
        decision = state.random.categorical([float(p) for p in probs])
    if not 0 <= int(decision) < len(candidates):
        raise refuse(f"the decision {decision} is no index of the {len(candidates)} candidates")
    decision = int(decision)
    return Sampled(int(candidates[decision]), decision)  # type: ignore[return-value]
