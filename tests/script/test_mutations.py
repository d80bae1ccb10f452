"""Scripts that were damaged are refused in words, by the parser or by what compiles them."""

from __future__ import annotations

import ast
import copy
import io
import random
import re
import tokenize
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tileloom
from tileloom import UserError
from tileloom.base.errors import ParseError
from tileloom.script import parse

HEAD = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):\n'
BLOCK = """    for i in {}:
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = {}
"""
TEXTS = (
    HEAD + BLOCK.format("range(16)", "A[vi] * T.float32(2)"),
    HEAD + BLOCK.format("T.parallel(16)", "T.if_then_else(vi < 8, A[vi], T.exp(A[15 - vi]))"),
    """@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8,), "float32")):
    D = T.alloc_buffer((8, 12), "float32", scope="global")
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, 0:12])
            T.writes(D[vi, vj])
            D[vi, vj] = T.max(A[vi, vj], T.float32(0)) + T.Cast("float32", vj % 3)
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.reduce(12, j)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + D[vi, vj]
""",
    """@T.prim_func
def main(a: T.handle, n: T.int32, b: T.handle):
    A = T.match_buffer(a, (n,), "int32", strides=(1,))
    B = T.match_buffer(b, (16,), "int32x4", align=64)
    C = T.allocate([16], "int32", "local")
    D = T.Buffer((16,), "int32", data=C)
    x: T.int32 = n // 4
    for i in T.serial(16, annotations={"step": 1}):
        D[i] = T.Select(i < x, T.int32(1), 0)
        if i * 4 + 3 < n and not x == 3:
            B[i] = T.Shuffle([T.Broadcast(A[i], 4), T.Ramp(i, 1, 4)], [0, 5, 2, 7])
        else:
            B[i] = T.Broadcast(D[i] & 7, 4)
    while D[0] < 3:
        D[0] = D[0] + 1
    T.evaluate(T.call_extern("int32", "abs", D[0]))
""",
)
ODD_TEXT = """
( ) [ ] { } , : . * ** - + ~ not and or if else for in with lambda None True 0 1 -1 16 1.5 1e400
99999999999999999999999 "" "float32" "float33" "x" f"{i}" () [] {} [i] (i,) {1:2} A B A[vi] A[0] C
i vi n T T.float32 T.int32 T.bool T.handle T.Buffer T.grid T.block T.init T.Shuffle T.Ramp T.Let
T.axis.remap T.reads T.vectorized T.thread_binding T.match_buffer T.alloc_buffer T.evaluate range
int len print __import__ A.shape A.dtype T.float32(1) T.bool(1) i+1 i/2 A*2 *A **{} *16 = == <= >>
@ ; return pass global :=
"""
ODD = tuple(ODD_TEXT.split())
EXPRESSION_TEXT = """
0 1 -1 16 7 1.5 1e400 99999999999999999999999 "" "float32" "float33" "S" None True [] {} () [i]
(i,) A B A[vi] A[0] A[0,0] i vi n T T.float32 T.int32 T.handle T.grid(4) T.grid() range(3)
range(3,1) range(-2) T.float32(1) T.int64(3) T.bool(1) i+1 i//0 vi%0 A*2 T.Ramp(0,1,4)
T.Ramp(i,0,0) T.Broadcast(1.0,-3) T.Broadcast(i,2) T.Shuffle([i],[0]) lambda:0 i<3 i==i
(vi<3)and(1) T.exp(1.0) T.max(i,2) T.serial(0,n) T.vectorized(4) T.parallel(3) T.unroll(2)
T.thread_binding(4,thread="threadIdx.x") T.Cast("int8",i) T.evaluate(0) T.Buffer((4,),"int8")
T.alloc_buffer((0,)) T.Select(i<1,i,2) T.axis.reduce(4,i) int(3) A[vi:vi+4] A.shape A.data 3<<70
1<<-1 2**9 -i ~i not(i) i&1 i/2 T.reads() T.call_extern("int32","f",A)
"""
EXPRESSIONS = tuple(EXPRESSION_TEXT.split())


def pieces(text: str) -> list[str]:
    """The text cut at its tokens; joined they are the text."""
    ends = [0]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        for row, column in (token.start, token.end):
            place = lines[min(row - 1, len(lines) - 1)] + column
            if place > ends[-1]:
                ends.append(place)
    return [text[a:b] for a, b in zip(ends, [*ends[1:], len(text)], strict=True)]


def tokens_mutated(text: str, rng: random.Random) -> str:
    """A program with one or two tokens replaced, dropped, doubled or exchanged."""
    parts = pieces(text)
    for _ in range(rng.choice((1, 1, 2))):
        words = [k for k, part in enumerate(parts) if part.strip()]
        at, other = rng.choice(words), rng.choice(words)
        odd = rng.choice(ODD)
        parts[at] = rng.choice((odd, odd, "", f"{parts[at]} {parts[at]}", f"{parts[at]} {odd}"))
        if rng.random() < 0.2:
            parts[at], parts[other] = parts[other], parts[at]
    return "".join(parts)


def slots(tree: ast.AST) -> Any:
    """Every expression and statement with the place that holds it."""
    found: list[Any] = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, (ast.expr, ast.stmt)):
                found.append((node, name, None, value))
            for k, part in enumerate(value if isinstance(value, list) else ()):
                if isinstance(part, (ast.expr, ast.stmt)):
                    found.append((node, name, k, part))
    return found


