"""Padding of new layouts: in the writers, in a block of its own; maps of any divisor and offset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from schedule.common import check_same, check_trace, parse, refused, same_text, schedule
from tileloom.expr import IndexMap
from tileloom.tir import run

COPY = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi] + 1
"""

COPY_PADDED = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((4, 4), "int32")
    for x, y in T.grid(4, 4):
        with T.block("B"):
            vx, vy = T.axis.remap("SS", [x, y])
            B[vx, vy] = T.if_then_else(vx == 3 and 2 <= vy, {pad}, A[vx * 4 + vy])
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi // 4, vi % 4] + 1
"""


@pytest.mark.parametrize(("value", "pad"), [(3, "3"), (lambda x, y: x + y, "vx + vy")])
def test_the_writer_pads(value: Any, pad: str) -> None:
    sch = schedule(COPY)
    sch.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=value)
    same_text(sch, COPY_PADDED.format(pad=pad))
    assert sch.get(sch.get_block("B")).name_hint == "B"
    check_same(sch, COPY)
    assert str(sch.verify()) == "ok"
    if not callable(value):
        check_trace(sch, COPY)


REDUCTION = """
@T.prim_func
def main(A: T.Buffer((14, 5), "int32"), B: T.Buffer((14,), "int32")):
    for i, k in T.grid(14, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
"""

REDUCTION_PADDED = """
@T.prim_func
def main(A: T.Buffer((14, 5), "int32"), B: T.Buffer((4, 4), "int32")):
    for x, y, k in T.grid(4, 4, 5):
        with T.block("B"):
            vx, vy, vk = T.axis.remap("SSR", [x, y, k])
            with T.init():
                B[vx, vy] = T.if_then_else(vx == 3 and 2 <= vy, 7, 0)
            B[vx, vy] = T.if_then_else(vx == 3 and 2 <= vy, 7, B[vx, vy] + A[vx * 4 + vy, vk])
"""

LOOPS = """
@T.prim_func
def main(A: T.Buffer((14, 5), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        B[i] = 0
        for k in range(5):
            with T.block("B"):
                B[i] = B[i] + A[i, k]
"""

LOOPS_PADDED = """
@T.prim_func
def main(A: T.Buffer((14, 5), "int32"), B: T.Buffer((4, 4), "int32")):
    for x, y in T.grid(4, 4):
        B[x, y] = T.if_then_else(x == 3 and 2 <= y, 7, 0)
        for k in range(5):
            with T.block("B"):
                B[x, y] = T.if_then_else(x == 3 and 2 <= y, 7, B[x, y] + A[x * 4 + y, k])
"""


@pytest.mark.parametrize(("text", "after"), [(REDUCTION, REDUCTION_PADDED), (LOOPS, LOOPS_PADDED)])
def test_reductions_pad(text: Any, after: Any) -> None:
    sch = schedule(text)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=7)
    same_text(sch, after)
    assert str(sch.verify()) == "ok"
    a = np.random.default_rng(0).integers(0, 9, (14, 5)).astype("int32")
    b = np.zeros((4, 4), "int32")
    tileloom.build(sch.mod["main"])(a, b)
    np.testing.assert_array_equal(b.reshape(-1)[:14], a.sum(1))
    np.testing.assert_array_equal(b.reshape(-1)[14:], [7, 7])


ELSEWHERE = {
    "another store": """
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
            C[vi] = 0
""",
    "elements of other iterations": """
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = T.if_then_else(vi < 1, A[0], B[T.max(vi - 1, 0)] + A[vi])
""",
    "a condition": """
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            T.where(i < 12)
            B[vi] = A[vi]
""",
    "another order": """
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, 13 - i)
            B[vi] = A[vi]
""",
    "a part": """
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi]
""",
    "a parallel loop": """
    for i in T.parallel(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
""",
    "no loop": """
    with T.block("B"):
        vo = T.axis.spatial(1, 0)
        B[vo] = A[vo]
""",
    "a triangle": """
    for i in range(14):
        B[i] = A[i]
        for k in range(i):
            with T.block("B"):
                B[i] = B[i] + A[k]
""",
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_other_writers_are_followed_by_a_block(case: Any) -> None:
    head = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
"""
    text = head + ELSEWHERE[case].strip("\n") + "\n"
    sch = schedule(text)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=7)
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks("root")]
    assert blocks == ["B", "buffer_B_padding"]
    rng = np.random.default_rng(1)
    a, flat, c = (rng.integers(0, 9, 14).astype("int32") for _ in range(3))
    wide: Any = np.zeros(16, "int32")
    wide[:14] = flat
    wide = wide.reshape(4, 4)
    run(parse(text), a, flat, c)
    run(sch.mod["main"], a, wide, c)
    np.testing.assert_array_equal(wide.reshape(-1)[:14], flat)
    np.testing.assert_array_equal(wide.reshape(-1)[14:], [7, 7])


