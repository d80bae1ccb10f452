"""What blocks reduce by: each combination tried on small numbers, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.base import dtype
from tileloom.base.errors import UserError
from tileloom.expr import Add, And, CommReducer, Max, Min, Mul, Or, evaluate
from tileloom.lower.analysis.thread_reductions import identity, recognise, recognise_choice
from tileloom.script import from_source
from tileloom.tir import Block, PrimFunc, collect

HEAD = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), V: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32"),
         C: T.Buffer((1,), "int32"), P: T.Buffer((8,), "bool"), Q: T.Buffer((1,), "bool"),
         n: T.int32, I: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("sum"):
            k = T.axis.reduce(8, i)
            T.reads()
            T.writes()
            with T.init():
"""
LOW, HIGH = -(1 << 31), (1 << 31) - 1
LARGEST = "a = T.Select(B[0] >= A[k], B[0], A[k]); c = T.Select(B[0] >= A[k], C[0], V[k])"
STORED = "{}: T.int32 = {}"


def named(text: str) -> str:
    """Names of values before the stores, as an arg-maximum has them: `name = value`."""
    first, second = (part.split(" = ", 1) for part in text.split("; "))
    lines = [STORED.format(*first), STORED.format(*second)]
    return "; ".join([*lines, f"B[0] = {first[0]}", f"C[0] = {second[0]}"])


def block(init: str, body: str) -> Block:
    lines = [" " * 16 + line for line in init.split("; ")]
    lines += [" " * 12 + line for line in body.split("; ")]
    func = from_source(HEAD + "\n".join(lines) + "\n")
    assert isinstance(func, PrimFunc)
    return next(b for b in collect(func.body, Block) if b.name_hint == "sum")


def check_combiner(combiner: CommReducer, combine: Callable[..., Any], flags: bool) -> None:
    parts = len(combiner.lhs)
    points = itertools.product(range(2) if flags else (-1, 0, 2), repeat=parts)
    for x, y in itertools.product(list(points), repeat=2):
        env = {**dict(zip(combiner.lhs, x)), **dict(zip(combiner.rhs, y))}
        found = tuple(int(evaluate(result, env)) for result in combiner.result)
        assert found == tuple(map(int, combine(x, y)))


#: Init, body, what two tuples become, what leaves others unchanged, what comes.
KNOWN: list[tuple[str, str, Callable[..., Any], list[int], str]] = [
    ("B[0] = 0", "B[0] = B[0] + A[k]", lambda x, y: [x[0] + y[0]], [0], "A[k]"),
    ("B[0] = 5", "B[0] = A[k] * 2 + B[0]", lambda x, y: [x[0] + y[0]], [0], "A[k] * 2"),
    ("B[0] = 1", "B[0] = B[0] * A[k]", lambda x, y: [x[0] * y[0]], [1], "A[k]"),
    ("B[0] = 0", "B[0] = T.max(B[0], A[k])", lambda x, y: [max(x[0], y[0])], [LOW], "A[k]"),
    ("B[0] = 0", "B[0] = T.min(A[k], B[0])", lambda x, y: [min(x[0], y[0])], [HIGH], "A[k]"),
    ("Q[0] = True", "Q[0] = Q[0] and P[k]", lambda x, y: [x[0] and y[0]], [1], "P[k]"),
    ("Q[0] = False", "Q[0] = Q[0] or P[k]", lambda x, y: [x[0] or y[0]], [0], "P[k]"),
    ("B[0] = 0; C[0] = 1", "B[0] = B[0] + A[k]; C[0] = C[0] * V[k]",
     lambda x, y: [x[0] + y[0], x[1] * y[1]], [0, 1], "A[k], V[k]"),
    ("B[0] = 3; C[0] = 7", named(LARGEST),
     lambda x, y: x if x[0] >= y[0] else y, [3, 7], "A[k], V[k]"),
]  # fmt: skip


