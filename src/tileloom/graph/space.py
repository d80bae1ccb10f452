"""What is known of sizes that a program is compiled for all values of, and what it decides by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from ..base.errors import UnsupportedError
from ..base.polynomial import Apart, Number, Polynomial, value_of
from ..expr import Expr, Var

T = TypeVar("T")

#: Estimates take sizes to be this, or as near to it as their bounds allow.
TYPICAL = 256


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
        guards: size expressions that must not be negative for the program to be right.
        fixed: those that are compiled for one value only, and the values.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.guards: dict[Polynomial, None] = {}
        self.fixed: dict[Polynomial, int] = {}
        self._facts: tuple[Polynomial, ...] = ()
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._path: _Path | None = None
        self._is_kept_open = False

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
    def typical(self) -> dict[str, int]:
        """Sizes that estimates go by: the same in every compilation."""
        return {s.name: min(s.high, max(s.low, TYPICAL)) for s in self.symbols.values()}

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
        """The value of a number in this compilation, which becomes a guard.

        Raises:
            UnsupportedError: inside of `kept_open`.
        """
        if self._is_kept_open:
            raise UnsupportedError(f"{number} would have to be a number")
        value = number.value(self.hints)
        self.fixed[number] = value
        for part in (number - value, value - number):
            if isinstance(part, Polynomial) and self.holds(part) is not True:
                self.guards[part] = None
                self._assume(part)
        return value

    def same(self, a: Number, b: Number) -> bool:
        """Whether two numbers are always equal, in all ways that planning can go."""
        if a == b or not self.fixed:
            return a == b
        names = {n for p in self.fixed for n in p.names if len(p.names) == 1}
        used = {n for p in (a, b) if isinstance(p, Polynomial) for n in p.names}
        return used <= names and value_of(a, self.hints) == value_of(b, self.hints)

    def _assume(self, fact: Polynomial) -> None:
        """Remember that a number is not negative; the bounds of sizes become tighter."""
        told: Polynomial | None = fact
        while told is not None:
            self._facts = (*self._facts, told)
            told = _about_dividend(told)
        for known in (*reversed(self._facts), self._facts[-1]):
            self._tighten(known)

    def _tighten(self, fact: Polynomial) -> None:
        """What a fact about one product, `factor * product + offset >= 0`, says of its sizes."""
        (monomial, factor), *rest = fact.terms
        if not monomial or len(rest) > 1 or (rest and rest[0][0]):
            return
        offset = rest[0][1] if rest else 0
        if any(not isinstance(atom, str) for atom in monomial):
            return
        for name in dict.fromkeys(map(str, monomial)):
            others = Polynomial(((tuple(a for a in monomial if a != name), 1),))
            low, high = self.between_sizes(others)
            power = monomial.count(name)
            if factor > 0 and high > 0:
                least = -(offset // (factor * high))
                self._low[name] = max(self._low[name], _root(least - 1, power) + 1)
            elif factor < 0 and low > 0:
                most = offset // (-factor * low)
                self._high[name] = min(self._high[name], _root(most, power))

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
    def kept_open(self) -> Iterator[None]:
        """A scope in which no size expression may be taken for its value."""
        self._is_kept_open = True
        try:
            yield
        finally:
            self._is_kept_open = False

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


def _root(number: int, power: int) -> int:
    """The largest integer that, to this power, is not greater than a number; -1 below 0.

    >>> _root(26, 3), _root(27, 3), _root(0, 2), _root(-5, 2)
    (2, 3, 0, -1)
    """
    if number < 0 or power == 1:
        return max(number, -1)
    root: int = round(number ** (1 / power))
    while root**power > number:
        root -= 1
    while (root + 1) ** power <= number:
        root += 1
    return root


def _not_negative(number: Polynomial, answer: bool) -> Polynomial:
    return number if answer else -number - 1  # type: ignore[return-value]


def _about_dividend(fact: Polynomial) -> Polynomial | None:
    """What `factor * (a // b) + offset >= 0` says of `a`, as a number that is not negative."""
    (monomial, factor), *rest = fact.terms
    if len(monomial) != 1 or len(rest) > 1 or (rest and rest[0][0]):
        return None
    (atom,), offset = monomial, rest[0][1] if rest else 0
    if not isinstance(atom, Apart) or atom.op != "//" or not isinstance(atom.b, int):
        return None
    if factor > 0:
        told = atom.a + offset // factor * atom.b  # a >= least quotient * b
    else:
        told = (offset // -factor + 1) * atom.b - 1 - atom.a
    return told if isinstance(told, Polynomial) else None


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
