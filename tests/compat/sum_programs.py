"""A program of one block "C" with a line of a test."""

from __future__ import annotations

from typing import Any

from tileloom.script import parse

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((SIZE, SIZE), "float32"), B: T.Buffer((SIZE,), "float32"),
         C: T.Buffer((SIZE, SIZE), "KIND"), D: T.Buffer((SIZE, SIZE), "float32"), n: T.float32):
    with T.block("root"):
        T.reads(A[0:SIZE, 0:SIZE])
        T.writes(C[0:SIZE, 0:SIZE])
        for i, j in T.grid(SIZE, SIZE):
            with T.block("C"):
                x = T.axis.spatial(SIZE, i)
                y = T.axis.spatial(SIZE, j)
                STORE
"""


def program(value: str, size: int, kind: str = "float32") -> Any:
    store = value if "C[" in value else f"C[x, y] = {value}"
    text = PROGRAM.replace("SIZE", str(size)).replace("KIND", kind)
    return parse(text.replace("STORE", store.replace("\n", "\n                ")))


ONE = "A[x, y] * B[y]"
