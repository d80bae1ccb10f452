"""A model without its products: what is left when matrix products and convolutions are given.

The model is exported to a graph of the operators that PyTorch itself runs. Each product becomes an
input, with the result that it has in the model; what products read becomes an output. So the rest
(embeddings, norms, activations, softmax, residuals, pooling) does the model's work, on its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

_PRODUCTS = {
    "aten.linear.default", "aten.matmul.default", "aten.addmm.default", "aten.mm.default",
    "aten.bmm.default", "aten.conv2d.default", "aten.convolution.default",
    "aten.scaled_dot_product_attention.default",
}  # fmt: skip


def without_products(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The rest of a model as a module of its own, and the inputs to give it."""
    with torch.no_grad():
        traced = torch.export.export(model, tuple(inputs)).module()
        values = _Values(traced)
        values.run(*inputs)
    graph, made, given = fx.Graph(), {}, []
    read: dict[fx.Node, None] = {}
    for node in traced.graph.nodes:
        if node.op == "placeholder" or str(node.target) in _PRODUCTS:
            read.update(dict.fromkeys(node.all_input_nodes))
            made[node] = graph.placeholder(node.name)
            given.append(values.of[node])
        elif node.op == "output":
            read.update(dict.fromkeys(node.all_input_nodes))
        elif node.op != "call_module":  # the export's own checks
            made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(made[node] for node in read if node in values.computed))
    graph.eliminate_dead_code()
    wanted = {node.name for node in graph.nodes if node.op == "placeholder" and node.users}
    kept = []
    for node, value in zip(graph.find_nodes(op="placeholder"), given, strict=True):
        if node.name in wanted:
            kept.append(value)
        else:
            graph.erase_node(node)
    return fx.GraphModule(traced, graph).eval(), kept


class _Values(fx.Interpreter):
    """Runs a model and keeps inputs and products; notes what is no mere view of them."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.of: dict[fx.Node, torch.Tensor] = {}
        self.computed: set[fx.Node] = set()
        self.taken: dict[int, torch.Tensor] = {}  # alive, so that no other gets the memory

    def run_node(self, node: fx.Node) -> Any:
        value = super().run_node(node)
        if not isinstance(value, torch.Tensor):
            return value
        memory = value.untyped_storage().data_ptr()
        if node.op in ("placeholder", "get_attr") or str(node.target) in _PRODUCTS:
            self.taken[memory] = value
            if node.op != "get_attr":
                self.of[node] = value.clone()  # a later operator may write into it
        elif memory not in self.taken:
            self.computed.add(node)
        elif getattr(node.target, "_schema", None) and node.target._schema.is_mutable:
            raise ValueError(f"{node.name} writes into what is given")
        return value


__all__ = ["without_products"]