@pytest.mark.parametrize(("init", "body", "combine", "neutral", "sources"), KNOWN)
def test_what_blocks_reduce_by(
    init: str, body: str, combine: Callable[..., Any], neutral: list[int], sources: str
) -> None:
    found = recognise(block(init, body))
    assert ", ".join(map(str, found.sources)) == sources
    assert [int(evaluate(n, {})) for n in found.combiner.identity] == neutral
    assert [str(n) for n in found.inits] == [
        text.split(" = ")[1].replace("True", "T.bool(True)").replace("False", "T.bool(False)")
        for text in init.split("; ")
    ]
    assert [s.buffer for s in found.stores] == list(found.targets)
    check_combiner(found.combiner, combine, "Q" in init)
    for local, target in zip(found.locals("own"), found.targets, strict=True):
        assert (local.name, local.dtype) == (f"{target.name}_own", target.dtype)
        assert local.scope == "local" and local.static_shape == (1,)


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("B[0] = 0", "B[0] = B[0] - A[k]"), ("B[0] = 0", "B[0] = A[k]"),
        ("B[0] = 0", "B[0] = B[0] + A[k] * n - B[0]"), ("B[0] = 0", "C[0] = C[0] + A[k]"),
        ("B[0] = 0", "B[0] = B[0] + A[k]; C[0] = 1"), ("B[0] = 0", "T.evaluate(n)"),
        ("B[0] = 0", "B[0] = T.Select(A[k] > n, B[0], A[k])"),
        ("B[0] = 0", "B[0] = T.Select(B[0] >= A[k], B[0], A[k])"),
        ("B[0] = 3; C[0] = 7", named(LARGEST.replace(">=", "+ n >="))),
        ("B[0] = 3; C[0] = 7", named(LARGEST.replace("V[k])", "V[k] + C[0])"))),
        ("B[0] = 3; C[0] = 7", named(LARGEST.replace("c = ", "c = C[0] + "))),
        # What comes must not depend on what there is.
        ("B[0] = 0", "B[0] = B[0] + (A[k] - B[0])"),
        ("B[0] = 0", "B[0] = T.max(B[0], A[k] - B[0])"),
        ("B[0] = 0", "B[0] = B[0] * (A[B[0]])"), ("B[0] = 0; C[0] = 0",
         named("a = B[0] + A[k]; c = C[0] + B[0]")),
        # Without names the second store would see what the first has left.
        ("B[0] = 3; C[0] = 7",
         "B[0] = T.Select(B[0] >= A[k], B[0], A[k]); C[0] = T.Select(B[0] >= A[k], C[0], V[k])"),
        ("B[0] = 0; C[0] = 1", "B[0] = B[0] + A[k]; C[0] = C[0] + B[0]"),
        # A start that every thread would add again.
        ("B[0] = 3; C[0] = 2", named("a = T.Select(B[0] >= A[k], B[0], A[k]); c = C[0] + V[k]")),
    ],
)  # fmt: skip
def test_what_is_no_reduction(init: str, body: str) -> None:
    with pytest.raises(UserError, match="block 'sum' reduces over threads, but not by a sum"):
        recognise(block(init, body))


TIE = "B[0] > A[k] or (B[0] == A[k] and C[0] < V[k])"
CHOICE = f"a = T.Select({TIE}, B[0], A[k]); c = T.Select({TIE}, C[0], V[k])"


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        (named(CHOICE), True),
        (named(CHOICE.replace(">", "<")), True),
        (named(CHOICE.replace("B[0], A[k])", "A[k], B[0])").replace("C[0], V[k])", "V[k], C[0])")),
         True),
        (named(LARGEST), False),  # of a tie the order of steps would tell
        (named(LARGEST.replace("B[0] >= A[k]", "C[0] >= V[k]")), False),
        (f"B[0] = T.Select({TIE}, B[0], A[k])", False),
        ("B[0] = B[0] + A[k]; C[0] = C[0] + V[k]", False),
        (named(CHOICE.replace("C[0], V[k]", "C[0], V[k] + C[0]")), False),
        (named(CHOICE.replace("C[0], V[k]", "n, I[k]")), False),
        (named(f"a = T.Select({TIE}, B[0], A[k]); c = T.Select(B[0] > A[k], C[0], V[k])"), False),
        (named("a = T.Select(n > 0, B[0], A[k]); c = T.Select(n > 0, C[0], V[k])"), False),
        (named(CHOICE.replace(TIE, f"({TIE}) and n > 0")), False),
        (named(CHOICE.replace(TIE, f"({TIE}) and I[k] > 0")), False),
        (CHOICE.replace("a =", "B[0] =").replace("c =", "C[0] ="), False),
    ],
)  # fmt: skip
def test_choices(body: str, chosen: bool) -> None:
    """One side is kept in all components, and all components tell which one it is."""
    found = recognise_choice(block("B[0] = 0", body).body)
    assert (found is not None) is chosen
    if found is not None:
        assert ", ".join(map(str, found[1])) == "A[k], V[k]"
        assert [store.buffer.name for store in found[0]] == ["B", "C"]
        points = list(itertools.product((-1, 0, 2), repeat=2))
        for x, y in itertools.product(points, repeat=2):
            env = {**dict(zip(found[2].lhs, x)), **dict(zip(found[2].rhs, y))}
            assert tuple(int(evaluate(r, env)) for r in found[2].result) in (x, y)


IDENTITIES = {
    "int8": (0, 1, 127, -128), "uint16": (0, 1, 65535, 0), "int64": (0, 1, 2**63 - 1, -(2**63)),
    "float32": (0, 1, float("inf"), float("-inf")), "float16": (0, 1, float("inf"), float("-inf")),
}  # fmt: skip


@pytest.mark.parametrize("kind", IDENTITIES)
def test_what_leaves_others_unchanged(kind: str) -> None:
    found = [identity(op, dtype(kind)) for op in (Add, Mul, Min, Max)]
    assert tuple(float(evaluate(n, {})) for n in found) == tuple(map(float, IDENTITIES[kind]))
    assert all(n.dtype == kind for n in found)
    flags = [identity(op, dtype("bool")) for op in (And, Or)]
    assert [bool(evaluate(n, {})) for n in flags] == [True, False]
