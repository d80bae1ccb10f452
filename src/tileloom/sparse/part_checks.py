"""Whether parts of an iteration, one after the other, do what the whole iteration does.

The parts run over the elements in another order, each over those of its part and over padding.
That is right where every element of a result is computed in a single place of one part, or by
updates that padding leaves alone and that may come in any order. All else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..base.errors import UnsupportedError
from ..expr import (
    Analyzer,
    BinaryOp,
    Expr,
    Range,
    Var,
    const,
    free_vars,
    is_pure,
    post_order,
    substitute,
)
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    BufferStore,
    LetStmt,
    SparseBuffer,
    SparseIteration,
    Stmt,
    collect,
    first_line,
    stmt_children,
    stmt_exprs,
)
from ..tir.sparse import SPARSE_FIXED
from .applied_rule import AppliedRule
from .padding import in_padding, update_kind
from .part_iteration import PartIteration, PartPlaces


def covers_once(rule: AppliedRule, places: PartPlaces, names: Iterable[str]) -> bool:
    """Whether the new axes in place of some old ones run over each of their coordinates once."""
    part, before = rule.part, rule.part.rule.axes_before_rewrite
    wanted = list(names)
    axes = [axis for name in wanted for axis in part.axes_of(name)]
    if any(axis.parent is not None for axis in axes):
        return False
    finals = dict(zip(part.mapped, part.idx_map.final_indices, strict=True))
    inputs = dict(zip(part.idx_map.initial_indices, before, strict=True))
    used = {inputs[var] for axis in axes for var in free_vars(finals[axis]) if var in inputs}
    if not used <= set(wanted):
        return False
    analyzer = places.analyzer
    old = [places.coordinates[name] if name in wanted else 0 for name in before]
    found = dict(zip(part.mapped, part.idx_map.map_indices(old, analyzer), strict=True))
    return all(analyzer.can_prove_equal(found[axis], places.new_vars[axis]) for axis in axes)


def has_padding(rule: AppliedRule, places: PartPlaces) -> bool:
    """Whether the axes of a part that are iterated have positions that hold no element."""
    if covers_once(rule, places, places.coordinates):
        return False
    axes = set(places.new_vars)
    above = {parent for axis in axes for parent in axis.ancestors}
    leaves = axes - above
    return len(leaves) > 1 or any(
        axis.kind != "sparse_variable" or not axes.issuperset(axis.ancestors) for axis in leaves
    )


class PartContext:
    """What a check knows of the rest of the program.

    Args:
        whole: the iteration as it was.
        parts: how many parts it has.
        elsewhere: the buffers that other iterations read.
    """

    def __init__(self, whole: SparseIteration, parts: int, elsewhere: set[Buffer]) -> None:
        self.whole = whole
        self.parts = parts
        self.elsewhere = elsewhere


def check_part(made: PartIteration, context: PartContext) -> None:
    """Refuse an iteration over a part that may not do what the iteration does for its elements."""
    _Check(made, context).check()


class _Check:
    """The check of one iteration, without those inside."""

    def __init__(self, made: PartIteration, context: PartContext) -> None:
        self.made = made
        self.rule = made.rule
        self.context = context
        self.padding = has_padding(made.rule, made.places)
        self.own = {new: old for old, new in made.rule.buffers.items()}
        self.stmts = list(_inside(made.stmt.body))
        self.values = _named(self.stmts)
        self.stores = [stmt for stmt in self.stmts if isinstance(stmt, BufferStore)]
        init = made.stmt.init
        self.starts = [] if init is None else collect(init, BufferStore)

    def check(self) -> None:
        if self.made.nested:
            self._check_nested()
        for stmt in (*self.stmts, *self.starts):
            self._check_accesses(stmt)
        for store in (*self.stores, *self.starts):
            if store.buffer in self.own:
                self._check_own(store)
        for store in self.stores:
            if store.buffer not in self.own:
                self._check_other(store)
        for nested in self.made.nested:
            _Check(nested, self.context).check()

    def _refuse(self, why: str, hint: str | None = None) -> UnsupportedError:
        iteration, name = self.context.whole.name, self.rule.name
        return UnsupportedError(f"iteration {iteration!r} over part {name!r}: {why}", hint=hint)

    def _check_nested(self) -> None:
        if self.context.parts > 1:
            raise self._refuse("has iterations inside, which would not be done part after part")
        if not covers_once(self.rule, self.made.places, self.made.places.coordinates):
            raise self._refuse(
                "has iterations inside, and may run over a coordinate of the outer ones twice"
            )

    # ------------------------------------------------------------------------ accesses

    def _check_accesses(self, stmt: Stmt) -> None:
        """Elements of the part are those at the place where the iteration stands."""
        for buffer, indices in _accesses(stmt):
            if not isinstance(buffer, SparseBuffer) or buffer not in self.own:
                continue
            if not self._is_here(buffer, indices):
                self._check_elsewhere(buffer)
        if not all(map(is_pure, stmt_exprs(stmt))):
            raise self._refuse(f"has an effect that is no store: {first_line(stmt)}")

    def _is_here(self, buffer: SparseBuffer, indices: tuple[Expr, ...]) -> bool:
        new_vars: Mapping[Axis, Var] = self.made.places.new_vars
        return all(new_vars.get(a) is i for a, i in zip(buffer.axes, indices, strict=True))

    def _check_elsewhere(self, buffer: SparseBuffer) -> None:
        old = self.own[buffer].name
        what = f"accesses {old!r} at other coordinates than those it runs over"
        if self.context.parts > 1:
            raise self._refuse(f"{what}; the element may be in any part")
        if any(axis.kind == SPARSE_FIXED for axis in buffer.axes):
            raise self._refuse(f"{what}, and padding is not in the order that a search needs")
        places = self.made.places
        whole = set(self.rule.part.mapped) <= set(places.new_vars)
        if not whole and not covers_once(self.rule, places, places.coordinates):
            raise self._refuse(f"{what}, and may run over a coordinate twice")
        if not _is_inverse(self.rule, places):
            raise self._refuse(f"{what}, which idx_map does not tell: it is not the inverse")

    # ------------------------------------------------------------------------ stores

    def _check_own(self, store: BufferStore) -> None:
        """A store to a part: padding must stay what it is, where anything reads it."""
        buffer = store.buffer
        if not isinstance(buffer, SparseBuffer) or not self.padding:
            return
        old = self.own[buffer]
        left = self._padded(self._value(store))
        if left is BufferLoad(buffer, store.indices) or left is buffer.default:
            return
        others = [self._value(other) for other in self.stores if other.buffer is not buffer]
        if old in self.context.elsewhere or any(_loads(other, buffer) for other in others):
            raise self._refuse(
                f"padding of {old.name!r} gets values that are read again: {first_line(store)}"
            )

    def _check_other(self, store: BufferStore) -> None:
        """A store to a buffer that is not rewritten."""
        name, value = store.buffer.name, self._value(store)
        target = BufferLoad(store.buffer, store.indices)
        kind = update_kind(value, target)
        if self._is_read_but_by_updates(store.buffer, kind):
            raise self._refuse(f"{name!r} is read while it is computed")
        if kind is not None:
            if self.padding and self._padded(value) is not target:
                raise self._refuse(
                    f"padding would change {name!r}: {first_line(store)}",
                    "a default_value of the format that changes nothing, or one without padding",
                )
            return
        if self.padding:
            raise self._refuse(
                f"padding would be stored to {name!r}: {first_line(store)}",
                f"rewrite {name!r} too",
            )
        here = self.made.places.coordinates.values()
        if not all(any(index is at for index in store.indices) for at in here):
            raise self._refuse(
                f"an element of {name!r} may be stored to twice: {first_line(store)}"
            )

    def _is_read_but_by_updates(self, buffer: Buffer, kind: type[BinaryOp] | None) -> bool:
        """Whether a buffer is read other than where it is updated in this way."""
        exprs: list[Expr] = []
        for stmt in self.stmts:
            if isinstance(stmt, BufferStore):
                exprs += stmt.indices
                target = BufferLoad(stmt.buffer, stmt.indices)
                is_own = stmt.buffer is buffer and kind is not None
                if not (is_own and update_kind(self._value(stmt), target) is kind):
                    exprs.append(stmt.value)
            elif not isinstance(stmt, LetStmt):
                exprs += stmt_exprs(stmt)
        return any(_loads(substitute(expr, self.values), buffer) for expr in exprs)

    def _value(self, store: BufferStore) -> Expr:
        return substitute(store.value, self.values)

    def _padded(self, value: Expr) -> Expr:
        return in_padding(value, self._default_of)

    def _default_of(self, load: BufferLoad) -> Expr | None:
        buffer = load.buffer
        if not isinstance(buffer, SparseBuffer) or buffer not in self.own:
            return None
        return buffer.default if self._is_here(buffer, load.indices) else None


def _is_inverse(rule: AppliedRule, places: PartPlaces) -> bool:
    """Whether `idx_map` gives back all new coordinates."""
    part, analyzer = rule.part, Analyzer(places.domains)
    new = [places.new_vars.get(axis, Var(axis.name, axis.idtype)) for axis in part.mapped]
    for var, axis in zip(new, part.mapped, strict=True):
        analyzer.bind(var, Range(const(0, var.dtype), axis.length.astype(var.dtype)))
    old = part.inv_idx_map.map_indices(new, analyzer)
    found = part.idx_map.map_indices(old, analyzer)
    return all(analyzer.can_prove_equal(a, b) for a, b in zip(found, new, strict=True))


def _inside(stmt: Stmt) -> Iterator[Stmt]:
    """A statement and those in it, without what is in nested iterations."""
    yield stmt
    if not isinstance(stmt, SparseIteration):
        for child in stmt_children(stmt):
            yield from _inside(child)


def _named(stmts: Iterable[Stmt]) -> dict[Var, Expr]:
    """The values of variables that `let` statements bind."""
    found: dict[Var, Expr] = {}
    for stmt in stmts:
        if isinstance(stmt, LetStmt):
            found[stmt.var] = substitute(stmt.value, found)
    return found


def _accesses(stmt: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """What a statement itself stores to and loads."""
    if isinstance(stmt, BufferStore):
        yield stmt.buffer, stmt.indices
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, BufferLoad):
                yield part.buffer, part.indices


def _loads(expr: Expr, buffer: Buffer) -> bool:
    return any(isinstance(part, BufferLoad) and part.buffer is buffer for part in post_order(expr))
