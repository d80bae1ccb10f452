"""Fragments of matrix units: who holds what, as the PTX manual has it, and what is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tileloom.schedule.library.intrinsics import mma, wgmma
from tileloom.schedule.tensor_intrin import TensorIntrin

Place = tuple[int, int]


def fragment(rows: Callable[[int, int], Place], held: int, threads: int = 32) -> dict[Place, Place]:
    """Of each element of a matrix, the thread that has it, and as which of what it has."""
    found: dict[Place, Place] = {}
    for lane, number in product(range(threads), range(held)):
        found[rows(lane, number)] = lane, number
    return found


def factor_a(width: int) -> Callable[[int, int], Place]:
    """A of `mma`: registers of `width` elements, rows 8 apart, then the other half of the depth."""

    def place(lane: int, number: int) -> Place:
        register, inside = divmod(number, width)
        row = lane // 4 + 8 * (register % 2)
        return row, (lane % 4) * width + inside + 4 * width * (register // 2)

    return place


def factor_b(width: int) -> Callable[[int, int], Place]:
    """B of two instructions for 8 columns each: registers along the depth."""

    def place(lane: int, number: int) -> Place:
        register, inside = divmod(number, width)
        depth = (lane % 4) * width + inside + 4 * width * (register % 2)
        return depth, lane // 4 + 8 * (register // 2)

    return place


def sums(lane: int, number: int) -> Place:
    """Accumulators of two instructions: pairs, rows 8 apart; then 8 columns further."""
    row = lane // 4 + 8 * (number // 2 % 2)
    return row, 2 * (lane % 4) + number % 2 + 8 * (number // 4)


def transposed(found: dict[Place, Place]) -> dict[Place, Place]:
    return {(column, row): holder for (row, column), holder in found.items()}


LAYOUTS = [
    (mma.shared_16x16_to_mma_32x8_layout, fragment(sums, 8)),
    (mma.shared_16x32_to_mma_32x16_layout, fragment(factor_a(4), 16)),
    (mma.shared_32x16_to_mma_32x16_layout, fragment(factor_b(4), 16)),
    (mma.shared_16x8_to_mma_32x4_layout, fragment(factor_a(1), 4)),
    (mma.shared_8x16_to_mma_32x4_layout, fragment(factor_b(1), 4)),
    (
        mma.shared_16x4_to_mma_32x2_layout,
        fragment(lambda lane, number: (lane // 4 + 8 * number, lane % 4), 2),
    ),
]


@pytest.mark.parametrize(("layout", "holders"), LAYOUTS, ids=lambda x: getattr(x, "__name__", ""))
def test_layouts_are_those_of_the_hardware(layout: Any, holders: Any) -> None:
    assert {place: layout(*place) for place in holders} == holders


def test_factors_of_16_bits_are_held_as_sums_are() -> None:
    assert fragment(factor_a(2), 8) == fragment(sums, 8)


def test_stored_by_columns() -> None:
    """A factor that is stored transposed is held by the same threads."""
    factors = mma.FACTORS
    halves = fragment(factor_a(2), 8)
    for name in ("f16", "bf16"):
        layouts = factors[name].layouts
        assert {p: layouts["a"](*p) for p in halves} == halves
        assert {p: layouts["a_trans"](*p) for p in transposed(halves)} == transposed(halves)
    for name, width in (("tf32", 1), ("i8", 4), ("u8", 4), ("e4m3", 4), ("e5m2", 4)):
        layouts = factors[name].layouts
        b = fragment(factor_b(width), 4 * width)
        assert {p: layouts["b"](*p) for p in b} == b
        held = {p: layouts["b_trans"](*p) for p in transposed(b)}
        assert sorted(held.values()) == sorted(b.values())
        if width == 1:
            assert held == transposed(b)
    doubles = factors["f64"].layouts
    assert {(i, j): doubles["b"](i, j) for i, j in product(range(4), range(16))} == {
        (i, j): (4 * (j % 8) + i, j // 8) for i, j in product(range(4), range(16))
    }


@pytest.mark.parametrize("name", mma.FACTORS)
def test_tiles_are_held_whole(name: str) -> None:
    """Every thread holds as many elements, and each element once."""
    factor = mma.FACTORS[name]
    for which, layout in factor.layouts.items():
        rows, columns = factor.shape(which)
        assert sorted((rows, columns)) == sorted((16, factor.depth))
        assert (rows == 16) == (which in ("a", "b_trans")) or rows == columns
        holders = [layout(i, j) for i, j in product(range(rows), range(columns))]
        assert sorted(holders) == [*product(range(32), range(factor.held))]


@pytest.mark.parametrize(
    ("name", "depth", "held", "parts"),
    [("f16", 16, 8, 2), ("tf32", 8, 4, 2), ("i8", 32, 16, 2), ("f64", 4, 2, 4)],
)
def test_tiles_of_factors(name: str, depth: int, held: int, parts: int) -> None:
    factor = mma.FACTORS[name]
    assert (factor.depth, factor.held, factor.parts) == (depth, held, parts)
    assert factor.depth * factor.bits == 256  # 32 bytes of a row


@pytest.mark.parametrize("columns", wgmma.COLUMNS)
def test_sums_of_four_warps(columns: int) -> None:
    def place(lane: int, number: int) -> Place:
        row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (number // 2 % 2)
        return row, 8 * (number // 4) + 2 * (lane % 4) + number % 2

    holders = fragment(place, 64 * columns // 128, 128)
    assert {at: wgmma.wgmma_64xn_to_128_layout(*at) for at in holders} == holders
    text = wgmma._PLACE
    for i, j in [(0, 0), (63, columns - 1), (25, columns - 6), (40, 5)]:
        assert eval(text, {"vi": i, "vj": j}) == holders[i, j]


@pytest.mark.parametrize(
    ("name", "core", "depth"), [("f16", 8, 64), ("tf32", 4, 32), ("e4m3", 16, 128)]
)
def test_cores_have_16_bytes_and_steps_128(name: str, core: int, depth: int) -> None:
    assert (wgmma.core_of(name), wgmma.depth_of(name)) == (core, depth)


# ---------------------------------------------------------------------------- what is called


def text_of(name: str) -> str:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    return re.sub(r"\s+", " ", intrin.impl.script())


def calls(text: str, op: str) -> Iterator[list[str]]:
    """The arguments of each call."""
    for start in (match.end() for match in re.finditer(re.escape(op) + r"\(", text)):
        depth, arguments, last = 1, [], start
        for end in range(start, len(text)):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[end], 0)
            if depth == 0 or (depth == 1 and text[end] == ","):
                arguments.append(text[last:end].strip().strip('"'))
                last = end + 1
            if depth == 0:
                break
        yield arguments


def offsets(text: str) -> tuple[int, int]:
    """What a thread adds to where a fragment starts: for each thread, and fixed."""
    values = [eval(text, {"tx": tx, "Offset": None}) for tx in (0, 1)]
    return values[1] - values[0], values[0]


MULTIPLIES = [
    # name, shape, [(offset in A, in B, in C) of each instruction]
    ("mma_f16f16f32", "m16n8k16", [(0, 0, 0), (0, 4, 4)]),
    ("mma_tf32tf32f32", "m16n8k8", [(0, 0, 0), (0, 2, 4)]),
    ("mma_i8i8i32_trans_b", "m16n8k32", [(0, 0, 0), (0, 8, 4)]),
    ("mma_f64f64f64", "m8n8k4", [(0, 0, 0), (0, 1, 4), (1, 0, 2), (1, 1, 6)]),
]


@pytest.mark.parametrize(("name", "shape", "parts"), MULTIPLIES)
def test_a_tile_is_multiplied_in_halves(name: str, shape: str, parts: Any) -> None:
    """8 columns at a time, in float64 8 rows too: their parts of what each thread holds."""
    factor = mma.FACTORS[re.findall("[a-z]+[0-9]+", name)[0]]
    found = []
    for arguments in calls(text_of(name), "T.ptx_mma"):
        assert arguments[1:4] == [shape, "row", "col"]
        steps = [offsets(re.sub(r"\w+\.elem_offset", "0", arguments[k])) for k in (8, 10, 12)]
        assert [step for step, _ in steps] == [factor.held, factor.held, 8]
        found.append(tuple(at for _, at in steps))
    assert found == parts


ONE_BY_ONE = [("i8", "b"), ("e5m2", "b"), ("tf32", "b")] + [
    ("f64", which) for which in ("a", "b", "b_trans")
]


@pytest.mark.parametrize(("name", "which"), ONE_BY_ONE)
def test_what_is_loaded_one_by_one(name: str, which: str) -> None:
    """A thread loads what the layout says that it has."""
    factor = mma.FACTORS[name]
    text = text_of(f"mma_ldmatrix_{name}_{which}")
    count, place = re.findall(r"T.unroll\((\d+)\): W\[tx, i\] = S\[(.*?)\]", text)[0]
    assert int(count) == factor.held
    for tx, i in product(range(32), range(factor.held)):
        at = eval(place, {"tx": tx, "i": i})
        assert factor.layouts[which](*at) == (tx, i)


LOADED = [
    (name, which)
    for name, factor in mma.FACTORS.items()
    for which in factor.layouts
    if name != "f64" and (which != "b" or factor.bits == 16)
]


@pytest.mark.parametrize(("name", "which"), LOADED)
def test_what_ldmatrix_loads(name: str, which: str) -> None:
    """Thread 8 m + r says where row r of matrix m is, and each gets 4 bytes of each matrix."""
    factor = mma.FACTORS[name]
    [arguments] = calls(text_of(f"mma_ldmatrix_{name}_{which}_dyn"), "T.ptx_ldmatrix")
    assert arguments[2:4] == ["4", ".b16"]
    turned = arguments[1] == "T.bool(True)"
    assert turned == (which in ("a_trans", "b"))
    assert offsets(arguments[5].replace("W.elem_offset", "0")) == (factor.held, 0)
    packed = 32 // factor.bits
    starts = []
    for tx in range(32):
        place: Any = arguments[7].replace("S.strides[0]", "1000")
        starts.append(divmod(eval(place, {"tx": tx}), 1000))
    for lane, matrix, inside in product(range(32), range(4), range(packed)):
        if turned:
            row, column = starts[8 * matrix + 2 * (lane % 4) + inside]
            at: tuple[Any, ...] = row, column + lane // 4
        else:
            row, column = starts[8 * matrix + lane // 4]
            at = row, column + packed * (lane % 4) + inside
        own = factor_a(packed) if which.startswith("a") else factor_b(packed)
        place = own(lane, packed * matrix + inside)
        assert at == (place[::-1] if which in ("a_trans", "b_trans") else place)
    rows, columns = factor.shape(which)
    wide = 128 // factor.bits
    assert sorted(starts) == [*product(range(rows), range(0, columns, wide))]


@pytest.mark.parametrize("total", ["f16", "f32", "f64", "i32"])
def test_sums_are_filled_and_stored(total: str) -> None:
    [arguments] = calls(text_of(f"mma_fill_16x16_{total}"), "T.mma_fill")
    assert arguments[1] == "8"
    assert offsets(arguments[3].replace("W.elem_offset", "0")) == (8, 0)
    [arguments] = calls(text_of(f"mma_store_16x16_{total}_shared_dyn"), "T.mma_store")
    assert arguments[1:3] == ["16", "16"]
    assert offsets(arguments[5].replace("W.elem_offset", "0")) == (8, 0)


GROUPS = [
    # name, shape, what strides are multiplied by, 16 bytes and 8 rows of operands, transposed
    ("wgmma_64x64_f16f16f32_b_transposed", "m64n64k16", 2, [(8, 8, 8, 8), (8, 8, 8, 8)], "01"),
    ("wgmma_64x32_f16f16f32_a_transposed", "m64n32k16", 2, [(8, 8, 8, 8), (8, 4, 8, 8)], "10"),
    ("wgmma_64x16_bf16bf16f32", "m64n16k16", 2, [(8, 8, 8, 8), (8, 2, 8, 8)], ""),
    ("wgmma_64x8_e4m3e4m3f32", "m64n8k32", 1, [(8, 8, 8, 16), (8, 1, 8, 16)], ""),
    ("wgmma_64x128_tf32tf32f32", "m64n128k8", 4, [(8, 8, 8, 4), (8, 16, 8, 4)], ""),
]


@pytest.mark.parametrize(("name", "shape", "size", "shapes", "turns"), GROUPS)
def test_four_warps_multiply_32_bytes_at_a_time(
    name: Any, shape: Any, size: Any, shapes: Any, turns: Any
) -> None:
    text = text_of(name)
    columns = int(re.findall(r"64x(\d+)", name)[0])
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    assert [b.static_shape for b in intrin.impl.buffers] == [*shapes, (128, columns // 2)]
    found = [*calls(text, "T.ptx_wgmma")]
    assert len(found) == 4
    for number, arguments in enumerate(found):
        assert arguments[0] == shape
        for operand, value in (("A", arguments[4]), ("B", arguments[6])):
            [descriptor] = calls(value, "T.ptx_wgmma_descriptor")
            [pointer] = calls(descriptor[0], "T.tvm_access_ptr")
            known = {operand: type("B", (), {"elem_offset": 0, "strides": (1000, 70)})}
            assert eval(pointer[2], dict(known)) == 2000 * number  # two cores of 16 bytes
            assert [eval(part, dict(known)) for part in descriptor[1:3]] == [
                1000 * size,
                70 * size,
            ]
        assert offsets(arguments[8].replace("C.elem_offset", "0")) == (columns // 2, 0)
        assert "".join(arguments[10:]) == turns


def test_names_of_products() -> None:
    names = [wgmma.name_of("f16", "f32", 64, (a, b)) for a in (False, True) for b in (False, True)]
    assert names == [
        f"wgmma_64x64_f16f16f32{tail}"
        for tail in ("", "_b_transposed", "_a_transposed", "_a_transposed_b_transposed")
    ]
    assert all(name in wgmma.DEFINITIONS for name in names)
    assert "wgmma_64x64_i8i8i32_b_transposed" not in wgmma.DEFINITIONS
    assert {name for name in mma.DEFINITIONS if name.startswith("mma_f16")} == {
        f"mma_f16f16{total}{tail}"
        for total in ("f32", "f16")
        for tail in ("", "_trans_a", "_trans_b", "_trans_a_trans_b")
    }
    assert {name for name in mma.DEFINITIONS if name.startswith("mma_i8")} == {
        "mma_i8i8i32",
        "mma_i8i8i32_trans_b",
    }
