"""What the interpreter checks while a program runs, and what intervals show to need no check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.script import parse
from tileloom.tir.run import run
from tileloom.tir.run_stmts import StmtCompiler


def function(params: str, body: str) -> Any:
    text = "".join(f"    {line}\n" for line in body.split("\n"))
    return parse(f"@T.prim_func\ndef main({params}):\n{text}")


def source(func: Any, strict: bool = False) -> str:
    """The Python source of a function's body."""
    compiler = StmtCompiler(func, strict)
    compiler.head()
    compiler.stmt(func.body)
    return "\n".join(compiler.lines)


def in_loop(extent: str, index: str, before: str = "") -> str:
    middle = f"    {before}\n" if before else ""
    return f"for i in range({extent}):\n{middle}    A[{index}] = T.float32(0)"


#: The body of a function of `A[10]`, and how many indices are checked.
CHECKS = [
    (in_loop("10", "i"), 0),
    (in_loop("11", "i"), 1),
    (in_loop("0", "i"), 0),
    (in_loop("2, 10", "i"), 0),
    (in_loop("2, 11", "i"), 1),
    (in_loop("-1, 10", "i"), 1),
    (in_loop("2, 12", "i - 2"), 0),
    (in_loop("2, 13", "i - 2"), 1),
    (in_loop("1, 10", "i - 2"), 1),
    (in_loop("8", "i + 2"), 0),
    (in_loop("9", "i + 2"), 1),
    (in_loop("10", "9 - i"), 0),
    (in_loop("11", "9 - i"), 1),
    (in_loop("4", "i * 3"), 0),
    (in_loop("5", "i * 3"), 1),
    (in_loop("4", "i * -3 + 9"), 0),
    (in_loop("100", "i % 10"), 0),
    (in_loop("100", "i % 11"), 1),
    (in_loop("10", "i % 30"), 0),
    (in_loop("11", "i % 30"), 1),
    (in_loop("100", "(i - 5) % 10"), 0),
    (in_loop("100", "(i - 5) % 11"), 1),
    (in_loop("100", "T.truncmod(i, 10)"), 0),
    (in_loop("100", "T.truncmod(i - 5, 10)"), 1),
    (in_loop("100", "i // 10"), 0),
    (in_loop("101", "i // 10"), 1),
    (in_loop("10, 110", "(i - 10) // 10"), 0),
    (in_loop("100", "T.truncdiv(i, 10)"), 0),
    (in_loop("101", "T.truncdiv(i, 10)"), 1),
    (in_loop("100", "T.truncdiv(i - 1, 10)"), 1),
    (in_loop("100", "T.min(i, 9)"), 0),
    (in_loop("100", "T.min(i, 10)"), 1),
    (in_loop("100", "T.max(i, 9)"), 1),
    (in_loop("30", "T.max(i - 20, 0)"), 0),
    (in_loop("31", "T.max(i - 20, 0)"), 1),
    (in_loop("10", "T.if_then_else(i < 5, i, 9)"), 0),
    (in_loop("11", "T.if_then_else(i < 5, i, 9)"), 1),
    (in_loop("10", "T.if_then_else(i < 5, i, 10)"), 1),
    (in_loop("10", "T.if_then_else(i < 5, 10, i)"), 1),
    (in_loop("10", "T.if_then_else(i < 5, i, -1)"), 1),
    (in_loop("10", "T.Select(i < 5, i, 9 - i)"), 0),
    (in_loop("10", 'T.Cast("int64", i)'), 0),
    (in_loop("11", 'T.Cast("int64", i)'), 1),
    (in_loop("10", 'T.Cast("int32", i < 5)'), 0),
    (in_loop("10", 'T.Cast("int32", i < 5) * 10'), 1),
    (in_loop("10", 'T.Cast("int32", not i < 5) * 9'), 0),
    (in_loop("10", 'T.Cast("int32", not i < 5) * 10'), 1),
    (in_loop("10", 'T.Cast("int8", i)'), 0),
    (in_loop("10", 'T.Cast("int8", i + 250)'), 1),
    (in_loop("10", 'T.Cast("int32", T.Cast("bool", i)) * 9'), 0),
    (in_loop("5", "k", "k: T.int32 = i * 2"), 0),
    (in_loop("6", "k", "k: T.int32 = i * 2"), 1),
    (in_loop("10", "9 - k", "k: T.int32 = i"), 0),
    (in_loop("10", "T.bitwise_and(i, 7)"), 1),
    (in_loop("10", "T.popcount(i)"), 1),
    (in_loop("10", "T.shift_right(i, 1)"), 1),
    (in_loop("10", "T.abs(i - 5)"), 1),
    (in_loop("10", 'T.reinterpret("int32", T.float32(1))'), 1),
    (in_loop("10", 'T.Cast("int32", T.float32(3))'), 1),
    (in_loop("10", 'T.Cast("int32", T.isnan(T.float32(3)))'), 0),
    ('for i in T.thread_binding(10, thread="threadIdx.x"):\n    A[i] = T.float32(0)', 0),
    ('for i in T.thread_binding(11, thread="threadIdx.x"):\n    A[i] = T.float32(0)', 1),
    ('i = T.launch_thread("threadIdx.x", 10)\nA[i] = T.float32(0)', 0),
    ('i = T.launch_thread("threadIdx.x", 11)\nA[i] = T.float32(0)', 1),
    ("for i, j in T.grid(2, 5):\n    A[i * 5 + j] = T.float32(0)", 0),
    ("for i, j in T.grid(2, 6):\n    A[i * 5 + j] = T.float32(0)", 1),
    ("for i in range(5):\n    for j in range(i):\n        A[i + j] = T.float32(0)", 0),
    ("for i in range(7):\n    for j in range(i):\n        A[i + j] = T.float32(0)", 1),
    ("for i in range(5):\n    for j in range(i, i + 6):\n        A[j] = T.float32(0)", 0),
    ("for i in range(5):\n    for j in range(i, i + 7):\n        A[j] = T.float32(0)", 1),
]  # fmt: skip


