"""What steps and tactics refuse that few programs have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedule.common import ELEMENTWISE, MATMUL, NORMALISE, check_same, parse, refused, schedule
from schedule.test_refusals import PAD, Step, at, chain, on, one, rows
from tileloom import ScheduleError, te
from tileloom.schedule import Schedule
from tileloom.schedule.library import (
    as_matrices,
    mma_matmul,
    register_tile,
    schedule_gpu_product,
    tensor_core_conv2d,
    tensor_core_matmul,
    tile,
)
from tileloom.schedule.library.product_tiles import fetch_tile
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.target import target

ALONE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""

#: A view of rows of a buffer, in a block of its own.
VIEW = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        with T.block("O"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo, 0:8])
            T.writes(B[vo, 0:8])
            V = T.match_buffer(B[vo, 0:8], (8,), offset_factor=1)
            for j in range(8):
                with T.block("V"):
                    vj = T.axis.spatial(8, j)
                    V[vj] = A[vo, vj] * 2.0
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""

POINTER = chain(
    BODY_C='T.reads(B[0:8]); T.writes(C[vi]); C[vi] = B[vi] + T.call_extern("float32", "f", '
    'B.access_ptr("r"))'
)

CASES: list[tuple[str, Step, str]] = [
    # inlining
    (ALONE, on("compute_inline", "B"), "block 'B' is the only block of its scope"),
    (chain(BODY_B="B[vi] = 1.0; A[vi] = 2.0"), on("compute_inline", "B"),
     "block 'B' writes 2 buffers, not one"),
    (NORMALISE, on("compute_inline", "S"), "block 'S' has T.init.., so it cannot be inlined"),
    (NORMALISE, on("reverse_compute_inline", "S"), "block 'S' has T.init"),
    (POINTER, on("compute_inline", "B"), "'B' cannot be inlined: block 'C' uses its pointer"),
    (VIEW, on("reverse_compute_inline", "C"), "cannot be inlined"),
    # what is behind another name
    (VIEW, on("set_scope", "V", then=[0, "local"]), "the buffer 'V' is another name for a part"),
    (VIEW, on("transform_layout", "V", then=[("write", 0), lambda i: (i // 4, i % 4)]),
     "'V' is another name for a part of a buffer"),
    (ELEMENTWISE, on("set_scope", "C", then=[0, "local"]),
     "the buffer 'C' is a parameter of the function"),
    (POINTER, on("transform_layout", "B", then=[("write", 0), lambda i: (i // 4, i % 4)]),
     "the pointer of 'B' is used: its layout must stay"),
    # padding
    (PAD.replace("CONDITION", "vi < 6").replace("INSIDE", "A[vi]").replace(
        "            B[vi] =", "            B[7 - vi] = T.float32(1)\n            B[vi] ="),
     lambda sch: ("decompose_padding", sch.get_block("B"), sch.get_loops("B")[0]),
     "its body is more than one store"),
    (PAD.replace("CONDITION", "vi < 12").replace("INSIDE", "A[vi // 2]").replace(
        "spatial(8, i)", "spatial(16, i * 2)").replace('B: T.Buffer((8,)', 'B: T.Buffer((16,)'),
     lambda sch: ("decompose_padding", sch.get_block("B"), sch.get_loops("B")[0]),
     "has strides"),
    # blocks together
    (rows(), lambda sch: ("merge", sch.get_loops("C")[0]), "merge needs at least two loops, got 1"),
    (ELEMENTWISE, lambda sch: ("fuse",), "fuse needs at least one loop"),
    (ELEMENTWISE, at("rfactor", "B", 0, 0), "is not a reduction block: it has no T.init"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "step", "match"), CASES, ids=[match for *_, match in CASES])
def test_refusals(text: str, step: Step, match: str) -> None:
    sch = schedule(text)
    refused(sch, match, *step(sch))


def test_nests_become_one_block_at_the_root() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.blockize([sch.get_block("B"), sch.get_block("C")])
    assert sch.get(block).name_hint == "outer_B_C_"
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == [
        "outer_B_C_"
    ]
    assert [region.buffer.name for region in sch.get(block).writes] == ["B", "C"]
    check_same(sch, ELEMENTWISE)


# ---------------------------------------------------------------------------- intrinsics

SHIFTED = """
@T.prim_func
def f(A: T.Buffer((4,), offset_factor=1), B: T.Buffer((4,), offset_factor=1)):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                BODY
"""


def description(body: str) -> str:
    """What stores four elements of B."""
    return SHIFTED.replace("BODY", body.replace("; ", "\n" + " " * 16))


PIECES: list[tuple[str, str, bool]] = [
    # a body of the program, one of the description, whether they are the same
    ("B[vi] = A[vi] * 2.0", "B[v] = A[v] * 2.0", True),
    ("B[vi] = A[vi] * 2.0", "B[v] = A[v] * 2.0 + 1.0", False),
    ("B[vi] = A[vi] * 2.0", "B[v] = A[v] * 3.0", False),
    ("B[vi] = A[vi] * 2.0", "B[v] = A[v] + 2.0", False),
    ("B[vi] = A[vi] * 2.0", "B[v] = A[3 - v] * 2.0", False),
    ("B[vi] = T.exp(A[vi])", "B[v] = T.exp(A[v])", True),
    # indices and conditions need not be written alike
    ("B[vi] = T.Select(vi % 4 < 2, A[vi], T.float32(2))",
     "B[v] = T.Select(v < 2, A[v], T.float32(2))", True),
    ("B[vi] = T.Select(vi % 4 < 2, A[vi], T.float32(2))",
     "B[v] = T.Select(v < 3, A[v], T.float32(2))", False),
    ("B[vi] = A[vi] * T.Cast('float32', vi % 4 * 2 + 1)",
     "B[v] = A[v] * T.Cast('float32', 1 + v + v)", True),
    ("B[vi] = A[vi] * T.Cast('float32', vi % 4 * 2 + 1)",
     "B[v] = A[v] * T.Cast('float32', 2 + v + v)", False),
    ("B[vi] = T.exp(A[vi])", "B[v] = T.log(A[v])", False),
    ("B[vi] = T.max(A[vi], T.float32(0))", "B[v] = T.max(A[v], T.float32(0))", True),
    ("B[vi] = T.max(A[vi], T.float32(0))", "B[v] = T.min(A[v], T.float32(0))", False),
    ("B[vi] = T.Cast('float32', T.Cast('float16', A[vi]))",
     "B[v] = T.Cast('float32', T.Cast('float16', A[v]))", True),
    ("B[vi] = T.Cast('float32', T.Cast('float16', A[vi]))",
     "B[v] = T.Cast('float32', T.Cast('float64', A[v]))", False),
    ("B[vi] = T.Select(A[vi] > 1.0, A[vi], T.float32(2))",
     "B[v] = T.Select(A[v] > 1.0, A[v], T.float32(2))", True),
    ("B[vi] = T.Select(A[vi] > 1.0, A[vi], T.float32(2))",
     "B[v] = T.Select(A[v] >= 1.0, A[v], T.float32(2))", False),
    ("if A[vi] > 1.0:;     B[vi] = A[vi]", "if A[v] > 1.0:;     B[v] = A[v]", True),
    ("if A[vi] > 1.0:;     B[vi] = A[vi]", "if A[v] > 2.0:;     B[v] = A[v]", False),
    ("if A[vi] > 1.0:;     B[vi] = A[vi]; else:;     B[vi] = 2.0",
     "if A[v] > 1.0:;     B[v] = A[v]; else:;     B[v] = 2.0", True),
    ("if A[vi] > 1.0:;     B[vi] = A[vi]; else:;     B[vi] = 2.0",
     "if A[v] > 1.0:;     B[v] = A[v]; else:;     B[v] = 3.0", False),
    ("if A[vi] > 1.0:;     B[vi] = A[vi]; else:;     B[vi] = 2.0",
     "if A[v] > 1.0:;     B[v] = A[v]", False),
    ("x: T.float32 = A[vi] + 1.0; B[vi] = x * x", "y: T.float32 = A[v] + 1.0; B[v] = y * y", True),
    ("x: T.float32 = A[vi] + 1.0; B[vi] = x * x",
     "y: T.float32 = A[v] + 2.0; B[v] = y * y", False),
    ("x: T.float32 = A[vi] + 1.0; B[vi] = x * x",
     "y: T.float32 = A[v] + 1.0; B[v] = y * A[v]", False),
    ("B[vi] = A[vi]; B[vi] = B[vi] + 1.0", "B[v] = A[v]; B[v] = B[v] + 1.0", True),
    ("B[vi] = A[vi]; B[vi] = B[vi] + 1.0", "B[v] = A[v]", False),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "same"), PIECES, ids=str)
def test_what_a_description_fits(ours: str, theirs: str, same: bool) -> None:
    text = one(ours)
    TensorIntrin.register("rare_piece", parse(description(theirs)),
                          parse(description(theirs)), override=True)  # fmt: skip
    sch = schedule(text)
    _, inner = sch.split(sch.get_loops("B")[0], [None, 4])
    if not same:
        refused(sch, "'rare_piece'", "tensorize", inner, "rare_piece")
        return
    sch.tensorize(inner, "rare_piece")
    assert sch.get(sch.get_block("B_o")).match_buffers
    check_same(sch, text)


# ---------------------------------------------------------------------------- tactics

GPU = target("cuda -arch=sm_80")


def contraction(value: Callable[..., object], *shapes: tuple[int, ...]) -> Schedule:
    inputs = [te.placeholder(shape, name=name) for name, shape in zip("AB", shapes)]
    k = te.reduce_axis((0, shapes[0][-1]), name="k")
    c = te.compute((8, 6), lambda i, j: te.sum(value(*inputs, i, j, k), axis=k), name="C")
    return Schedule(te.create_prim_func([*inputs, c]))


@pytest.mark.parametrize(
    ("value", "shapes"),
    [
        (lambda a, b, i, j, k: a[i, k] + b[k, j], [(8, 4), (4, 6)]),
        (lambda a, i, j, k: a[i, k] * a[j, k], [(8, 4)]),
        (lambda a, b, i, j, k: a[i, k] * b[i, k], [(8, 4), (8, 4)]),
        (lambda a, b, i, j, k: a[i, k] * b[j, 0], [(8, 4), (6, 4)]),
        (lambda a, b, i, j, k: a[i, k] * b[k, j], [(8, 1), (1, 6)]),
        (lambda a, i, j, k: a[i, k], [(8, 4)]),
    ],
    ids=["a sum", "of one buffer", "no columns", "nothing reduced", "outer", "one factor"],
)
def test_what_is_no_product_of_matrices(value: Any, shapes: list[tuple[int, ...]]) -> None:
    for step in (
        lambda sch: as_matrices(sch, "C"),
        lambda sch: schedule_gpu_product(sch, "C", GPU),
        lambda sch: mma_matmul(sch, "C", GPU),
    ):
        with pytest.raises(ScheduleError, match="no product of matrices"):
            step(contraction(value, *shapes))
    with pytest.raises(ScheduleError, match="no convolution of images without groups"):
        tensor_core_conv2d(contraction(value, *shapes), "C", GPU)


def test_loops_that_are_elsewhere() -> None:
    sch = schedule(ELEMENTWISE)
    with pytest.raises(ScheduleError, match="the loop is not around the block 'C'"):
        register_tile(sch, "C", sch.get_loops("B")[0], lanes=4)


def test_a_tile_of_one_element() -> None:
    sch = schedule(MATMUL)
    levels = tile(sch, "C", "SRS", [[None, 1], [None, 1], [None]])
    with pytest.raises(ScheduleError, match="a tile of one element needs no registers"):
        register_tile(sch, "C", levels[0][-1], lanes=1)


def test_fragments_need_three_loops_of_whole_tiles() -> None:
    with pytest.raises(ScheduleError, match="a matrix product has three loops, not 2"):
        tensor_core_matmul(schedule(ELEMENTWISE), "C")
    with pytest.raises(ScheduleError, match="loop 'k' has 96 iterations, no multiple of 64"):
        tensor_core_matmul(schedule(MATMUL), "C", (2, 2), (2, 2), 4)
    with pytest.raises(ScheduleError, match="loop 'i' has 128 iterations, no multiple of 96"):
        tensor_core_matmul(schedule(MATMUL), "C", (2, 2), (3, 2), 2)


def test_tiles_that_threads_cannot_share() -> None:
    k: Any = te.reduce_axis((0, 12), name="k")
    a, b = te.placeholder((6, 12), name="A"), te.placeholder((12, 10), name="B")
    c = te.compute((6, 10), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    product = as_matrices(sch, "C")
    i, j, k = sch.get_loops(product.block)
    step, _ = sch.split(k, [None, 4])
    sch.reorder(step, i, j)
    with pytest.raises(ScheduleError, match="a tile of 24 elements cannot be distributed over 32"):
        fetch_tile(sch, product, product.left, step, (1, 32))
