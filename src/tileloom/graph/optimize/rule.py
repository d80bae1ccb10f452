"""Rules: what is replaced by what, how safe that is, and where to look for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ...base import DType
from ..nodes import Node, Tensor
from .options import Options, Safety

if TYPE_CHECKING:
    from .rewriter import Rewriter

#: The classes of element types that rules tell apart.
Kind = Literal["float", "int", "bool"]
KINDS: tuple[Kind, ...] = ("float", "int", "bool")
#: Where a rule may apply: an op (or "@" and a kind of op), and the ops that make its first two
#: inputs; None stands for anything.
Key = tuple[str, str | None, str | None]
#: The tensor that takes the place of the node's first result, or None where the rule does not fit.
Apply = Callable[[Node, "Rewriter"], Tensor | None]
Case = tuple[Key, Apply]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rewrite.

    Attributes:
        id: its name for users, the same for ever.
        family: the rules that it belongs to.
        text: what it does, `left = right`.
        safety: its class for each kind of element type that it is for.
        cases: how to find and do it.
        source: its number in the rule list of MindSpore's graph kernels, where it is from there.
        note: a condition, or why it is of its class.
        default: whether it is on where its class is.
    """

    id: str
    family: str
    text: str
    safety: Mapping[Kind, Safety]
    cases: tuple[Case, ...]
    source: int | None = None
    note: str = ""
    default: bool = True

    def kinds(self, options: Options) -> frozenset[Kind]:
        """The kinds of element types for which it may fire."""
        return frozenset(
            kind
            for kind, safety in self.safety.items()
            if options.allows(self.id, self.family, safety, self.default)
        )


def every_kind(safety: Safety = "exact") -> dict[Kind, Safety]:
    """The same class for all element types."""
    return dict.fromkeys(KINDS, safety)


def kind_of(dtype: DType) -> Kind:
    """The class of an element type.

    >>> from tileloom.base import dtype
    >>> kind_of(dtype("uint8")), kind_of(dtype("bfloat16"))
    ('int', 'float')
    """
    return "float" if dtype.is_float else "bool" if dtype.is_bool else "int"


Found = tuple[Rule, frozenset[Kind], Apply]


class RuleIndex:
    """The rules that are on, found by an op and the ops that feed it."""

    def __init__(self, rules: Sequence[Rule], options: Options) -> None:
        self._cases: dict[Key, list[tuple[int, Found]]] = {}
        self._known: dict[tuple[str, str | None, str | None], tuple[Found, ...]] = {}
        number = 0
        for rule in rules:
            kinds = rule.kinds(options)
            if not kinds:
                continue
            for key, apply in rule.cases:
                self._cases.setdefault(key, []).append((number, (rule, kinds, apply)))
                number += 1

    def find(self, node: Node) -> tuple[Found, ...]:
        """What may apply to a node, in the order of the rule list."""
        inputs = node.inputs
        first = _maker(inputs[0]) if inputs else None
        second = _maker(inputs[1]) if len(inputs) > 1 else None
        key = (node.op.name, first, second)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look_up(node, first, second)
        return found

    def _look_up(self, node: Node, first: str | None, second: str | None) -> tuple[Found, ...]:
        keys = {
            (root, a, b)
            for root in (node.op.name, f"@{node.op.kind}")
            for a in (first, None)
            for b in (second, None)
        }
        cases = [case for key in keys for case in self._cases.get(key, ())]
        return tuple(found for _, found in sorted(cases, key=lambda case: case[0]))


def _maker(tensor: Tensor) -> str | None:
    return None if tensor.node is None else tensor.node.op.name


@lru_cache(maxsize=16)
def index_of(rules: tuple[Rule, ...], options: Options) -> RuleIndex:
    """The index of these rules under these options."""
    return RuleIndex(rules, options)
