"""Tensor expressions as TVMScript, whole; the types of sums and of choices."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from tileloom import compute as te
from tileloom.base import dtype
from tileloom.base.errors import DTypeError, UserError
from tileloom.compute.math import accumulator, call
from tileloom.expr import const
from tileloom.script.show import show

A = te.placeholder((4, 6), name="A")
K = te.reduce_axis((1, 6), "k")
PAIR_OF = te.comm_reducer(
    lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (const(0, s), const(1, t))
)


def body_of(*tensors: te.Tensor, **options: Any) -> str:
    """What stands in the root block, as text."""
    lines = show(te.create_prim_func([A, *tensors], **options)).splitlines()
    root = next(k for k, line in enumerate(lines) if 'T.block("root")' in line)
    return textwrap.dedent("\n".join(lines[root + 1 :]))


BLOCK_WITH_INIT = """\
for i in range(4):
    for k in range(1, 6):
        with T.block("row"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            T.reads(A[v_i, v_k])
            T.writes(row[v_i])
            T.block_attr({"layout": "n"})
            with T.init():
                row[v_i] = T.float32(2.0)
            row[v_i] = row[v_i] + T.if_then_else(v_k < 5, A[v_i, v_k], T.float32(0.0))"""

SEPARATE_INIT = """\
for i in range(4):
    with T.block("row__reduce_init"):
        v_i = T.axis.spatial(4, i)
        T.reads()
        T.writes(row[v_i])
        T.block_attr({"layout": "n"})
        row[v_i] = T.float32(2.0)
    for k in range(1, 6):
        with T.block("row"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            T.reads(row[v_i], A[v_i, v_k])
            T.writes(row[v_i])
            T.block_attr({"layout": "n"})
            row[v_i] = row[v_i] + T.if_then_else(v_k < 5, A[v_i, v_k], T.float32(0.0))"""

PAIR = """\
two_0 = T.alloc_buffer((4,))
for i in range(4):
    for k in range(1, 6):
        with T.block("two"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            T.reads(A[v_i, v_k])
            T.writes(two_0[v_i], two_1[v_i])
            with T.init():
                two_0[v_i] = T.float32(0.0)
                two_1[v_i] = T.float32(1.0)
            v_two_0: T.float32 = two_0[v_i] + A[v_i, v_k]
            v_two_1: T.float32 = two_1[v_i] * A[v_i, v_k]
            two_0[v_i] = v_two_0
            two_1[v_i] = v_two_1"""

TWO_BODIES = """\
for i in range(4):
    with T.block("both_0"):
        v_i = T.axis.spatial(4, i)
        T.reads(A[v_i, 0])
        T.writes(both_0[v_i])
        both_0[v_i] = A[v_i, 0]
    with T.block("both_1"):
        v_i = T.axis.spatial(4, i)
        T.reads(A[v_i, 1])
        T.writes(both_1[v_i])
        both_1[v_i] = A[v_i, 1] + T.float32(1.0)"""


def row() -> Any:
    return te.compute(
        (4,), lambda i: te.sum(A[i, K], axis=K, where=K.var < 5, init=2.0), name="row",
        attrs={"tag": "x", "layout": "n"},
    )  # fmt: skip


def test_a_reduction_over_a_part() -> None:
    assert body_of(row()) == BLOCK_WITH_INIT
    assert body_of(row(), separate_init=True) == SEPARATE_INIT


def test_components_of_one_reduction() -> None:
    two = te.compute((4,), lambda i: PAIR_OF((A[i, K], A[i, K]), axis=K), name="two")
    assert body_of(two[1]) == PAIR


def test_several_bodies_share_their_loops() -> None:
    both = te.compute((4,), lambda i: (A[i, 0], A[i, 1] + 1.0), name="both")
    assert body_of(*both) == TWO_BODIES


def test_attributes_and_names_of_the_function() -> None:
    func = te.create_prim_func([A, row()], "rows", {"note": 3})
    assert func.attrs == {"global_symbol": "rows", "tir.noalias": True, "note": 3}
    assert [param.name for param in func.params] == ["var_A", "var_row"]


def test_names_of_blocks_that_reduce_to_several_buffers_are_unique() -> None:
    first = te.compute((4,), lambda i: PAIR_OF((A[i, K], A[i, K]), axis=K), name="p")
    second = te.compute((4,), lambda i: PAIR_OF((A[i, K], A[i, K]), axis=K), name="p")
    text = body_of(*first, *second)
    assert 'T.block("p")' in text and 'T.block("p_1")' in text


@pytest.mark.parametrize(
    ("kind", "sums"),
    [
        ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"),
        ("float64", "float64"), ("int8", "int8"), ("int64", "int64"), ("uint16", "uint16"),
    ],
)  # fmt: skip
def test_types_of_sums(kind: str, sums: str) -> None:
    assert accumulator(dtype(kind)) == sums


def test_calls_have_the_type_of_their_first_argument() -> None:
    assert call("exp", const(1, "float16")).dtype == "float16"
    assert call("popcount", const(1, "int64"), kind="int32").dtype == "int32"


@pytest.mark.parametrize(
    ("combine", "identity", "error", "text"),
    [
        (lambda x, y: (x, y), lambda t: 0, UserError, "to 2 values with 1 identities"),
        (lambda x, y: x, lambda t: (0, 0), UserError, "to 1 values with 2 identities"),
        (lambda x, y: x < y, lambda t: 0, DTypeError, "makes ['bool'] of ['float32']"),
    ],
)  # fmt: skip
def test_combiners_that_do_not_fit(
    combine: Callable[..., Any], identity: Callable[..., Any], error: type[UserError], text: str
) -> None:
    with pytest.raises(error) as caught:
        te.comm_reducer(combine, identity, "mine").combiner("float32")
    assert text in str(caught.value)


def test_identities_that_are_plain_numbers_get_the_type() -> None:
    made = te.comm_reducer(lambda x, y: x + y, lambda t: 0).combiner("float16")
    assert made.identity[0].dtype == "float16"
