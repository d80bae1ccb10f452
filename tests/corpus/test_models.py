"""Models exported by torch.onnx, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from corpus.models import CASES, export, export_by_dynamo
from tileloom.frontend.onnx import load

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module", params=list(CASES))
def exported(request: pytest.FixtureRequest, torchvision_operators: Any) -> Any:
    return CASES[request.param], export(CASES[request.param])


def expected(data: bytes, feeds: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def check(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.isfinite(theirs).all() and np.ptp(theirs) > 0.01, "the model is dead"
        error = np.abs(ours - theirs).max() / np.abs(theirs).max()
        assert error <= 1e-4, f"off by {error:.2e} of the largest value"


def test_matches_onnx_runtime(exported: Any) -> None:
    case, data = exported
    check(load(data).run(None, case.feeds), expected(data, case.feeds))


@pytest.mark.parametrize("name", list(CASES))
def test_default_exporter(name: Any, torchvision_operators: Any) -> None:
    data = export_by_dynamo(CASES[name])
    check(load(data).run(None, CASES[name].feeds), expected(data, CASES[name].feeds))


def test_other_extents_of_symbolic_dimensions(exported: Any) -> None:
    case, data = exported
    if case.dynamic is None:
        pytest.skip("all dimensions are fixed")
    model = load(data)
    feeds = {name: np.concatenate([array, array[:1]]) for name, array in case.feeds.items()}
    if "input_ids" in feeds:
        feeds = {name: array[:, :33] for name, array in feeds.items()}
    for some in (case.feeds, feeds):
        check(model.run(None, some), expected(data, some))
    assert model.compilations == 1


def test_declares_its_dimensions(exported: Any) -> None:
    case, data = exported
    infos = load(data, target="reference").get_inputs()
    assert [info.name for info in infos] == list(case.feeds)
    assert onnx.load_model_from_string(data).opset_import[0].version == 17
