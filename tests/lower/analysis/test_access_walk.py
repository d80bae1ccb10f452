"""What is refused before there is code is what leaves a buffer when it is run, and nothing else."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest

from tileloom.base.errors import OutOfBoundsError, VerifyError
from tileloom.lower.blocks.refuse_out_of_bounds import refuse_out_of_bounds
from tileloom.script import from_source
from tileloom.tir import PrimFunc
from tileloom.tir.run import run

HEAD = """@T.prim_func
def main(A: T.Buffer((10,), "int32"), B: T.Buffer((4, 5), "int32"), n: T.int32):
"""


def program(body: str) -> PrimFunc:
    func = from_source(HEAD + textwrap.indent(body, "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def refused(func: PrimFunc) -> str:
    """Why a function is refused; nothing if it is not."""
    try:
        refuse_out_of_bounds(func)
    except OutOfBoundsError as error:
        return str(error).splitlines()[0]
    return ""


def leaves(func: PrimFunc, n: int = 3) -> bool:
    """Whether a run of the function leaves a buffer."""
    try:
        run(func, np.zeros(10, "int32"), np.zeros((4, 5), "int32"), n)
    except VerifyError:
        return True
    return False


@pytest.mark.parametrize("seed", range(150))
def test_loops_of_numbers_under_guards(seed: int) -> None:
    """Few enough iterations to try them all: exact where the index names all loops."""
    pick = random.Random(seed)
    i, j = (pick.randint(-2, 3), pick.randint(1, 5)), (pick.randint(-1, 2), pick.randint(1, 4))
    a, b, c = pick.choice([1, 1, 2, 3, -1]), pick.choice([0, 1, 1, 2, -2]), pick.randint(-3, 5)
    index = f"i * {a} + j * {b} + {c}"
    index = pick.choice([index, index, f"({index}) // 2", f"({index}) % 12", f"({index}) % 9 + i"])
    guard = pick.choice(
        ["", "i > 0", "i < 2 and j > 0", "i == j", "i != 1 or j < 1", "not (i > 0 or j == 1)",
         "i + j < 4", "i * 2 >= j", "(i + j) % 2 == 0", "i > 0 and i < 1"]
    )  # fmt: skip
    write = f"A[{index}] = i"
    if guard and pick.random() < 0.4:
        write = f"A[0] = T.if_then_else({guard}, A[{index}], 0)"
    elif guard:
        write = f"if {guard}:\n            {write}"
    name = pick.random() < 0.3
    if name:
        write = write.replace(index, "x")
    let = f"x: T.int32 = {index}\n        " if name else ""
    func = program(f"""for i in range({i[0]}, {i[0] + i[1]}):
    for j in range({j[0]}, {j[0] + j[1]}):
        {let}{write}""")
    if refused(func):
        assert leaves(func), str(func)
    elif b:
        assert not leaves(func), str(func)


CASES = [
    ("for i in range(11):\n    A[i] = i", "A[i] is out of bounds: the index i of axis 0 runs "
     "from 0 to 10, and A has 10 elements there"),
    ("for i in range(10):\n    A[i - 1] = i", "i - 1 of axis 0 runs from -1 to 8"),
    ("for i in range(10):\n    A[i + 10] = i", "runs from 10 to 19"),
    ("A[10] = 1", "the index 10 of axis 0 is 10, and A has 10"),
    ("A[-1] = 1", "the index -1 of axis 0 is -1"),
    ("for i, j in T.grid(4, 6):\n    B[i, j] = 1", "the index j of axis 1 runs from 0 to 5, and B"
     " has 5 elements"),
    ("for i, j in T.grid(5, 5):\n    B[i, j] = 1", "the index i of axis 0 runs from 0 to 4, and B"
     " has 4 elements"),
    ("for i in range(9):\n    A[T.if_then_else(i == 3, 12, i)] = 1", "runs from 0 to 12, and A"),
    ("for i in range(8):\n    A[i + i % 3 * 4] = 1", "runs from 0 to 15 and is 11 once"),
    ("for i in range(1000):\n    for j in range(1000):\n        A[(i * 1000 + j) // 90909] = 1",
     "runs from 0 to 11"),
    ("for i in range(1000):\n    if i < 11:\n        A[i] = 1", "runs from 0 to 10"),
    ("for i in range(1000):\n    if i * 7 == 70:\n        A[i] = 1", "of axis 0 is 10"),
    ("for i in range(2, 12):\n    A[i - 2 + n * 0] = A[i]", "the index i of axis 0 runs from 2"),
    ("if n > 3:\n    A[10] = 1", ""),
    ("if n > 3:\n    for i in range(11):\n        A[i] = 1", ""),
    ("for i in range(n):\n    A[i + 10] = 1", "and A has 10 elements"),
    ("for i in range(n):\n    A[i] = 1", ""),
    ("for i in range(n, n + 11):\n    A[i] = 1", ""),
    ("for i in range(n, n + 11):\n    A[i - n] = 1", ""),
    ("A[n] = 1", ""),
    ("A[T.max(n, 0)] = 1", ""),
    ("A[T.max(n, 10)] = 1", "and A has 10"),
    ("A[T.min(n, -1)] = 1", "and A has 10"),
    ("A[A[0]] = 1", ""),
    ("if A[0] > 10:\n    A[11] = 1", ""),
    ("for i in range(11):\n    if A[0] > i:\n        A[i] = 1", ""),
    ("while A[0] > 0:\n    A[12] = 1", "the index 12"),
    ("while A[0] > 0:\n    for i in range(11):\n        A[i] = 1", ""),
    ("while A[0] > 0:\n    A[1] = 2\nfor i in range(11):\n    A[i] = 1", "runs from 0 to 10"),
    ("for i in range(0):\n    A[12] = 1", ""),
    ("for i in range(3):\n    if i > 5:\n        A[12] = 1", ""),
    ("for i in range(3):\n    if i > 1:\n        A[i + 8] = 1\n    else:\n        A[i + 9] = 1",
     "of axis 0 is 10"),
    ("for i in range(3):\n    if i > 1:\n        A[i + 7] = 1\n    else:\n        A[i + 8] = 1",
     ""),
    ("for i in range(3):\n    if i > 0:\n        A[i + 7] = 1\n    A[i + 7] = 2", ""),
    ("for i in range(3):\n    A[i] = 1\nfor i in range(11):\n    A[i] = 1", "runs from 0 to 10"),
    ("x: T.int32 = 4\ny: T.int32 = x * 3\nA[y - 2] = 1", "is 10"),
    ("for i in range(12):\n    x: T.int32 = i + 1\n    if x < 10:\n        A[x] = 1", ""),
    ("for i in range(12):\n    x: T.int32 = i + 1\n    if x < 12:\n        A[x] = 1", "runs from"),
    ("A[3:13] = T.Broadcast(1, 10)", "and A has 10"),
    ("A[0:10] = T.Broadcast(1, 10)", ""),
    ("assert n > 3, 'n'\nA[10] = 1", ""),
    ("for i in range(11):\n    A[0] = T.Select(i < 10, A[i], 0)", ""),
    ("for i in range(12):\n    A[0] = T.Select(i < 10 or A[i] > 3, 1, 0)", "the index i"),
    ("for i in range(12):\n    A[0] = T.Select(i < 10 and A[i] > 3, 1, 0)", ""),
    ("for i in range(12):\n    A[0] = T.Select(i >= 10 or A[i] > 3, 1, 0)", ""),
    ("for i in T.parallel(11):\n    A[i] = 1", "runs from 0 to 10"),
    ("for i in T.thread_binding(11, thread='threadIdx.x'):\n    A[i] = 1", "runs from 0 to 10"),
    ("with T.block('b'):\n    v = T.axis.spatial(11, 10)\n    A[v] = 1", "of axis 0 is 10"),
    ("for i in range(11):\n    with T.block('b'):\n        v = T.axis.spatial(11, i)\n"
     "        T.where(i < 10)\n        A[v] = 1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "text"), CASES)
def test_what_is_said(body: str, text: str) -> None:
    found = refused(program(body))
    assert text in found if text else not found
