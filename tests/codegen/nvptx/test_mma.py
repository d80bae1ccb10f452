"""`ldmatrix` and `mma.sync` in PTX, which the assembler must take."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu import assemble
from simt.matrix_programs import function, one_product
from tileloom.base.errors import UnsupportedError
from tileloom.driver import assembly
from tileloom.target.matrix_units import MMA, Product


def arch_of(product: Product) -> str:
    return {90: "sm_90a"}.get(product.sm, f"sm_{product.sm}")


@pytest.mark.parametrize("product", [pytest.param(p, id="-".join(k)) for k, p in MMA.items()])
def test_products(product: Product, tmp_path: Path) -> None:
    arch = arch_of(product)
    ptx = assembly(one_product(product), f"cuda -arch={arch}")
    assert ptx.count(product.instruction()) == 1
    assert ".local" not in ptx, "fragments are in registers"
    said = assemble(ptx, arch, tmp_path)
    assert "0 bytes stack frame" in said


def test_saturating_integers(tmp_path: Path) -> None:
    product = MMA["m16n8k32", "s8", "u8", "s32"]
    ptx = assembly(one_product(product, saturate=True), "cuda -arch=sm_80")
    assert "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32" in ptx
    assemble(ptx, "sm_80", tmp_path)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_loads(count: int, transposed: bool, scope: str, tmp_path: Path) -> None:
    func = function(f"""
@T.prim_func
def load(A: T.Buffer((16, 16), "float16"), B: T.Buffer((32, {2 * count}), "float16")):
    with T.block("root"):
        S = T.alloc_buffer((16, 16), "float16", scope="{scope}")
        R = T.alloc_buffer(({2 * count},), "float16", scope="local")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for k in range(8):
                S[t // 2, t % 2 * 8 + k] = A[t // 2, t % 2 * 8 + k]
            T.evaluate(T.ptx_ldmatrix(
                "float16", T.bool({transposed}), {count}, ".b16", R.data, 0,
                S.access_ptr("r"), t % 16 * 16 + t // 16 * 8
            ))
            for k in T.unroll({2 * count}):
                B[t, k] = R[k]
""")
    ptx = assembly(func, "cuda -arch=sm_75")
    tail = ".trans" if transposed else ""
    assert f"ldmatrix.sync.aligned.m8n8.x{count}{tail}.shared.b16" in ptx
    assert ptx.index("bar.sync") < ptx.index("ldmatrix"), "what others wrote is waited for"
    assert ".local" not in ptx
    assert "cvta.to.shared" not in ptx, "addresses in shared memory have 32 bits from the start"
    assemble(ptx, "sm_75", tmp_path)


def test_other_layouts_are_refused() -> None:
    text = """
@T.prim_func
def product(C: T.Buffer((16, 8), "float32")):
    with T.block("root"):
        R = T.alloc_buffer((8,), "float16", scope="local")
        S = T.alloc_buffer((4,), "float32", scope="local")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.ptx_mma(
                "float32", "m16n8k16", "row", "row", "fp16", "fp16", "fp32",
                R.data, 0, R.data, 0, S.data, 0, T.bool(False)
            ))
            C[t // 4, t % 4] = S[0]
"""
    with pytest.raises(UnsupportedError, match="B by columns, not row and row"):
        assembly(function(text), "cuda -arch=sm_80")


@pytest.mark.parametrize(
    ("key", "arch"),
    [
        (("m16n8k16", "f16", "f16", "f32"), "sm_75"),
        (("m16n8k32", "e4m3", "e4m3", "f32"), "sm_86"),
        (("m16n8k16", "f64", "f64", "f64"), "sm_80"),
        (("m16n8k8", "f16", "f16", "f32"), "sm_70"),
    ],
)
def test_older_gpus_are_refused(key: tuple[str, str, str, str], arch: str) -> None:
    with pytest.raises(UnsupportedError, match=f"or newer, and the target is {arch}"):
        assembly(one_product(MMA[key]), f"cuda -arch={arch}")
