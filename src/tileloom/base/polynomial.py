"""Integer expressions over named sizes, in a normal form: what extents that are not known yet are.

A `Polynomial` is a sum of products of *atoms*. An atom is a name, or a quotient, remainder, least
or greatest of two polynomials that could not be taken apart. Equal normal forms are equal objects
in the sense of `==` and `hash`; results without names are plain integers.

>>> b, s = Polynomial.symbol("b"), Polynomial.symbol("s")
>>> (b * s * 12) // (s * 4), (s + 1) * 2 - s, (s + 15) // 16
(3*b, s + 2, (s + 15)//16)
>>> (b * s - s).between({"b": 1, "s": 1}, {"b": 8, "s": 8})
(0, 56)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union

Number = Union[int, "Polynomial"]


class Apart(NamedTuple):
    """An atom that is a function of two polynomials."""

    op: str  # "//", "%", "min" or "max"
    a: Number
    b: Number

    def __str__(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({self.a}, {self.b})"
        return f"{_in_brackets(self.a)}{self.op}{_in_brackets(self.b)}"


Atom = str | Apart
Monomial = tuple[Atom, ...]  # atoms sorted by their text, repeated for powers

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    # Nothing is divided into parts of nothing: where that is asked for, no element is concerned.
    "//": lambda a, b: a // (b or 1),
    "%": lambda a, b: a % (b or 1),
    "min": min,
    "max": max,
}


class Polynomial:
    """A sum of products with integer factors; not a number, as it has at least one atom."""

    __slots__ = ("_hash", "_text", "terms")
    _text: str | None

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text = None

    @staticmethod
    def symbol(name: str) -> Polynomial:
        """The polynomial that is one name."""
        return Polynomial((((name,), 1),))

    # ------------------------------------------------------------------ arithmetic

    def __add__(self, other: Number) -> Number:
        found = dict(self.terms)
        for monomial, factor in _terms(other):
            found[monomial] = found.get(monomial, 0) + factor
        return _normal(found)

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Number:
        found: dict[Monomial, int] = {}
        for m1, f1 in self.terms:
            for m2, f2 in _terms(other):
                both = _sorted(m1 + m2) if m1 and m2 else m1 or m2
                found[both] = found.get(both, 0) + f1 * f2
        return _normal(found)

    __rmul__ = __mul__

    def __floordiv__(self, other: Number) -> Number:
        return quotient(self, other)

    def __rfloordiv__(self, other: Number) -> Number:
        return quotient(other, self)

    def __mod__(self, other: Number) -> Number:
        return remainder(self, other)

    def __rmod__(self, other: Number) -> Number:
        return remainder(other, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    # ------------------------------------------------------------------ questions

    @property
    def names(self) -> frozenset[str]:
        """The names that the value depends on."""
        found: set[str] = set()
        for atom in self.atoms():
            if isinstance(atom, str):
                found.add(atom)
            else:
                for part in (atom.a, atom.b):
                    if isinstance(part, Polynomial):
                        found |= part.names
        return frozenset(found)

    def atoms(self) -> Iterator[Atom]:
        """The atoms of all products, with repetitions."""
        for monomial, _ in self.terms:
            yield from monomial

    def value(self, names: Mapping[str, int]) -> int:
        """The number for these values of the names."""
        total = 0
        for monomial, factor in self.terms:
            for atom in monomial:
                factor *= names[atom] if isinstance(atom, str) else _apply(atom, names)
            total += factor
        return total

    def between(self, low: Mapping[str, int], high: Mapping[str, int]) -> tuple[int, int]:
        """Bounds of the value, both included, where the names lie between theirs."""
        return _Bounds(low, high).of(self)

    def _interval(self, bounds: _Bounds) -> tuple[int, int]:
        """Bounds from those of the atoms, as if these did not depend on each other.

        Every atom is counted from its least value on: products of what is then left are not
        negative, so that much cancels.
        """
        terms = self._whole_multiples()
        ranges = {a: bounds.of_atom(a) for a in {a for m, _ in terms for a in m}}
        shifted: dict[Monomial, int] = {}
        for monomial, factor in terms:
            parts: dict[Monomial, int] = {(): factor}
            for atom in monomial:
                least = ranges[atom][0]
                grown: dict[Monomial, int] = {}
                for known, f in parts.items():
                    grown[known] = grown.get(known, 0) + f * least
                    with_atom = _sorted((*known, atom))
                    grown[with_atom] = grown.get(with_atom, 0) + f
                parts = grown
            for known, f in parts.items():
                shifted[known] = shifted.get(known, 0) + f
        least = most = shifted.pop((), 0)
        for monomial, factor in shifted.items():
            reach = factor
            for atom in monomial:
                reach *= ranges[atom][1] - ranges[atom][0]
            least, most = (least, most + reach) if reach > 0 else (least + reach, most)
        return least, most

    def _whole_multiples(self) -> tuple[tuple[Monomial, int], ...]:
        """The terms with `b * (a // b)` as `a - a % b`, so that more cancels."""
        total: Number = 0
        found = False
        for monomial, factor in self.terms:
            atom = monomial[0] if len(monomial) == 1 else ""
            if isinstance(atom, Apart) and atom.op == "//" and _divides(atom.b, factor):
                found = True
                total = total + (atom.a - _single(Apart("%", atom.a, atom.b))) * (factor // atom.b)
            else:
                total = total + _normal({monomial: factor})
        return _terms(total) if found else self.terms

    def __repr__(self) -> str:
        if self._text is None:  # terms are ordered by the texts of their atoms
            self._text = self._as_text()
        return self._text

    def _as_text(self) -> str:
        text = ""
        ordered = sorted(self.terms, key=lambda term: (-len(term[0]), tuple(map(str, term[0]))))
        for monomial, factor in ordered:
            text += (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
            parts = [] if abs(factor) == 1 and monomial else [str(abs(factor))]
            parts += map(_atom_text, monomial)
            if len(parts) > 1 or factor < 0:  # `-(a//b)` is not `-a//b`
                parts = [f"({p})" if "//" in p or "%" in p else p for p in parts]
            text += "*".join(parts)
        return text

    # ------------------------------------------------------------------ as data

    def plain(self) -> list[Any]:
        """The polynomial as lists, strings and numbers."""
        return [[[_plain_atom(a) for a in monomial], f] for monomial, f in self.terms]

    @staticmethod
    def of(plain: Any) -> Number:
        """What `plain` was called on; a number is itself."""
        if isinstance(plain, int):
            return plain
        return _normal({_sorted([_atom(a) for a in monomial]): f for monomial, f in plain})


# ---------------------------------------------------------------------------- division


def quotient(a: Number, b: Number) -> Number:
    """`a // b`, which must not be a division by zero."""
    whole, rest = _divide(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return whole + rest // b
    if rest == 0:
        return whole
    if isinstance(rest, Polynomial) and isinstance(b, int) and rest.terms[0][1] < 0:
        return whole - quotient(-rest + (b - 1), b)  # rounded up: better to read, never negative
    return _single(Apart("//", rest, b)) + whole


def remainder(a: Number, b: Number) -> Number:
    """`a % b`."""
    _, rest = _divide(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return rest % b
    return 0 if rest == 0 else _single(Apart("%", rest, b))


def least(a: Number, b: Number) -> Number:
    """The smaller of two, where nothing tells which that is."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _single(Apart("min", a, b))


