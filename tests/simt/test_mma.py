"""`ldmatrix` and `mma.sync` on the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from simt.matrix_programs import function, numpy_type, one_product, places, random_tile
from tileloom.base.errors import UnsupportedError
from tileloom.driver import assembly
from tileloom.lower import lower
from tileloom.simt import KernelDefect, run_kernels
from tileloom.target import target
from tileloom.target.matrix_units import MMA, Product, find_mma

GPU = target("cuda -arch=sm_90")
PRODUCTS = [pytest.param(p, id="-".join(key)) for key, p in MMA.items()]


@pytest.mark.parametrize("product", PRODUCTS)
def test_fragments_are_where_the_isa_says(product: Product) -> None:
    fragments = (product.a, product.b, product.c)
    for fragment, (row, column) in zip(fragments, places(product), strict=True):
        table = {
            (eval(row, {}, {"t": t, "i": i}), eval(column, {}, {"t": t, "i": i})): (t, i)
            for t in range(32)
            for i in range(fragment.held)
        }
        assert len(table) == fragment.rows * fragment.columns, "each element is held once"
        for lane, index, at, beside in fragment.places():
            assert table[at, beside] == (lane, index)


@pytest.mark.parametrize("product", PRODUCTS)
def test_products(product: Product) -> None:
    p = product
    rng = np.random.default_rng(1)
    a = random_tile(rng, (p.m, p.k), p.a_type)
    b = random_tile(rng, (p.k, p.n), p.b_type)
    c = random_tile(rng, (p.m, p.n), p.c_type)
    wide = "int64" if p.integers else "float64"
    factors = [x.astype(wide) for x in (a, b)]
    if p.a_type == "tf32":
        factors = [(x.view("uint32") & 0xFFFFE000).view("float32").astype(wide) for x in (a, b)]
    wanted = factors[0] @ factors[1] + c.astype(wide)
    run_kernels(lower(one_product(p), GPU), a, b, c)
    if p.integers:
        assert np.array_equal(c, wanted)
    else:
        tolerance = {"f16": 2e-3, "f32": 1e-5, "f64": 1e-13}[p.c_type]
        np.testing.assert_allclose(c.astype(wide), wanted, tolerance, tolerance)


@pytest.mark.parametrize(("operand", "held"), [("RA", 4), ("RB", 2), ("RC", 4)])
def test_registers_that_nobody_has_written(operand: str, held: int) -> None:
    text = str(one_product(find_mma("m16n8k8", "fp16", "fp16", "fp32")))
    fill = f"T.unroll({held}):\n            {operand}[i] ="
    assert fill in text
    func = function(text.replace(fill, fill.replace(f"({held})", f"({held - 1})")))
    arrays = np.zeros((16, 8), "float16"), np.zeros((8, 8), "float16"), np.zeros((16, 8), "float32")
    with pytest.raises(KernelDefect) as caught:
        run_kernels(lower(func, GPU), *arrays)
    assert caught.value.kind == "uninitialised" and f"{operand}[" in str(caught.value)


def test_tf32_drops_thirteen_bits() -> None:
    p = find_mma("m16n8k4", "tf32", "tf32", "fp32")
    a = np.full((16, 4), 1 + 2**-11, "float32")
    b, c = np.ones((4, 8), "float32"), np.zeros((16, 8), "float32")
    run_kernels(lower(one_product(p), GPU), a, b, c)
    assert (c == 4).all()


def test_float16_sums_overflow() -> None:
    p = find_mma("m16n8k8", "fp16", "fp16", "fp16")
    a, b = np.full((16, 8), 200, "float16"), np.full((8, 8), 200, "float16")
    c = np.zeros((16, 8), "float16")
    run_kernels(lower(one_product(p), GPU), a, b, c)
    assert np.isinf(c).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integer_sums_wrap_or_saturate(saturate: bool) -> None:
    p = find_mma("m16n8k16", "int8", "int8", "int32")
    a, b = np.full((16, 16), 127, "int8"), np.full((16, 8), 127, "int8")
    c = np.full((16, 8), 2**31 - 1, "int32")
    run_kernels(lower(one_product(p, saturate), GPU), a, b, c)
    sum_ = 2**31 - 1 + 16 * 127 * 127
    assert (c == (2**31 - 1 if saturate else sum_ - 2**32)).all()


def test_infinities_and_nan_go_through() -> None:
    p = find_mma("m16n8k16", "bf16", "bf16", "fp32")
    a = np.zeros((16, 16), numpy_type("bf16"))
    b = np.ones((16, 8), numpy_type("bf16"))
    a[0, 0], a[1, 1], b[3, 2] = np.inf, np.nan, 7
    c = np.zeros((16, 8), "float32")
    run_kernels(lower(one_product(p), GPU), a, b, c)
    assert np.isinf(c[0]).all()
    assert np.isnan(c[1]).all()
    assert (c[2:] == 0).all()


@pytest.mark.parametrize(
    ("shape", "kinds", "message"),
    [
        ("m16n8k32", ("fp16", "fp16", "fp32"), "there are m16n8k8, m16n8k16"),
        ("m16n8k16", ("fp16", "bf16", "fp32"), "there is none on such elements"),
        ("m16n8k16", ("fp12", "fp16", "fp32"), "no elements 'fp12'"),
    ],
)
def test_what_there_is_not_is_refused(shape: str, kinds: tuple[str, ...], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        find_mma(shape, *kinds)


def loads(
    count: int, transposed: bool, row: str = "t % 16 * 24 + t // 16 * 8", active: int = 32
) -> str:
    """Matrices out of padded shared rows into global memory, as threads hold them."""
    return f"""
