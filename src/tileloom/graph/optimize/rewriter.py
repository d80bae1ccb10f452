"""The engine: one walk over a graph that folds, shares and rewrites until no rule fits.

Nodes are taken in order. Each is rebuilt on what has become of its inputs, folded if these are
constants, replaced by an equal node if there is one, and then offered to the rules. What a rule
builds goes the same way, so that every node which stands has been simplified with all below it:
one walk reaches the fixpoint. Only a rule that was held back, because others read the nodes it
would have replaced, may fit in the next walk, when these others are gone.

How often each tensor is read is counted all the time: `uses`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import DType
from ...base.errors import InternalError
from ..nodes import Graph, Node, Tensor, TensorType
from ..op import REGISTRY
from .folding import Budget, constant_node, fold
from .keys import freeze
from .report import PassRecord
from .rule import Rule, RuleIndex, kind_of

#: Rules may fire this often for each node of the graph, and this often at all.
FIRES_PER_NODE, FIRES_AT_LEAST = 8, 256
#: Walks over the graph; the second and further ones only for rules that were held back.
MAX_WALKS = 4
#: What a rule builds is simplified in turn, to this depth.
MAX_DEPTH = 16


class Rewriter:
    """One walk over a graph."""

    def __init__(
        self, graph: Graph, rules: RuleIndex, record: PassRecord | None = None,
        share: bool = True, fold: bool = True,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.rules = rules
        self.record = record
        self.share, self.fold = share, fold
        self.nodes = graph.nodes
        self.budget = Budget(graph)
        self.uses: defaultdict[Tensor, int] = defaultdict(int)
        self.fires = max(FIRES_AT_LEAST, FIRES_PER_NODE * len(self.nodes))
        self.fired = self.held_back = 0
        self._rule: Rule | None = None
        self._known: dict[Any, tuple[Tensor, ...]] = {}
        self._dead: set[Node] = set()
        self._made: list[Node] = []  # by the rules at work, and read by nobody yet
        self._replaced: list[Node] = []  # kept alive: keys may know their arrays by identity
        self._depth = 0
        self._changed = False

    # ------------------------------------------------------------------ the walk

    def run(self) -> Graph:
        """The graph rewritten."""
        graph, uses = self.graph, self.uses
        for node in self.nodes:
            for tensor in node.inputs:
                uses[tensor] += 1
        for tensor in graph.outputs:
            uses[tensor] += 1
        now: dict[Tensor, Tensor] = {}
        for node in self.nodes:
            inputs = [now.get(tensor, tensor) for tensor in node.inputs]
            for old, new in zip(node.outputs, self._settle(node, inputs), strict=True):
                if new is not old:
                    now[old] = new
                    uses[new] += uses[old]
        return graph.with_outputs([now.get(tensor, tensor) for tensor in graph.outputs])

    def _settle(self, node: Node, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What stands for a node that reads these inputs, as counted in `uses`."""
        if self.fold:
            folded = fold(node, inputs, self.budget)
            if folded is not None:
                self._release(inputs)
                self._changed = True
                self._note("fold")
                # Equal small constants are one.
                return tuple(self._settle(t.node, ())[0] for t in folded if t.node is not None)
        key = _key(node, inputs)
        known = self._known.get(key) if self.share else None
        if known is not None:
            self._revive(known[0].node)
            if known[0].node is not node:
                self._changed = True
                self._release(inputs, known[0])
                self._note("share")
            return known
        if self._changed and not self._depth:
            # After the first change all are made anew, so that the order of nodes stays.
            return self._settled_anew(node, inputs, key)
        return self._settled(node, key)

    def _settled_anew(self, node: Node, inputs: Sequence[Tensor], key: Any) -> tuple[Tensor, ...]:
        types = [tensor.type for tensor in node.outputs]
        fresh = Node(node.op, inputs, node.attrs, types, node.name)
        for old, new in zip(node.outputs, fresh.outputs, strict=True):
            # Rules look at who reads a result before it is put in place.
            self.uses[new] = self.uses[old]
        result = self._settled(fresh, key)
        for old, new in zip(node.outputs, fresh.outputs, strict=True):
            self.uses[new] -= self.uses[old]
        return result

    def _settled(self, node: Node, key: Any) -> tuple[Tensor, ...]:
        outputs = node.outputs
        result = self._rewritten(node)
        if result is not None:
            self._release(node.inputs, result)
            outputs = (result, *outputs[1:])
            self._replaced.append(node)
        self._known[key] = outputs
        return outputs

    def _rewritten(self, node: Node) -> Tensor | None:
        found = self.rules.find(node)
        if not found or self._depth > MAX_DEPTH:
            return None
        kind = kind_of((node.inputs[-1] if node.inputs else node.outputs[0]).dtype)
        for rule, kinds, apply in found:
            if kind not in kinds or self.fired >= self.fires:
                continue
            self._rule = rule
            begin = len(self._made)
            result = apply(node, self)
            self._drop_unused(begin, result)
            if result is None or result is node.outputs[0]:
                continue
            if result.type != node.outputs[0].type:
                raise InternalError(f"rule {rule.id} made {result.type} of {node.outputs[0].type}")
            self.fired += 1
            self._changed = True
            self._note(rule.id)
            return result
        return None

    # ------------------------------------------------------------------ for rules

    def make(self, name: str, inputs: Sequence[Tensor], /, **attrs: Any) -> Tensor:
        """The result of an op, simplified."""
        op = REGISTRY[name]
        node = Node(op, inputs, attrs, op.infer([tensor.type for tensor in inputs], attrs))
        for tensor in inputs:
            self.uses[tensor] += 1
            self._revive(tensor.node)
        rule = self._rule
        self._depth += 1
        result = self._settle(node, inputs)[0]
        self._depth -= 1
        self._rule = rule
        if result.node is not None and not self.uses[result]:
            self._made.append(result.node)
        return result

    def scalar(self, value: bool | int | float, dtype: DType) -> Tensor:
        """A constant without dimensions."""
        return self.constant(np.asarray(value).astype(dtype.numpy), TensorType((), dtype))

    def constant(self, array: np.ndarray[Any, Any], type_: TensorType) -> Tensor:
        """A constant."""
        node = constant_node(array, type_).node
        if node is None:
            raise InternalError("a constant has no node")
        return self._settle(node, ())[0]

    def read_once(self, tensor: Tensor) -> bool:
        """Whether one input of one node is all that reads this."""
        return self.uses[tensor] == 1

    def may_replace(self, tensor: Tensor) -> bool:
        """`read_once`; other readers hold the rule back."""
        if self.read_once(tensor):
            return True
        self.hold_back()
        return False

    def hold_back(self) -> None:
        """The rule would fit but for other readers of what it replaces."""
        self.held_back += 1
        if self.record is not None and self._rule is not None:
            self.record.kept[self._rule.id] += 1

    # ------------------------------------------------------------------ readers

    def _release(self, tensors: Sequence[Tensor], kept: Tensor | None = None) -> None:
        """One read less of each; a node that nobody reads reads nothing.

        Args:
            kept: what is about to be read instead.
        """
        if kept is not None:
            self.uses[kept] += 1
            self._release(tensors)
            self.uses[kept] -= 1
            return
        stack = list(tensors)
        while stack:
            tensor = stack.pop()
            self.uses[tensor] -= 1
            node = tensor.node
            if self.uses[tensor] > 0 or node is None or node in self._dead:
                continue
            if not any(self.uses[t] > 0 for t in node.outputs):
                self._dead.add(node)
                stack.extend(node.inputs)

    def _drop_unused(self, begin: int, result: Tensor | None) -> None:
        """What a rule made and then did not use reads nothing."""
        made = self._made[begin:]
        del self._made[begin:]
        for node in reversed(made):
            if result is not None and node is result.node:
                if self._depth:
                    self._made.append(node)  # the rule around this one may not use it
            elif node not in self._dead and not any(self.uses[t] for t in node.outputs):
                self._dead.add(node)
                self._release(node.inputs)

    def _revive(self, node: Node | None) -> None:
        """A node that nobody read is read again."""
        if node is None or node not in self._dead:
            return
        self._dead.remove(node)
        for tensor in node.inputs:
            self.uses[tensor] += 1
            self._revive(tensor.node)

    def _note(self, event: str) -> None:
        if self.record is not None:
            self.record.fired[event] += 1


def _key(node: Node, inputs: Sequence[Tensor]) -> Any:
    serials = [tensor.serial for tensor in inputs]
    if node.op.commutative:
        serials.sort()
    return (node.op.name, tuple(serials), freeze(node.attrs), node.outputs[0].type)


def rewrite(
    graph: Graph, rules: RuleIndex, record: PassRecord | None = None, share: bool = True,
    fold: bool = True,
) -> Graph:  # fmt: skip
    """The graph at the fixpoint of the rules."""
    for _ in range(MAX_WALKS):
        walk = Rewriter(graph, rules, record, share, fold)
        graph = walk.run()
        if record is not None:
            record.exhausted = walk.fired >= walk.fires
        if not (walk.fired and walk.held_back):
            break
    return graph
