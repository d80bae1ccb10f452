"""Which rules may fire: a safety class, and single names switched on and off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, get_args

from ...base.errors import UserError

#: What a rule may change. Each class allows what the one before it does.
#:
#: - exact: nothing. Both sides have the same value for every input, infinities and signs of zeros
#:   included, and NaN where the other has NaN. Where the left side calls a function that is only
#:   approximated (pow), the right side is its correctly rounded value.
#: - finite-only: the same numbers as long as nothing that the left side reads or computes is NaN,
#:   infinite or so small that it underflows. A zero may change its sign.
#: - reassociating: the same in real numbers. Rounding changes, and with it where values overflow.
Safety = Literal["exact", "finite-only", "reassociating"]
SAFETIES: tuple[Safety, ...] = get_args(Safety)
NOTHING = "none"


@dataclass(frozen=True, slots=True)
class Options:
    """What `optimize` may do.

    Attributes:
        safety: rules up to this class are on.
        on: ids of rules that are on whatever their class, and families that are on at all.
        off: ids of rules, and families, that are off.
        all_off: only what `on` names is on.
    """

    safety: Safety = "exact"
    on: frozenset[str] = field(default=frozenset())
    off: frozenset[str] = field(default=frozenset())
    all_off: bool = False

    def allows_family(self, name: str) -> bool:
        """Whether the rules of a family, or a pass, are on in general."""
        return name in self.on or (name not in self.off and not self.all_off)

    def allows(self, rule: str, family: str, safety: Safety, default: bool = True) -> bool:
        """Whether a rule of this id, family and class may fire.

        >>> Options().allows("log-of-exp", "arithmetic", "reassociating")
        False
        >>> Options(on=frozenset({"log-of-exp"})).allows(
        ...     "log-of-exp", "arithmetic", "reassociating")
        True
        """
        if rule in self.off:
            return False
        if rule in self.on:
            return True
        fits = SAFETIES.index(safety) <= SAFETIES.index(self.safety)
        return default and fits and self.allows_family(family)

    @property
    def names(self) -> frozenset[str]:
        """All that is named."""
        return self.on | self.off


@lru_cache(maxsize=64)
def _parsed(words: tuple[str, ...]) -> Options:
    safety: Safety = "exact"
    on: set[str] = set()
    off: set[str] = set()
    all_off = False
    for word in words:
        if word in SAFETIES:
            safety = word
        elif word == NOTHING:
            all_off = True
        elif word[:1] in "+-" and word[1:]:
            (on if word[0] == "+" else off).add(word[1:])
            (off if word[0] == "+" else on).discard(word[1:])
        else:
            raise UserError(
                f"{word!r} says nothing to the graph optimiser",
                hint=f"a class ({', '.join(SAFETIES)}), {NOTHING}, +NAME or -NAME",
            )
    return Options(safety, frozenset(on), frozenset(off), all_off)


def parse_options(words: str | Iterable[str]) -> Options:
    """Options as text says them; a later word wins.

    Raises:
        UserError: for a word that is no class, no "none", and begins with neither + nor -.

    >>> parse_options("finite-only,-sub-self,+log-of-exp").off
    frozenset({'sub-self'})
    """
    parts = words.split(",") if isinstance(words, str) else words
    return _parsed(tuple(part.strip() for part in parts if part.strip()))


def check_names(options: Options, known: Iterable[str]) -> None:
    """Refuse a name that no rule, family or pass has."""
    every = set(known)
    for name in sorted(options.names - every):
        near = get_close_matches(name, every, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "docs/graph.md lists the names"
        raise UserError(f"the graph optimiser has no rule or pass {name!r}", hint=hint)
