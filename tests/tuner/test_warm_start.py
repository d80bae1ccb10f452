"""What a cost model learns from records of other programs before a search begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tileloom.records import Record, open_records
from tileloom.tuner.cost_model import FAILED, Floats, RandomModel
from tileloom.tuner.features import FEATURE_NAMES
from tileloom.tuner.features.packing import pack
from tileloom.tuner.warm_start import warm_start


class Pupil(RandomModel):
    """Keeps what it is told."""

    def learn(self, known: Mapping[str, tuple[Sequence[Floats], Sequence[float]]]) -> None:
        self.known = {
            workload: ([float(rows[0, 0]) for rows in features], list(seconds))
            for workload, (features, seconds) in known.items()
        }


def record(workload: str, number: float, *seconds: float, target: str = "here") -> Record:
    rows = np.full((2, len(FEATURE_NAMES)), number)
    return Record(workload, target, [[], []], seconds, extra={"features": pack(rows)})


@pytest.mark.parametrize("place", ["records.db", "jsonl:folder"])
def test_records_of_other_programs_and_this_machine(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_records(place) as records:
        records.add(
            record("a", 1, 3.0, 5.0, 4.0),
            record("b", 2, 1.0),
            record("own", 3, 1.0),
            record("a", 4, 1.0, target="elsewhere"),
            Record("a", "here", [[], []], (1.0,)),  # without features
            record("a", 5),
        )
        pupil = Pupil()
        assert warm_start(pupil, records, "here", {"own"}) == 3
        assert pupil.known == {"a": ([1.0, 5.0], [4.0, FAILED]), "b": ([2.0], [1.0])}
        monkeypatch.setattr("tileloom.tuner.warm_start.NEWEST", 3)
        assert warm_start(pupil, records, "here") == 2
        assert pupil.known == {"own": ([3.0], [1.0]), "a": ([5.0], [FAILED])}


def test_nothing_on_record(tmp_path: Path) -> None:
    pupil = Pupil()
    with open_records(tmp_path / "records.db") as records:
        assert warm_start(pupil, records, "here") == 0
    assert not hasattr(pupil, "known")
