"""Networks without their products, and what fusion saves them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from benchmarks.model_parts import without_products  # noqa: E402
from benchmarks.model_results import bar_table  # noqa: E402
from benchmarks.model_traffic import Moved, before_and_after  # noqa: E402
from benchmarks.models import Results  # noqa: E402


class Network(nn.Module):
    """Embedding, product, norm with residual, product, activation."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.first = nn.Embedding(50, 8), nn.Linear(8, 8)
        self.norm, self.last = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, words: Any) -> Any:
        x = self.table(words)
        x = self.norm(x + self.first(x))
        return nn.functional.relu(self.last(x.transpose(0, 1)))


def test_the_rest_computes_what_products_read() -> None:
    torch.manual_seed(0)
    model, words = Network().eval(), torch.randint(0, 50, (3, 5))
    rest, inputs = without_products(model, [words])
    with torch.no_grad():
        x = model.table(words)
        normed = model.norm(x + model.first(x))
        turned = normed.transpose(0, 1)
        last = model.last(turned)
        got = rest(*inputs)
    assert [tuple(i.shape) for i in inputs] == [(3, 5), (3, 5, 8), (5, 3, 4)]
    for result, expected in zip(got, (x, turned, last.relu()), strict=True):
        torch.testing.assert_close(result, expected)
    called = [str(node.target) for node in rest.graph.nodes if node.op == "call_function"]
    assert called and not any("linear" in name for name in called)


def test_views_of_inputs_are_no_results() -> None:
    class Heads(nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            return (q @ k.transpose(0, 1)).exp() @ k

    q, k = torch.randn(4, 8), torch.randn(4, 8)
    rest, inputs = without_products(Heads(), [q, k])
    (result,) = rest(*inputs)
    assert len(inputs) == 1
    torch.testing.assert_close(result, (q @ k.t()).exp())


def test_writing_into_what_is_given_is_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)).eval()
    with pytest.raises(ValueError, match="writes into"):
        without_products(model, [torch.randn(2, 3)])


def test_traffic_of_a_chain() -> None:
    from tileloom.graph import ops
    from tileloom.graph.nodes import Graph, Tensor, tensor_type

    x = Tensor(tensor_type((1000,), "float32"), "x")
    before, after = before_and_after([Graph([x], [ops.exp(ops.sin(ops.neg(x)))])])
    assert (before, after) == (Moved(3, 3 * 8000), Moved(1, 8000))


def test_a_table_is_read_where_it_is_looked_up() -> None:
    from tileloom.graph import ops
    from tileloom.graph.nodes import Graph, Tensor, tensor_type

    table = Tensor(tensor_type((5000, 8), "float32"), "table")
    rows = Tensor(tensor_type((4,), "int64"), "rows")
    _, after = before_and_after([Graph([table, rows], [ops.gather(table, rows, 0)])])
    assert after == Moved(1, 4 * 8 * 4 * 2 + 4 * 8)


def test_results_are_one_array() -> None:
    import numpy as np

    nested = Results((torch.ones(2, 3), [torch.zeros(1, requires_grad=True)]))
    assert np.asarray(nested).tolist() == [1.0] * 6 + [0.0]


def test_bars_are_for_the_rest_alone() -> None:
    from benchmarks.harness import Cell, Row, Workload

    def row(name: Any, ours: Any, theirs: Any) -> Any:
        cells = {"tileloom": Cell("tileloom", samples=[ours]), "torch": Cell("torch")}
        cells["torch"].samples = [theirs]
        return Row(Workload(name, None, None, {}), cells, 0.0)  # type: ignore[arg-type]

    table = bar_table(
        [row("a", 1.0, 9.0), row("a_rest", 1.0, 1.4), row("b_rest", 1.0, 1.6)], {"torch": 1.5}
    )
    assert table.count("missed") == 1 and table.count("| met |") == 1 and "| a |" not in table
