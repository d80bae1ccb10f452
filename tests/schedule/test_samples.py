"""Traces that TVM has found for whole design spaces, replayed: the programs must be TVM's."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from schedule.common import normal
from tileloom import Schedule
from tileloom.schedule import Trace
from tileloom.schedule.instruction import kinds
from tileloom.script import from_source
from tileloom.tir import assert_structural_equal

# Recorded programs that are not part of the project; without them there is nothing to replay.
DATA = Path(__file__).parents[3] / "shared" / "data" / "tvm" / "design-spaces-sample.json.gz"


@cache
def samples() -> Any:
    if not DATA.exists():
        return {}
    with gzip.open(DATA) as file:
        return json.load(file)


CASES = [
    (workload, target, number)
    for workload, entry in samples().items()
    for target, found in entry["targets"].items()
    for number in range(len(found))
]


@pytest.mark.parametrize(("workload", "target", "number"), CASES)
def test_replay(workload: str, target: str, number: int) -> None:
    entry = samples()[workload]
    sample = entry["targets"][target][number]
    known = {kind.name for kind in kinds().values()}
    missing = {step[0] for step in sample["trace_json"][0]} - known
    if missing:
        pytest.skip(f"no primitive yet for {', '.join(sorted(missing))}")
    sch = Schedule(from_source(entry["script"]), debug_mask="all")
    Trace.apply_json_to_schedule(sample["trace_json"], sch)
    assert sch.trace is not None
    assert sch.trace.as_python() == sample["trace_py"]
    assert json.loads(json.dumps(sch.trace.as_json())) == sample["trace_json"]
    assert_structural_equal(normal(sch.mod), normal(from_source(sample["mod"])))
