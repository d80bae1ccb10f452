"""Small parts of steps, against their meaning: ranges, loops, statements, names of intrinsics."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest

from schedule.common import check_same, parse, refused, schedule
from schedule.test_refusals import chain, one
from tileloom import te
from tileloom.base.errors import UserError
from tileloom.expr import Analyzer, IntImm, Range, Var, const
from tileloom.schedule import Schedule, Trace
from tileloom.schedule.library import find_factors
from tileloom.schedule.library.gpu_product import _fills
from tileloom.schedule.library.product import _Access, _order, _parts_of_words
from tileloom.schedule.primitives._boxes import _are_loops
from tileloom.schedule.primitives._cache import _surely_stores, clipped
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.tir import Block, BufferStore, collect

I, J, N = (Var(name, "int32") for name in "ijn")


# ---------------------------------------------------------------------------- ranges and loops


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("extent", [0, 1, 3, 8])
def test_what_is_inside_of_a_shape(extent: int, size: int) -> None:
    for low in range(-9, 8):
        part = Range(const(low, "int64"), const(extent, "int64"))
        found = clipped(part, const(size))
        assert isinstance(found.min, IntImm) and isinstance(found.extent, IntImm)
        assert str(found.min.dtype) == str(found.extent.dtype) == "int64"
        first, count = found.min.value, found.extent.value
        assert set(range(first, first + count)) == set(range(low, low + extent)) & set(range(size))
    for part in (Range(I, const(3)), Range(const(-1), I)):
        assert clipped(part, const(2)) is part
    part = Range(const(-1), const(9))
    assert clipped(part, N) is part, "of an unknown size nothing is cut off"


@pytest.mark.parametrize(
    ("values", "asked", "loops"),
    [
        ([I, J], [(0, 4), (0, 8)], True),
        ([J, I], [(0, 8), (0, 4)], True),
        ([I, J], [(0, 8), (0, 4)], False),
        ([I, J], [(0, 4), (0, 7)], False),  # not all of it is asked for: that is for others
        ([I, J], [(0, 4), (0, 9)], False),
        ([I, J], [(1, 4), (0, 8)], False),
        ([I, I], [(0, 4), (0, 4)], False),
        ([I + 0, J + 1], [(0, 4), (0, 8)], False),
        ([I, N], [(0, 4), (0, 8)], False),  # no loop of the block's
        ([I], [(0, 4), (0, 8)], False),
        ([], [], True),
    ],
)
def test_loops_that_run_over_just_what_is_asked_for(
    values: list[Any], asked: list[tuple[int, int]], loops: bool
) -> None:
    domains = {I: Range(0, 4), J: Range(0, 8)}
    assert _are_loops(values, domains, [Range(low, n) for low, n in asked]) == loops


@pytest.mark.parametrize(
    ("body", "surely"),
    [
        ("B[vi] = A[vi]", True),
        ("C[vi] = A[vi]", False),
        ("C[vi] = A[vi]; B[vi] = A[vi]", True),
        ("if A[vi] > 1.0:;     B[vi] = A[vi]", False),
        ("if A[vi] > 1.0:;     B[vi] = A[vi]; else:;     B[vi] = 2.0", True),
        ("if A[vi] > 1.0:;     B[vi] = A[vi]; else:;     C[vi] = 2.0", False),
        ("if A[vi] > 1.0:;     C[vi] = A[vi]; else:;     B[vi] = 2.0", False),
        ("if vi < 8:;     B[vi] = A[vi]", True),
        ("if vi < 7:;     B[vi] = A[vi]", False),
        ("if A[vi] > 1.0:;     C[vi] = A[vi]; B[vi] = 1.0", True),
        ("while A[vi] > 1.0:;     B[vi] = A[vi]", False),
        ("for j in range(2):;     B[vi] = A[vi]", True),
        ("x: T.float32 = A[vi]; B[vi] = x", True),
    ],
)
def test_what_is_stored_whatever_happens(body: str, surely: bool) -> None:
    text = one(body).replace("B: T.Buffer", 'C: T.Buffer((8,), "float32"), B: T.Buffer', 1)
    func = parse(text)
    made = {buffer for buffer in func.buffers if buffer.name == "B"}
    (block,) = (b for b in collect(func.body, Block) if b.name_hint == "B")
    known = Analyzer({axis.var: axis.domain for axis in block.iter_vars})
    assert _surely_stores(block.body, made, known) == surely


# ---------------------------------------------------------------------------- inlining

PLACES = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer(SHAPE)
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[PLACE] = A[vi, vj] * 2.0
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[READ] + 1.0
"""


