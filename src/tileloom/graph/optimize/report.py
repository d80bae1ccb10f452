"""What the optimiser did: a record that a caller may ask for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class PassRecord:
    """One pass over the graph.

    Attributes:
        seconds: the time it took.
        before, after: how many nodes there were.
        fired: how often each rule did something, by its id.
        kept: how often a rule was held back, since it would have repeated work whose result
            others read too.
        exhausted: whether it stopped at its bound, with rules left to fire.
    """

    name: str
    seconds: float
    before: int
    after: int
    fired: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    exhausted: bool = False

    def __str__(self) -> str:
        rules = ", ".join(
            name if count == 1 else f"{name} x{count}" for name, count in sorted(self.fired.items())
        )
        nodes = f"{self.before} -> {self.after} nodes, {self.seconds * 1e3:.1f} ms"
        return f"{self.name}: {nodes}{': ' + rules if rules else ''}"


@dataclass
class OptimizeReport:
    """The passes of one call of `optimize`, in order.

    >>> import numpy as np
    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import Graph, Tensor, tensor_type
    >>> from tileloom.graph.optimize import optimize
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> report = OptimizeReport()
    >>> _ = optimize(Graph([x], [ops.neg(ops.neg(x))]), report=report)
    >>> report.fired
    Counter({'neg-of-neg': 1})
    """

    passes: list[PassRecord] = field(default_factory=list)

    @property
    def fired(self) -> Counter[str]:
        """How often each rule did something, in all passes."""
        return sum((record.fired for record in self.passes), Counter())

    @property
    def seconds(self) -> float:
        """The time of all passes."""
        return sum(record.seconds for record in self.passes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.passes))
