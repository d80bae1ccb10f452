"""`RecordStore`: what every place that keeps records can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from .record import Record, RecordSummary

#: The workload, the median of the run times, infinite if it failed, and `Record.extra`.
Outcome = tuple[str, float, Mapping[str, Any]]


class RecordStore(ABC):
    """Records by workload and target.

    Any number of threads and processes may use one place at once. What `add` returned for is kept,
    whatever happens to the process after that. Close a store, or use it in a `with` statement.
    """

    @abstractmethod
    def add(self, *records: Record) -> None:
        """Keep records: all of them, or none where this raises."""

    @abstractmethod
    def add_workload(self, key: str, script: str) -> None:
        """Keep the text of a program; nothing happens if there is one under this key."""

    @abstractmethod
    def workloads(self) -> Mapping[str, str]:
        """The texts of programs by their keys, in the order they came."""

    @abstractmethod
    def best(self, workload: str, target: str, count: int = 1) -> list[Record]:
        """The fastest records, fastest first, without those that failed; by their median times."""

    @abstractmethod
    def all(self, workload: str | None = None, target: str | None = None) -> list[Record]:
        """Records of a workload and a target, or of any, in the order they came."""

    def outcomes(self, target: str, newest: int) -> list[Outcome]:
        """What came of the newest records of a target, of any workload, without their traces."""
        known = self.all(None, target)[-newest:]
        return [(record.workload, record.latency, record.extra) for record in known]

    @abstractmethod
    def summaries(self, workload: str, target: str, after: int = 0) -> list[RecordSummary]:
        """Records of a workload and a target, in the order they came, without their traces.

        Of ten thousand this takes a tenth of a second, where `all` takes seconds.

        Args:
            after: those with greater numbers alone. A record may come to be seen after others with
                somewhat greater numbers, where several processes write.
        """

    @abstractmethod
    def numbered(self, numbers: Sequence[int]) -> list[Record]:
        """The records that have these numbers in `summaries`, in the order of the numbers given."""

    @abstractmethod
    def claim(
        self, workload: str, target: str, candidates: Sequence[str], seconds: float
    ) -> set[str]:
        """Take candidates for this store alone to measure, in place of those it took before.

        They are given back by the next claim and when the store is closed; and, should its process
        be killed, after so many seconds without an `add`.

        Returns:
            Those that no other store has taken.
        """

    @abstractmethod
    def choose(self, record: Record) -> None:
        """Have kernels of this workload made by this trace from now on, on such machines."""

    @abstractmethod
    def chosen(self, workload: str, target: str) -> Record | None:
        """What kernels of a workload are made by; None if the planner makes them."""

    @abstractmethod
    def close(self) -> None:
        """Give the place back; closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
