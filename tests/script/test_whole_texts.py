"""Short functions in and out: every line of what is printed."""

from __future__ import annotations

import textwrap

import pytest

from tileloom.script import from_source, show
from tileloom.script import tir as T

HEAD = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32")):\n'
CASES = {
    "axis over a loop's range": (
        """\
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(T.serial(16), i)
        A[v] = 1.0""",
        """\
# with T.block("root"):
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(16, i)
        T.reads()
        T.writes(A[v])
        A[v] = T.float32(1.0)""",
    ),
    "reads alone are said": (
        """\
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(16, i)
        T.reads(A[0:16])
        A[v] = 1.0""",
        """\
# with T.block("root"):
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(16, i)
        T.reads(A[0:16])
        T.writes(A[v])
        A[v] = T.float32(1.0)""",
    ),
    "writes alone are said": (
        """\
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(16, i)
        T.writes(A[0:16])
        A[v] = A[v] + 1.0""",
        """\
# with T.block("root"):
for i in range(16):
    with T.block("b"):
        v = T.axis.spatial(16, i)
        T.reads(A[v])
        T.writes(A[0:16])
        A[v] = A[v] + T.float32(1.0)""",
    ),
    "lets with and without a name": (
        """\
with T.LetStmt(T.int32(3)) as x:
    A[x] = 1.0
with T.LetStmt(T.int32(4)):
    A[0] = 1.0""",
        """\
with T.LetStmt(3) as x:
    A[x] = T.float32(1.0)
v: T.int32 = 4
A[0] = T.float32(1.0)""",
    ),
    "annotated buffer": (
        """\
B: T.Buffer((4,), "float32") = T.alloc_buffer((4,), "float32")
B[0] = 1.0
A[0] = B[0]""",
        """\
# with T.block("root"):
B = T.alloc_buffer((4,))
B[0] = T.float32(1.0)
A[0] = B[0]""",
    ),
    "annotated axis": (
        """\
for i in range(4):
    with T.block("b"):
        v: T.int32 = T.axis.spatial(4, i)
        A[v] = 1.0""",
        """\
# with T.block("root"):
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        T.reads()
        T.writes(A[v])
        A[v] = T.float32(1.0)""",
    ),
    "thread launched twice": (
        """\
t = T.env_thread("threadIdx.x")
with T.launch_thread(t, 4):
    A[t] = 1.0
with T.launch_thread(t, 8):
    A[t + 4] = 1.0""",
        """\
t = T.env_thread("threadIdx.x")
with T.launch_thread(t, 4):
    A[t] = T.float32(1.0)
T.launch_thread(t, 8)
A[t + 4] = T.float32(1.0)""",
    ),
    "thread launched once": (
        """\
t = T.launch_thread("threadIdx.x", 4)
A[t] = 1.0""",
        """\
t = T.launch_thread("threadIdx.x", 4)
A[t] = T.float32(1.0)""",
    ),
    "annotated value": (
        """\
x: T.int32 = 3
A[x] = 1.0""",
        """\
x: T.int32 = 3
A[x] = T.float32(1.0)""",
    ),
    "root in full": (
        """\
with T.block("root"):
    with T.block("inner"):
        A[0] = 1.0""",
        """\
with T.block("root"):
    T.reads()
    T.writes()
    with T.block("inner"):
        T.reads()
        T.writes(A[0])
        A[0] = T.float32(1.0)""",
    ),
    "no axes": (
        """\
with T.block("other"):
    T.reads()
    T.writes(A[0])
    A[0] = 1.0""",
        """\
with T.block("other"):
    T.reads()
    T.writes(A[0])
    A[0] = T.float32(1.0)""",
    ),
    "conditions that are known": (
        """\
if not True:
    A[0] = 1.0
else:
    A[1] = 2.0""",
        """\
A[1] = T.float32(2.0)""",
    ),
    "a condition that is not known": (
        """\
for i in range(4):
    if not i < 2:
        A[i] = 1.0""",
        """\
for i in range(4):
    if not (i < 2):
        A[i] = T.float32(1.0)""",
    ),
    "regions of whole buffers": (
        """\
with T.block("b"):
    T.reads(A)
    T.writes(A[0], A[1:3])
    A[0] = A[1]""",
        """\
with T.block("b"):
    T.reads(A[0:16])
    T.writes(A[0], A[1:3])
    A[0] = A[1]""",
    ),
    "a variable that was made before": (
        """\
x = T.int32()
with T.LetStmt(3, var=x):
    A[x] = 1.0""",
        """\
x: T.int32 = 3
A[x] = T.float32(1.0)""",
    ),
    "calls of constants": (
        """\
A[0] = T.max(T.float32(1), T.float32(2)) + T.exp(T.float32(0))
A[1] = T.max(1.0, 2.0)""",
        """\
A[0] = T.float32(2.0) + T.exp(T.float32(0.0))
A[1] = T.float32(2.0)""",
    ),
    "dictionaries": (
        """\
v = {"a": 1, **{"b": 2}}
A[v["b"]] = T.float32(v["a"])""",
        """\
A[2] = T.float32(1.0)""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_texts(name: str) -> None:
    given, expected = CASES[name]
    lines = show(from_source(HEAD + textwrap.indent(given, "    ") + "\n")).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def "))
    assert textwrap.dedent("\n".join(lines[start + 1 :])) == expected


def test_names_around_a_decorator_of_another_module() -> None:
    """What annotations name is found although the decorator is called from elsewhere."""
    elsewhere: dict[str, object] = {}
    exec(
        "from tileloom.script import tir as T\ndef apply(function):\n"
        "    return T.prim_func(function)\n",
        elsewhere,
    )
    apply = elsewhere["apply"]
    extent = 12

    @apply  # type: ignore[operator]
    def kernel(A: T.Buffer((extent,), "float32")) -> None:
        for i in range(12):
            A[i] = 1.0

    assert str(kernel.buffers[0].shape[0]) == "12"
