"""What the optimiser does, as values: families of rules that share one walk over the graph."""

from __future__ import annotations

from dataclasses import dataclass

from .arithmetic import ARITHMETIC, SELECTS
from .broadcasts import BROADCASTS
from .casts import CASTS
from .products import PRODUCTS
from .reductions import REDUCTIONS
from .reshapes import RESHAPES
from .rule import Rule
from .slices import SLICES


@dataclass(frozen=True, slots=True)
class RuleFamily:
    """Rules with one purpose; `fold` and `share` are part of the walk itself."""

    name: str
    about: str
    rules: tuple[Rule, ...] = ()


PIPELINE: tuple[RuleFamily, ...] = (
    RuleFamily("fold", "what is made of constants alone becomes a constant"),
    RuleFamily("share", "equal nodes become one, and so do equal outputs"),
    RuleFamily("broadcasts", "explicit broadcasts go where the consumer repeats values by itself, "
           "else behind the work", BROADCASTS),
    RuleFamily("reshapes", "pairs of reshapes and of transposes merge, idle ones go", RESHAPES),
    RuleFamily("casts", "casts collapse, and move to where data is narrow", CASTS),
    RuleFamily("slices", "slices and concatenations undo each other", SLICES),
    RuleFamily("reductions", "axes get one form, nested reductions merge, common factors move out",
           REDUCTIONS),
    RuleFamily("products", "matrix products read transposed operands in place", PRODUCTS),
    RuleFamily("selects", "choices and logic with known answers", SELECTS),
    RuleFamily("arithmetic", "algebra of numbers", ARITHMETIC),
)  # fmt: skip

RULES: tuple[Rule, ...] = tuple(rule for family in PIPELINE for rule in family.rules)
NAMES: frozenset[str] = frozenset(
    [*(family.name for family in PIPELINE), *(rule.id for rule in RULES)]
)
