"""What steps refuse, a program and a step for each reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedule.common import ELEMENTWISE, MATMUL, NORMALISE, parse, refused, schedule
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.tir import IRModule

#: The method and its arguments, taken from the schedule.
Step = Callable[[Schedule], tuple[Any, ...]]

CHAIN = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in T.serial(FIRST):
        with T.block("B"):
            vi = T.axis.spatial(8, AT_B)
            WHERE_B
            BODY_B
    for i in T.serial(SECOND):
        with T.block("C"):
            vi = T.axis.spatial(8, AT_C)
            WHERE_C
            BODY_C
"""

#: C[i] = B[i] + 1, where B = A * 2; the pieces that differ are given.
DEFAULTS = {
    "FIRST": "0, 8", "SECOND": "0, 8", "AT_B": "i", "AT_C": "i", "WHERE_B": "", "WHERE_C": "",
    "BODY_B": "B[vi] = A[vi] * 2.0", "BODY_C": "C[vi] = B[vi] + 1.0",
}  # fmt: skip


def chain(**pieces: str) -> str:
    """A producer B and a consumer C; pieces of several lines are separated by semicolons."""
    text = CHAIN
    for name, piece in {**DEFAULTS, **pieces}.items():
        text = text.replace(name, piece.replace("; ", "\n" + " " * 12))
    return "\n".join(line for line in text.split("\n") if line.strip())


ROWS = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = START
            C[vi] = COMBINED
"""


def rows(start: str = "T.float32(0)", combined: str = "C[vi] + A[vi, vk]") -> str:
    return ROWS.replace("START", start).replace("COMBINED", combined)


#: Three nests, each of which depends on the one before.
THREE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[7 - vi]
"""

ONE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            BODY
"""

PAD = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(CONDITION, INSIDE, T.float32(0))
"""


#: A reduction below a loop that it does not use, with variables that one loop shares, and beside
#: another block.
REPEATED = rows().replace("i, k in T.grid(4, 8)", "i, k, r in T.grid(4, 8, 3)")
SKEWED = rows().replace("[i, k])", "[i, k])").replace('T.axis.remap("SR", [i, k])',
    "T.axis.spatial(4, i), T.axis.reduce(8, (k + i) % 8)")  # fmt: skip
SHARED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4, 8))):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = A[vi, vk]
"""

#: A condition that ties loops.
TIED = rows().replace(
    "            with T.init", "            T.where(i + k < 9)\n            with T.init"
)

#: C in a block of its own, beside D.
NESTED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("outer"):
            vo = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    C[vi] = A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
"""

ONLINE = """
@T.prim_func
def main(
    A: T.Buffer((4, 8), "float32"), M: T.Buffer((4,), "float32"), S: T.Buffer((4,), "float32")
):
    for i in range(4):
        for k in T.serial(START, 8):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vk])
        SIBLING
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
"""


def online(**pieces: str) -> str:
    """A maximum and a sum of exponentials."""
    text = ONLINE
    defaults = {"START": "0", "SIBLING": ""}
    for name, piece in {**defaults, **pieces}.items():
        text = text.replace(name, piece)
    return text


def one(body: str) -> str:
    return ONE.replace("BODY", body.replace("; ", "\n" + " " * 12))


def on(name: str, *blocks: str, **more: Any) -> Step:
    """A step on blocks, with what follows as it stands."""
    return lambda sch: (name, *map(sch.get_block, blocks), *more.get("then", ()))


def at(name: str, block: str, place: int, *then: Any) -> Step:
    """A step on a loop of a block."""
    return lambda sch: (name, sch.get_loops(block)[place], *then)


def rows_of_four(i: Any, j: Any) -> tuple[Any, ...]:
    """A layout of tiles."""
    return i // 4, i % 4, j


def small(block: str, intrinsic: str) -> Step:
    """Tensorize tiles of eight along all loops."""

    def step(sch: Schedule) -> tuple[Any, ...]:
        pairs = [sch.split(loop, [None, 8]) for loop in sch.get_loops(block)]
        sch.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
        if intrinsic.startswith("matmul"):
            sch.decompose_reduction(block, pairs[2][0])
        return "tensorize", pairs[0][1], intrinsic

    return step


