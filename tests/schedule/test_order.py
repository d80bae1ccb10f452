"""Which orders of loops a block may run in, against all iterations one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from typing import Any

import pytest

from schedule.common import parse
from tileloom.expr import Expr, IntImm, IntSet, Var, const, substitute
from tileloom.expr.evaluate import evaluate
from tileloom.schedule.analysis.order import (
    _slope,
    reordering_fault,
    repetition_fault,
    rows_apart,
    start_fault,
)
from tileloom.tir import BlockRealize, For, pre_order

KINDS = {"S": "spatial", "R": "reduce"}


def nest(loops: str, axes: str, where: str = "") -> Any:
    """A block in loops: `i=4 j=2:5` are the loops, `S4=i; R3=j - 2` its variables."""
    lines = []
    for loop in loops.split():
        name, ends = loop.split("=")
        lines.append(f"for {name} in range({ends.replace(':', ', ')}):")
    lines.append('with T.block("B"):')
    depth = len(lines)
    axes_of = [axis.strip().split("=") for axis in axes.split(";")]
    inside = [f"v{k} = T.axis.{KINDS[a[0]]}({a[1:]}, {e})" for k, (a, e) in enumerate(axes_of)]
    inside += [f"T.where({where})"] if where else []
    inside += [f"B[{', '.join(f'v{k}' for k in range(len(axes_of)))}] = 1.0"]
    body = [*lines, *inside]
    shape = "99, " * len(axes_of)
    head = f'@T.prim_func\ndef main(n: T.int32, B: T.Buffer(({shape}), "float32")):\n'
    text = "\n".join("    " * (min(k, depth) + 1) + line for k, line in enumerate(body))
    nodes = list(pre_order(parse(head + text + "\n").body))
    realize = [node for node in nodes if isinstance(node, BlockRealize)][-1]
    return realize, [node for node in nodes if isinstance(node, For)]


def instances(realize: BlockRealize, loops: list[For]) -> Iterator[tuple[list[int], list[int]]]:
    """The values of the loops and of the block's variables, in the order in which they run."""
    ranges = []
    for loop in loops:
        assert isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
        ranges.append(range(loop.min.value, loop.min.value + loop.extent.value))
    for point in product(*ranges):
        known: dict[Var, Expr] = {s.loop_var: const(v) for s, v in zip(loops, point, strict=True)}

        def at(value: Expr, known: dict[Var, Expr] = known) -> int:
            return int(evaluate(substitute(value, known), {}))

        if at(realize.predicate):
            yield list(point), [at(value) for value in realize.iter_values]