@pytest.mark.parametrize(
    ("shape", "place", "read"),
    [
        ("(4, 6)", "vi, vj", "vi, vj"),
        ("(6, 4)", "vj, vi", "vj, vi"),
        ("(6, 4)", "vj, vi", "5 - vj, vi"),
        ("(4, 6)", "3 - vi, vj", "vi, vj"),
        ("(4, 6)", "3 - vi, 5 - vj", "vi, 5 - vj"),
        ("(5, 6)", "vi + 1, vj", "vi + 1, vj"),
        ("(8, 6)", "vi * 2, vj", "vi * 2, vj"),
        ("(24,)", "vi * 6 + vj", "vi * 6 + vj"),
        ("(24,)", "vj * 4 + vi", "vj * 4 + vi"),
        ("(2, 2, 6)", "vi // 2, vi % 2, vj", "vi // 2, vi % 2, vj"),
        ("(2, 2, 6)", "vi % 2, vi // 2, vj", "vi % 2, vi // 2, 5 - vj"),
    ],
)
def test_what_is_stored_elsewhere_is_solved_for(shape: str, place: str, read: str) -> None:
    text = PLACES.replace("SHAPE", shape).replace("PLACE", place).replace("READ", read)
    sch = schedule(text)
    sch.compute_inline("B")
    (_, block) = (sch.get(sch.get_block(name)) for name in ("root", "C"))
    assert {region.buffer.name for region in block.reads} == {"A"}
    check_same(sch, text)


@pytest.mark.parametrize("place", ["vi, 0", "vi // 2, vj", "vi, vj // 2"])
def test_what_is_stored_in_places_that_do_not_tell_it(place: str) -> None:
    text = PLACES.replace("SHAPE", "(8, 6)").replace("PLACE", place).replace("READ", place)
    sch = schedule(text, debug_mask=0)
    why = "not a bijective affine map|not a stage pipeline|is not a complete block"
    refused(sch, why, "compute_inline", sch.get_block("B"))


@pytest.mark.parametrize(
    "body",
    ["if A[vi] > 1.0:;     C[vi] = B[vi]", "for j in range(2):;     C[vi] = B[vi]",
     "x: T.float32 = B[vi]; C[vi] = x"],
)  # fmt: skip
def test_consumers_of_more_than_one_store(body: str) -> None:
    sch = schedule(chain(BODY_C=body), debug_mask=0)
    refused(sch, "its body is not one store", "reverse_compute_inline", sch.get_block("C"))


# ---------------------------------------------------------------------------- padding

BOX = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(CONDITION, A[7 - vi, vj], T.float32(3))
"""


@pytest.mark.parametrize(
    ("condition", "extents"),
    [
        ("vi < 5", [5, 8]),
        ("2 <= vi", [6, 8]),
        ("2 <= vi and vi < 3", [1, 8]),
        ("7 <= vj and vi < 1", [1, 1]),
        ("1 <= vi and vi < 7 and 1 <= vj and vj < 5", [6, 4]),
        ("vi + 1 < 5", [4, 8]),
        ("not 2 <= vi", [2, 8]),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_boxes_that_are_copied(condition: str, extents: list[int], depth: int) -> None:
    text = BOX.replace("CONDITION", condition)
    sch = schedule(text)
    sch.decompose_padding("B", sch.get_loops("B")[depth])
    block = sch.get(sch.get_block("B"))
    assert [int(axis.domain.extent) for axis in block.iter_vars] == extents
    fill = [sch.get(loop).extent for loop in sch.get_loops("B_pad_const")]
    assert [int(extent) for extent in fill] == [8, 8], "all is filled"
    copied = [int(sch.get(loop).extent) for loop in sch.get_loops("B")]
    assert copied == [8, *extents[1:]] if depth else copied == extents
    check_same(sch, text)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("vi < 8", "the condition always holds"),
        ("0 <= vi and vj < 8", "the condition always holds"),
        ("vi < vj", "the condition is no box"),
        ("vi % 2 == 0", "the condition is no box"),
        ("vi < 2 or 5 <= vi", "the condition is no box"),
        ("5 <= vi and vi < 5", "nothing is inside"),
        ("5 <= vi and vi < 3", "nothing is inside"),
    ],
)
def test_conditions_that_are_no_boxes(condition: str, why: str) -> None:
    sch = schedule(BOX.replace("CONDITION", condition))
    refused(sch, why, "decompose_padding", sch.get_block("B"), sch.get_loops("B")[0])


def test_a_loop_that_two_variables_run_over() -> None:
    """It stays as long as it is: what one of them leaves out the other one needs."""
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, i])
            B[vi, vj] = T.if_then_else(vi < 5, A[vi, vj], T.float32(3))
"""
    sch = schedule(text, debug_mask=0)
    before = str(sch.mod)
    try:
        sch.decompose_padding("B", sch.get_loops("B")[0])
    except UserError:
        assert str(sch.mod) == before
    else:
        check_same(sch, text)


