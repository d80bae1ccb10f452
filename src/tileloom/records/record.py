"""One record: a candidate and how long it took."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..base.errors import UserError

CANDIDATE, STATUS = "candidate", "status"


@dataclass(frozen=True)
class Record:
    """What was measured of one candidate.

    Attributes:
        workload: the key of the program, see `workload_key`.
        target: the key of the machine, see `target_key`.
        trace: the steps that make the candidate, as `Trace.as_json` gives them.
        seconds: how long it ran, each time; none if it failed.
        error: why it failed.
        created: when, in seconds since 1970.
        extra: anything else, as JSON data; under "candidate" and "status" what these say.
    """

    workload: str
    target: str
    trace: Any
    seconds: tuple[float, ...] = ()
    error: str = ""
    created: float = field(default_factory=time.time)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(math.isfinite(s) and s >= 0 for s in self.seconds):
            raise UserError(
                f"run times are finite and not negative, got {self.seconds}",
                hint="a candidate that failed has none",
            )

    @property
    def failed(self) -> bool:
        """Whether it did not run to its end."""
        return not self.seconds

    @property
    def candidate(self) -> str:
        """What tells the candidate from others of its workload; empty where nobody has said so."""
        return str(self.extra.get(CANDIDATE, ""))

    @property
    def status(self) -> str:
        """What came of it, such as "ok" or "timeout"; empty where nobody has said so."""
        return str(self.extra.get(STATUS, ""))

    @property
    def latency(self) -> float:
        """The median of its run times in seconds; infinite if it failed."""
        return float(median(self.seconds)) if self.seconds else math.inf


@dataclass(frozen=True)
class RecordSummary:
    """What is said of a record without reading all of it.

    Attributes:
        number: under which its place has it.
        latency: the median of its run times in seconds; infinite if it failed.
        candidate, status: as of `Record`.
    """

    number: int
    latency: float
    candidate: str = ""
    status: str = ""


def json_text(value: Any) -> str:
    """Data as one line of JSON."""
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UserError(f"a record holds JSON data, and this is none: {error}") from None