REPETITIONS = [
    ("i=4 j=4", 0, "S4=i", "", "loop 'j' only repeats block 'B'"),
    ("i=4 j=1", 0, "S4=i", "", None),
    ("i=1 j=1", 0, "S4=i * 0", "", None),
    ("i=4 j=4", 0, "S16=i * 4 + j", "", None),
    ("i=4 j=4", 0, "S16=i * 3 + j", "", "loops 'i' and 'j' may"),
    ("i=4 j=4", 0, "S16=i * 3 + j", "j < 3", None),
    ("i=4 j=4", 1, "S7=i + j", "", None),
    ("i=4", 0, "S4=i // 2", "", "loop 'i' may run the same instances of block 'B' again"),
    ("i=4", 0, "S4=3 - i", "", None),
    ("i=4", 0, "S4=i; S4=i", "", None),
    ("i=4 j=4", 0, "S4=i; S7=i + j", "", None),
    ("i=3 j=4", 0, "S2=(i * 4 + j) // 6; S6=(i * 4 + j) % 6", "", None),
    ("i=3 j=4", 0, "S3=(i * 4 + j) // 5; S5=(i * 4 + j) % 5", "", None),
    ("i=3 j=4", 1, "S3=(i * 4 + j) // 5; S5=(i * 4 + j) % 5", "", None),
    ("i=3 j=4", 0, "S3=(i * 4 + j) // 5; S5=(i * 4 + j) % 5", "i * 4 + j < 11", None),
    ("i=3 j=4", 0, "S3=(i * 3 + j) // 5; S5=(i * 3 + j) % 5", "", "'i' and 'j' may"),
    ("i=5 j=3", 0, "S3=(i * 3 + j + 1) // 7; S7=(i * 3 + j + 1) % 7", "", None),
    ("i=3 j=4", 0, "S3=i; S4=j", "i * j < 4", None),
    ("i=2:5 j=1:4", 0, "S99=i * 3 + j", "", None),
    ("i=2:5 j=1:4", 0, "S99=i * 2 + j", "", "'i' and 'j' may"),
    ("i=5 j=4 k=3", 0, "S99=i * 12 + j * 3 + k", "", None),
    ("i=5 j=4 k=3", 0, "S99=i * 11 + j * 3 + k", "", "'i' and 'j' and 'k' may"),
    ("i=5 j=4 k=3", 0, "S99=i * 12 + j * 2 + k", "", "'i' and 'j' and 'k' may"),
    ("i=5 j=4 k=3", 1, "S99=i * 12; S12=j * 3 + k", "", None),
    ("i=4 j=4", 1, "S4=j // 2; S2=i", "", "the loop 'j' may"),
    ("i=4 j=4", 0, "S8=(i + j) // 2; S2=(i + j) % 2", "", "'i' and 'j' may"),
    ("h=2 i=5 j=3", 2, "S2=(i * 3 + j) // 8; S16=h * 8 + (i * 3 + j) % 8", "", None),
    ("h=3 i=2 j=3", 1, "S6=1 + (h * h + i * 3 + j) % 6", "", None),
    ("h=3 i=4", 1, "S4=(i - h) % 4", "", None),
    ("h=3 i=2 j=3", 1, "S5=(h * h + i * 3 + j) % 5", "", "'i' and 'j' may"),
    ("h=3 i=2 j=3", 1, "S6=(h * h + i * 2 + j) % 6", "", "'i' and 'j' may"),
    ("h=3 i=2 j=3", 1, "S6=(h * h + i * 3) % 6; S1=j // 3", "", "'i' and 'j' may"),
    ("h=3 i=2 j=3", 1, "S9=j // 2 + (h * h + i * 3 + j) % 6", "", "'i' and 'j' may"),
    # A fused loop that was split elsewhere; the halves of a division by 6 are written differently.
    ("a=6 b=4", 0, "S2=a // 3; S2=(a % 3 * 4 + b) // 6; S6=(a * 4 + b) % 6", "", None),
    ("a=6 b=4", 0, "S2=a // 3; S2=(a % 3 * 4 + b) // 6; S6=(a * 2 + b) % 6", "", "'a' and 'b' may"),
]


@pytest.mark.parametrize(("loops", "outside", "axes", "where", "why"), REPETITIONS)
def test_repetitions(loops: str, outside: int, axes: str, where: str, why: str | None) -> None:
    realize, around = nest(loops, axes, where)
    fault = repetition_fault(realize, around[:outside], around[outside:])
    seen = [(*p[:outside], *values) for p, values in instances(realize, around)]
    if why is None:
        assert fault is None
        assert len(set(seen)) == len(seen)
    else:
        assert fault is not None and why in fault
        assert len(set(seen)) < len(seen)


def test_repetitions_where_sizes_are_not_known() -> None:
    for loops, axes, apart in (
        ("i=n j=4", "Sn=i; S4=j", True),
        ("i=n j=4", "S4*n=i * 4 + j", True),
        ("i=4 j=n", "S4*n=i * n + j", True),
        ("i=n j=4", "S4*n=i * 3 + j", False),
        ("i=4 j=n", "S4*n=i * 3 + j", False),
        ("i=n", "Sn=i * i", False),
        ("i=3 j=n", "S3=(i * n + j) // 5; S5=(i * n + j) % 5", False),
    ):
        realize, around = nest(loops, axes)
        assert (repetition_fault(realize, [], around) is None) == apart, axes


