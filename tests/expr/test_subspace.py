"""Bindings divided into outer and inner parts: each part runs over exactly its range."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tileloom.expr import (
    Analyzer,
    Expr,
    Range,
    SizeVar,
    Var,
    cast,
    const,
    evaluate,
    free_vars,
    intrin,
    subspace_divide,
)

I, J, K, L = VARIABLES = [Var(name) for name in "ijkl"]


def points(dom_map: Any, predicate: Any) -> list[dict[Var, int]]:
    ranges = [range(int(r.min), int(r.min) + int(r.extent)) for r in dom_map.values()]
    found = (dict(zip(dom_map, values, strict=True)) for values in itertools.product(*ranges))
    return [point for point in found if predicate is True or evaluate(predicate, point)]


def check(
    bindings: Sequence[Any], dom_map: dict[Var, Range], inner: Sequence[Var], predicate: Any = True
) -> Any:
    """The division, which must be there, with every part and extent as enumeration finds it."""
    found: Any = subspace_divide(bindings, dom_map, inner, predicate)
    assert found, (bindings, dom_map, inner, predicate, found.errors)
    where = points(dom_map, predicate)
    assert free_vars(found.outer_predicate).isdisjoint(inner)
    assert free_vars(found.inner_predicate) <= set(inner)
    for point in points(dom_map, True):
        both = evaluate(found.outer_predicate, point) and evaluate(found.inner_predicate, point)
        assert bool(both) == (predicate is True or bool(evaluate(predicate, point)))
    for binding, part in zip(bindings, found.divisions, strict=True):
        size = int(part.inner_extent)
        assert free_vars(part.outer).isdisjoint(inner)
        assert free_vars(part.inner) <= set(inner)
        outer = [evaluate(part.outer, point) for point in where]
        low = [evaluate(part.inner, point) for point in where]
        wanted = [evaluate(binding, point) for point in where]
        assert [a * size + b for a, b in zip(outer, low)] == wanted, (binding, part)
        for values, extent, start in (
            (outer, part.outer_extent, part.outer_start),
            (low, part.inner_extent, part.inner_start),
        ):
            first = 0 if start is None else int(start)
            assert min(values) == first, (binding, part, start)
            assert max(values) - first + 1 == int(extent), (binding, part)
        kinds = {e.dtype for e in (part.outer, part.outer_extent, part.inner, part.inner_extent)}
        assert kinds == {binding.dtype}, (binding, part)
    return found


def random_rows(pick: random.Random) -> tuple[Any, ...]:
    """Bindings that have rows: sums of loops of mixed radix, of which the last ones are inner."""
    kind = pick.choice(["int32", "int32", "int64"])
    dom_map: dict[Var, Range] = {}
    bindings, inner, conditions = [], [], []
    for group in range(pick.randint(1, 2)):
        extents = [pick.randint(1, 4) for _ in range(pick.randint(1, 3))]
        loops = [Var(f"v{group}{n}", kind) for n in range(len(extents))]
        first = pick.choice([0, 0, 2])
        for loop, extent in zip(loops, extents):
            start = first if loop is loops[0] else 0
            dom_map[loop] = Range(const(start, kind), const(extent, kind))
        below = pick.randint(0, len(loops))
        within = loops[below:]
        inner += within
        total, row = const(0, kind), 1
        for loop, extent in zip(loops, extents):
            total = total * extent + loop
            row *= extent if loop in within else 1
        # What is outer or inner alone may have a stride and start anywhere, rows start at a row.
        scale = pick.choice([1, 3]) if below in (0, len(loops)) else 1
        bindings.append(total * scale + pick.choice([0, row, 2 * row]))
        if pick.random() < 0.3 and below != 0 and extents[0] > 1:
            bound = pick.randint(1, extents[0])
            conditions.append(loops[0] < first + bound)
        if pick.random() < 0.3 and below != 0 and extents[0] > 1:
            conditions.append(loops[0] >= first + pick.randint(0, extents[0] - 1))
    predicate: Any = intrin.all(*conditions) if conditions else True
    return bindings, dom_map, inner, predicate


def test_rows_of_random_sums_are_found() -> None:
    tried = 0
    for seed in range(150):
        bindings, dom_map, inner, predicate = random_rows(random.Random(seed))
        if points(dom_map, predicate):
            check(bindings, dom_map, inner, predicate)
            tried += 1
    assert tried > 100


def domains(*extents: int, start: int = 0) -> dict[Var, Range]:
    return {v: Range(start, e) for v, e in zip(VARIABLES, extents)}


@pytest.mark.parametrize(
    ("bindings", "extents", "inner", "predicate"),
    [
        ([const(5) + I * 0], (4,), [], True),
        ([const(5) + I * 0], (4,), [I], True),
        ([I * 3 + 1], (4,), [], True),
        ([I * 3 + 1], (4,), [I], True),
        ([7 - I], (8,), [], True),
        ([7 - I], (8,), [I], True),
        ([9 - I * 2], (4,), [], True),
        ([9 - I * 2], (4,), [I], True),
        ([I // 2], (8,), [], True),
        ([I // 3, J % 3], (8, 7), [J], True),
        ([I // 2 % 3], (12,), [I], True),
        ([I * 4 + J, K * 2 + L], (3, 4, 2, 2), [J, L], True),
        ([I * 4 + J, K * 2 + L], (3, 4, 2, 2), [J], True),
        ([I * 12 + J * 4 + K + 24], (2, 3, 4), [J, K], True),
        ([I * 12 + J * 4 + K + 4], (2, 3, 4), [K], True),
        ([I, J], (4, 5), [J], intrin.all(I < 3, J < 2)),
        ([I, J], (4, 5), [J], intrin.all(I >= 1, J >= 2, J < 4)),
        ([J, I], (4, 5), [J], intrin.all(I >= 1, I < 3)),
        ([I * 4 + J], (4, 4), [J], intrin.all(I >= 1, I < 3)),
        ([I * 4 + J, K], (4, 4, 5), [J, K], intrin.all(I < 3, K < 2)),
        ([(I * 4 + J) // 4, J], (3, 4), [J], True),
        ([(I * 8 + J) % 8 + K * 8], (1, 8, 3), [J], True),
        ([(I * 4 + J) * 3 + K], (2, 4, 3), [J, K], True),
        # A condition on a sum makes an iterator of it, which other sums are made of.
        ([(I * 6 + J) * 2 + K], (4, 6, 2), [J, K], I * 6 + J >= 12),
        ([(I * 6 + J) * 3 + K], (4, 6, 3), [J, K], intrin.all(I * 6 + J >= 6, I * 6 + J < 18)),
        ([L * 24 + (I * 6 + J) * 2 + K], (4, 6, 2, 3), [J, K], I * 6 + J >= 12),
        ([L * 24 + (I * 6 + J) * 2 + K + 12], (4, 6, 2, 3), [J, K], I * 6 + J < 12),
        ([(I * 6 + J) * 2 + K], (4, 6, 2), [K], I * 6 + J >= 12),
        ([I * 6 + J], (4, 6), [J], I * 6 + J >= 12),
    ],
    ids=str,
)
def test_bindings_with_rows(
    bindings: list[Expr], extents: tuple[int, ...], inner: list[Var], predicate: Any
) -> None:
    check(bindings, domains(*extents), inner, predicate)


@pytest.mark.parametrize(
    ("bindings", "extents", "inner", "predicate", "reason"),
    [
        ([I * 4 + J + 1], (3, 4), [J], True, "the start 1 of (i * 4 + j) + 1 is no multiple"),
        ([(I * 4 + J) * 2], (3, 4), [J], True, "i * 8 + j * 2 has the stride 2"),
        ([I * 4 + J], (3, 4), [I], True, "interleaved in i * 4 + j"),
        ([I * 6 + J * 2 + K], (2, 3, 2), [J], True, "interleaved in i * 6 + j * 2 + k"),
        ([I * 6 + J * 2 + K], (2, 3, 2), [I, K], True, "interleaved in i * 6 + j * 2"),
        ([I, J], (4, 4), [J], intrin.all(I < 3, I * 4 + J < 9), "bounds"),
        ([I, J, K], (4, 4, 4), [J], I < J, "i + j * -1 counts backwards"),
        ([I * 4 + J], (4, 4), [J], I * 4 + J < 13, "ties outer and inner variables together"),
        ([(I * 4 + J) // 2], (3, 4), [J], True, "a split of outer and inner variables"),
        ([(I * 4 + J) // 2 % 4], (4, 4), [J], True, "a split of outer and inner variables"),
        ([I * 2 + J], (4, 3), [J], True, "the splits of i * 2 + j overlap"),
    ],
    ids=str,
)
def test_bindings_without_rows(
    bindings: list[Expr], extents: tuple[int, ...], inner: list[Var], predicate: Any, reason: str
) -> None:
    found = subspace_divide(bindings, domains(*extents), inner, predicate)
    assert not found
    assert found.divisions == ()
    assert (str(found.outer_predicate), str(found.inner_predicate)) == ("T.bool(True)",) * 2
    assert reason in found.errors[0], found.errors


def test_a_cut_that_leaves_no_whole_rows() -> None:
    """`i * 6 + j` below 15, which is three values of half a row of 4 each."""
    (part,) = check([I * 6 + J], domains(4, 6), [J], intrin.all(I < 3)).divisions
    assert (str(part.outer), int(part.outer_extent)) == ("i", 3)
    known = Analyzer()
    known.bind_bound(N := SizeVar("n"), 1, 100)
    found: Any = subspace_divide(
        [I * N + J], {I: Range(0, 4), J: Range(0, N)}, [J], True, analyzer=known
    )
    assert [(str(d.outer), str(d.outer_extent), str(d.inner), str(d.inner_extent))
            for d in found.divisions] == [("i", "4", "j", "n")]  # fmt: skip


def test_rows_in_a_wider_type() -> None:
    wide = cast("int64", I) * 4 + cast("int64", J)
    (part,) = check([wide], domains(3, 4), [J]).divisions
    assert part.outer.dtype == "int64" and part.inner.dtype == "int64"
