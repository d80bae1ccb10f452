"""What is known of sizes that a program is compiled for all values of, and what it decides by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ..base.polynomial import Number, Polynomial
from ..expr import Expr, Var

T = TypeVar("T")


@dataclass(frozen=True)
class Symbol:
    """A size of the program: its name, bounds (both included), and its value in this compilation.

    The variable stands for it in kernels.
    """

    name: str
    low: int
    high: int
    hint: int
    var: Var = field(compare=False)


class Space:
    """The symbols of one compilation, and what is assumed of them.

    Attributes:
        guards: formulas that must not be negative for the program to be right.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.guards: dict[Polynomial, None] = {}
        self._facts: tuple[Polynomial, ...] = ()
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._path: _Path | None = None

    def add(self, name: str, low: int, high: int, hint: int) -> Polynomial:
        """A new symbol."""
        self.symbols[name] = Symbol(name, low, high, hint, Var(name))
        self._low[name], self._high[name] = low, high
        return Polynomial.symbol(name)

    @property
    def variables(self) -> dict[str, Expr]:
        """What stands for the symbols in kernels."""
        return {name: symbol.var for name, symbol in self.symbols.items()}

    @property
    def hints(self) -> dict[str, int]:
        """The sizes of this compilation."""
        return {name: symbol.hint for name, symbol in self.symbols.items()}

    # ------------------------------------------------------------------ what is known

    def between(self, number: Number) -> tuple[int, int]:
        """Bounds, both included, from those of the symbols and from what was assumed."""
        if isinstance(number, int):
            return number, number
        low, high = number.between(self._low, self._high)
        for fact in self._facts:
            above, below = _ratio(fact, number)
            if above is not None:
                low = max(low, above)
            if below is not None:
                high = min(high, below)
        return low, high

    def holds(self, number: Number) -> bool | None:
        """Whether a number is never negative; None if it depends."""
        low, high = self.between(number)
        if low >= 0:
            return True
        if high < 0:
            return False
        if isinstance(number, Polynomial):
            for fact in self._facts:
                if self.between_sizes(number - fact)[0] >= 0:
                    return True
                if self.between_sizes(-number - 1 - fact)[0] >= 0:
                    return False
        return None

    def between_sizes(self, number: Number) -> tuple[int, int]:
        """Bounds from those of the symbols alone."""
        if isinstance(number, int):
            return number, number
        return number.between(self._low, self._high)

    def decide(self, number: Number) -> bool:
        """Whether a number is not negative, by proof, by following both ways, or by a guard."""
        known = self.holds(number)
        if known is not None or isinstance(number, int):
            return bool(known) if known is not None else number >= 0  # type: ignore[operator]
        if self._path is not None and self._path.may_fork:
            answer = self._path.answer(number)
        else:
            answer = number.value(self.hints) >= 0
            self.guards[_not_negative(number, answer)] = None
        self._assume(_not_negative(number, answer))
        return answer

    def fix(self, number: Polynomial) -> int:
        """The value of a number in this compilation, which becomes a guard."""
        value = number.value(self.hints)
        for part in (number - value, value - number):
            if isinstance(part, Polynomial) and self.holds(part) is not True:
                self.guards[part] = None
                self._assume(part)
        return value

    def _assume(self, fact: Polynomial) -> None:
        """Remember that a number is not negative; bounds of single sizes become tighter."""
        self._facts = (*self._facts, fact)
        if len(fact.names) != 1 or len(fact.terms) > 2:
            return
        (monomial, factor), offset = fact.terms[0], 0
        if len(fact.terms) == 2:
            (rest, offset) = fact.terms[1]
            if rest:
                return
        if len(monomial) != 1 or not isinstance(monomial[0], str):
            return
        name = monomial[0]
        if factor > 0:
            self._low[name] = max(self._low[name], -(offset // factor))
        else:
            self._high[name] = min(self._high[name], offset // -factor)

    # ------------------------------------------------------------------ both ways

    def variants(
        self, make: Callable[[], T], limit: int = 8
    ) -> list[tuple[tuple[Polynomial, ...], T]]:
        """What `make` gives for each way that its decisions can go, and the ways.

        Each way is a list of numbers that are not negative there; for any sizes exactly one holds.
        The last ones answer by guards when there are more than `limit`.
        """
        results: list[tuple[tuple[Polynomial, ...], T]] = []
        waiting: list[tuple[bool, ...]] = [()]
        while waiting:
            prefix = waiting.pop()
            with self.assuming():
                path = self._path = _Path(prefix, limit - len(results) - len(waiting))
                try:
                    made = make()
                finally:
                    self._path = None
            results.append((tuple(path.taken), made))
            waiting += [
                (*path.answers[:k], not path.answers[k])
                for k in range(len(path.answers) - 1, len(prefix) - 1, -1)
            ]
        return results

    @contextmanager
    def assuming(self, *facts: Polynomial) -> Iterator[None]:
        """A scope in which these numbers are not negative; what is assumed in it ends with it.

        What becomes a guard inside stays assumed.
        """
        before = self._facts, dict(self._low), dict(self._high)
        guards = len(self.guards)
        for fact in facts:
            self._assume(fact)
        try:
            yield
        finally:
            self._facts, self._low, self._high = before
            for guard in list(self.guards)[guards:]:
                self._assume(guard)


class _Path:
    """One way through the decisions of a plan: answers given beforehand, then always yes."""

    def __init__(self, prefix: Sequence[bool], room: int) -> None:
        self.prefix = tuple(prefix)
        self.room = room
        self.answers: list[bool] = []
        self.taken: list[Polynomial] = []

    @property
    def may_fork(self) -> bool:
        k = len(self.answers)
        return k < len(self.prefix) or k - len(self.prefix) < self.room - 1

    def answer(self, number: Polynomial) -> bool:
        k = len(self.answers)
        answer = self.prefix[k] if k < len(self.prefix) else True
        self.answers.append(answer)
        self.taken.append(_not_negative(number, answer))
        return answer


def _not_negative(number: Polynomial, answer: bool) -> Polynomial:
    return number if answer else -number - 1  # type: ignore[return-value]


def _ratio(fact: Polynomial, number: Polynomial) -> tuple[int | None, int | None]:
    """What `fact >= 0` says of a number that it is a multiple of, but for a constant."""
    ours = {m: f for m, f in number.terms if m}
    theirs = {m: f for m, f in fact.terms if m}
    if ours.keys() != theirs.keys():
        return None, None
    first = next(iter(ours))
    up, down = theirs[first], ours[first]  # fact = up/down * number + rest
    if any(theirs[m] * down != ours[m] * up for m in ours):
        return None, None
    offset, shift = dict(fact.terms).get((), 0), dict(number.terms).get((), 0)
    # up * (number - shift) / down + offset >= 0
    if (up > 0) == (down > 0):
        return shift - (offset * abs(down)) // abs(up), None
    return None, shift + (offset * abs(down)) // abs(up)