STARTS = [
    ("i=4 k=8", "S4=i; R8=k", "", None),
    ("k=8 i=4", "S4=i; R8=k", "", None),
    ("i=4 k=8", "S4=i; R8=7 - k", "", "'v1' does not begin with its start but at 7 - 0"),
    ("i=4 k=1", "S4=i; R8=k", "", None),
    ("i=4 k=8", "S4=i; R8=k", "k < 5", None),
    ("i=4 k=8", "S4=i; R8=k", "5 > k", None),
    ("i=4 k=8", "S4=i; R8=k", "k >= 2", "k >= 2 may leave out the first iterations"),
    ("i=4 k=8", "S4=i; R8=k", "2 <= k", "2 <= k may leave out"),
    ("i=4 k=8", "S4=i; R8=k", "5 < k", "5 < k may leave out"),
    ("i=4 k=8", "S4=i; R8=k", "i + k < 9 and i > 1", None),
    ("i=4 k=8", "S4=i; R8=k", "i + k < 9 and k > 1", "k > 1 may leave out"),
    ("i=4 k=8", "S4=i; R8=k", "k - i < 3", None),
    ("i=4 k=8", "S4=i; R8=k", "i - k < 3", "i - k < 3 may leave out"),
    ("i=4 k=8", "S4=i; R8=k", "k != 3", "k != 3 may leave out"),
    ("i=4 k=8", "S4=i; R8=k", "i != 3", None),
    ("i=4 k=8", "S4=i; R8=k", "k * k < 9", "k * k < 9 may leave out"),
    ("i=4 k=2:6", "S4=i; R8=k - 2", "", None),
    ("k=12", "S4=k // 3; R3=k % 3", "", None),
    ("k=12", "S4=k % 4; R3=k // 4", "", None),
    ("k=4 l=3", "S4=(k * 3 + l) // 3; R3=(k * 3 + l) % 3", "", None),
    ("l=3 k=4", "S4=(k * 3 + l) // 3; R3=(k * 3 + l) % 3", "", "'l' and 'k' place results and"),
    ("k=4 l=3", "S4=(k * 2 + l) // 3; R3=(k * 2 + l) % 3", "", "'k' and 'l' place results and"),
    ("k=4 l=3 j=5", "S4=(k * 3 + l) // 3; R3=(k * 3 + l) % 3; S5=j", "", None),
    ("k=4 j=5 l=3", "S4=(k * 3 + l) // 3; R3=(k * 3 + l) % 3; R5=j", "", None),
    ("k=4 l=3 j=5", "S9=(k*15 + l*5 + j) // 6; R6=(k*15 + l*5 + j) % 6", "", None),
    ("k=4 l=3 j=5", "S9=(k*15 + l*4 + j) // 6; R6=(k*15 + l*4 + j) % 6", "", "'k' and 'l' and 'j'"),
    ("k=4 l=3 j=5", "S9=(k*14 + l*5 + j) // 6; R6=(k*14 + l*5 + j) % 6", "", "'k' and 'l' and 'j'"),
    ("k=12 m=2", "S4=k // 3; R3=k % 3; S9=(k + m) // 2", "", "'k' place results and reduce"),
    ("k=12 r=2", "S4=k // 3; R3=k % 3; R2=1 - r", "", "'v2' does not begin with its start"),
    ("k=2:12", "S4=k // 3; R3=k % 3", "", None),
    ("k=4", "S4=3 - k; R4=3 - k", "", "'k' place results and reduce"),
]


@pytest.mark.parametrize(("loops", "axes", "where", "why"), STARTS)
def test_starts(loops: str, axes: str, where: str, why: str | None) -> None:
    realize, around = nest(loops, axes, where)
    fault = start_fault(realize, around)
    if why is not None:
        assert fault is not None and why in fault
        return
    assert fault is None
    reduces = [axis.iter_type == "reduce" for axis in realize.block.iter_vars]

    def place(values: list[int]) -> list[int]:
        return [value for value, inner in zip(values, reduces, strict=True) if not inner]

    ran = sorted((values for _, values in instances(realize, around)), key=place)
    for _, group in groupby(ran, place):
        steps = [[v for v, inner in zip(g, reduces, strict=True) if inner] for g in group]
        start = [0] * len(steps[0])
        assert steps[0] == start or start not in steps


