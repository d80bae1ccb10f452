"""All numbers of the programs that TVM has scheduled."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.features.common import features
from tuner.features.tvm_features import Sample, samples


@pytest.mark.skipif(not samples(), reason="the sample is not there")
@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_numbers_are_those_of_tvm(sample: Sample) -> None:
    rows = features(sample.script, "cuda -arch=sm_70" if sample.is_gpu else "llvm")
    np.testing.assert_allclose(rows, sample.features, rtol=0, atol=1e-6)
