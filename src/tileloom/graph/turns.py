"""How few turns native code and the host, or another runtime, need to take.

Both of these work on any nodes: those of a `Graph`, groups of them, nodes of other graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)


class Turns(Generic[N]):
    """Nodes placed one after another so that native code and others take the fewest turns.

    The native nodes of level 0 run first, then the others of level 0, then the native ones of
    level 1, and so on; others that need nothing native have level -1 and run before all. Each node
    has the least level that its sources allow.

    >>> turns = Turns()
    >>> turns.native("a", []), turns.other("sort", ["a"]), turns.native("b", ["a", "sort"])
    (0, 0, 1)
    """

    def __init__(self) -> None:
        self.level: dict[N, int] = {}
        self._native: set[N] = set()
        self._last_effect = -1

    def is_native(self, node: N) -> bool:
        """Whether a node was placed as native."""
        return node in self._native

    def ready(self, sources: Iterable[N]) -> int:
        """The level that a native node which reads these has; what was not placed is an input."""
        found = (self.level.get(s, -1) + (s not in self._native) for s in sources)
        return max(found, default=0)

    def native(self, node: N, sources: Iterable[N]) -> int:
        """Place a native node; its level."""
        self.level[node] = self.ready(sources)
        self._native.add(node)
        return self.level[node]

    def other(self, node: N, sources: Iterable[N], effect: bool = False) -> int:
        """Place another node; its level. Those with an effect keep their order."""
        level = max((self.level.get(source, -1) for source in sources), default=-1)
        if effect:
            level = self._last_effect = max(level, self._last_effect)
        self.level[node] = level
        return level


def segments(
    nodes: Sequence[N], inputs: Callable[[N], Iterable[N]], native: Callable[[N], bool]
) -> list[tuple[bool, list[N]]]:
    """Nodes as the fewest turns of native code and the host: (whether native, nodes in order).

    Args:
        nodes: producers before consumers.
        inputs: the nodes that a node reads; those not among `nodes` are ignored.
        native: whether a node has code.

    >>> reads = {"b": "a", "d": "c", "e": "bd"}
    >>> segments("abcde", lambda n: reads.get(n, ""), lambda n: n in "ace")
    [(True, ['a', 'c']), (False, ['b', 'd']), (True, ['e'])]
    """
    turns: Turns[N] = Turns()
    found: dict[tuple[int, bool], list[N]] = {}
    known = set(nodes)
    for node in nodes:
        sources = [source for source in inputs(node) if source in known]
        place = turns.native if native(node) else turns.other
        level = place(node, sources)
        found.setdefault((level, not turns.is_native(node)), []).append(node)
    return [(not host, found[level, host]) for level, host in sorted(found)]