def greatest(a: Number, b: Number) -> Number:
    """The larger of two, where nothing tells which that is."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _single(Apart("max", a, b))


def value_of(number: Number, names: Mapping[str, int]) -> int:
    """The value of a number or of a polynomial."""
    return number.value(names) if isinstance(number, Polynomial) else number


def _divide(a: Number, b: Number) -> tuple[Number, Number]:
    """Whole multiples of `b` in `a`, and what is left."""
    whole: Number = 0
    divisors = _terms(b)
    lead, factor = max(divisors, key=_order)
    rest = a
    for _ in range(16):
        step: Number = 0
        for monomial, amount in _terms(rest):
            over = _without(monomial, lead)
            if not monomial and over is not None:
                amount -= amount % factor  # one form for all constants that are as far apart
            if over is not None and amount % factor == 0:
                step = step + _normal({over: amount // factor})
                if len(divisors) > 1:
                    break
        if step == 0:
            break
        whole, rest = whole + step, rest - step * b
        if len(divisors) == 1:
            break
    if len(divisors) > 1 and rest != 0:
        return 0, a  # a sum divides all or nothing
    return whole, rest


def _divides(a: Number, b: int) -> bool:
    return isinstance(a, int) and a > 0 and b % a == 0


def _order(term: tuple[Monomial, int]) -> tuple[int, str]:
    return len(term[0]), str(term[0])


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """A product divided by another, if it is a multiple."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


# ---------------------------------------------------------------------------- bounds