CASES: list[tuple[str, Step, str]] = [
    # compute_inline
    (one("B[vi] = A[vi]"), on("compute_inline", "B"), "a result of its scope"),
    (chain(BODY_B="B[vi] = T.call_extern(\"float32\", \"f\", A[vi])"),
     on("compute_inline", "B"), "has side effects"),
    (chain(BODY_B="B[vi] = A[vi]; B[vi] = B[vi] + 1.0"), on("compute_inline", "B"),
     "it both reads and writes 'B'"),
    # reverse_compute_inline
    (chain(WHERE_C="T.where(i < 5)"), on("reverse_compute_inline", "C"),
     "runs under the condition"),
    (chain(AT_C="i * i % 8"), on("reverse_compute_inline", "C"), "are not affine"),
    (chain(BODY_C="C[vi] = B[vi]; C[vi] = B[vi] + 1.0"),
     on("reverse_compute_inline", "C"), "its body is not one store"),
    (chain(BODY_B="B[vi] = A[vi]; T.evaluate(T.call_extern(\"int32\", \"f\"))"),
     on("reverse_compute_inline", "C"), "its body is not one store"),
    (THREE, on("reverse_compute_inline", "D"), "so it must stay"),
    (chain(FIRST="0, 4"), on("reverse_compute_inline", "C"), "may not hold all it reads"),
    # moves
    (one("B[vi] = A[vi]"), lambda sch: ("compute_at", sch.get_block("B"), sch.get_loops("B")[0]),
     "which is around it"),
    (THREE, lambda sch: ("compute_at", sch.get_block("C"), sch.get_loops("B")[0]),
     "a result of its scope"),
    # reductions
    (rows(combined="C[vi] * 0.5 + A[vi, vk]"), at("rfactor", "C", 1, 0), "combiner"),
    (rows(combined="C[vi] + (A[vi, vk] - C[vi])"), at("rfactor", "C", 1, 0), "combiner"),
    (rows(combined="T.max(A[vi, vk] - C[vi], C[vi])"), at("rfactor", "C", 1, 0), "combiner"),
    (rows(start="C[vi]"), at("rfactor", "C", 1, 0), "from one another"),
    (rows(combined="C[vi] + A[vi, vk]\n            T.evaluate(T.call_extern(\"int32\", \"f\"))"),
     at("rfactor", "C", 1, 0), "does more than store"),
    (REPEATED, at("rfactor", "C", 1, 0), "is used by no iteration variable"),
    (SKEWED, at("rfactor", "C", 1, 0), "are not affine"),
    (SHARED, at("rfactor", "C", 1, 0), "holds 2 blocks; rfactor needs"),
    (NORMALISE, lambda sch: ("decompose_reduction", sch.get_block("S"), sch.get_loops("C")[0]),
     "is not around"),
    (MATMUL, lambda sch: ("tensorize", sch.get_loops("C")[2], "no_such_intrinsic"),
     "no tensor intrinsic is called"),
    # blockize
    (ELEMENTWISE, lambda sch: ("blockize", []), "at least one block"),
    # merge
    (THREE, lambda sch: ("merge", sch.get_loops("B")[0], sch.get_loops("D")[0]), "before block"),
    (ELEMENTWISE, lambda sch: ("merge", *sch.get_loops("B")), "a block of its own"),
    # transform_block_layout
    (chain(FIRST="2, 8", AT_B="i"), on("transform_block_layout", "B", then=[lambda i: (i,)]),
     "does not start at zero"),
    (chain(WHERE_B="T.where(i < 5)"), on("transform_block_layout", "B", then=[lambda i: (i,)]),
     "runs under a condition"),
    # transform_layout
    (ELEMENTWISE, on("transform_layout", "B", then=["A", rows_of_four, "x"]),
     "padding must be a number"),
    (ELEMENTWISE, on("transform_layout", "B", then=["A", rows_of_four, T.int32(3)]),
     "the padding 3 is int32, the buffer float32"),
    # pad_einsum
    (one("T.where(i < 5); B[vi] = A[vi]"), on("pad_einsum", "B", then=[[3]]),
     "runs under a condition"),
    (ONE.replace("range(8)", "T.serial(2, 8)").replace("BODY", "B[vi] = A[vi]"),
     on("pad_einsum", "B", then=[[3]]), "does not start at 0"),
    (one("B[vi] = A[vi]; T.evaluate(T.call_extern(\"int32\", \"f\"))"),
     on("pad_einsum", "B", then=[[3]]), "its body is more than one store"),
    # loop_partition
    (SKEWED, at("loop_partition", "C", 1, [2, None]), "which piece starts its results"),
    # reduce_online
    (online(SIBLING="T.evaluate(A[i, 0])"), on("reduce_online", "M", "S"), "hold more than it"),
    (online(START="1"), on("reduce_online", "M", "S"), "does not start at zero"),
    # read_at
    # tensorize
    (MATMUL.replace('"float32"', '"float64"').replace("T.float32", "T.float64"),
     small("C", "matmul_8x8x8_f32"), "float64.*float32"),
    (MATMUL.replace("B[vk, vj]", "A[vi, vk]"), small("C", "matmul_8x8x8_f32"),
     "are not the indices that 'B' needs"),
    (ONE.replace("BODY", "B[vi] = A[vi]"),
     lambda sch: ("tensorize", sch.get_loops("B")[0], "matmul_8x8x8_f32"),
     "where the program has"),
    # blockize
    (TIED, at("blockize", "C", 1), "which no index is made of"),
    (THREE, lambda sch: ("blockize", [sch.get_block("B"), sch.get_block("D")]),
     "do not follow each other"),
    (NESTED, lambda sch: ("blockize", [sch.get_block("C"), sch.get_block("D")]),
     "is not in the scope of"),
    (NESTED, lambda sch: ("cache_read", sch.get_block("C"), 0, "local", [sch.get_block("D")]),
     "is not in the same scope"),
    (rows(start="T.float32(0)\n                A[vi, 0] = T.float32(0)"),
     at("rfactor", "C", 1, 0), "which it does not update"),
    # reindex
    (chain(BODY_B="B[vi] = B[vi] + A[vi]"), on("reindex", "B", then=[("write", 0)]),
     "both reads and writes"),
    (chain(WHERE_C="T.where(i < 5)"), on("reindex", "C", then=[("write", 0)]), "leave out some"),
    (chain(BODY_B="for j in range(1):\n                B[vi + j] = A[vi]"),
     on("reindex", "B", then=[("write", 0)]), "change inside the block"),
    (chain(BODY_C="T.reads(B[0:8]); T.writes(C[vi]); C[vi] = B[vi] + "
     "T.call_extern(\"float32\", \"f\", B.access_ptr(\"r\"))"),
     on("reindex", "C", then=[("read", 0)]), "it uses its pointer"),
    # reindex_cache
    (chain(BODY_B="B[vi] = B[vi] + A[vi]"),
     on("reindex_cache_read", "B", then=[0, "local", lambda i: (i,)]), "both reads and writes"),
    (ELEMENTWISE, on("reindex_cache_read", "B", then=[0, "local", lambda i: (i,)]), "does not fit"),
    # annotate_buffer_access
    (ELEMENTWISE, on("annotate_buffer_access", "B", then=[0, "read", lambda i: (i, i + 1)]),
     "other arguments than the 2 iteration variables"),
    (ELEMENTWISE, on("annotate_buffer_access", "B", then=[0, "read", lambda i, j: i]),
     "a list of ranges, got vi"),
    # cache_read
    (ELEMENTWISE,
     lambda sch: ("cache_read", sch.get_block("B"), 0, "local", [sch.get_block("root")]),
     "is not in the same scope"),
    # decompose_padding
    (PAD.replace("CONDITION", "vi % 2 == 0").replace("INSIDE", "A[vi // 2]"),
     lambda sch: ("decompose_padding", sch.get_block("B"), sch.get_loops("B")[0]),
     "the condition is no box"),
    (PAD.replace("CONDITION", "vi < 0").replace("INSIDE", "A[vi]"),
     lambda sch: ("decompose_padding", sch.get_block("B"), sch.get_loops("B")[0]),
     "the condition is no box"),
    (PAD.replace("CONDITION", "vi < 6").replace("INSIDE", 'T.call_extern("float32", "f", A[vi])'),
     lambda sch: ("decompose_padding", sch.get_block("B"), sch.get_loops("B")[0]), "has effects"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "step", "match"), CASES, ids=[match for *_, match in CASES])
