"""What is left to PyTorch: the cut of the graph, its order, its report."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tileloom.base.errors import UserError  # noqa: E402
from tileloom.frontend.torch import assemble as assemble_module  # noqa: E402
from tileloom.frontend.torch import operators, report, tileloom  # noqa: E402

from .helpers import assert_same, check, compiled  # noqa: E402


def test_parts_around_an_operator_of_pytorch() -> None:
    check(lambda x: (x.exp() * 2).sort()[0].sum(1) + x.sum(1), torch.randn(4, 5), left=1)
    assert report().parts == 2
    assert "aten.sort.default: there is no rule" in str(report())


def test_independent_operators_share_one_part() -> None:
    """Two chains, each with an operator of PyTorch's in the middle: still two parts."""

    def function(x: Any, y: Any) -> Any:
        return x.exp().sort()[0] + 1, (y.sin().sort()[0] * 2).cos()

    check(function, torch.randn(5), torch.randn(7), left=2)
    assert report().parts == 2


def test_unsupported_types_are_left_alone() -> None:
    check(lambda z: (z * z).abs() + z.real * 2, torch.randn(4, dtype=torch.complex64), left=None)
    assert ("aten.mul.Tensor", "tensors of complex64") in report().fallbacks


def test_random_operators_keep_their_order() -> None:
    def function(x: Any) -> Any:
        first = torch.rand_like(x).sort()[0]  # waits for a part
        second = torch.rand_like(x)
        return first * 2, second * 3, torch.rand_like(first * 2)

    expected = []
    for run in (function, compiled(function)):
        torch.manual_seed(3)
        expected.append(run(torch.ones(6)))
    assert_same(expected[1], expected[0])


def test_higher_order_operators() -> None:
    def function(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) + 1

    check(function, torch.ones(3), left=1)


def test_a_part_that_does_not_compile_runs_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*about: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(assemble_module, "CompiledPart", broken)
    check(lambda x: ((x + 1).t() * x.shape[0]).sum(1), torch.randn(4, 3).t(), left=1)
    assert ("a whole part", "RuntimeError: broken on purpose") in report().fallbacks


def test_a_graph_that_does_not_compile_runs_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.frontend.torch.backend.assemble", None)
    torch._dynamo.reset()
    x = torch.randn(3)
    assert_same(torch.compile(lambda x: x.exp(), backend=tileloom)(x), x.exp())


def test_wrong_traced_types_do_no_harm() -> None:
    """PyTorch traces this operator's result as float32, and makes bools."""
    run = compiled(lambda x: torch.ops.prims.signbit(x).to(torch.bool))
    assert run(torch.tensor([1.0, -1.0, 0.0])).tolist() == [False, True, False]


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UserError, match="no option 'speed'"):
        tileloom(torch.fx.symbolic_trace(torch.nn.Identity()), [], options={"speed": 11})
    for trials in (0, 1.5, True):
        with pytest.raises(UserError, match="number of trials"):
            tileloom(torch.fx.symbolic_trace(torch.nn.Identity()), [], options={"tune": trials})


def test_the_entry_point_names_the_backend() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    table = tomllib.loads(project.read_text())["project"]["entry-points"]
    module, _, name = table["torch_dynamo_backends"]["tileloom"].partition(":")
    assert getattr(import_module(module), name) is tileloom


def test_every_rule_is_of_an_operator_that_exists() -> None:
    """Some overloads are newer than the oldest PyTorch that is supported, or older."""
    missing = []
    for name in operators():
        namespace, packet, overload = name.split(".")
        found = getattr(getattr(torch.ops, namespace), packet, None)
        if found is None or overload not in found.overloads():
            missing.append(name)
    assert not missing


def test_other_devices_are_left_alone() -> None:
    run = compiled(lambda x: x.exp() + 1)
    assert run(torch.ones(3, device="meta")).device.type == "meta"
    assert ("aten.exp.default", "tensors on meta") in report().fallbacks