@pytest.mark.parametrize(("body", "checks"), CHECKS, ids=[body for body, _ in CHECKS])
def test_an_index_is_checked_where_its_interval_leaves_the_buffer(body: str, checks: int) -> None:
    func = function('A: T.Buffer((10,), "float32")', body)
    assert source(func).count("_oob(") == checks


@pytest.mark.parametrize(
    ("params", "body", "checks"),
    [
        ("A: T.Buffer((n,)), B: T.Buffer((n,))", "for i in range(n):\n    A[i] = B[i]", 0),
        ("A: T.Buffer((n,)), B: T.Buffer((m,))", "for i in range(n):\n    A[i] = B[i]", 1),
        ("A: T.Buffer((n,))", "for i in range(n - 1):\n    A[i] = A[i + 1]", 3 - 1),
        ("A: T.Buffer((n,))", "for i in range(1, n):\n    A[i] = T.float32(0)", 1),
        ("A: T.Buffer((n,))", "for i in range(n):\n    k: T.int32 = i\n    A[k] = T.float32(0)", 0),
        ("A: T.Buffer((n,))", "for i in range(n):\n    A[T.Cast('int32', i)] = T.float32(0)", 0),
        ("A: T.Buffer((n, m))", "for i, j in T.grid(n, m):\n    A[i, j] = T.float32(0)", 0),
        ("A: T.Buffer((n, m))", "for i, j in T.grid(m, n):\n    A[i, j] = T.float32(0)", 2),
        ("A: T.Buffer((n,))", 'i = T.launch_thread("threadIdx.x", n)\nA[i] = T.float32(0)', 0),
        ("A: T.Buffer((256,)), U: T.Buffer((4,), 'uint8')", "A[U[0]] = T.float32(0)", 0),
        ("A: T.Buffer((255,)), U: T.Buffer((4,), 'uint8')", "A[U[0]] = T.float32(0)", 1),
        ("A: T.Buffer((128,)), U: T.Buffer((4,), 'int8')", "A[U[0]] = T.float32(0)", 1),
        ("A: T.Buffer((256,)), U: T.Buffer((4,), 'int8')", "A[U[0] + 128] = T.float32(0)", 0),
        ("A: T.Buffer((255,)), U: T.Buffer((4,), 'int8')", "A[U[0] + 128] = T.float32(0)", 1),
        ("A: T.Buffer((2,)), U: T.Buffer((4,), 'bool')",
         "A[T.Cast('int32', U[0])] = T.float32(0)", 0),
        ("A: T.Buffer((1,)), U: T.Buffer((4,), 'bool')",
         "A[T.Cast('int32', U[0])] = T.float32(0)", 1),
        ("A: T.Buffer((256,)), u: T.uint8", "A[u] = T.float32(0)", 0),
        ("A: T.Buffer((255,)), u: T.uint8", "A[u] = T.float32(0)", 1),
        ("A: T.Buffer((8,)), U: T.Buffer((4,), 'float32')", "A[T.Cast('int32', U[0])] = 0.0", 1),
    ],
    ids=str,
)  # fmt: skip
def test_indices_of_open_sizes_and_of_values(params: str, body: str, checks: int) -> None:
    names = [name for name in "nm" if f"({name}" in params or f" {name})" in params]
    sizes = [f"{name} = T.int32()" for name in names]
    text = "@T.prim_func\ndef main({}):\n{}"
    given = [part.split(":", 1) for part in params.replace("),", ")|").split("|")]
    handles = ", ".join(f"{n.strip()}_: T.handle" for n, t in given) if names else params
    matched = [f"{n.strip()} = T.match_buffer({n.strip()}_, {t.strip()[len('T.Buffer('):]}"
               for n, t in given] if names else []  # fmt: skip
    lines = [*sizes, *matched, *body.split("\n")]
    func: Any = parse(text.format(handles, "".join(f"    {line}\n" for line in lines)))
    assert source(func).count("_oob(") == checks


