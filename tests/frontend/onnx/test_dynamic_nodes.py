"""ONNX's node tests with symbols for their dimensions: what is imported is right for other sizes.

The graphs are evaluated in NumPy, those for many sizes as those for one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnx_coverage as coverage
import pytest

from frontend.onnx.helpers import Evaluated
from tileloom.base.errors import UserError
from tileloom.frontend.onnx import load
from tileloom.frontend.onnx.executor import REFERENCE, make_executable

#: The reference of transposed convolutions has no negative pads, which other sizes lead to.
LEFT_OUT = {"test_convtranspose_autopad_same", "test_convtranspose_output_shape"}
CHUNKS = 12
#: By how much dimensions are longer than in the test; None: they have size 1.
CHANGES = (0, 1, -1, 3, None)


def node_cases() -> list[Any]:
    return [c for c in coverage.node_cases() if c.data_sets and c.name not in LEFT_OUT]


@pytest.fixture(autouse=True)
def evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.frontend.onnx.dynamic.compile_polymorphic", Evaluated)
    monkeypatch.setattr(
        "tileloom.frontend.onnx.session.make_executable",
        lambda graph, target, device, checks: make_executable(graph, REFERENCE, None, checks),
    )


def opened(proto: onnx.ModelProto, together: bool) -> tuple[onnx.ModelProto, bool]:
    """The model with names for the extents of its inputs, and whether there are any.

    Args:
        together: whether extents that are equal have one name.
    """
    result, found = onnx.ModelProto.FromString(proto.SerializeToString()), False
    known = {tensor.name for tensor in result.graph.initializer}
    del result.graph.value_info[:]
    for info in result.graph.input:
        if info.name in known or info.type.WhichOneof("value") != "tensor_type":
            continue
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_value > 1:
                dim.dim_param = f"d{dim.dim_value}" if together else f"{info.name}_{axis}"
                found = True
    return result, found


def resized(info: onnx.ValueInfoProto, value: Any, change: int | None) -> Any:
    """The array with its named dimensions cut or repeated."""
    if not isinstance(value, np.ndarray) or info.type.WhichOneof("value") != "tensor_type":
        return value
    index = []
    for dim, extent in zip(info.type.tensor_type.shape.dim, value.shape, strict=True):
        wanted = extent if not dim.dim_param else 1 if change is None else extent + change
        index.append(np.arange(wanted) % max(extent, 1))
    return np.ascontiguousarray(value[np.ix_(*index)]) if index else value


def outcome(session: Any, feeds: dict[str, Any]) -> list[Any] | None:
    """The outputs, or None if the model is refused for these sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(session.run(None, feeds))
        except UserError:
            return None


def complaints(case: Any, together: bool) -> list[str]:
    """For which sizes a model is not what it is when imported for them alone."""
    proto, any_names = opened(case.model, together)
    if not any_names:
        return []
    try:
        session, static = load(proto), load(proto, target="reference", dynamic=False)
    except UserError:
        return []
    found = []
    inputs = dict(zip((info.name for info in proto.graph.input), case.data_sets[0][0]))
    infos = {info.name: info for info in proto.graph.input}
    for change in CHANGES:
        feeds = {name: resized(infos[name], value, change) for name, value in inputs.items()}
        ours, wanted = outcome(session, feeds), outcome(static, feeds)
        try:
            coverage.compare(wanted, ours, 1e-3, 1e-5)
        except AssertionError as error:
            found.append(f"{case.name} {'together ' * together}{change}: {error}")
    return found


def check(cases: list[Any]) -> None:
    wrong = [text for case in cases for both in (True, False) for text in complaints(case, both)]
    assert not wrong, "\n".join(wrong)


def test_some_node_cases_for_other_sizes() -> None:
    check(node_cases()[::25])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_node_cases_for_other_sizes(chunk: int) -> None:
    check(node_cases()[chunk::CHUNKS])
