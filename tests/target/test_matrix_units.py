"""The instructions of matrix units that there are, and which GPUs have them."""

from __future__ import annotations

from tileloom.target.matrix_units import MMA

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
