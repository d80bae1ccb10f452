"""Whether the iterations of a loop store into elements of their own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from ...expr import Expr, IntImm, Var, free_vars, has_load, substitute
from ...expr.linear import Linear
from ...tir import For, LetStmt, pre_order
from ..analysis.linear import linear
from ..analysis.thread_places import Array, values_of

_TRIED = 1 << 16  # iterations whose elements are listed


class StoredPlaces:
    """The elements that the iterations of a loop store into, by the indices of its stores.

    >>> from tileloom.expr import Var, const
    >>> from tileloom.tir import Evaluate
    >>> i = Var("i")
    >>> places = StoredPlaces(For(i, const(0), const(8), "serial", Evaluate(const(0))))
    >>> places.apart(i * 2), places.apart(i // 2), places.cross([i, i + 1])
    (True, False, True)
    """

    def __init__(self, loop: For) -> None:
        self.var = loop.loop_var
        self.range = loop.min, loop.extent
        self.names: dict[Var, Expr] = {}
        for stmt in pre_order(loop.body):
            if isinstance(stmt, LetStmt):
                self.names[stmt.var] = substitute(stmt.value, self.names)

    def apart(self, index: Expr) -> bool:
        """Whether no two iterations store into one element."""
        form = self._form(index)
        moving = self._moving(form)
        if moving == [self.var]:
            return True
        where = None if not moving else self._listed(form)
        return where is not None and len(np.unique(where)) == where.size

    def cross(self, indices: Iterable[Expr]) -> bool:
        """Whether one iteration surely stores where another does by another of the indices."""
        forms = [self._form(index) for index in indices]
        return any(self._cross(a, b) for a, b in combinations(forms, 2))

    def _cross(self, a: Linear, b: Linear) -> bool:
        gap, step = a.plus(b, -1), a.terms.get(self.var, 0)
        if gap.terms or self._moving(a) != [self.var] or gap.const % step:
            return False
        away, extent = abs(gap.const // step), self.range[1]
        return away > 0 and (not isinstance(extent, IntImm) or away < extent.value)

    def _form(self, index: Expr) -> Linear:
        return linear(substitute(index, self.names) if self.names else index)

    def _moving(self, form: Linear) -> list[Expr]:
        return [atom for atom in form.terms if self.var in free_vars(atom) or has_load(atom)]

    def _listed(self, form: Linear) -> Array | None:
        """The elements of all iterations, but for what is the same for all; None if not known."""
        low, extent = self.range
        if not isinstance(low, IntImm) or not isinstance(extent, IntImm) or extent.value > _TRIED:
            return None
        env: dict[Expr, Array] = {self.var: np.arange(low.value, low.value + extent.value)}
        total = np.zeros(extent.value, np.int64)
        for atom in self._moving(form):
            values = None if has_load(atom) else values_of(atom, env)
            if values is None:
                return None
            total = total + form.terms[atom] * values
        return total
