"""`tvm.arith` as scripts for TVM use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import arith, te, tir
from tileloom.compat.tvm.ir import Range, assert_structural_equal
from tileloom.expr import Var


@pytest.fixture
def analyzer() -> arith.Analyzer:
    return tvm.arith.Analyzer()


def test_simplify_under_bindings(analyzer: arith.Analyzer) -> None:
    x, y = te.var("x"), te.var("y")
    analyzer.bind(x, Range(0, 8))
    analyzer.bind(y, Range.from_min_extent(0, 4))
    assert_structural_equal(analyzer.simplify((x * 4 + y) // 4), x)
    assert_structural_equal(analyzer.rewrite_simplify(tir.floormod(x * 4 + y, 4)), y)
    assert_structural_equal(analyzer.canonical_simplify(x * 2 + y + x * 3 - y), x * 5)
    assert analyzer.can_prove(x * 4 + y < 32)
    assert not analyzer.can_prove(x * 4 + y < 31)
    assert analyzer.can_prove_equal(x + y, y + x)
    assert analyzer.can_prove_greater_equal(x, 0)
    assert analyzer.can_prove_less(y, 4)
    assert not analyzer.can_prove_less(y, 3)


def test_bind_to_an_expression(analyzer: arith.Analyzer) -> None:
    x, y = te.var("x"), te.var("y")
    analyzer.bind(x, y * 2 + 1)
    assert analyzer.simplify(tir.floormod(x, 2)) == 1
    assert analyzer.modular_set(x).coeff == 2
    assert analyzer.modular_set(x).base == 1


def test_constraint_scope_ends(analyzer: arith.Analyzer) -> None:
    x = te.var("x", "int64")
    with analyzer.constraint_scope(x >= 3):
        assert analyzer.const_int_bound(x).min_value == 3
        with analyzer.constraint_scope(tir.floormod(x, 4) == 1):
            found = analyzer.modular_set(x)
            assert (found.coeff, found.base) == (4, 1)
        assert analyzer.can_prove(x + 1 > 3, tvm.arith.ProofStrength.SYMBOLIC_BOUND)
    bound = analyzer.const_int_bound(x)
    assert bound.min_value == arith.ConstIntBound.NEG_INF
    assert bound.max_value == arith.ConstIntBound.POS_INF
    assert analyzer.modular_set(x).coeff == 1


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (lambda x, y: x + y, 0, 25),
        (lambda x, y: x - y, -15, 10),
        (lambda x, y: x * y, 0, 150),
        (lambda x, y: tir.floordiv(x, 3), 0, 3),
        (lambda x, y: tir.floormod(x, 4), 0, 3),
        (lambda x, y: tir.max(x, 5), 5, 10),
        (lambda x, y: tir.Select(x > 1, y, y + 1), 0, 16),
        (lambda x, y: x >> 1, 0, 5),
    ],
)
def test_const_int_bound(
    analyzer: arith.Analyzer, make: Callable[..., Any], low: int, high: int
) -> None:
    x, y = te.var("x", dtype="int64"), te.var("y", dtype="int64")
    analyzer.update(x, arith.ConstIntBound(0, 10))
    analyzer.update(y, arith.ConstIntBound(0, 15))
    bound = analyzer.const_int_bound(make(x, y))
    assert (bound.min_value, bound.max_value) == (low, high)


def test_update_overrides(analyzer: arith.Analyzer) -> None:
    x = te.var("x", "int64")
    analyzer.update(x, arith.ConstIntBound(0, 3))
    analyzer.update(x, arith.ConstIntBound(-5, 20), override=True)
    assert analyzer.const_int_bound(x).max_value == 20
    analyzer.update(x, arith.ModularSet(8, 3))
    assert analyzer.modular_set(x + 1).base == 4


def test_int_set(analyzer: arith.Analyzer) -> None:
    x, y = te.var("x"), te.var("y")
    found = analyzer.int_set(x * 2 + y, {x: Range(0, 5)})
    assert analyzer.can_prove_equal(found.min_value, y)
    assert analyzer.can_prove_equal(found.max_value, y + 8)
    domain = {x: arith.IntervalSet(-2, arith.int_set.pos_inf())}
    assert analyzer.int_set(x + 1, domain).max_value is arith.int_set.pos_inf()
    assert arith.IntervalSet(3, 2).is_nothing()
    whole = arith.IntervalSet(arith.int_set.neg_inf(), arith.int_set.pos_inf())
    assert whole.is_everything()
    vector: Any = arith.IntSet.vector(tir.Ramp(0, 2, 4))
    assert (int(vector.min_value), int(vector.max_value)) == (0, 6)


def domains(*extents: int) -> tuple[list[Var], dict[Var, Any]]:
    names = "xyzw"
    variables = [te.var(name) for name in names[: len(extents)]]
    return variables, {v: Range(0, n) for v, n in zip(variables, extents)}


def test_detect_iter_map_accepts_a_fusion() -> None:
    (x, y, z), iters = domains(3, 4, 5)
    found = tvm.arith.detect_iter_map([y, x * 5 + z], iters)
    assert len(found.indices) == 2
    assert not found.errors
    assert found.indices[1].args[0].source.extent == 15
    back = arith.normalize_iter_map_to_expr(found.indices[1])
    assert_structural_equal(back, x * 5 + z)
    inverse = arith.inverse_affine_iter_map(
        arith.detect_iter_map([y, x * 5 + z], iters, check_level="bijective").indices,
        [te.var("a"), te.var("b")],
    )
    assert set(inverse) == {x, y, z}


@pytest.mark.parametrize("level", ["bijective", "surjective", arith.IterMapLevel.Surjective])
def test_detect_iter_map_refuses_overlaps(level: str | arith.IterMapLevel) -> None:
    (x, y), iters = domains(8, 4)
    found = arith.detect_iter_map([x, x + y], iters, check_level=level)
    assert list(found.indices) == []
    assert found.errors


def test_bijective_is_more_than_surjective() -> None:
    (x, _y), iters = domains(8, 4)
    level = arith.IterMapLevel
    assert arith.detect_iter_map([x // 2], iters, check_level=level.Surjective).indices
    assert not arith.detect_iter_map([x // 2], iters, check_level=level.Bijective).indices
    assert level.from_str("bijective") is level.Bijective
    with pytest.raises(ValueError, match="unknown check level"):
        level.from_str("exact")


def test_iter_map_with_a_predicate() -> None:
    (i, j), iters = domains(4, 16)
    found = arith.detect_iter_map([i * 16 + j], iters, predicate=i * 16 + j < 50)
    assert found.indices[0].args[0].extent == 50
    (simple,) = arith.iter_map_simplify([(i * 16 + j) // 16], iters)
    assert_structural_equal(simple, i)


def test_normalize_to_iter_sum() -> None:
    (x, y), iters = domains(8, 4)
    found = arith.normalize_to_iter_sum(x * 4 + y + 3, iters)
    assert found.base == 3
    mark = arith.IterMark(x, 8)
    made = arith.IterSumExpr([arith.IterSplitExpr(mark, scale=2)], 1)
    assert isinstance(made, arith.IterSumExpr)
    assert_structural_equal(arith.normalize_iter_map_to_expr(made), x * 2 + 1)


def test_subspace_divide() -> None:
    (x, y, z), iters = domains(3, 4, 8)
    found: Any = arith.subspace_divide([z * 12 + y * 3 + x], iters, [x])
    (outer, inner), (outer_predicate, inner_predicate) = found
    assert_structural_equal(arith.normalize_iter_map_to_expr(outer.source), z * 4 + y)
    assert_structural_equal(arith.normalize_iter_map_to_expr(inner.source), x)
    assert (int(outer.extent), int(inner.extent)) == (32, 3)
    assert bool(outer_predicate.source)
    assert bool(inner_predicate.source)
    assert arith.subspace_divide([x * y], iters, [x]) == []


def test_ranges() -> None:
    assert (int(Range(3, 10).min), int(Range(3, 10).extent)) == (3, 7)
    assert int(Range(12).extent) == 12
    n = te.var("n")
    assert_structural_equal(Range(n, n + 4).extent, tir.const(4))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(AttributeError, match=r"tvm\.arith\.solve_linear_equations of TVM"):
        _ = arith.solve_linear_equations


def test_linear_equations() -> None:
    x, y, n = te.var("x"), te.var("y"), te.var("n")
    a, b, rest = arith.detect_linear_equation(x * 4 + y * n + n + 2, [x, y])
    assert a == 4
    assert_structural_equal([b, rest], [n, n + 2])
    assert arith.detect_linear_equation(x * y, [x, y]) == []
    assert arith.detect_linear_equation(tir.floordiv(x, 2), [x]) == []


def test_regions() -> None:
    (x, y), iters = domains(8, 4)
    region = [Range.from_min_extent(x * 4 + y, 1)]
    for bound in ("lower", "strict", "upper"):
        estimate = getattr(arith, f"estimate_region_{bound}_bound")
        (found,) = estimate(region, iters, True)
        assert (int(found.min_value), int(found.max_value)) == (0, 31)
    gaps = [Range.from_min_extent(x * 4, 1)]
    assert arith.estimate_region_lower_bound(gaps, iters, True) is None
    (upper,) = arith.estimate_region_upper_bound(gaps, iters, tir.const(True))
    assert int(upper.max_value) == 28


def test_equal_expressions_of_tests() -> None:
    x = tir.Var("x", "int32")
    tvm.testing.assert_prim_expr_equal(x * 2 + x, 3 * x)
    with pytest.raises(ValueError, match="are not equal"):
        tvm.testing.assert_prim_expr_equal(x * 2, 3 * x)
