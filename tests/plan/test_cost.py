"""What blocks cost, and how wide their elements are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileloom import te
from tileloom.base.errors import UserError
from tileloom.expr import Expr, intrin
from tileloom.graph import ops  # noqa: F401 (registers them)
from tileloom.graph.blocks import block_function
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.op import REGISTRY, apply1
from tileloom.graph.partition.group import Group
from tileloom.plan.cost import is_costly, widest_bits, work
from tileloom.plan.domain import blocks_by_name
from tileloom.schedule import Schedule
from tileloom.target import cost
from tileloom.tir import Block

A = te.placeholder((12, 20), name="A")


def block(value: Callable[[Expr], Expr]) -> Block:
    x = te.compute((12, 20), lambda i, j: value(A[i, j]), name="x")
    return blocks_by_name(Schedule(te.create_prim_func([A, x])))["x"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (lambda x: x, 1),
        (lambda x: x + 1.0, 2),
        (lambda x: x * 2.0 + 1.0, 3),
        (lambda x: intrin.exp(x), 1 + cost.work_of("exp")),
        (lambda x: x / 3.0, 1 + cost.work_of("div")),
        (lambda x: intrin.exp(x) + x / 3.0, 2 + cost.work_of("exp") + cost.work_of("div")),
        (lambda x: x.astype("int32") // 3, 3),
        (lambda x: 7 // x.astype("int32"), 2 + cost.work_of("trunc_div")),
        (lambda x: (x + 1.0) * (x + 1.0), 3),
    ],
)
def test_work(value: Callable[[Expr], Expr], wanted: int) -> None:
    """A load is one simple operation, and what occurs twice is done once."""
    assert work(block(value)) == wanted


def test_sums_stay_in_registers() -> None:
    """What a reduction adds to is not loaded each time; what another block made is."""
    k = te.reduce_axis((0, 20), name="k")
    x = te.compute((12,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="x")
    y = te.compute((12,), lambda i: x[i] + 1.0, name="y")
    found = blocks_by_name(Schedule(te.create_prim_func([A, y])))
    assert work(found["x"]) == 3 and work(found["y"]) == 2


def test_indices_cost_nothing() -> None:
    x = te.compute((20, 12), lambda i, j: A[j, (i * 7 + 3) % 20], name="x")
    assert work(blocks_by_name(Schedule(te.create_prim_func([A, x])))["x"]) == 1


@pytest.mark.parametrize(
    ("value", "costly"),
    [
        (lambda x: x * 2.0 + 1.0, False),
        (lambda x: intrin.abs(x), False),
        (lambda x: x / 3.0, True),
        (lambda x: intrin.sqrt(x), True),
        (lambda x: intrin.exp(x), True),
    ],
)
def test_what_is_kept_in_registers(value: Callable[[Expr], Expr], costly: bool) -> None:
    assert is_costly(block(value)) == costly


@pytest.mark.parametrize(
    "name", sorted(name for name, op in REGISTRY.items() if op.kind == "elementwise")
)
def test_the_table_says_what_compute_rules_do(name: str) -> None:
    """Twice as much at most, loads and conversions apart."""
    found = [made for count in (1, 2, 3) if (made := work_of_block(name, count)) is not None]
    known = cost.work_of(name)
    assert all(known <= each <= 2 * known + 1 for each in found), found


def work_of_block(name: str, count: int) -> int | None:
    """The work of an op by its compute rule, without loads; None if it takes other operands."""
    given = [Tensor(tensor_type((8,), "float32"), k) for k in "xyz"[:count]]
    if name == "where":
        given[0] = Tensor(tensor_type((8,), "bool"), "x")
    try:
        made = apply1(name, given, **({"dtype": "float64"} if name == "cast" else {}))
        node = made.node
        assert node is not None
        func, _ = block_function(Group("elementwise", [node], None, tuple(given), (made,)))
    except (UserError, TypeError, ValueError, IndexError, KeyError):
        return None
    return sum(map(work, blocks_by_name(Schedule(func)).values())) - count


def test_the_table_is_compared_with_nearly_all_ops() -> None:
    names = [name for name, op in REGISTRY.items() if op.kind == "elementwise"]
    alone = {n for n in names if all(work_of_block(n, k) is None for k in (1, 2, 3))}
    assert len(alone) < len(names) / 4


@pytest.mark.parametrize(
    ("read", "written", "bits"),
    [
        ("int8", "int8", 8),
        ("float16", "int8", 16),
        ("int8", "float32", 32),
        ("float64", "int8", 64),
        ("bool", "bool", 8),
    ],
)
def test_widest_types(read: str, written: str, bits: int) -> None:
    a = te.placeholder((64,), read, name="A")
    func = te.create_prim_func([a, te.compute((64,), lambda i: a[i].astype(written), name="B")])
    blocks = blocks_by_name(Schedule(func)).values()
    assert widest_bits(blocks) == bits