ORDERS = [
    ("i=4 j=5 k=8", "S4=i; S5=j; R8=k", "", None),
    ("i=4 k=8", "S4=i // 2; R8=k", "", ("loop 'i' repeats", "i", "k")),
    ("i=4 k=8 r=2", "S4=i; R8=k", "", ("loop 'i' repeats", "i", "k")),
    ("k=8 l=4", "R8=k; R4=l", "", None),
    ("k=8 l=4", "R8=k; R4=l", "k * 4 + l < 20", None),
    ("k=8 l=4", "R8=k; R4=l", "k > l", ("loop 'l' reduces", "k", "l")),
    ("k=8 l=4", "R8=k; R4=l", "k < l", ("loop 'l' reduces", "k", "l")),
    ("k=12 l=4", "S4=k//3; R3=k%3; R4=l", "", ("loop 'k' both places and reduces", "k", "l")),
    ("i=4 k=12", "S4=k // 3; R3=k % 3; S4=i", "", None),
    ("r=3 k=8", "R8=k", "", ("loop 'r' repeats", "r", "k")),
    ("r=3 q=2", "R8=0 * r", "", None),
    ("r=3 i=4 j=5", "S4=i; S5=j", "", None),
    ("i=4 k=1", "S4=i // 2; R1=k", "", None),
    ("i=1 k=8", "S4=i // 2; R8=k", "", None),
]


@pytest.mark.parametrize(("loops", "axes", "where", "why"), ORDERS)
def test_turning_the_order_round(
    loops: str, axes: str, where: str, why: tuple[str, str, str] | None
) -> None:
    realize, around = nest(loops, axes, where)
    assert reordering_fault(realize, [], around, around, []) is None
    found = reordering_fault(realize, [], around, around[::-1], [])
    named = None if found is None else (found[0], *(loop.loop_var.name for loop in found[1:]))
    assert named == why


def test_loops_inside_count_when_places_and_reductions_cross() -> None:
    realize, around = nest("i=4 k=8 j=4", "S7=i + j; R8=k")
    i, k, j = around
    found = reordering_fault(realize, [], [i, k], [k, i], [j])
    assert found is not None and found[0] == "loop 'i' repeats"
    assert reordering_fault(realize, [i], [k, j], [j, k], []) is None


N, M = Var("n"), Var("m")


@pytest.mark.parametrize(
    ("value", "slope"),
    [
        (N * 0 + 7, 0),
        (M + 3, 0),
        (N, 1),
        (N + M, 1),
        (M - N, -1),
        (N - M, 1),
        (N - N * 2, None),
        (N - (M - N), 1),
        (N * 3, 1),
        (N * -3, None),
        ((M - N) * 3, -1),
        (N * N, None),
        (N // 2, None),
        (N // 2 + N, None),
        (M - N // 2, None),
    ],
    ids=str,
)
def test_slopes(value: Expr, slope: int | None) -> None:
    assert _slope(value, (N,)) == slope


@pytest.mark.parametrize(
    ("box", "apart"),
    [
        ([(lambda i, j: i * 4 + j, 0)], True),
        ([(lambda i, j: i * 3 + j, 0)], False),
        ([(lambda i, j: i * 4 + j, 1)], False),
        ([(lambda i, j: i * 5 + j * 2, 1)], False),
        ([(lambda i, j: i * 8 + j * 2, 1)], True),
        ([(lambda i, j: i * 7 + j * 2, 1)], False),
        ([(lambda i, j: i, 0), (lambda i, j: j, 0)], True),
        ([(lambda i, j: i, 0), (lambda i, j: i * 9, 0)], False),
        ([(lambda i, j: i, 0), (lambda i, j: j, 1)], False),
        ([(lambda i, j: i, 0), (lambda i, j: N, 5)], False),
        ([(lambda i, j: i * 4 + j + N, 0)], True),
        ([(lambda i, j: i * 4 + j + 5, 0)], True),
        ([(lambda i, j: i * j, 0), (lambda i, j: i, 0), (lambda i, j: j, 0)], False),
    ],
)
def test_rows_apart(box: list, apart: bool) -> None:  # type: ignore[type-arg]
    _, loops = nest("i=4 j=4", "S16=i * 4 + j")
    i, j = (loop.loop_var for loop in loops)
    sets = [IntSet(low(i, j), low(i, j) + more) for low, more in box]
    assert rows_apart(sets, loops) == apart


def test_rows_of_which_an_end_is_not_known() -> None:
    _, loops = nest("i=4 j=4", "S16=i * 4 + j")
    i, j = (loop.loop_var for loop in loops)
    low = i * 4 + j
    assert rows_apart([IntSet(low, low)], loops)
    for ends in ((None, low), (low, None), (low, i * 5 + j), (low, i * 4), (low, low + N)):
        assert not rows_apart([IntSet(*ends)], loops)
