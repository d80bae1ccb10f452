"""What the backend compiled, and what it left to PyTorch and why.

>>> record = Record()
>>> record.fall_back("aten.sort.default", "no rule for this operator")
>>> print(record)
0 graphs, 0 compiled parts with 0 operators; 1 operators left to PyTorch
  1 x aten.sort.default: no rule for this operator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Record:
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


_RECORD = Record()


def report() -> Record:
    """What this process compiled and what it left to PyTorch."""
    return _RECORD
