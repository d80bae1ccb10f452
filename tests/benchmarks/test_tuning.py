"""The programs that are tuned in comparisons, and the tables of these."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.harness import Cell, Row, Workload
from benchmarks.tuning import Entry, table
from benchmarks.tuning import Row as TuningRow
from benchmarks.tuning_libraries import verdicts
from benchmarks.tuning_programs import (
    Program,
    batched_matmul,
    conv2d,
    layer_norm,
    matmul,
    softmax,
)
from benchmarks.tuning_worker import Tileloom, aligned

SMALL = [matmul(8, 12, 4), conv2d(6, 3, 4, 3, 2), softmax(3, 9), layer_norm(3, 16)]
SMALL += [batched_matmul(2, 4, 6, 3)]


@pytest.mark.parametrize("program", SMALL, ids=lambda program: program.name)
def test_programs_compute_what_their_references_say(program: Program) -> None:
    import tileloom

    inputs = program.inputs(1)
    expected = program.reference(*(x.astype(np.float64) for x in inputs))
    found = aligned(np.zeros(expected.shape, np.float32))
    tileloom.build(Tileloom().func(program))(*map(aligned, inputs), found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=program.atol)


def test_a_row_says_who_is_faster_by_how_much() -> None:
    ours = Entry(wall=10.0, trials=8, claimed=1e-3, samples=[1e-3, 1e-3, 2e-3])
    theirs = Entry(wall=5.0, trials=8, claimed=2e-3, samples=[2e-3, 2e-3, 8e-3])
    row = TuningRow(SMALL[0], {"tileloom": ours, "tvm": theirs}, 0.25)
    assert row.speed() == 2.0
    text = table([row])
    assert "| 1 | 2 | 2.00 |" in text and "the least: 2.00" in text
    assert "longer than TVM: matmul_8x12x4" in text
    wrong = TuningRow(SMALL[0], {"tileloom": ours, "tvm": Entry(note="it is wrong")})
    assert math.isnan(wrong.speed()) and "tvm: it is wrong" in table([wrong])


def test_means_of_libraries_are_by_kind() -> None:
    def row(name: str, tuned: float, torch: float) -> Row:
        made = Workload(name, lambda rng: (), lambda: np.zeros(0), {})
        times = {"tuned": tuned, "torch": torch}
        return Row(made, {peer: Cell(peer, samples=[time]) for peer, time in times.items()})

    rows = [row("matmul_1", 1.0, 1.0), row("matmul_2", 1.0, 4.0), row("conv_1", 2.0, 1.0)]
    assert verdicts(rows) == {"matmul: torch : tuned": 2.0, "conv: torch : tuned": 0.5}