BLOCK = """for i in range({extent}):
    with T.block("b"):
        v = T.axis.{kind}({domain}, {value})
        A[v] = T.float32(1)"""


@pytest.mark.parametrize(
    ("extent", "kind", "domain", "value", "bindings", "indices"),
    [
        (10, "spatial", 10, "i", 0, 0),
        (10, "spatial", 11, "i", 0, 0),
        (11, "spatial", 10, "i", 1, 0),
        (10, "spatial", 10, "i - 1", 1, 0),
        (10, "spatial", 10, "9 - i", 0, 0),
        (10, "spatial", "(1, 10)", "i", 1, 0),
        (9, "spatial", "(1, 10)", "i + 1", 0, 0),
        (9, "reduce", "(1, 10)", "i + 1", 0, 0),
        (12, "spatial", 12, "i", 0, 1),
    ],
)
def test_bindings_are_checked_where_they_may_leave_their_domain(
    extent: int, kind: str, domain: object, value: str, bindings: int, indices: int
) -> None:
    body = BLOCK.format(extent=extent, kind=kind, domain=domain, value=value)
    text = source(function('A: T.Buffer((10,), "float32")', body))
    assert (text.count("_outside("), text.count("_oob(")) == (bindings, indices)


def order(*loops: Any) -> list[tuple[int, ...]]:
    """The values of nested loops, whose ranges are functions of the values outside."""
    found: list[tuple[int, ...]] = [()]
    for loop in loops:
        found = [(*outer, value) for outer in found for value in loop(*outer)]
    return found


LOOPS = [
    ("for i, j in T.grid(3, 4):", order(lambda: range(3), lambda i: range(4)), 1),
    ("for i in range(3):\n  for j in range(2, 5):",
     order(lambda: range(3), lambda i: range(2, 5)), 1),
    ("for i in range(-2, 3):\n  for j in range(4):",
     order(lambda: range(-2, 3), lambda i: range(4)), 1),
    ("for i in range(4):\n  for j in range(i):", order(lambda: range(4), lambda i: range(i)), 0),
    ("for i in range(4):\n  for j in range(i, 5):",
     order(lambda: range(4), lambda i: range(i, 5)), 0),
    ("for i in range(1, 4):\n  for j in range(i, i + 2):",
     order(lambda: range(1, 4), lambda i: range(i, i + 2)), 0),
    ("for i in range(3):\n  for j in range(N[0]):", order(lambda: range(3), lambda i: range(2)), 0),
    ("for i in range(N[0]):\n  for j in range(3):", order(lambda: range(2), lambda i: range(3)), 1),
    ("for i in range(0):\n  for j in range(3):", [], 1),
    ("for i in range(1):\n  for j in range(65536):",
     order(lambda: range(1), lambda i: range(65536)), 1),
    ("for i in range(1):\n  for j in range(65537):",
     order(lambda: range(1), lambda i: range(65537)), 0),
    ('for i in T.thread_binding(3, thread="threadIdx.x"):\n  for j in range(2):',
     order(lambda: range(3), lambda i: range(2)), 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("loops", "visited", "merged"), LOOPS, ids=[loops for loops, _, _ in LOOPS]
)
def test_loops_run_in_order(loops: str, visited: list[tuple[int, int]], merged: int) -> None:
    """Merged into one where no range depends on an outer loop or on memory, and all are short."""
    deep = " " * (4 if "\n" in loops else 2)
    body = f"{loops}\n{deep}C[0] = (C[0] * 31 + i * 7 + j + 1) % 1000003"
    func = function('C: T.Buffer((1,), "int32"), N: T.Buffer((1,), "int32")', body)
    assert source(func).count("_product(") == merged
    total, out = 0, np.zeros(1, np.int32)
    for i, j in visited:
        total = (total * 31 + i * 7 + j + 1) % 1000003
    run(func, out, np.array([2], np.int32))
    assert out[0] == total


@pytest.mark.parametrize("depth", [14, 15, 16, 30, 31])
def test_loops_of_any_depth(depth: int) -> None:
    lines = [" " * k + f"for i{k} in range(N[0]):" for k in range(depth)]
    lines.append(" " * depth + "C[0] = C[0] * 2 + i0")
    func = function('C: T.Buffer((1,), "int32"), N: T.Buffer((1,), "int32")', "\n".join(lines))
    out = np.ones(1, np.int32)
    run(func, out, np.array([1], np.int32))
    assert out[0] == 2
    assert source(func).count("def _loop") == (depth - 1) // 15


@pytest.mark.parametrize("strict", [False, True])
def test_masks_are_kept_where_reads_are_checked(strict: bool) -> None:
    body = (
        "X = T.alloc_buffer((4,))\n"
        "for i in range(4):\n"
        '    with T.block("w"):\n'
        "        v = T.axis.spatial(4, i)\n"
        "        X[v] = A[v]"
    )
    text = source(function('A: T.Buffer((10,), "float32")', body), strict)
    assert ("mask" in text) is strict
    assert ("_uninitialised(" in text) is strict
    assert text.count("] = True") == int(strict)
