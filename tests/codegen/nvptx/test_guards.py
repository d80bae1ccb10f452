"""Which stores and loads under a condition need no branch, and what is written for them."""

from __future__ import annotations

import re

import pytest

from codegen.test_instructions import instructions, kernel_text

THREAD = 't = T.launch_thread("threadIdx.x", 32); '
LOCAL = (
    THREAD + 'S_data = T.allocate([8], "float32", "local"); '
    'S = T.decl_buffer((8,), data=S_data, scope="local"); '
)
SHARED = LOCAL.replace('"local"', '"shared"')
WORD = '"@$0 st.global.b32 [$1], $2;", "b,l,r,~{memory}"'

#: A body, and the guarded stores that it becomes.
STORES = [
    ("if t < n: A[t] = B[t]", WORD),
    ("if t < n: A[t] = 1.0", WORD),
    ("if t < n: I[t + 3] = I[t] // 4", WORD),
    ("if t < n: A[t] = B[t] / A[t + 1]", WORD),
    ("if t < n: A[t] = T.exp(B[t])", WORD),
    ("if t < n: A[I[0]] = B[t]", WORD),
    ("if I[t] < n: A[t] = B[t]", WORD),
    ("if t < n: H[t] = H[t + 1]", '"@$0 st.global.b16 [$1], $2;", "b,l,h,~{memory}"'),
    (
        "if t < n: L[t] = L[t + 1]",
        '"@$0 st.global.v2.b32 [$1], {$2, $3};", "b,l,r,r,~{memory}"',
    ),
    (
        "if t < n: A[t * 4:t * 4 + 4] = B[t * 4:t * 4 + 4]",
        '"@$0 st.global.v4.b32 [$1], {$2, $3, $4, $5};", "b,l,r,r,r,r,~{memory}"',
    ),
    (
        "if t < n: A[t * 2:t * 2 + 2] = B[t * 2:t * 2 + 2]",
        '"@$0 st.global.v2.b32 [$1], {$2, $3};", "b,l,r,r,~{memory}"',
    ),
]

#: Bodies that keep their branch, and why.
BRANCHES = {
    "if t < n: P[t] = P[t + 1]": "a bool is a byte",
    "if t < n: U[t] = U[t + 1]": "there is no store of a byte with a condition",
    "if t < n: A[t * 4 + 1:t * 4 + 5] = B[t * 4:t * 4 + 4]": "it may not be aligned",
    "if t < n: A[T.Ramp(t, 2, 4)] = B[t:t + 4]": "the elements lie apart",
    "if t < n: A[I[0:4]] = B[t:t + 4]": "the elements lie anywhere",
    "if t < n: A[t * 8:t * 8 + 8] = B[t * 8:t * 8 + 8]": "there is no store of 32 bytes",
    "if t < n: I[t] = I[t] // n": "n may be 0",
    "if t < n: I[t] = I[t] % n": "n may be 0",
    "if t < n: I[t] = T.truncdiv(I[t], n)": "n may be 0",
    "if t < n: I[t] = T.truncmod(I[t], n)": "n may be 0",
    "if t < n: A[t // n] = 1.0": "n may be 0",
    "if t < n: A[t] = B[I[t]]": "the index may be any number",
    "if t < n: A[I[I[t]]] = 1.0": "the index may be any number",
    'if t < n: A[t] = T.call_extern("float32", "f", t)': "the call may do anything",
}


def branches(text: str) -> int:
    return len(re.findall(r"br i1", text.split('@"main"(', 1)[1].split("\n}", 1)[0]))


def guarded(lines: str) -> list[str]:
    """The text and the constraint of each store with a condition."""
    found = re.findall(r'asm sideeffect ("@[^"]*"), ("[^"]*")', kernel_text(lines))
    return [f"{text}, {constraint}" for text, constraint in found]


@pytest.mark.parametrize(("body", "wanted"), STORES)
def test_stores_with_a_condition(body: str, wanted: str) -> None:
    assert guarded(THREAD + body) == [wanted]
    assert branches(kernel_text(THREAD + body)) == 0


@pytest.mark.parametrize("body", BRANCHES)
def test_what_needs_a_branch(body: str) -> None:
    assert guarded(THREAD + body) == [], BRANCHES[body]
    assert branches(kernel_text(THREAD + body)) >= 1


@pytest.mark.parametrize(
    ("condition", "count"), [("t < n", 2), ("I[t] < n", 0), ("t < n and I[t] < n", 0)]
)
def test_several_stores_under_one_condition(condition: str, count: int) -> None:
    """Where the condition reads memory the first store may change it."""
    lines = f"{THREAD}if {condition}:;     A[t] = B[t];     I[t] = n"
    assert len(guarded(lines)) == count


def test_one_of_several_that_needs_a_branch() -> None:
    assert guarded(f"{THREAD}if t < n:;     A[t] = B[t];     U[t] = U[t + 1]") == []


def test_two_ways_need_a_branch() -> None:
    lines = f"{THREAD}if t < n:;     A[t] = B[t]; else:;     A[t] = 1.0"
    assert guarded(lines) == []
    assert branches(kernel_text(lines)) == 1


def test_memory_of_a_block_is_no_global_memory() -> None:
    assert guarded(SHARED + "if t < n: S[t % 8] = B[t]") == []
    assert guarded(LOCAL + "if t < n: S[t % 8] = B[t]") == []


def selects(lines: str) -> int:
    return sum(name.startswith("select") for name in instructions(kernel_text(lines)))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("if t < n: A[t] = 1.0", 0),
        ("if t < n: A[t] = B[t]", 2),
        ("if t < n: A[t] = B[t] + B[t + 1]", 4),
        ("if t < n: A[t * 4:t * 4 + 4] = B[t * 4:t * 4 + 4]", 2),
        ("if t < n: A[t] = S[0]", 0),
        ("if t < n: A[t] = S[t % 8]", 2),
    ],
)
def test_what_is_read_where_the_condition_fails(body: str, count: int) -> None:
    """The place and the value are chosen; a thread's own sum is always there."""
    assert selects(LOCAL + body) == count


@pytest.mark.parametrize(
    ("value", "free"),
    [
        ("T.if_then_else(t < n, B[t], T.float32(0))", True),
        ("T.if_then_else(t < n, B[t + 1], T.float32(2))", True),
        ("T.if_then_else(t < n, B[t // 2], T.float32(2))", True),
        ("T.if_then_else(t < n, B[t // n], T.float32(0))", False),
        ("T.if_then_else(t < n, B[I[t]], T.float32(0))", True),
        ("T.if_then_else(t < n, B[I[I[t]]], T.float32(0))", False),
        ("T.if_then_else(t < n, B[t] + 1.0, T.float32(0))", False),
    ],
)
def test_loads_with_a_condition(value: str, free: bool) -> None:
    assert (branches(kernel_text(f"{THREAD}A[t] = {value}")) == 0) == free


@pytest.mark.parametrize(("size", "free"), [(8, True), (4, True), (3, False), ("n", False)])
def test_the_beginning_of_a_buffer_is_read_instead(size: int | str, free: bool) -> None:
    """There must be as many elements there as are loaded."""
    lines = (
        f"{THREAD}S = T.decl_buffer(({size},), data=B.data); "
        "A[t * 4:t * 4 + 4] = T.if_then_else(t < n, S[t:t + 4], T.Broadcast(T.float32(0), 4))"
    )
    assert (branches(kernel_text(lines)) == 0) == free