def test_every_writer_pads_or_none() -> None:
    text = COPY.replace(
        '    for i in range(14):\n        with T.block("C")',
        """
    for i in range(5):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            B[vi] = B[vi] + A[vi]
    for i in range(14):
        with T.block("C")""",
    )
    sch = schedule(text)
    sch.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=0)
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks("root")]
    assert blocks == ["B", "D", "buffer_B_padding", "C"]
    check_same(sch, text)


def test_two_writers() -> None:
    """As decompose_reduction leaves them."""
    sch = schedule(REDUCTION)
    sch.decompose_reduction("B", sch.get_loops("B")[0])
    sch.transform_layout("B_update", ("write", 0), lambda i: (i // 4, i % 4), pad_value=7)
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks("root")]
    assert blocks == ["B_init", "B_update"]
    assert str(sch.mod).count("T.if_then_else") == 2
    assert str(sch.verify()) == "ok"


def test_what_padding_reads_is_there() -> None:
    """Padding that repeats elements comes after them, in the new layout."""
    sch = schedule(COPY)
    buffer = sch.get(sch.get_block("B")).writes[0].buffer
    sch.transform_layout(
        "B", "B", lambda i: (i // 4, i % 4), pad_value=lambda x, y: buffer[(x * 4 + y) % 14]
    )
    fill = sch.get(sch.get_block("buffer_B_padding"))
    assert len(fill.body.value.indices) == 2
    check_same(sch, COPY)


# ---------------------------------------------------------------------------- maps


SHIFTED = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((3, 8), "int32")
    for x, y in T.grid(3, 8):
        with T.block("B"):
            vx, vy = T.axis.remap("SS", [x, y])
            B[vx, vy] = T.if_then_else(
                vx == 0 and vy < 3 or vx == 2 and 1 <= vy, 0, A[vx * 8 + vy - 3]
            )
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[(vi + 3) // 8, (vi + 3) % 8] + 1
"""


def test_padding_before_the_first_element() -> None:
    sch = schedule(COPY)
    sch.transform_layout("B", "B", lambda i: ((i + 3) // 8, (i + 3) % 8), pad_value=0)
    same_text(sch, SHIFTED)
    check_same(sch, COPY)
    check_trace(sch, COPY)
    assert str(sch.verify()) == "ok"


SYMBOLIC = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] * 3
"""

SYMBOLIC_PADDED = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32):
    B = T.alloc_buffer(((-16 % n + 16) // n, n), "int32")
    for x, y in T.grid((-16 % n + 16) // n, n):
        with T.block("B"):
            vx, vy = T.axis.remap("SS", [x, y])
            B[vx, vy] = T.if_then_else(
                -16 % n != 0 and (vy + vx * n) // n == 16 // n and 16 % n <= (vy + vx * n) % n,
                0,
                A[vy + vx * n],
            )
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi // n, vi % n] * 3
"""


def test_a_divisor_that_is_a_parameter() -> None:
    func = parse(SYMBOLIC)
    n = func.params[2]
    sch = schedule(func)
    sch.transform_layout("B", "B", lambda i: (i // n, i % n), pad_value=0)
    same_text(sch, SYMBOLIC_PADDED)
    kernel = tileloom.build(sch.mod["main"])
    a = np.arange(16, dtype="int32")
    for size in (1, 3, 4, 5, 16, 20):
        c = np.zeros(16, "int32")
        kernel(a, c, size)
        np.testing.assert_array_equal(c, a * 3)
    sch = schedule(func)
    block = sch.get_block("B")
    refused(sch, "to one place", "transform_layout", block, "B", lambda i: (i // n,))


def test_sampled_numbers_in_a_map() -> None:
    """The trace keeps the numbers that they stand for."""
    text = COPY.replace("14", "32")
    sch = schedule(text)
    _, outer, inner = sch.sample_perfect_tile(sch.get_loops("B")[0], 3, decision=[4, 2, 4])
    tile = outer * inner
    sch.transform_layout("B", "B", lambda i: (i // tile, i % tile))
    assert [int(n) for n in sch.get(sch.get_block("B")).writes[0].buffer.shape] == [4, 8]
    sch.transform_block_layout("C", lambda i: (i // tile, i % tile))
    assert len(sch.get_loops("C")) == 2
    check_same(sch, text)
    check_trace(sch, text)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda i: [(i + 5) // 8, (i + 5) % 8], (12,)),
        (lambda i: [(i + 9) // 8, (i + 9) % 8], (12,)),
        (lambda i: [(i + 5) // 8, (i + 5) % 8], (3,)),
        (lambda i: [(i + 1) // 4, (i + 1) % 4 // 2, (i + 1) % 2], (9,)),
        (lambda i, j: [i // 4, (j + 2) // 3, i % 4, (j + 2) % 3], (6, 5)),
        (lambda i, j: [(i * 4 + j) // 5, (i * 4 + j) % 5], (3, 4)),
    ],
)
def test_the_inverse_of_padded_maps(function: Any, shape: tuple[int, ...]) -> None:
    index_map: Any = IndexMap.from_func(function)
    found: Any = index_map.padded_inverse(shape)
    assert found is not None
    sizes = [int(extent) for extent in found.shape]
    image = {}
    for old in np.ndindex(*shape):
        new = tuple(int(index) for index in index_map.map_indices(list(old)))
        assert all(0 <= k < size for k, size in zip(new, sizes))
        image[new] = old
    back: Any = IndexMap(found.outputs, [*found.back, found.outside])
    for new in np.ndindex(*sizes):
        *old, outside = (int(value) for value in back.map_indices(list(new)))  # type: ignore[assignment]
        assert bool(outside) == (new not in image)
        assert outside or tuple(old) == image[new]


def test_indices_below_zero_are_no_layout() -> None:
    sch = schedule(COPY)
    block = sch.get_block("B")
    layout = lambda i: ((i - 1) // 8, (i - 1) % 8)  # noqa: E731
    refused(sch, "starts at -1", "transform_layout", block, "B", layout, pad_value=0)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("float32", 0, "T.float32(0.0)"),
        ("float32", -7, "T.float32(-7.0)"),
        ("float32", 1 << 24, "T.float32(16777216.0)"),
        ("float32", (1 << 24) + 1, None),
        ("float32", 10**40, None),
        ("float16", 2048, "T.float16(2048.0)"),
        ("float16", 2049, None),
        ("float16", 0.1, "T.float16("),
        ("bfloat16", 256, "T.bfloat16(256.0)"),
        ("bfloat16", 257, None),
        ("float64", 10**400, None),
        ("int8", -128, "T.int8(-128)"),
        ("int8", 128, None),
        ("uint8", -1, None),
        ("uint8", 255, "T.uint8(255)"),
        ("int32", 0.0, None),
        ("bool", 1, "T.bool(True)"),
        ("bool", 2, None),
    ],
)
def test_padding_is_a_number_that_elements_hold(kind: str, value: Any, text: str | None) -> None:
    source = COPY.replace('"int32"', f'"{kind}"').replace("B[vi] + 1", "B[vi]")
    sch = schedule(source)
    if text is None:
        block = sch.get_block("B")
        refused(sch, "does not fit", "transform_layout", block, "B", _tiles, pad_value=value)
        return
    sch.transform_layout("B", "B", _tiles, pad_value=value)
    assert f"and 1 < v_axis1, {text}" in sch.mod.script()


def _tiles(i: Any) -> Any:
    return i // 4, i % 4
