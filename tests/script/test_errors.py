"""Every mistake in a script is a ParseError whose caret stands under the mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.errors import ParseError
from tileloom.script import parse
from tileloom.script import tir as T

HEAD = (
    '@T.prim_func\ndef f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
)


def mistake(line: str) -> ParseError:
    """The error of a function with that line (after a loop over `i`) as its body."""
    text = HEAD + "    for i in range(8):\n" + f"        {line}\n"
    with pytest.raises(ParseError) as caught:
        parse(text, filename="f.py")
    return caught.value


@pytest.mark.parametrize(
    "note",
    ["A: T.Buffer((4, -8), 'int32')", "A: T.handle"],
)
def test_negative_extents_are_refused(note: str) -> None:
    body = (
        "    A[0, 0] = 1\n" if "Buffer" in note else "    B = T.match_buffer(A, (-8,), 'int32')\n"
    )
    with pytest.raises(ParseError, match=r"[AB] has the negative extent -8"):
        parse(f"@T.prim_func\ndef f({note}):\n{body}", filename="f.py")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("A[i, 0] = «0 < i < 8»", "cannot be chained", "`and`"),
        ("«T.vectorised»(3)", "T has no 'vectorised'", "vectorized"),
        ("for j in «T.gird»(3): pass", "T has no 'gird'", "'grid'"),
        ("A[i, 0] = «bta»", "'bta' is not defined", None),
        ("«A[i]» = 1.0", "2 dimensions, got 1", None),
        ("A[«i, 0.5»] = 1.0", "an index must be an integer, got 0.5", None),
        ("A[«i, A[0, 0]»] = 1.0", "integer, got float32", None),
        ("«B[i] = 1.5»", "cannot store the float 1.5 as int32", None),
        ("«B[i] = 1 << 40»", "out of the range of int32", None),
        ("«B[i] = A[i, 0]»", "cannot store float32 in B", 'T.Cast("int32"'),
        ("«A[i, 0] = A»", "A is a buffer", "A[...]"),
        ("A[i, 0] = «A» + 1", "A is a buffer", "A[...]"),
        ("A[i, 0] = «A[i, 0] ** 2»", "Pow is not supported", "T.pow"),
        ("B[i] = «i / 2»", "'/' of integers", "//"),
        ("B[i] = «T.exp(i)»", "needs a floating-point value", "cast"),
        ("B[i] = «T.max(i)»", "missing 1 required positional argument", None),
        ("B[i] = «A.shpae»[0]", "Buffer has no attribute 'shpae'", "'shape'"),
        ("B[i] = «i» and n", "a condition must be bool, got int32", None),
        ("if «i»: pass", "a condition must be bool, got int32", None),
        ("«T.reads(A[0, 0])»", "T.reads belongs into a block", None),
        ("«v = T.axis.spatial(8, i)»", "belongs into a block", None),
        ("for j in «[1, 2]»: pass", "not a loop range", "T.grid"),
        ("for «j, k» in T.grid(2): pass", "2 names for 1 loops", None),
        ("«j, k = i»", "2 names for 1 values", None),
        ("«j, k = i, i, i»", "2 names for 3 values", None),
        ("for j in «range(0, 8, 2)»: pass", "a loop has no step", None),
        ("try: pass\n        finally: pass", "Try statements are not part", None),
        ("x = «{0}»", "Set is not part", None),
        ("«T.alloc_buffer((8,))»", "must be given a name", None),
        ("C = T.alloc_buffer((8,), scpoe='local')", "a buffer has no 'scpoe'", "scope"),
        ("C = «T.alloc_buffer((8,), 'float33')»", "float33", None),
        ("T.attr(", "not Python syntax", None),
        ("T.attr(T.comm_reducer(lambda x, y: x + «bta», [T.int32(0)]), 'k', 1)", "'bta'", None),
        ("B[i] = «A.__class__»", "'__class__' is private", None),
        ("«return»", "empty return", None),
        ("«n[0]» = 1", "only elements of buffers", None),
        ("with «n»: pass", "opens no scope", None),
        ("B[i] = «n(3)»", "n is not a function", None),
        ("«B[0:n] = 1»", "constant length", None),
    ],
)
def test_the_caret_stands_under_the_mistake(line: str, message: str, hint: Any) -> None:
    before, mark, after = line.partition("«")
    at, _, after = after.partition("»")
    error: Any = mistake(before + at + after)
    assert message in error.message
    assert error.span.filename == "f.py"
    assert error.span.line == 4
    if mark:
        assert error.span.column == 9 + len(before)
        assert error.span.end_column == 9 + len(before + at)
    if hint is not None:
        assert hint in error.hint


def test_the_whole_message() -> None:
    assert str(mistake("A[i, 0] = T.flaot32(1)")) == (
        "T has no 'flaot32'\n"
        "  --> f.py:4:19\n"
        "   4 |         A[i, 0] = T.flaot32(1)\n"
        "     |                   ^^^^^^^^^\n"
        "  hint: did you mean 'float32'?"
    )


def test_columns_count_characters() -> None:
    error: Any = mistake('T.evaluate(T.call_extern("int32", "größe", bta))')
    assert error.span.column == 9 + 43
    assert error.span.end_column == 9 + 46


def test_block_mistakes() -> None:
    def block(body: str) -> str:
        text = HEAD + '    with T.block("b"):\n' + f"        {body}\n"
        with pytest.raises(ParseError) as caught:
            parse(text)
        return caught.value.message

    assert "remap takes loop variables" in block('v = T.axis.remap("S", [n])')
    assert "3 names for 2 values" in block('u, v, w = T.axis.remap("SS", [n, n])')
    assert "2 kinds" in block('v, w = T.axis.remap("SS", [n])')
    assert "unknown axis kind 'Q'" in block('v, w = T.axis.remap("SQ", [n, n])')
    assert "stands twice" in block("T.reads(A[0, 0]); T.reads()")
    assert "not a region" in block("T.writes(n)")


def test_what_cannot_change() -> None:
    text = HEAD + "    s = 0\n    for i in range(8):\n        s = s + B[i]\n"
    with pytest.raises(ParseError, match="cannot change") as caught:
        parse(text)
    assert caught.value.span.line == 5
    assert "alloc_buffer" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("x = (", "not Python syntax", 1, 5),
        ("1 + 1", "a script holds functions", 1, 1),
        ("x = 1", "no function or module", None, None),
        ("@T.prim_func\ndef f(A): pass", "parameter 'A' has no type", 2, 7),
        ("@T.prim_func\ndef f(A: 3): pass", "no type of a script", 2, 7),
        ("@T.prim_func\ndef f(A: T.Bufer((4,))): pass", "T has no 'Bufer'", 2, 10),
        ("@T.prim_func\ndef f(n: T.int32 = 3): pass", "plain parameters", 1, 1),
        ("@I.ir_module\nclass M:\n    for i in x: pass", "a module holds functions", 3, 5),
        ("@I.ir_module\nclass M:\n    @jit\n    def f(): pass", "must be decorated", 3, 6),
        ('@T.prim_func\ndef f(A: T.Buffer(("n",), 3)): pass', None, 2, 10),
    ],
)
def test_mistakes_outside_of_bodies(text: Any, message: Any, line: Any, column: Any) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    error: Any = caught.value
    if message is not None:
        assert message in error.message
    if line is not None:
        assert (error.span.line, error.span.column) in {(line, column), (2, column)}


def test_where_a_syntax_error_ends() -> None:
    for text, column, end in (("x = (3 $ 4)", 8, 9), ("x = 08", 5, 6), ("for x in y", 11, 12)):
        with pytest.raises(ParseError) as caught:
            parse(text)
        span: Any = caught.value.span
        assert (span.column, span.end_column) == (column, end), text


def test_a_decorated_function_points_into_its_file() -> None:
    with pytest.raises(ParseError) as caught:

        @T.prim_func
        def func(A: T.Buffer((8,), "float32")) -> None:
            for i in range(8):
                A[i] = T.expp(A[i])

    span: Any = caught.value.span
    assert span.filename == __file__
    assert span.text == "                A[i] = T.expp(A[i])"
    with open(__file__) as file:
        assert file.read().splitlines()[span.line - 1] == span.text
    assert (span.column, span.end_column) == (24, 30)
    assert "'exp'" in caught.value.hint