@T.prim_func
def load(A: T.Buffer((16, 24), "float16"), B: T.Buffer((32, {2 * count}), "float16")):
    with T.block("root"):
        S = T.alloc_buffer((16, 24), "float16", scope="shared")
        R = T.alloc_buffer(({2 * count},), "float16", scope="local")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(12):
                S[t // 2, t % 2 * 12 + k] = A[t // 2, t % 2 * 12 + k]
            T.evaluate(T.tvm_storage_sync("shared"))
            if t < {active}:
                T.evaluate(T.ptx_ldmatrix(
                    "float16", T.bool({transposed}), {count}, ".b16", R.data, 0,
                    S.access_ptr("r"), {row}
                ))
                for k in range({2 * count}):
                    B[t, k] = R[k]
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded_as_the_isa_says(count: int, transposed: bool) -> None:
    a = np.arange(16 * 24, dtype="float16").reshape(16, 24)
    b = np.zeros((32, 2 * count), "float16")
    run_kernels(lower(function(loads(count, transposed)), GPU), a, b)
    for matrix in range(count):
        rows, columns = matrix % 2 * 8, matrix // 2 * 8
        part = a[rows : rows + 8, columns : columns + 8]
        part = part.T if transposed else part
        for t in range(32):
            held = b[t, 2 * matrix : 2 * matrix + 2]
            assert held.tolist() == part[t // 4, t % 4 * 2 : t % 4 * 2 + 2].tolist()


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("t % 16 * 24 + t // 16 * 4", "misaligned"),
        ("t % 16 * 24 + t // 16 * 8 + 24", "out of bounds"),
    ],
)
def test_wrong_rows_are_found(row: str, kind: str) -> None:
    func = lower(function(loads(4, False, row)), GPU)
    with pytest.raises(KernelDefect, match=kind) as caught:
        run_kernels(func, np.zeros((16, 24), "float16"), np.zeros((32, 8), "float16"))
    assert "ptx_ldmatrix" in str(caught.value.statement)


def test_what_is_loaded_is_known_beforehand() -> None:
    text = loads(4, False).replace('4, ".b16"', 't % 2 + 1, ".b16"')
    with pytest.raises(UnsupportedError, match="a constant is needed, not "):
        run_kernels(
            lower(function(text), GPU), np.zeros((16, 24), "float16"), np.zeros((32, 8), "float16")
        )


def test_a_part_of_a_warp_loads_nothing() -> None:
    func = lower(function(loads(4, False, active=16)), GPU)
    with pytest.raises(KernelDefect, match="divergent warp"):
        run_kernels(func, np.zeros((16, 24), "float16"), np.zeros((32, 8), "float16"))


def test_matrices_that_nobody_wrote() -> None:
    text = loads(4, False).replace("for k in range(12)", "for k in range(11)")
    with pytest.raises(KernelDefect, match="uninitialised"):
        run_kernels(
            lower(function(text), GPU), np.zeros((16, 24), "float16"), np.zeros((32, 8), "float16")
        )


def test_matrices_in_other_memory() -> None:
    func = function(loads(4, False).replace('S.access_ptr("r")', 'A.access_ptr("r")'))
    with pytest.raises(UnsupportedError, match="ldmatrix reads shared memory, which 'A' is not"):
        run_kernels(lower(func, GPU), np.zeros((16, 24), "float16"), np.zeros((32, 8), "float16"))


def test_other_counts_are_refused() -> None:
    func = lower(function(loads(2, False).replace("), 2, ", "), 3, ")), GPU)
    with pytest.raises(UnsupportedError, match="1, 2 or 4"):
        run_kernels(func, np.zeros((16, 24), "float16"), np.zeros((32, 4), "float16"))


def test_bytes_are_not_turned() -> None:
    text = loads(4, True).replace("float16", "int8").replace("* 24", "* 32").replace("24)", "32)")
    func = function(text.replace("range(12)", "range(16)").replace("* 12", "* 16"))
    with pytest.raises(UnsupportedError, match="not of bytes"):
        run_kernels(lower(func, GPU), np.zeros((16, 32), "int8"), np.zeros((32, 8), "int8"))
    with pytest.raises(UnsupportedError, match="not of bytes"):
        assembly(func, GPU)


@pytest.mark.parametrize(
    "pointer",
    ["S.data, t % 16 * 24 + t // 16 * 8", "T.address_of(S[t % 16, t // 16 * 8]), 0",
     'S.access_ptr("r", offset=t // 16 * 8), t % 16 * 24'],
)  # fmt: skip
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_ways_to_point_into_shared_memory(pointer: str, scope: str) -> None:
    """All give the 32-bit address that the instruction takes."""
    text = loads(4, False).replace('S.access_ptr("r"), t % 16 * 24 + t // 16 * 8', pointer)
    extra = f"""
        S2 = T.alloc_buffer((64,), "float32", scope="{scope}")"""
    text = text.replace('scope="shared")\n', f'scope="{scope}"){extra}\n', 1)
    wait = 'T.evaluate(T.tvm_storage_sync("shared"))'
    func = function(text.replace(wait, f"S2[t] = T.float32(1)\n            {wait}"))
    a = np.arange(16 * 24, dtype="float16").reshape(16, 24)
    b = np.zeros((32, 8), "float16")
    run_kernels(lower(func, GPU), a, b)
    for t in range(32):
        assert b[t].tolist() == [
            a[t // 4 + k // 2 % 2 * 8, t % 4 * 2 + k % 2 + k // 4 * 8] for k in range(8)
        ]
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in assembly(func, GPU)
