"""Symbolic extents: what is proven, what becomes a guard, and what is followed both ways."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest

from tileloom.base import dtype
from tileloom.base.polynomial import value_of
from tileloom.driver import plan_graph
from tileloom.expr import IntImm, Var
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.space import Space
from tileloom.graph.symbols import (
    at_least,
    divisor_chain,
    is_symbolic,
    larger,
    polynomial_of,
    smaller,
    symbol,
)
from tileloom.target import Target


@pytest.fixture
def space() -> Space:
    return Space()


def sizes(space: Space) -> tuple[Any, Any]:
    return symbol(space, "b", 1, 64, 8), symbol(space, "s", 2, 4096, 37)


def test_arithmetic_gives_plain_numbers_where_names_cancel(space: Space) -> None:
    b, s = sizes(space)
    assert type((b * s * 4) // (s * b)) is int
    assert divmod(b * s, s) == (b, 0)
    assert (b * s) // s is not b
    assert (b * s) // s == b
    assert hash(b * s) == hash(s * b)
    assert {b: 1}[(b * 2) // 2] == 1
    assert not space.guards


def test_what_bounds_prove_is_no_guard(space: Space) -> None:
    b, s = sizes(space)
    assert s >= 2
    assert not b > 64
    assert b * s >= s
    assert b * 64 + 1 > 64
    assert s
    assert not space.guards


def test_different_formulas_are_different_without_a_guard(space: Space) -> None:
    b, s = sizes(space)
    assert b != s
    assert b != 1
    assert b * s > s
    assert s < s * b * 4
    assert not b * s <= s
    assert not space.guards


def test_an_order_that_depends_is_a_guard(space: Space) -> None:
    b, _ = sizes(space)
    assert b < 16
    assert [str(guard) for guard in space.guards] == ["-b + 15"]
    assert b < 20  # follows
    assert not b >= 16
    assert len(space.guards) == 1


def test_a_value_that_is_used_is_a_guard(space: Space) -> None:
    b, _ = sizes(space)
    assert list(range(b)) == list(range(8))
    assert float(b) == 8.0
    assert {str(guard) for guard in space.guards} == {"b - 8", "-b + 8"}


def test_least_and_greatest_decide_nothing(space: Space) -> None:
    b, s = sizes(space)
    assert smaller(b, 64) is b
    assert larger(s, 1) is s
    assert str(smaller(b, 5)) == "min(b, 5)"
    assert not space.guards


def test_chains_of_divisors(space: Space) -> None:
    b, s = sizes(space)
    assert divisor_chain({b * s * 64, 1, 64, s * 64}) == [1, 64, s * 64, b * s * 64]
    assert divisor_chain({b, s}) is None
    assert not space.guards


def test_expressions_remember_their_extents(space: Space) -> None:
    from tileloom import compute as te

    b, s = sizes(space)
    tensor = te.placeholder((b, s * 2, 3))
    assert isinstance(tensor.shape[0], Var)
    assert isinstance(tensor.shape[2], IntImm)
    assert tensor.static_shape == (b, s * 2, 3)


# ---------------------------------------------------------------------------- both ways


def test_variants_cover_all_sizes_exactly_once(space: Space) -> None:
    b, s = sizes(space)

    def plan() -> tuple[bool, ...]:
        if b * s >= 1000:
            return (True, s >= 500)
        return (False, b > 4, s > 100)

    found = space.variants(plan)
    assert not space.guards
    for names in itertools.product((1, 2, 4, 5, 63, 64), (2, 100, 101, 499, 500, 4096)):
        values = dict(zip(("b", "s"), names, strict=True))
        right = [made for way, made in found if all(p.value(values) >= 0 for p in way)]
        assert len(right) == 1, (values, right)
        big = names[0] * names[1] >= 1000
        want = (True, names[1] >= 500) if big else (False, names[0] > 4, names[1] > 100)
        assert right[0] == want, values


def test_what_one_answer_implies_is_not_asked(space: Space) -> None:
    b, s = sizes(space)
    found = space.variants(lambda: (s < 64, s < 128, b * s >= 100 * 64))
    # s < 64 answers s < 128; b * s >= 6400 then cannot be, as b is at most 64.
    assert sorted(made for _, made in found) == [
        (False, False, False),
        (False, False, True),
        (False, True, False),
        (False, True, True),
        (True, True, False),
    ]


def test_what_is_said_of_powers_is_said_of_the_size(space: Space) -> None:
    _, s = sizes(space)
    found = space.variants(lambda: (s * s >= 256 * 256, s >= 256, s < 300, s * s * s < 300**3))
    assert sorted(made for _, made in found) == [
        (False, False, True, True),
        (True, True, False, False),
        (True, True, True, True),
    ]


def test_too_many_variants_end_in_guards(space: Space) -> None:
    b, s = sizes(space)

    def plan() -> list[bool]:
        return [b * k + s < 100 * k for k in range(1, 9)]

    found = space.variants(plan, limit=4)
    assert len(found) <= 4
    assert space.guards


# ---------------------------------------------------------------------------- programs


def test_buckets_of_a_program(space: Space) -> None:
    b, s = sizes(space)
    x = Tensor(TensorType((b, s), dtype("float32")), "x")
    program = plan_graph(Graph([x], [ops.sum(x, 0)]), Target.host())
    assert not space.guards
    (buckets,) = program.buckets.values()
    assert len(buckets) > 1
    for b_, s_ in itertools.product((1, 3, 64), (2, 127, 128, 2048, 4096)):
        values = {"b": b_, "s": s_}
        right = [k for k, way in buckets if all(p.value(values) >= 0 for p in way)]
        assert right, values


def test_constants_prune_buckets() -> None:
    counts = []
    for low, high in ((1, 4096), (2048, 2048 + 64)):
        space = Space()
        b, s = symbol(space, "b", 64, 128, 64), symbol(space, "s", low, high, low)
        x = Tensor(TensorType((b, s), dtype("float32")), "x")
        program = plan_graph(Graph([x], [ops.sum(x, 0)]), Target.host())
        counts.append(len(next(iter(program.buckets.values()))))
    assert counts[1] < counts[0]


def test_a_size_with_one_value_is_a_number(space: Space) -> None:
    assert not is_symbolic(symbol(space, "n", 5, 5, 5))


def test_what_a_quotient_says_of_its_dividend(space: Space) -> None:
    batch, length = sizes(space)
    few = 3 - (batch * length) // 64
    with space.assuming(polynomial_of(few)):
        assert at_least(batch * length, 256) is False
        assert at_least(-3 * batch * length, -3 * 255) is True
        assert at_least(batch * length, 255) is None


OPERATORS: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "divmod": divmod, "max": larger, "min": smaller,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_arithmetic_is_that_of_the_numbers(space: Space, name: str) -> None:
    b, s = sizes(space)
    function = OPERATORS[name]
    for at in ({"b": 8, "s": 37}, {"b": 3, "s": 2}, {"b": 64, "s": 4095}):
        for x, y in ((b, s), (s, b), (b, 5), (5, b), (s * b + 3, s), (100, s), (s, 7), (7, s)):
            found = function(x, y)
            wanted = function(*(n if isinstance(n, int) and not is_symbolic(n)
                                else value_of(polynomial_of(n), at) for n in (x, y)))  # fmt: skip
            parts = found if isinstance(found, tuple) else (found,)
            plain = wanted if isinstance(wanted, tuple) else (wanted,)
            holds = all(guard.value(at) >= 0 for guard in space.guards)
            for part, number in zip(parts, plain, strict=True):
                assert not holds or value_of(polynomial_of(part), at) == number
    assert value_of(polynomial_of(-b), {"b": 8, "s": 37}) == -8 and +b == b


def test_what_is_no_number_is_not_compared(space: Space) -> None:
    b, _ = sizes(space)
    assert b != "b"
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        x: Any
        y: Any
        for x, y in ((b, "b"), ("b", b), (b, None)):
            with pytest.raises(TypeError):
                compare(x, y)
    assert not space.guards
