"""ONNX's tests on disk: small models, most of them exported by an early PyTorch at opset 6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx_coverage import compare

from tileloom.base.errors import UnsupportedError
from tileloom.frontend.onnx import load

CASES = {
    case.name: case
    for kind in ("simple", "pytorch-converted", "pytorch-operator")
    for case in load_model_tests(kind=kind)
}
UNSUPPORTED = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}


def read(path: Path, type_: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    match type_.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def values(folder: Path, prefix: str, infos: Any) -> list[Any]:
    return [
        read(folder / f"{prefix}_{k}.pb", info.type)
        for k, info in enumerate(infos)
        if (folder / f"{prefix}_{k}.pb").exists()
    ]


def run(name: str, target: str) -> None:
    case = CASES[name]
    folder = Path(case.model_dir)
    graph = onnx.load(folder / "model.onnx").graph
    model = load(folder / "model.onnx", target=target)
    data_sets = sorted(folder.glob("test_data_set_*"))
    assert data_sets
    for data in data_sets:
        inputs = values(data, "input", graph.input)
        feeds = {info.name: value for info, value in zip(graph.input, inputs, strict=False)}
        expected = values(data, "output", graph.output)
        assert compare(expected, model.run(None, feeds), case.rtol, case.atol)


@pytest.mark.parametrize("name", sorted(CASES.keys() - UNSUPPORTED))
def test_interpreted(name: Any) -> None:
    run(name, "reference")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES.keys() - UNSUPPORTED))
def test_compiled(name: Any) -> None:
    run(name, "cpu")


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_gradients_are_refused_by_name(name: Any) -> None:
    with pytest.raises(UnsupportedError, match="'Gradient'"):
        run(name, "reference")