def tree_mutated(text: str, rng: random.Random) -> str:
    """A program with one or two expressions or statements replaced, dropped or doubled."""
    tree = ast.parse(text)
    for _ in range(rng.choice((1, 1, 2))):
        places = [slot for slot in slots(tree) if not isinstance(slot[3], ast.FunctionDef)]
        holder, name, k, old = rng.choice(places)
        kind = ast.stmt if isinstance(old, ast.stmt) else ast.expr
        likely = [slot[3] for slot in places if isinstance(slot[3], kind)]
        new = copy.deepcopy(rng.choice(likely))
        if kind is ast.expr and rng.random() < 0.5:
            new = ast.parse(rng.choice(EXPRESSIONS), mode="eval").body
        if k is None:
            setattr(holder, name, new)
            continue
        parts = getattr(holder, name)
        how = rng.randrange(4)
        if how == 0 and len(parts) > 1:
            del parts[k]
        elif how == 1:
            parts.insert(k, new)
        else:
            parts[k] = new
    return ast.unparse(ast.fix_missing_locations(tree))


def mutated(rng: random.Random) -> str:
    """One of the programs, damaged."""
    text = rng.choice(TEXTS)
    if rng.random() < 0.3:
        return tokens_mutated(text, rng)
    try:
        return tree_mutated(text, rng)
    except (ValueError, RecursionError):  # a tree that is no program
        return text


def survives(number: int, build: bool) -> bool:
    """Whether a mutated script is accepted; anything but a `UserError` escapes."""
    text = mutated(random.Random(number))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            program = parse(text)
        if build:
            tileloom.build(program)
    except UserError as error:
        assert str(error)
        return False
    return True


def test_mutated_scripts_are_refused_in_words() -> None:
    accepted = sum(survives(number, build=number % 10 == 0) for number in range(400))
    assert 20 < accepted < 300


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_mutated_scripts_are_refused_in_words(part: int) -> None:
    for number in range(500 * (part + 1), 500 * (part + 2)):
        survives(number, build=True)


@pytest.mark.parametrize(
    "loops, value, message",
    [
        ("T.grid(*16)", "A[vi]", "'int' object is not iterable"),
        ("T.grid(**16)", "A[vi]", "'int' object is not iterable"),
        ("T.grid(*[[16]])", "A[vi]", "expression"),
        ("range(16)", "A[{A: 1}[0]]", "0"),
        ("range(16)", "T.Shuffle([A[vi]], [1])", "has no positions [1]"),
        ("range(16)", "T.Shuffle([], [0])", "has no positions [0]"),
        ("range(16)", "T.Shuffle([A[vi]], [-1])", "has no positions [-1]"),
    ],
)
def test_mistakes_point_at_their_place(loops: str, value: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        parse(HEAD + BLOCK.format(loops, value))
    assert caught.value.span is not None
    assert caught.value.span.line in (3, 6)


@pytest.mark.parametrize("count", [50, 500, 3000, 20_000, 100_000])
@pytest.mark.parametrize("make", [lambda n: "-" * n + "A[vi]", lambda n: "+".join(["A[vi]"] * n)])
def test_deep_expressions_work_or_are_refused(make: Callable[..., Any], count: int) -> None:
    text = HEAD + BLOCK.format("range(16)", make(count))
    try:
        tileloom.build(parse(text))
    except UserError as error:
        assert count > 100
        assert "nested too deeply" in str(error)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("strides=(1,)", "strides=(0, 1)", "1 dimensions has as many strides, not 2"),
        ('T.allocate([16], "int32", "local")', "T.Ramp(0, 1, 4)", "must be a pointer variable"),
    ],
)
def test_buffers_that_cannot_be_are_refused(old: str, new: str, message: str) -> None:
    assert old in TEXTS[3]
    with pytest.raises(ParseError, match=message):
        parse(TEXTS[3].replace(old, new))


@pytest.mark.parametrize("words", ["if {}: pass", "while {}: pass", "assert {}, 'x'"])
def test_lanes_do_not_decide_what_runs(words: str) -> None:
    line = words.format("T.Ramp(0, 1, 4) < T.Broadcast(2, 4)")
    with pytest.raises(ParseError, match="cannot depend on the lanes of"):
        parse(HEAD + f"    {line}\n")


@pytest.mark.parametrize(
    "text, message",
    [
        (HEAD + BLOCK.format("range(16)", "T.float32()"), "outside its scope"),
        (TEXTS[2].replace("T.float32(0)\n            C", "T.Cast('float32', vj)\n            C"),
         "init of block 'C' uses 'vj'"),
        (TEXTS[3].replace("align=64", "align=64, offset_factor=1"), "nothing gives the offset"),
    ],
)  # fmt: skip
def test_variables_without_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        tileloom.build(parse(text))


def test_deep_brackets_are_refused() -> None:
    for count in (150, 1000, 10_000):
        text = HEAD + BLOCK.format("range(16)", "(" * count + "A[vi]" + ")" * count)
        try:
            parse(text)
        except UserError as error:
            assert re.search("nest|too many|complex|deep", str(error)), str(error)
    with pytest.raises(UserError, match="null bytes"):
        parse(HEAD + "\0")
