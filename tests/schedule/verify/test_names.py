"""Variables without a value are reported wherever they are used, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.schedule.verify import verify_program
from tileloom.script import parse
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")

#: Ways to use the variable `lost` of a loop in a block.
PLACES = {
    "value": "C[v] = A[v] + T.Cast('float32', lost)",
    "index": "C[v] = A[v + lost]",
    "store": "C[v + lost] = A[v]",
    "guard": "if lost < 1:\n                    C[v] = A[v]",
    "extent": "for j in range(lost + 1):\n                    C[v] = A[v]",
    "let": "with T.LetStmt(lost * 2) as y:\n                    C[v] = A[v] + T.Cast('float32', y)",
}
TEXT = """
@T.prim_func
def main(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    for lost in range(1):
        for i in range(5):
            with T.block("C"):
                v = T.axis.spatial(5, {bound})
                T.where({where})
                {body}
"""


def parsed(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def without_its_loop(func: PrimFunc) -> PrimFunc:
    """The outermost loop has another variable, of the same name, than the one used in it."""
    root: Any = func.body
    loop: Any = getattr(root, "block", func).body
    other = loop.replace(loop_var=loop.loop_var.with_name("lost"))
    if loop is root:
        return func.replace(body=other)
    return func.replace(body=root.replace(block=root.block.replace(body=other)))


def undefined(func: PrimFunc, original: PrimFunc | None = None) -> list[tuple[str, str]]:
    report = verify_program(func, original=original)
    found = [v for v in report.violations if v.kind == "undefined"]
    assert (report.state == "wrong") or not found
    return [(v.message, *v.blocks) for v in found]  # type: ignore[misc]


@pytest.mark.parametrize("place", [*PLACES, "binding", "predicate"])
def test_what_nothing_defines_is_reported_with_its_block(place: str) -> None:
    body = PLACES.get(place, "C[v] = A[v]")
    bound = "i + lost" if place == "binding" else "i"
    where = "i + lost < 5" if place == "predicate" else "True"
    func = parsed(TEXT.format(bound=bound, where=where, body=body))
    assert undefined(func) == []
    text = "no loop, block or parameter around block 'C' defines 'lost', which it uses"
    assert undefined(without_its_loop(func)) == [(text, "C")]
    assert undefined(without_its_loop(func), func) == [(text, "C")]


@pytest.mark.parametrize(
    "declared", ["S = T.alloc_buffer((lost + 1,))", "S = T.match_buffer(A[lost:lost + 5], (5,))"]
)
def test_buffers_inside_blocks(declared: str) -> None:
    body = f"{declared}\n                C[v] = S[0]"
    func = parsed(TEXT.format(bound="i", where="True", body=body))
    assert undefined(func) == []
    assert [block for _, block in undefined(without_its_loop(func))] == ["C"]


def test_outside_of_blocks() -> None:
    func = parsed("""
@T.prim_func
def main(C: T.Buffer((5,), "float32")):
    for lost in range(1):
        for i in range(lost + 1):
            C[i] = 0.0
""")
    assert undefined(func) == []
    ((message, _),) = undefined(without_its_loop(func))
    assert message.startswith("no loop, block or parameter around the body defines 'lost'")


def test_a_loop_defines_its_variable_inside_of_it_alone() -> None:
    func = parsed("""
@T.prim_func
def main(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    B = T.alloc_buffer((5,))
    for i in range(5):
        with T.block("B"):
            v = T.axis.spatial(5, i)
            B[v] = A[v]
    for j in range(5):
        with T.block("C"):
            v = T.axis.spatial(5, j)
            C[v] = B[v]
""")
    root: Any = func.body
    first, second = root.block.body.seq
    body = root.block.body.replace(seq=(first, second.replace(loop_var=first.loop_var)))
    wrong = func.replace(body=root.replace(block=root.block.replace(body=body)))
    assert [block for _, block in undefined(wrong)] == ["C"]
    assert undefined(func) == []


def test_names_that_have_a_value() -> None:
    """Parameters, sizes, strides, threads, bindings, views and loops outside of a block."""
    func = parsed("""
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32, x: T.float32):
    m = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (m, 4), strides=(s, 1))
    B = T.match_buffer(b, (m, 4))
    for t in T.thread_binding(4, "threadIdx.x"):
        for i in range(m):
            with T.block("B"):
                v = T.axis.spatial(m, i)
                w = T.axis.spatial(4, t)
                r = T.int32()
                S = T.match_buffer(A[v, 0:4], (4,), strides=(r,))
                with T.LetStmt(S[w] * x) as y:
                    B[v, w] = T.Let(z + y, where={z: y}) + T.Cast("float32", n + i)
""")
    assert undefined(func) == []
