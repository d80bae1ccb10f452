"""The option `freeze`: weights prepared once, and results that follow every change of them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tileloom.base.errors import UserError  # noqa: E402
from tileloom.frontend.torch import frozen, report, tileloom, watching  # noqa: E402


def frozen_(module: nn.Module, **options: Any) -> Any:
    torch._dynamo.reset()
    report().clear()
    return torch.compile(
        module, backend=tileloom, fullgraph=True, options={"freeze": True}, **options
    )


def same(run: Any, module: Any, *args: Any, tolerance: float = 2e-5) -> None:
    with torch.no_grad():
        torch.testing.assert_close(run(*args), module(*args), rtol=tolerance, atol=tolerance)
    assert not report().fallbacks, str(report())


def model() -> Any:
    layers = (nn.Linear(17, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 33))
    made = nn.Sequential(*layers).eval()
    nn.init.uniform_(made[1].running_var, 0.5, 2)
    return made


def add_one(module: nn.Module) -> None:
    with torch.no_grad():
        module[0].weight.add_(1)


def write_a_view(module: nn.Module) -> None:
    with torch.no_grad():
        module[0].weight.view(-1)[3:200:7] = 2


def write_through_detach(module: nn.Module) -> None:
    module[0].weight.detach().T[5] = 3.0


def replace(module: nn.Module) -> None:
    module[0].weight = nn.Parameter(torch.randn(40, 17))


def replace_data_twice(module: nn.Module) -> None:
    for _ in range(2):  # the second may get the address that the first had
        module[0].weight.data = torch.randn(40, 17)


def load(module: nn.Module) -> None:
    module.load_state_dict(model().state_dict())


def write_a_buffer(module: nn.Module) -> None:
    module[1].running_var.mul_(3)


def step(module: nn.Module, **options: Any) -> None:
    for parameter in module.parameters():
        parameter.grad = torch.rand_like(parameter)
    torch.optim.AdamW(module.parameters(), lr=0.1, **options).step()


def step_fused(module: nn.Module) -> None:
    step(module, fused=True)


CHANGES = [
    add_one, write_a_view, write_through_detach, replace, replace_data_twice, load,
    write_a_buffer, step, step_fused,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_results_follow_what_is_written_to_weights(change: Callable[[nn.Module], None]) -> None:
    module, x = model(), torch.randn(6, 17)
    run = frozen_(module)
    same(run, module, x)
    before = run(x)
    change(module)
    same(run, module, x)
    change(module)
    same(run, module, x)
    assert not torch.allclose(before, run(x))


def test_products_read_packed_weights() -> None:
    module = model()
    with watching() as graphs, torch.no_grad():
        frozen_(module)(torch.randn(6, 17))
    names = [node.op.name for node in graphs[0].nodes]
    assert names.count("packed_matmul") == 2
    assert not {"matmul", "transpose", "sqrt"} & set(names)


def test_normalizations_are_in_the_weights_of_convolutions() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    nn.init.uniform_(module[1].running_mean)
    nn.init.uniform_(module[1].weight)
    run, x = frozen_(module), torch.randn(2, 3, 7, 9)
    with watching() as graphs:
        same(run, module, x)
    assert {node.op.name for node in graphs[0].nodes} <= {"conv", "add", "relu", "reshape"}
    with torch.no_grad():
        for tensor in (*module.parameters(), module[1].running_mean, module[1].running_var):
            tensor.mul_(2)
            same(run, module, x)


def test_nothing_is_prepared_again_while_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Any
    module, calls = model(), []
    real = frozen.run
    monkeypatch.setattr(frozen, "run", lambda *args: calls.append(1) or real(*args))
    run = frozen_(module)
    for _ in range(3):
        same(run, module, torch.randn(6, 17))
    assert len(calls) == 3  # two matrices and a scale
    add_one(module)
    same(run, module, torch.randn(6, 17))
    assert len(calls) == 4


def test_two_graphs_that_share_a_weight_share_what_is_prepared() -> None:
    one = model()
    two = nn.Sequential(nn.Tanh(), one[0]).eval()
    x = torch.randn(6, 17)
    first = frozen_(one)
    same(first, one, x)
    count = len(frozen._shared)
    second = torch.compile(two, backend=tileloom, options={"freeze": True})
    same(second, two, x)
    assert len(frozen._shared) == count
    add_one(one)
    same(second, two, x)
    same(first, one, x)


def test_one_graph_for_several_modules_keeps_them_apart() -> None:
    layers = [nn.Linear(17, 17).eval() for _ in range(3)]
    torch._dynamo.reset()
    runs = [torch.compile(each, backend=tileloom, options={"freeze": True}) for each in layers]
    x = torch.randn(5, 17)
    for _ in range(2):
        for run, layer in zip(runs, layers, strict=True):
            same(run, layer, x)
    with torch.no_grad():
        layers[1].weight.neg_()
    for run, layer in zip(runs, layers, strict=True):
        same(run, layer, x)


def test_memory_goes_with_the_tensor() -> None:
    module = model()
    run = frozen_(module)
    same(run, module, torch.randn(6, 17))
    gc.collect()
    before = len(frozen._shared)
    module[0].weight = None
    gc.collect()
    assert len(frozen._shared) == before - 3


def test_several_sizes() -> None:
    module = model()
    run = frozen_(module, dynamic=True)
    for rows in (5, 9, 31):
        same(run, module, torch.randn(rows, 17))
    add_one(module)
    for rows in (5, 64):
        same(run, module, torch.randn(rows, 17))


def test_training_is_not_frozen() -> None:
    module = model()
    run, x = frozen_(module), torch.randn(6, 17)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        out = run(x)
        torch.testing.assert_close(out, module(x), rtol=2e-5, atol=2e-5)
        out.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_buffers_that_the_graph_writes() -> None:
    module, twin = model().train(), model().train()
    twin.load_state_dict(module.state_dict())
    run = frozen_(module)
    for _ in range(3):
        x = torch.randn(6, 17)
        same(run, twin, x)
    torch.testing.assert_close(module[1].running_var, twin[1].running_var)


def test_weights_without_a_version() -> None:
    with torch.inference_mode():
        module = model()
        x = torch.randn(6, 17)
        run = frozen_(module)
        same(run, module, x)
        module[0].weight.add_(1)
        same(run, module, x)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types(kind: Any) -> None:
    module = nn.Sequential(nn.Linear(33, 40), nn.GELU(), nn.Linear(40, 9)).eval().to(kind)
    tolerance = 1e-6 if kind == torch.float64 else 4e-2
    same(frozen_(module), module, torch.randn(12, 33, dtype=kind), tolerance=tolerance)


def test_a_prepared_result_is_the_callers() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Any) -> Any:
            return x + 1, self.weight.T.exp()

    module = Scaled()
    run = frozen_(module)
    with torch.no_grad():
        run(torch.ones(2))[1].zero_()
        torch.testing.assert_close(run(torch.ones(2))[1], module.weight.T.exp())


def test_the_option_is_a_switch() -> None:
    torch._dynamo.reset()
    run = torch.compile(model(), backend=tileloom, options={"freeze": "yes"})
    with pytest.raises(Exception, match="True or False") as error:
        run(torch.randn(6, 17))
    assert isinstance(error.value.__cause__ or error.value, UserError) or "freeze" in str(error)
