"""Programs that TVM scheduled: proven right, and equal to what they were scheduled from."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tileloom.schedule.verify import verify_program
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc

pytest.importorskip("islpy")

SAMPLES = (
    Path(__file__).resolve().parents[4] / "shared" / "data" / "tvm" / "design-spaces-sample.json.gz"
)
pytestmark = pytest.mark.skipif(not SAMPLES.exists(), reason="no samples here")


@cache
def spaces() -> Any:
    return json.loads(gzip.decompress(SAMPLES.read_bytes()))


def function(text: str) -> PrimFunc:
    found = parse(text)
    return next(iter(found.functions.values())) if isinstance(found, IRModule) else found


def check(workload: str, target: str, count: int | None) -> None:
    space = spaces()[workload]
    original = function(space["script"])
    samples = space["targets"][target][:count]
    assert samples
    for sample in samples:
        report = verify_program(function(sample["mod"]), original=original)
        assert report.ok, report


@pytest.mark.parametrize("workload", ["GMM", "NRM", "SFM"])
def test_some_samples(workload: str) -> None:
    check(workload, "llvm_nc4", 2)
    check(workload, "cuda_sm70", 1)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["GMM", "C2D", "NRM", "SFM"])
@pytest.mark.parametrize("target", ["llvm_nc4", "cuda_sm70", "cuda_sm80_tc"])
def test_all_samples(workload: str, target: str) -> None:
    check(workload, target, None)


def test_a_changed_sample_is_not_right() -> None:
    """Another tile, another element: what TVM made is no longer what it was."""
    space = spaces()["GMM"]
    original = function(space["script"])
    text = space["targets"]["llvm_nc4"][0]["mod"]
    for old, new, kinds in (
        ("v_k = T.axis.reduce(128, k_0 * 2 + k_1)", "v_k = T.axis.reduce(128, k_0 + k_1)",
         {"repeated", "missing", "uncovered", "different"}),
        ("v1 = T.axis.spatial(128, i_0 * 8 + ax1)", "v1 = T.axis.spatial(128, i_0 * 8 + 7 - ax1)",
         set()),
        ("Z[v0, v1, v2] = Z_global[v0, v1, v2]", "Z[v0, v1, v2] = Z_global[v0, v1, 127 - v2]",
         {"uncovered", "different", "unfinished"}),
    ):  # fmt: skip
        assert old in text, text
        report = verify_program(function(text.replace(old, new)), original=original)
        assert bool(report.violations) == bool(kinds), report
        assert {violation.kind for violation in report.violations} <= kinds, report
