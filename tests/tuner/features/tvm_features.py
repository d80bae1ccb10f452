"""The features that TVM found in some programs: reading them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

SAMPLE = Path(__file__).resolve().parents[4] / "shared/data/tvm/per-store-features-sample.json.gz"


@dataclass(frozen=True)
class Sample:
    """A scheduled program and its features."""

    name: str
    is_gpu: bool
    script: str
    features: npt.NDArray[np.float64]


@cache
def samples() -> list[Sample]:
    """The programs of the sample; none where it is not there."""
    if not SAMPLE.exists():
        return []
    with gzip.open(SAMPLE, "rt") as file:
        workloads = json.load(file)
    return [
        Sample(
            f"{workload['name']}-{sample['ds']}-{sample['seed']}",
            workload["target"]["kind"] == "cuda",
            sample["scheduled"],
            np.array(sample["features"]),
        )
        for workload in workloads
        for sample in workload["samples"]
        if "features" in sample
    ]
