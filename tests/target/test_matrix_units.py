"""The instructions of matrix units that there are, and which GPUs have them."""

from __future__ import annotations

import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.target import matrix_units
from tileloom.target.matrix_units import (
    MMA,
    Fragment,
    find_mma,
    find_wgmma,
)

#: Type of A, of the sum: k of m16n8, compute capability, version of PTX (m8n8 where it is said).
TABLE = {
    ("f16", "f16"): [(16, 8, 8, 75, 65), (16, 8, 16, 80, 70)],
    ("f16", "f32"): [(16, 8, 8, 75, 65), (16, 8, 16, 80, 70)],
    ("bf16", "f32"): [(16, 8, 8, 80, 70), (16, 8, 16, 80, 70)],
    ("tf32", "f32"): [(16, 8, 4, 80, 70), (16, 8, 8, 80, 70)],
    ("s8", "s32"): [(8, 8, 16, 75, 65), (16, 8, 16, 80, 70), (16, 8, 32, 80, 70)],
    ("u8", "s32"): [(8, 8, 16, 75, 65), (16, 8, 16, 80, 70), (16, 8, 32, 80, 70)],
    ("e4m3", "f32"): [(16, 8, 32, 89, 84)],
    ("e5m2", "f32"): [(16, 8, 32, 89, 84)],
    ("f64", "f64"): [(8, 8, 4, 80, 70), *((16, 8, k, 90, 78) for k in (4, 8, 16))],
}


def test_products() -> None:
    found: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for product in MMA.values():
        facts = (product.m, product.n, product.k, product.sm, product.ptx)
        found.setdefault((product.a_type, product.c_type), set()).add(facts)
        mixed = product.a_type in ("s8", "u8", "e4m3", "e5m2")
        assert mixed or product.a_type == product.b_type
    assert found == {key: set(rows) for key, rows in TABLE.items()}
    assert len(MMA) == 2 * 2 + 2 + 2 + 4 * 3 + 4 + 4
    assert list(matrix_units._products()) == list(MMA.values())


def ptx_place(role: str, rows: int, lane: int, index: int, packed: int) -> tuple[int, int]:
    """Row and column by the figures of the PTX ISA, spelt out for 8 and 16 rows."""
    group, member = lane >> 2, lane % 4
    if role == "c":
        row = group + (8 if rows == 16 and index % 4 >= 2 else 0)
        block = index // (4 if rows == 16 else 2)
        return row, 8 * block + member * 2 + index % 2
    register, part = index // packed, index % packed
    if role == "b":
        return member * packed + part + 4 * packed * register, group
    row = group + (8 if rows == 16 and register % 2 else 0)
    half = register // 2 if rows == 16 else register
    return row, member * packed + part + 4 * packed * half


@pytest.mark.parametrize("product", MMA.values(), ids=lambda p: p.instruction())
def test_fragments_hold_each_element_once(product: matrix_units.Product) -> None:
    for fragment in (product.a, product.b, product.c):
        places = {}
        for lane, index, row, column in fragment.places():
            places[row, column] = lane, index
            packed = max(1, 32 // fragment.bits)
            assert (row, column) == ptx_place(fragment.role, fragment.rows, lane, index, packed)
        assert len(places) == fragment.rows * fragment.columns == 32 * fragment.held
        assert max(places) == (fragment.rows - 1, fragment.columns - 1)
    shapes = [(f.rows, f.columns) for f in (product.a, product.b, product.c)]
    assert shapes == [(product.m, product.k), (product.k, product.n), (product.m, product.n)]
    assert product.integers == (product.c_type == "s32")


@pytest.mark.parametrize(
    ("fragment", "held", "registers"),
    [
        (Fragment("a", 16, 16, 16), 8, 4), (Fragment("b", 16, 8, 16), 4, 2),
        (Fragment("c", 16, 8, 32), 4, 4), (Fragment("c", 16, 8, 16), 4, 2),
        (Fragment("a", 16, 32, 8), 16, 4), (Fragment("a", 8, 4, 64), 1, 1),
        (Fragment("c", 8, 8, 64), 2, 2),
    ],
)  # fmt: skip
def test_registers(fragment: Fragment, held: int, registers: int) -> None:
    assert (fragment.held, fragment.registers) == (held, registers)


#: Types of A, B and D, the depth, whether factors may lie the other way round.
GROUPS = [
    ("f16", "f16", "f16", 16, True), ("f16", "f16", "f32", 16, True),
    ("bf16", "bf16", "f32", 16, True), ("tf32", "tf32", "f32", 8, False),
    ("s8", "u8", "s32", 32, False), ("u8", "u8", "s32", 32, False),
    ("e4m3", "e5m2", "f16", 32, False), ("e5m2", "e5m2", "f32", 32, False),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "c", "k", "transposes"), GROUPS)
def test_products_of_four_warps(a: str, b: str, c: str, k: int, transposes: bool) -> None:
    """n goes by eights up to 256; of integers by sixteens from 32 on, but for 24."""
    allowed = {*range(8, 33, 8), *range(48, 257, 16)} if c == "s32" else {*range(8, 257, 8)}
    for n in range(0, 273, 8):
        shape = f"m64n{n}k{k}"
        if n not in allowed:
            with pytest.raises(UnsupportedError, match=f"no wgmma is {shape}"):
                find_wgmma(shape, a, b, c)
            continue
        found = find_wgmma(shape, a, b, c)
        assert (found.n, found.k, found.integers) == (n, k, c == "s32")
        assert found.may_transpose is transposes
        assert found.instruction == f"wgmma.mma_async.sync.aligned.{shape}.{c}.{a}.{b}"
        assert (found.a.rows, found.a.columns, found.c.rows, found.c.columns) == (16, k, 16, n)
    for wrong in (f"m64n{12}k{k}", f"m32n8k{k}", f"m64n8k{k * 2}"):
        with pytest.raises(UnsupportedError, match="no wgmma is"):
            find_wgmma(wrong, a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [("f16", "bf16", "f32"), ("bf16", "bf16", "f16"), ("s8", "e4m3", "s32"), ("f64", "f64", "f64"),
     ("s8", "s8", "f32"), ("tf32", "tf32", "f16"), ("f16", "f16", "s32")],
)  # fmt: skip
def test_products_of_four_warps_that_are_none(a: str, b: str, c: str) -> None:
    with pytest.raises(UnsupportedError, match="no wgmma multiplies"):
        find_wgmma("m64n8k16", a, b, c)


@pytest.mark.parametrize(
    ("shape", "kinds", "hint"),
    [
        ("m16n8k4", ("f16", "f16", "f32"), "there are m16n8k8, m16n8k16"),
        ("m16n8k8", ("f16", "bf16", "f32"), "there is none on such elements"),
    ],
)
def test_products_that_are_none(shape: str, kinds: tuple[str, str, str], hint: str) -> None:
    with pytest.raises(UnsupportedError, match="no mma is") as error:
        find_mma(shape, *kinds)
    assert error.value.hint == hint