class _Bounds:
    """Bounds of numbers where the names lie between theirs.

    Atoms are made of each other, and are met again and again: what is found is kept.
    """

    def __init__(self, low: Mapping[str, int], high: Mapping[str, int]) -> None:
        self.low, self.high = low, high
        self._known: dict[Polynomial, tuple[int, int]] = {}
        self._plain: dict[Polynomial, tuple[int, int]] = {}
        self._atoms: dict[Atom, tuple[int, int]] = {}

    def of(self, number: Number) -> tuple[int, int]:
        """Bounds of a number, both included."""
        if isinstance(number, int):
            return number, number
        known = self._known.get(number)
        if known is None:
            least, most = self.plain(number)
            if len(number.terms) > 1 and any(isinstance(atom, Apart) for atom in number.atoms()):
                least, most = self.least(number, least), -self.least(-number, -most)
            known = self._known[number] = least, most
        return known

    def plain(self, number: Number) -> tuple[int, int]:
        """Bounds as if atoms did not depend on each other."""
        if isinstance(number, int):
            return number, number
        known = self._plain.get(number)
        if known is None:
            known = self._plain[number] = number._interval(self)
        return known

    def of_atom(self, atom: Atom) -> tuple[int, int]:
        """Bounds of an atom."""
        if isinstance(atom, str):
            return self.low[atom], self.high[atom]
        known = self._atoms.get(atom)
        if known is None:
            known = self._atoms[atom] = _range(atom.op, self.of(atom.a), self.of(atom.b))
        return known

    def least(self, number: Number, known: int, depth: int = 2) -> int:
        """A lower bound; atoms in the way are replaced by what bounds them.

        Args:
            known: a bound that is known.
            depth: so many atoms are replaced, one after the other.

        >>> n = Polynomial.symbol("n")
        >>> (n - n // 3).between({"n": 1}, {"n": 9}), (n - least(n, 5)).between({"n": 1}, {"n": 9})
        ((1, 6), (0, 4))
        """
        if isinstance(number, int):
            return number
        for monomial, factor in number.terms:
            atom = monomial[0] if len(monomial) == 1 else ""
            if isinstance(atom, str):
                continue
            rest = number - _normal({monomial: factor})
            if isinstance(rest, int) or rest.names.isdisjoint(_single(atom).names):
                continue  # nothing would cancel
            bounds = []
            for scale, other in self._instead(atom, factor):
                form = rest * scale + other
                bound = self.plain(form)[0]
                if depth > 1:
                    bound = self.least(form, bound, depth - 1)
                bounds.append(-(-bound // scale))
            either = atom.op == ("min" if factor > 0 else "max")  # nothing tells which of them
            known = max(known, min(bounds) if either else max(bounds, default=known))
        return known

    def _instead(self, atom: Apart, factor: int) -> list[tuple[int, Number]]:
        """Pairs (k, number) with `k * factor * atom >= number`, for a positive k.

        For the smaller of two, which of both it is depends, and for less the larger.
        """
        op, a, b = atom
        if op in ("min", "max"):
            return [(1, a * factor), (1, b * factor)]
        if op == "//" and isinstance(b, int) and b > 0:
            return [(b, (a - _single(Apart("%", a, b))) * factor)]
        if op == "%" and factor < 0 and not isinstance(b, int) and self.plain(b)[0] > 0:
            return [(1, (b - 1) * factor)]
        return []


def _range(op: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Bounds of an atom from those of the two that it is a function of."""
    (a0, a1), (b0, b1) = left, right
    if op in ("min", "max"):
        pick = _FUNCTIONS[op]
        return pick(a0, b0), pick(a1, b1)
    if b0 <= 0:  # nothing is known of what is divided by
        reach = max(abs(a0), abs(a1), abs(b0), abs(b1))
        return -reach, reach
    if op == "%":
        return 0, min(b1 - 1, a1) if a0 >= 0 else b1 - 1
    ends = [a // b for a in (a0, a1) for b in (b0, b1)]
    return min(ends), max(ends)


# ---------------------------------------------------------------------------- forms


def _terms(number: Number) -> tuple[tuple[Monomial, int], ...]:
    return number.terms if isinstance(number, Polynomial) else (((), number),)


def _normal(terms: Mapping[Monomial, int]) -> Number:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    order = sorted(kept.items(), key=lambda term: (-len(term[0]), tuple(map(str, term[0]))))
    return Polynomial(tuple(order))


def _single(atom: Atom) -> Polynomial:
    return Polynomial((((atom,), 1),))


def _sorted(atoms: Sequence[Atom]) -> Monomial:
    return tuple(sorted(atoms, key=str)) if len(atoms) > 1 else tuple(atoms)


def _apply(atom: Apart, names: Mapping[str, int]) -> int:
    return _FUNCTIONS[atom.op](value_of(atom.a, names), value_of(atom.b, names))


def _in_brackets(number: Number) -> str:
    single = isinstance(number, int) or (len(number.terms) == 1 and len(number.terms[0][0]) == 1)
    plain = single and (isinstance(number, int) or number.terms[0][1] == 1)
    return str(number) if plain else f"({number})"


def _atom_text(atom: Atom) -> str:
    return atom if isinstance(atom, str) else str(atom)


def _plain_atom(atom: Atom) -> Any:
    if isinstance(atom, str):
        return atom
    parts = (p.plain() if isinstance(p, Polynomial) else p for p in (atom.a, atom.b))
    return [atom.op, *parts]


def _atom(plain: Any) -> Atom:
    if isinstance(plain, str):
        return plain
    return Apart(plain[0], Polynomial.of(plain[1]), Polynomial.of(plain[2]))
