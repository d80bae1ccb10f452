"""What a graph computes from inputs that seldom change, taken out of it.

Weights are the same from call to call, and so is what depends on weights alone: transposes, panels
for matrix products, scales made of variances. `hoist` moves that into graphs of their own, whose
results become inputs of the rest; whoever runs it keeps them for as long as the weights stay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .nodes import Graph, Node, Tensor, reachable
from .op import cost_of
from .optimize.folding import FOLD_STEPS_EACH, REPEAT_LIMIT
from .simplify import simplify
from .symbols import space_of

if TYPE_CHECKING:
    from .machine import Machine

#: Ops that move nothing: what they make of an input is the input's memory.
_FREE = frozenset({"reshape"})


@dataclass(frozen=True)
class Preparation:
    """A tensor made of static inputs.

    Attributes:
        graph: what makes it; one output.
        reads: the positions of its inputs among those of the whole graph.
    """

    graph: Graph
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Hoisted:
    """A graph in two halves.

    Attributes:
        graph: the rest; its inputs are those at `kept`, then the results of the preparations.
        kept: positions among the inputs of the whole graph.
        preparations: what is computed once for all calls with the same static inputs.
    """

    graph: Graph
    kept: tuple[int, ...]
    preparations: tuple[Preparation, ...]


def hoist(graph: Graph, static: Collection[int], machine: Machine) -> Hoisted:
    """The graph simplified, with what depends on static inputs alone as preparations.

    Args:
        static: positions of inputs.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> from tileloom.graph.machine import Machine
    >>> x, w = (Tensor(tensor_type((8, 40), "float32"), name) for name in "xw")
    >>> found = hoist(Graph([x, w], [ops.matmul(x, ops.transpose(w))]), [1], Machine(512))
    >>> found.kept, [node.op.name for node in found.graph.nodes]
    ((0,), ['packed_matmul'])
    >>> [[node.op.name for node in each.graph.nodes] for each in found.preparations]
    [['pack_panels']]
    """
    roots = frozenset(graph.inputs[k] for k in static)
    simple = simplify(graph, machine, static=partial(static_tensors, roots=roots))
    return _split(simple, static_tensors(simple, roots))


def static_tensors(graph: Graph, roots: Set[Tensor]) -> Set[Tensor]:
    """Static inputs, and what depends on nothing else that can vary and is worth keeping.

    What needs more memory than what it is made of (repetitions), or more work than preparing
    weights may take, is left in the graph.
    """
    made_of = {root: frozenset([root]) for root in roots}
    for node in graph.nodes:
        given = [t for t in node.inputs if t.value is None]
        if node.op.name == "constant" or any(t not in made_of for t in given):
            continue
        sources = frozenset[Tensor]().union(*(made_of[t] for t in given))
        if _is_cheap(node, sources):
            made_of.update(dict.fromkeys(node.outputs, sources))
    return {tensor for tensor, sources in made_of.items() if sources}


def _is_cheap(node: Node, sources: Set[Tensor]) -> bool:
    if any(space_of(t.shape) is not None for t in (*node.inputs, *node.outputs)):
        return False
    if node.op.name in ("pack_panels", "pack_words"):  # which are filled up with zeros
        return True
    made = sum(t.type.nbytes for t in node.outputs)
    if made > max(REPEAT_LIMIT, sum(t.type.nbytes for t in sources)):
        return False
    return cost_of(node) <= FOLD_STEPS_EACH * (REPEAT_LIMIT + sum(t.type.size for t in sources))


def _split(graph: Graph, static: Set[Tensor]) -> Hoisted:
    """The graph cut where static tensors are read by what is not static."""
    wanted: dict[Tensor, None] = dict.fromkeys(graph.outputs)
    for node in graph.nodes:
        if not set(node.outputs) <= static:
            wanted.update(dict.fromkeys(node.inputs))
    cut = [t for t in wanted if t in static and not _is_free(t)]
    places = {tensor: k for k, tensor in enumerate(graph.inputs)}
    preparations = tuple(_preparation(tensor, places) for tensor in cut)
    fresh = {tensor: Tensor(tensor.type, f"prepared{k}") for k, tensor in enumerate(cut)}
    rest = _rebuilt(graph, fresh)
    read = {t for node in rest.nodes for t in node.inputs} | set(rest.outputs)
    kept = tuple(k for k, t in enumerate(graph.inputs) if t in read or t not in static)
    inputs = [*(graph.inputs[k] for k in kept), *fresh.values()]
    return Hoisted(Graph(inputs, rest.outputs, rest.output_names, rest.name), kept, preparations)


def _is_free(tensor: Tensor) -> bool:
    """Whether a tensor is the memory of an input."""
    while tensor.node is not None:
        if tensor.node.op.name not in _FREE:
            return False
        tensor = tensor.node.inputs[0]
    return True


def _preparation(tensor: Tensor, places: dict[Tensor, int]) -> Preparation:
    nodes = reachable([tensor])
    inputs = list(dict.fromkeys(t for node in nodes for t in node.inputs if t.node is None))
    # Named by number, so that equal preparations of several graphs are known as such.
    named = {t: Tensor(t.type, f"static{k}") for k, t in enumerate(inputs)}
    made = _rebuilt(Graph(inputs, [tensor]), named)
    return Preparation(Graph(list(named.values()), made.outputs), tuple(places[t] for t in inputs))


def _rebuilt(graph: Graph, now: dict[Tensor, Tensor]) -> Graph:
    """The graph with some tensors replaced."""
    known = dict(now)
    for node in _after(graph, now):
        fresh = node.over([known.get(tensor, tensor) for tensor in node.inputs])
        known.update(zip(node.outputs, fresh.outputs, strict=True))
    return graph.with_outputs([known.get(tensor, tensor) for tensor in graph.outputs])


def _after(graph: Graph, now: dict[Tensor, Tensor]) -> Sequence[Node]:
    """The nodes that do not make what is replaced."""
    return [node for node in graph.nodes if not set(node.outputs) & now.keys()]
