"""The records of one program, which several runs may add to at the same time.

A run looks before each batch what others have recorded since, and claims the candidates of its
batch: no other run measures them until it has recorded them, or is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import CANDIDATE, STATUS, Record, RecordStore, RecordSummary
from .proposals import Candidate

#: Records that a search makes anew to learn from them; of others it knows that they are there.
LEARNT = 1024
#: How long candidates are kept from other runs after this one was killed; longer than one takes.
CLAIM_SECONDS = 600.0
#: Records that others may still be writing have numbers that are so much less than the greatest.
_UNSETTLED = 256


class ProgramRecords:
    """Records of a program for a machine.

    Args:
        store: where they are.
        workload, target: of the program and the machine.
    """

    def __init__(self, store: RecordStore, workload: str, target: str) -> None:
        self.store, self.workload, self.target = store, workload, target
        self._seen: set[int] = set()  # numbers
        self._own: set[str] = set()  # candidates

    def news(self) -> list[RecordSummary]:
        """What others have added since the last look; at first what there is."""
        after = max(self._seen, default=0) - _UNSETTLED
        every = self.store.summaries(self.workload, self.target, after)
        new = [summary for summary in every if summary.number not in self._seen]
        self._seen |= {summary.number for summary in every}
        return [summary for summary in new if summary.candidate not in self._own]

    def divided(self, new: Sequence[RecordSummary]) -> tuple[list[Record], list[RecordSummary]]:
        """The records that are worth learning from, in the order they came, and the others.

        Of many these are the fastest and the newest.
        """
        some = new
        if len(new) > LEARNT:
            fastest = sorted(new, key=lambda summary: summary.latency)[: LEARNT // 2]
            some = [*fastest, *new[-LEARNT // 2 :]]
        chosen = {summary.number for summary in some}
        numbers = [summary.number for summary in new if summary.number in chosen]
        return self.store.numbered(numbers), [s for s in new if s.number not in chosen]

    def claimed(self, batch: Sequence[Candidate]) -> list[Candidate]:
        """Those candidates that this run alone measures, and nobody has measured."""
        names = [candidate_name(candidate) for candidate in batch]
        mine = self.store.claim(self.workload, self.target, names, CLAIM_SECONDS)
        # Asked after the claim: what another run has recorded it claims no longer.
        after = max(self._seen, default=0) - _UNSETTLED
        known = self.store.summaries(self.workload, self.target, after)
        mine -= {summary.candidate for summary in known}
        return [c for c, name in zip(batch, names, strict=True) if name in mine]

    def add(self, candidate: Candidate, record: Record) -> None:
        """Keep what was measured of a candidate."""
        self._own.add(candidate_name(candidate))
        self.store.add(record)


def candidate_name(candidate: Candidate) -> str:
    """What tells a candidate from others in records: the program that it makes."""
    return f"{candidate.program:016x}"


def programs_of(summaries: Sequence[RecordSummary]) -> set[int]:
    """The structural hashes of programs that were measured.

    >>> programs_of([RecordSummary(1, 0.1, "00000000000000ff"), RecordSummary(2, 0.1)])
    {255}
    """
    return {int(summary.candidate, 16) for summary in summaries if summary.candidate}


def record_extra(candidate: Candidate, status: str) -> dict[str, str]:
    """What a record says besides times, for other runs to find."""
    return {CANDIDATE: candidate_name(candidate), STATUS: status}
