"""ONNX's own node tests, through the backend, compiled and interpreted.

What each case is expected to do is in docs/onnx-operators.md, which
`python tools/onnx_coverage.py --write` makes.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_coverage as coverage
import pytest
from onnx import helper

from frontend.onnx.helpers import f32
from tileloom.base.errors import ArgumentError, UserError
from tileloom.frontend import onnx as backend

PAGE = Path(__file__).parents[3] / coverage.PAGE
VERSION, EXCEPTIONS = coverage.read_page(PAGE.read_text())
CHUNKS = 24


def one_case_each() -> list[Any]:
    """One case of each operator, the first."""
    cases = reversed(coverage.node_cases())
    return list({coverage.operator_of(case): case for case in cases}.values())


def run_chunk(cases: Any, target: str, device: str | None = None) -> list[coverage.CaseOutcome]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [coverage.run_case(case, target, device) for case in cases]


def complaints(outcomes: list[coverage.CaseOutcome], strict: bool) -> list[str]:
    """Outcomes that are not those of the page; for another onnx only what is never right."""
    found = []
    for outcome in outcomes:
        listed = EXCEPTIONS.get(outcome.name)
        fine = outcome.status == "pass" or (outcome.status == "close" and not strict)
        if outcome.status in ("unsupported", "refused", "close"):
            fine = fine or listed is not None or onnx.__version__ != VERSION
        if not fine:
            found.append(f"{outcome.name}: {outcome.status}: {outcome.reason}")
    return found


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("test_softmax_axis_0", "Softmax"),
        ("test_softmax_axis_0_expanded", "Softmax"),
        ("test_softmax_axis_0_expanded_ver18", "Softmax"),
        ("test_castlike_FLOAT_to_DOUBLE_expanded", "CastLike"),
        ("test_ai_onnx_ml_array_feature_extractor", "ai.onnx.ml.ArrayFeatureExtractor"),
        ("test_momentum", "ai.onnx.preview.training.Momentum"),
    ],
)
def test_cases_stand_under_their_operator(name: str, operator: str) -> None:
    found = [coverage.operator_of(case) for case in coverage.node_cases() if case.name == name]
    assert found == [operator] or not (found or onnx.__version__ == VERSION)


@pytest.mark.parametrize("chunk", range(8))
def test_a_case_of_each_operator_compiled(chunk: int) -> None:
    outcomes = run_chunk(one_case_each()[chunk::8], "cpu")
    assert not complaints(outcomes, strict=True), "\n".join(complaints(outcomes, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_node_cases_compiled(chunk: int) -> None:
    outcomes = run_chunk(coverage.node_cases()[chunk::CHUNKS], "cpu")
    assert not complaints(outcomes, strict=True), "\n".join(complaints(outcomes, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_node_cases_on_the_emulator(chunk: int) -> None:
    """Kernels for a GPU: every case that passes on CPUs, within ONNX's tolerances."""
    outcomes = run_chunk(coverage.node_cases()[chunk::CHUNKS], "cuda -arch=sm_80", "emulator")
    assert not complaints(outcomes, strict=False), "\n".join(complaints(outcomes, strict=False))


@pytest.mark.parametrize("chunk", range(4))
def test_node_cases_interpreted(chunk: int) -> None:
    outcomes = run_chunk(coverage.node_cases()[chunk::4], "reference")
    assert not complaints(outcomes, strict=False), "\n".join(complaints(outcomes, strict=False))


def test_enough_cases_pass() -> None:
    names = {case.name for case in coverage.node_cases()}
    assert len(names) - len(EXCEPTIONS) >= 450
    if onnx.__version__ == VERSION:
        assert EXCEPTIONS.keys() <= names
        assert len(EXCEPTIONS) <= 0.05 * len(names)


def test_reasons_are_given() -> None:
    assert all(why.strip() for why in EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("expected", "found", "verdict"),
    [
        (f32(1, 2), f32(1, 2.0001), True),
        (f32(0, 8), f32(1e-6, 8), False),
        ([f32(1), [f32(2)]], [f32(1), [f32(2)]], True),
        (None, None, True),
        (f32(np.nan, np.inf), f32(np.nan, np.inf), True),
    ],
)
def test_compare(expected: Any, found: Any, verdict: bool) -> None:
    assert coverage.compare(expected, found, 1e-3, 1e-7) is verdict


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (f32(1, 2), f32(1, 2.1)),
        (f32(1, 2), f32(1)),
        (f32(1), np.array([1], np.float64)),
        ([f32(1)], [f32(1), f32(2)]),
        ([f32(1)], None),
        (None, f32(1)),
        (f32(np.nan), f32(0)),
    ],
)
def test_compare_sees_what_is_wrong(expected: Any, found: Any) -> None:
    with pytest.raises(AssertionError):
        coverage.compare(expected, found, 1e-3, 1e-7)


def test_page_can_be_read_back() -> None:
    outcomes = [
        coverage.CaseOutcome("test_a", "A", "pass"),
        coverage.CaseOutcome("test_b", "x.y.B", "unsupported", "has | in\nit"),
        coverage.CaseOutcome("test_c", "C", "close", "rounding"),
    ]
    version, rows = coverage.read_page(coverage.page(outcomes))
    assert version == onnx.__version__
    assert rows.keys() == {"test_b", "test_c"} and "in it" in rows["test_b"]


def test_backend_interface() -> None:
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (y,) = backend.run_node(node, [f32(-1, 5), np.float32(2)])
    np.testing.assert_array_equal(y, f32(-1, 2))
    (y,) = backend.run_node(node, [f32(-1, 5), np.float32(2)], opset_version=13)
    np.testing.assert_array_equal(y, f32(-1, 2))
    case = next(case for case in coverage.node_cases() if case.name == "test_add")
    inputs, (expected,) = case.data_sets[0]
    np.testing.assert_allclose(backend.run_model(case.model, inputs)[0], expected)
    with pytest.raises(ArgumentError, match="'CUDA'"):
        backend.prepare(case.model, "CUDA")


def test_a_page_is_about_all_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="a page is about all cases"):
        coverage.main(["no_case_of_this_name", "--write"])
    assert coverage.main(["no_case_of_this_name"]) == 0
    assert not list(tmp_path.iterdir())