# ---------------------------------------------------------------------------- traces and names


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (3, "this is no trace in JSON"),
        ([[], [], []], "this is no trace in JSON"),
        ([[["GetBlock", [], []]], []], "this is no trace in JSON"),
        ([[], [["x", 1]]], "this is no trace in JSON"),
        ([[[3, [], [], []]], []], "step 0 of the trace is no step"),
        ([[["GetBlock", "b", [], []]], []], "step 0 of the trace is no step"),
        ([[["GetBlock", [], ["C", "main"], [3]]], []],
         r"step 0 \(GetBlock\) of the trace defines \[3\], which are no names"),
        ([[["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], [None]]], []],
         r"step 1 \(GetLoops\) of the trace defines \[None\], which are no names"),
    ],
)  # fmt: skip
def test_what_is_no_trace(data: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        Trace.apply_json_to_schedule(data, schedule(chain()))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("rocm_mfma_f16f16f32", "'rocm_mfma_f16f16f32' is for the matrix units of AMD's GPUs"),
        ("wmma_lode_16x16x16_f16_a_shared", "no tensor intrinsic is called"),
    ],
)
def test_intrinsics_that_there_are_not(name: str, match: str) -> None:
    with pytest.raises(UserError, match=match):
        TensorIntrin.get(name)
    assert TensorIntrin.get(name, allow_missing=True) is None
    assert name not in TensorIntrin.names()


# ---------------------------------------------------------------------------- products


def test_variables_in_the_order_of_memory() -> None:
    """The longest step first; those with none, or that memory does not know, as they were."""
    for steps in permutations((100, 10, 1)):
        access = _Access(0, (0, 1, 2), dict(enumerate(steps)), {}, frozenset(), 0, 32, True)
        for group in permutations(range(3)):
            found = _order(group, access)
            assert [steps[p] for p in found] == [100, 10, 1]
    odd = _Access(0, (0, 1, 2), {0: None, 1: 4, 2: -8}, {}, frozenset(), 0, 32, True)
    assert _order((3, 0, 1, 2), odd) == (2, 1, 3, 0)
    assert _order((0, 3), odd) == (0, 3)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("T.word(A[4 * vi], A[4 * vi + 1], A[4 * vi + 2], A[4 * vi + 3])", 4),
        ("T.word(A[vi], A[vi + 8], A[vi + 16], A[vi + 24])", 1),
        ("T.word(A[4 * vi + 1], A[4 * vi], A[4 * vi + 2], A[4 * vi + 3])", 1),
        ("T.word(A[4 * vi], T.int8(0), T.int8(0), T.int8(0))", 1),
        ("T.Cast('int32', A[vi]) + T.Cast('int32', A[vi + 1])", 1),
        ("T.Cast('int32', T.max(A[vi], A[vi + 1]))", 1),
        ("T.max(T.Cast('int32', A[vi]), T.Cast('int32', A[vi + 1]))", 1),
        ("T.if_then_else(vi < 4, T.word(A[4 * vi], A[4 * vi + 1], A[4 * vi + 2], "
         "A[4 * vi + 3]), 0)", 4),
    ],
)  # fmt: skip
def test_words_of_neighbours(value: str, parts: int) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((32,), "int8"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = {value}
""")
    (block,) = (b for b in collect(func.body, Block) if b.name_hint == "B")
    assert isinstance(block.body, BufferStore)
    assert _parts_of_words(block, Analyzer()) == parts


@pytest.mark.parametrize("sizes", list(product((63, 64), repeat=3)))
def test_products_that_fill_four_warps(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    rv = sch.get_block("C")
    assert _fills(sch.get(rv), find_factors(sch, rv)) == (min(sizes) >= 64)
    assert not _fills(sch.get(rv), None)