def test_refusals(text: str, step: Step, match: str) -> None:
    sch = schedule(text)
    refused(sch, match, *step(sch))


def test_blocks_of_two_functions() -> None:
    both = IRModule({"f": parse(one("B[vi] = A[vi]")), "g": parse(one("B[vi] = A[vi]"))})
    sch = Schedule(both, debug_mask="all")
    blocks = [sch.get_block("B", "f"), sch.get_block("B", "g")]
    refused(sch, "B.* is not in the scope of", "blockize", blocks)
    loops = [sch.get_loops(block)[0] for block in blocks]
    refused(sch, "loops? .*i", "merge", *loops)
    refused(sch, "in another scope", "compute_at", blocks[0], loops[1])


@pytest.mark.parametrize("value", ["A[B[vi]]", "A[vi // B[vi]]", "A[vi % B[vi]]"])
def test_indices_that_a_condition_may_leave_out(value: str) -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "int32")
    for o, i in T.grid(3, 3):
        with T.block("B"):
            vi = T.axis.spatial(8, o * 3 + i)
            T.where(o * 3 + i < 8)
            B[vi] = 8 - vi
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = VALUE
"""
    sch = schedule(text.replace("VALUE", value))
    step = ("reverse_compute_at", sch.get_block("C"), sch.get_loops("B")[1])
    refused(sch, "block 'B' runs under a condition, and block 'C' uses 'B' as an index", *step)
    sch = schedule(text.replace("VALUE", "T.Cast('float32', B[vi])"))
    sch.reverse_compute_at("C", sch.get_loops("B")[1])
