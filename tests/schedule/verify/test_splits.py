"""Fused loops that are split again: the same range, in a simpler form."""

from __future__ import annotations

import random

import pytest

from tileloom import Schedule, te
from tileloom.expr import Expr, Var
from tileloom.schedule.integer_sets import Integers
from tileloom.schedule.verify import verify_program
from tileloom.schedule.verify.splits import split_variables

pytest.importorskip("islpy")

F, G = Var("f"), Var("g")


def ranges(values: list[Expr], f: int, g: int) -> tuple[object, object]:
    """What values reach for all f and g, split and as they are."""
    integers = Integers()
    space = integers.space([F, G])
    box = integers.set(f"{{ [f, g] : 0 <= f < {f} and 0 <= g < {g} }}")
    made = space.map([space.number(value) for value in values]).intersect_domain(box)
    return split_variables(integers, made, [F, G], values).range(), made.range()


@pytest.mark.parametrize(
    ("values", "f", "g"),
    [
        ([F // 4 + G * 8, F % 4], 32, 5),
        ([F // 4 + G * 8, F % 4], 31, 5),  # the last quotient has fewer remainders
        ([F % 32 // 4, F % 4 + G], 96, 2),
        ([F // 2 % 3, F // 6, F % 2 + G % 2 * 2, G // 2], 17, 4),
        ([F // 4 + F % 6, G], 24, 2),  # neither number divides the other
        ([(F + G) // 4, F % 4], 12, 7),  # a sum is not split
        ([F, G], 5, 3),
        ([(0 - F) // 4, F % 4], 10, 1),
        ([F % 1, F // 1, F // 4], 10, 1),
    ],
)
def test_the_same_range(values: list[Expr], f: int, g: int) -> None:
    split, plain = ranges(values, f, g)
    assert split.is_equal(plain)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(20))
def test_random_quotients(seed: int) -> None:
    rng = random.Random(seed)

    def value() -> Expr:
        found: Expr = rng.choice([F, G])
        for _ in range(rng.randrange(3)):
            by = rng.choice([1, 2, 3, 4, 6, 8])
            found = found // by if rng.random() < 0.5 else found % by
        return found

    values = [value() + value() * rng.randrange(-2, 3) for _ in range(2)]
    split, plain = ranges(values, rng.randrange(1, 30), rng.randrange(1, 30))
    assert split.is_equal(plain)  # type: ignore[attr-defined]


def test_fused_loops_cover_a_result_with_little_work() -> None:
    """Tiles in the order of a tensor core's: tried value by value, they take millions of steps."""
    a = te.placeholder((16000, 256), name="A")
    b = te.compute((16000, 256), lambda i, j: a[i, j] + 1.0, name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func)
    i0, i1, i2, i3, i4 = sch.split(sch.get_loops("B")[0], [125, 2, 4, 2, 8])
    j0, j1, j2, j3, j4 = sch.split(sch.get_loops("B")[-1], [4, 4, 2, 4, 2])
    sch.reorder(i0, i1, j0, i4, j3, i2, j1, i3, j2, j4)
    sch.fuse(i1, j0)
    sch.fuse(i4, j3)
    report = verify_program(sch.mod["main"], original=func, max_operations=1_000_000)
    assert report.ok, report
