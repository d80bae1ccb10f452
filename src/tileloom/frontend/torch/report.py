"""What the backend compiled, and what it left to PyTorch and why.

>>> record = CompileCounts()
>>> record.fall_back("aten.sort.default", "no rule for this operator")
>>> print(record)
0 graphs, 0 compiled parts with 0 operators; 1 operators left to PyTorch
  1 x aten.sort.default: no rule for this operator
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class CompileCounts:
    """Counts since the start, or since `clear`.

    Attributes:
        graphs: traced graphs that came in.
        parts: pieces of them that were compiled.
        compiled: operators by name, how often compiled.
        fallbacks: (operator, reason), how often left to PyTorch.
        specialized: why graphs with symbolic sizes are compiled for each combination of sizes.
    """

    graphs: int = 0
    parts: int = 0
    compiled: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[tuple[str, str]] = field(default_factory=Counter)
    specialized: Counter[str] = field(default_factory=Counter)

    def fall_back(self, operator: str, reason: str) -> None:
        """Note that an operator was left to PyTorch."""
        self.fallbacks[operator, reason.partition("\n")[0]] += 1

    def specialize(self, reason: str) -> None:
        """Note that a graph with symbolic sizes is compiled for each combination of them."""
        self.specialized[reason.partition("\n")[0]] += 1

    def add(self, compiled: Counter[str], left: Sequence[tuple[str, str]]) -> None:
        """Note a graph: operators that were compiled, and those left to PyTorch with reasons."""
        self.graphs += 1
        self.compiled += compiled
        for operator, reason in left:
            self.fall_back(operator, reason)

    def clear(self) -> None:
        """Begin again."""
        self.graphs = self.parts = 0
        self.compiled.clear()
        self.fallbacks.clear()
        self.specialized.clear()

    def __str__(self) -> str:
        head = (
            f"{self.graphs} graphs, {self.parts} compiled parts with {self.compiled.total()} "
            f"operators; {self.fallbacks.total()} operators left to PyTorch"
        )
        rows = [
            f"  {count} x {operator}: {reason}"
            for (operator, reason), count in self.fallbacks.most_common()
        ]
        rows += [
            f"  {count} x compiled for each sizes: {reason}"
            for reason, count in self.specialized.most_common()
        ]
        return "\n".join([head, *rows])


_RECORD = CompileCounts()
_LOG = logging.getLogger("tileloom.torch")
#: So many operators are named in a notice.
_MOST_NAMED = 5


class Notice:
    """One line of log for a graph, if some of it is left to PyTorch.

    A graph that is compiled for several sizes gets one.
    """

    def __init__(self) -> None:
        self._given = False

    def give(self, left: Sequence[tuple[str, str]], compiled: int) -> None:
        """Say which operators are left to PyTorch.

        Args:
            left: operators, and why.
            compiled: how many others there are.
        """
        if self._given or not left:
            return
        self._given = True
        counts = Counter(operator for operator, _ in left).most_common()
        names = [name if n == 1 else f"{n} x {name}" for name, n in counts[:_MOST_NAMED]]
        if len(counts) > _MOST_NAMED:
            names.append(f"{len(counts) - _MOST_NAMED} others")
        _LOG.warning(
            "%d of %d operators of a graph are left to PyTorch: %s "
            "(tileloom.frontend.torch.report() has the reasons)",
            len(left), len(left) + compiled, ", ".join(names),
        )  # fmt: skip

    def give_up(self, what: str, reason: str) -> None:
        """Say that a graph, or a part of it, is left to PyTorch."""
        report().fall_back(what, reason)
        if not self._given:
            self._given = True
            _LOG.warning("%s is left to PyTorch: %s", what, reason.partition("\n")[0])


def notice_of(graph: Any) -> Notice:
    """The notice of a traced graph (`torch.fx.Graph`), which its copies share."""
    (output,) = graph.find_nodes(op="output")
    found: Notice = output.meta.setdefault("tileloom_notice", Notice())
    return found


def report() -> CompileCounts:
    """What this process compiled and what it left to PyTorch."""
    return _RECORD
