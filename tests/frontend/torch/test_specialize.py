"""Programs for single sizes: one for each, and not more than are kept."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from tileloom.frontend.torch import specialize  # noqa: E402


def test_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(torch.ops.aten.neg.default, (graph.placeholder("x"),)))
    compiled: list[tuple[int, ...]] = []

    def compile_static(module: fx.GraphModule) -> Any:
        (x,) = module.graph.find_nodes(op="placeholder")
        compiled.append(tuple(x.meta["val"].shape))
        return lambda args: module(*args)

    monkeypatch.setattr(specialize, "MOST_SINGLE", 2)
    run = specialize.specialized(fx.GraphModule(torch.nn.Module(), graph), compile_static)
    for size in (1, 2, 1, 2, 3, 2, 1, 3):
        assert torch.equal(run([torch.ones(size)]), -torch.ones(size))
    assert compiled == [(1,), (2,), (3,), (1,)]
