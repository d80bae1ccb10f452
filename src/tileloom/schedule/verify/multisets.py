"""Two reductions have the same terms: pairs of them by their fingerprints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...base.errors import InternalError
from ...expr import And, BinaryOp, Expr, Or
from .fingerprints import Fingerprint, fingerprints, is_cut
from .flow import union
from .in_place import copies_steps
from .model import Access
from .sums import Sums, Term, is_neutral, is_neutral_value
from .values import (
    Constant,
    Element,
    Indirect,
    NotComparable,
    Number,
    Operation,
    Resolved,
    Stored,
    stored_node,
)

if TYPE_CHECKING:
    from .compare import Proof

# How many leaves fingerprints have, and whether what a reduction starts from has its own.
_TRIES = ((1, False), (2, False), (2, True), (3, True), (5, True))


class Different(Exception):
    """Two values that differ: for which questions, and from which store they are asked."""

    def __init__(self, where: Any, message: str, write: Access | None, start: Any) -> None:
        super().__init__(message)
        self.where, self.message, self.write, self.start = where, message, write, start


@dataclass(frozen=True, slots=True, eq=False)
class MarkedTerm:
    """Terms of one outline; `key` goes to the questions they belong to, with their leaves."""

    term: Term
    mark: Fingerprint
    key: Any


Marked = dict[int, list[MarkedTerm]]  # by numbers of outlines


class TermMultisets:
    """The comparison of multisets."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.outlines: dict[tuple[Any, ...], int] = {}

    def compare(self, where: Any, new: Resolved, old: Resolved) -> None:
        """Two values, of which one is a reduction, are the same."""
        kind, multisets = self.terms(where, (new, old))
        for room, by_start in _TRIES:
            marked = [
                self.marked(sums, multiset, room, kind, by_start)
                for sums, multiset in zip((self.proof.new, self.proof.old), multisets)
            ]
            full = any(len(p.mark.leaves) >= room for m in marked for ps in m.values() for p in ps)
            if all(self.told_apart(m, _idempotent(kind)) for m in marked):
                self.match(*marked)
                return
            if not full and by_start:
                break
        self.leftovers(*marked)
        if _idempotent(kind):
            self.proof.guess()
            self.match(*marked)
            return
        raise NotComparable("the terms of a reduction cannot be told apart")

    def terms(
        self, where: Any, values: tuple[Resolved, Resolved]
    ) -> tuple[type[Expr], tuple[list[Term], list[Term]]]:
        """The terms of both; what is no reduction is one term."""
        kind: type[Expr] | None = None
        found: list[list[Term] | None] = []
        for sums, value in zip((self.proof.new, self.proof.old), values):
            whole, rest = sums.finished(value, where)
            if isinstance(value, Stored) and rest.is_empty():
                of, multiset = sums.terms(value, where)
                if kind is not None and of is not kind:
                    raise NotComparable("reductions with different operations")
                kind = of
                found.append(multiset)
            elif not whole.is_empty():
                raise NotComparable("a reduction that is read before it is finished")
            else:
                found.append(None)
        if kind is None:
            raise InternalError("neither of two values is a reduction")
        for k, value in enumerate(values):
            if found[k] is None:
                neutral = isinstance(value, Constant) and is_neutral_value(kind, value.value)
                found[k] = [] if neutral else [Term(value, where, where.identity())]
        return kind, (found[0] or [], found[1] or [])

    def marked(
        self, sums: Sums, multiset: list[Term], room: int, kind: type[Expr], by_start: bool
    ) -> Marked:
        """Terms by their outlines; those that change nothing are left out."""
        result: Marked = {}
        for term in multiset:
            for mark in fingerprints(sums, term.value, term.where, room):
                number = mark.number
                if number is not None and is_neutral(kind, number):
                    continue
                # Of a start that is known whole there may be any number where that is no matter:
                # partial results have starts of their own, which are terms.
                counts = not (mark.whole and _idempotent(kind))
                shape = (by_start and term.starts and counts, mark.shape)
                outline = self.outlines.setdefault(shape, len(self.outlines))
                key = self.key(term, mark, outline)
                result.setdefault(outline, []).append(MarkedTerm(term, mark, key))
        return result

    def key(self, term: Term, mark: Fingerprint, outline: int) -> Any:
        """From terms to what they belong to and what tells them apart."""
        integers = self.proof.new.flow.model.integers
        leaves = integers.isl.Map.from_domain(mark.where)
        for leaf in mark.leaves:
            leaves = leaves.flat_range_product(leaf.reset_tuple_id(integers.out_dim))
        leaves = leaves.set_tuple_name(integers.out_dim, f"F{outline}")
        return term.owner.intersect_domain(mark.where).range_product(leaves)

    def told_apart(self, marked: Marked, idempotent: bool) -> bool:
        """Whether no two terms share a fingerprint; the same terms may, if that changes nothing."""
        kind = self.proof.new.flow.model.integers.isl.UnionMap
        return all(
            (idempotent and all(marked_term.mark.whole for marked_term in row))
            or union((marked_term.key for marked_term in row), kind).is_injective()
            for row in marked.values()
        )

    # ------------------------------------------------------------------ matching

    def match(self, new: Marked, old: Marked) -> None:
        """All terms have counterparts; pairs are equal."""
        self.leftovers(new, old)
        for outline, row in new.items():
            for ours in row:
                for theirs in old[outline]:
                    pairs = ours.key.apply_range(theirs.key.reverse())
                    if not pairs.is_empty():
                        self.pair(pairs, ours.term, theirs.term)

    def leftovers(self, new: Marked, old: Marked) -> None:
        """Refuse terms without a counterpart."""
        lacking = self.lacking(new, old), self.lacking(old, new)
        if not lacking[0] and not lacking[1]:
            return
        rows = (row for multiset in (new, old) for row in multiset.values())
        if any(is_cut(marked_term.mark.shape) for row in rows for marked_term in row):
            raise NotComparable("the terms of a reduction depend on one another")
        known = new.keys() & old.keys()
        if lacking[0] and lacking[1] and not (lacking[0].keys() | lacking[1].keys()) <= known:
            raise NotComparable("the terms of a reduction are computed in another way")
        now = self.proof.now
        if now is not None and copies_steps(self.proof.new.flow, now.new.write.memory):
            raise NotComparable("a sum that is copied in its steps")
        first = next(iter((lacking[0] or lacking[1]).values()))
        raise self.proof.different(first.unwrap().domain(), "combines other terms")

    def lacking(self, some: Marked, others: Marked) -> dict[int, Any]:
        """The fingerprints that one multiset has alone, by outlines."""
        found = {}
        for outline, row in some.items():
            left = _ranges(row)
            if outline in others:
                left = left.subtract(_ranges(others[outline]))
            if not left.is_empty():
                found[outline] = left
        return found

    def pair(self, pairs: Any, ours: Term, theirs: Term) -> None:
        """Two terms are the same, for these pairs."""
        new, old = ours.value, theirs.value
        if isinstance(new, Operation) and isinstance(old, Operation):
            if new.node.expr.children:
                self.proof.owe(new.node, old.node, _between(pairs, new.node.start, old.node.start))
            return
        if isinstance(new, Stored) and isinstance(old, Stored):
            nodes = stored_node(new.write, new.start), stored_node(old.write, old.start)
            self.proof.owe(*nodes, _between(pairs, new.start, old.start))
            return
        both = moved(new, pairs.domain_map()), moved(old, pairs.range_map())
        try:
            self.proof.values(pairs.wrap(), *both)
        except Different as found:
            found.where = found.where.unwrap().domain().apply(ours.owner)
            raise


def _between(pairs: Any, new: Any, old: Any) -> Any:
    return new.reverse().apply_range(pairs).apply_range(old)


def _ranges(row: list[MarkedTerm]) -> Any:
    result = row[0].key.range()
    for marked_term in row[1:]:
        result = result.union(marked_term.key.range())
    return result


def _idempotent(kind: type[Expr]) -> bool:
    return issubclass(kind, BinaryOp | And | Or) and kind.idempotent


def moved(value: Resolved, asked: Any) -> Resolved:
    """A value for other questions; `asked` goes from them to those it has been for."""

    def node(inner: Any) -> Any:
        return replace(inner, start=asked.apply_range(inner.start))

    match value:
        case Element(param, cells):
            return Element(param, asked.apply_range(cells))
        case Number(values):
            return Number(asked.apply_range(values))
        case Stored(write, start):
            return Stored(write, asked.apply_range(start))
        case Operation(shape, inner):
            return Operation(shape, node(inner))
        case Indirect(read, runs, symbols):
            found = tuple(node(symbol) for symbol in symbols)
            return Indirect(read, asked.apply_range(runs), found)
    return value
