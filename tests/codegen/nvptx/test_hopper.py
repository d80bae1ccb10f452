"""Barriers in memory, copies in bulk and by maps, `wgmma`: PTX that the assembler takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu import assemble
from simt.hopper_programs import bulk_copy, group_product, pipeline, tensor_copy
from simt.matrix_programs import function
from tileloom.base.errors import UnsupportedError
from tileloom.driver import assembly
from tileloom.target.matrix_units import find_wgmma

ARCH = "sm_90a"


def test_bulk_copies(tmp_path: Path) -> None:
    ptx = assembly(bulk_copy(), f"cuda -arch={ARCH}")
    for text in (
        "mbarrier.init.shared::cta.b64", "mbarrier.arrive.expect_tx.shared::cta.b64",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "mbarrier.try_wait.parity.shared::cta.b64", "fence.proxy.async.shared::cta",
        "cp.async.bulk.global.shared::cta.bulk_group", "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group 0",
    ):  # fmt: skip
        assert text in ptx
    assemble(ptx, ARCH, tmp_path)
    assemble(assembly(bulk_copy(), "cuda -arch=sm_90"), "sm_90", tmp_path)


@pytest.mark.parametrize("shape", [(256,), (4, 64), (2, 4, 32), (2, 2, 2, 32), (2, 1, 2, 2, 32)])
def test_tensor_copies(shape: tuple[int, ...], tmp_path: Path) -> None:
    ptx = assembly(tensor_copy(shape), f"cuda -arch={ARCH}")
    assert f"cp.async.bulk.tensor.{len(shape)}d.shared::cluster.global" in ptx
    assert f"cp.async.bulk.tensor.{len(shape)}d.global.shared::cta" in ptx
    assert ".param .align 64 .b8" in ptx, "a map is passed by value"
    assert "[128]" in ptx
    assert "local" not in ptx, "and nobody copies it"
    assemble(ptx, ARCH, tmp_path)


CASES = [
    ("m64n8k16", "f16", "f32"), ("m64n128k16", "f16", "f32"), ("m64n256k16", "bf16", "f32"),
    ("m64n64k16", "f16", "f16"), ("m64n64k8", "tf32", "f32"), ("m64n96k32", "e4m3", "f32"),
    ("m64n32k32", "e5m2", "f16"), ("m64n64k32", "s8", "s32"), ("m64n32k32", "u8", "s32"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "total"), CASES)
@pytest.mark.parametrize("in_registers", [False, True])
def test_group_products(
    shape: str, kind: str, total: str, in_registers: bool, tmp_path: Path
) -> None:
    product = find_wgmma(shape, kind, kind, total)
    ptx = assembly(group_product(product, in_registers), f"cuda -arch={ARCH}")
    assert product.instruction in ptx
    assert ".local" not in ptx, "sums are in registers"
    said = assemble(ptx, ARCH, tmp_path)
    assert "0 bytes stack frame, 0 bytes spill stores" in said
    assert "serialized" not in said


def test_factors_that_lie_along_k() -> None:
    """What is in shared memory may lie the other way round, what is in registers may not."""
    product = find_wgmma("m64n64k16", "f16", "f16", "f32")
    for in_registers, turns, wanted in (
        (False, "1, 1", "1, 1, 1, 1; }"), (False, "1, 0", "1, 1, 1, 0; }"),
        (True, "0, 1", "1, 1, 1; }"), (True, "0, 0", "1, 1, 0; }"),
    ):  # fmt: skip
        func = group_product(product, in_registers, accumulate=f"T.bool(True), {turns}")
        assert wanted in assembly(func, f"cuda -arch={ARCH}")
    func = group_product(product, True, accumulate="T.bool(True), 1, 0")
    with pytest.raises(UnsupportedError, match="A in registers lies along k"):
        assembly(func, f"cuda -arch={ARCH}")
    bytes_ = find_wgmma("m64n64k32", "s8", "s8", "s32")
    func = group_product(bytes_, False, accumulate="T.bool(True), 0, 1")
    with pytest.raises(UnsupportedError, match="factors of s8 lie along k in shared memory"):
        assembly(func, f"cuda -arch={ARCH}")


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_other_gpus_are_refused(arch: str) -> None:
    product = find_wgmma("m64n64k16", "f16", "f16", "f32")
    with pytest.raises(UnsupportedError, match="sm_90a"):
        assembly(group_product(product, False), f"cuda -arch={arch}")


def test_older_gpus_have_no_barriers_in_memory() -> None:
    with pytest.raises(UnsupportedError, match="needs sm_90 or newer"):
        assembly(bulk_copy(), "cuda -arch=sm_89")


@pytest.mark.parametrize("transposed", [False, True])
def test_producers_and_consumers(transposed: bool, tmp_path: Path) -> None:
    ptx = assembly(pipeline(transposed, 256), f"cuda -arch={ARCH}")
    assert ".local" not in ptx
    assert ".shared .align 1024" in ptx, "patterns of addresses repeat after so much"
    said = assemble(ptx, ARCH, tmp_path)
    assert "0 bytes stack frame, 0 bytes spill stores" in said
    assert "serialized" not in said


def test_sums_are_written_before_fences_and_read_after_waits() -> None:
    ptx = assembly(pipeline(False, 256), f"cuda -arch={ARCH}")
    first = ptx.index("wgmma.mma_async")
    fence = ptx.rindex("wgmma.fence", 0, first)
    between = ptx[fence:first]
    sums = set(re.findall(r"%r\d+", ptx[first : ptx.index("}", ptx.index("{", first))]))
    assert not any(f"mov.b32 \t{r}," in between for r in sums), "zeros are in place before"
    assert all(f"mov.b32 \t{r}," in ptx[:fence] for r in sums)
    last = ptx.rindex("wgmma.wait_group")
    assert "st.global" not in ptx[:last]


def test_clusters_of_blocks(tmp_path: Path) -> None:
    func = bulk_copy()
    ptx = assembly(func.replace(attrs={**func.attrs, "tir.cluster_dims": [2, 1, 1]}), "cuda")
    assert ".explicitcluster" in ptx
    assert ".reqnctapercluster 2" in ptx
    assemble(ptx, "sm_90", tmp_path)
    for sizes in ([2, 2], [4, 4, 1], [0, 1, 1]):
        with pytest.raises(UnsupportedError, match="a cluster is three numbers"):
            assembly(func.replace(attrs={**func.attrs, "tir.cluster_dims": sizes}), "cuda")


def test_registers_go_from_producers_to_consumers(tmp_path: Path) -> None:
    func = pipeline(
        False, 256,
        fewer="T.evaluate(T.ptx_setmaxnreg(24, False))",
        more="T.evaluate(T.ptx_setmaxnreg(240, True))",
        threads="256",
    )  # fmt: skip
    ptx = assembly(func, f"cuda -arch={ARCH}")
    assert "setmaxnreg.dec.sync.aligned.u32 24;" in ptx
    assert "setmaxnreg.inc.sync.aligned.u32 240;" in ptx
    assemble(ptx, ARCH, tmp_path)
    for count in ("20", "25", "257"):
        changed = pipeline(False, 64, more=f"T.evaluate(T.ptx_setmaxnreg({count}, True))")
        with pytest.raises(UnsupportedError, match="24 to 256 registers by eights"):
            assembly(changed, f"cuda -arch={ARCH}")


CALL = """
@T.prim_func
def main(
    M: T.handle("uint8", "grid_constant"), A: T.Buffer((1024,), "float32"), n: T.int64, u: T.uint8
):
    with T.block("root"):
        S = T.alloc_buffer((256,), "float32", scope="shared")
        Bar = T.alloc_buffer((8,), "uint64", scope="shared")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            S[t] = A[t]
            T.evaluate(T.ptx_HERE)
"""
#: A call, and the instruction with what its registers hold; parameters are numbered in the PTX,
#: those that are not used not.
CALLS = [
    ("mbarrier_init(T.address_of(Bar[3]), 7)",
     "mbarrier.init.shared::cta.b64 [Bar+24], 7;"),
    ("mbarrier_arrive(T.address_of(Bar[3]))",
     "mbarrier.arrive.shared::cta.b64 _, [Bar+24];"),
    ("mbarrier_arrive_expect_tx(T.address_of(Bar[3]), n)",
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [Bar+24], b32 param;"),
    ("mbarrier_expect_tx(T.address_of(Bar[3]), u)",
     "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [Bar+24], b8 param;"),
    ("mbarrier_wait(T.address_of(Bar[3]), 1)",
     "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [Bar+24], 1; "
     "@done bra DONE; bra AGAIN; DONE: }"),
    ("cp_async_bulk(S.data, 5, A.data, 6, 16, T.address_of(Bar[3]))",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[S+20], [b64 param+24], 16, [Bar+24];"),
    ("cp_async_bulk_store(A.data, 5, S.data, 6, 16)",
     "cp.async.bulk.global.shared::cta.bulk_group [b64 param+20], [S+24], 16;"),
    ("cp_async_bulk_tensor(S.data, 5, M, T.address_of(Bar[3]), 11, 12, 13)",
     "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[S+20], [param, {11, 12, 13}], [Bar+24];"),
    ("cp_async_bulk_tensor_store(M, S.data, 5, 11, 12)",
     "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [param, {11, 12}], [S+20];"),
    ("prefetch_tensormap(M)", "prefetch.tensormap [param];"),
    ("cp_async_bulk_commit_group()", "cp.async.bulk.commit_group;"),
    ("cp_async_bulk_wait_group(0)", "cp.async.bulk.wait_group 0;"),
    ("cp_async_bulk_wait_group_read(2)", "cp.async.bulk.wait_group.read 2;"),
    ("fence_mbarrier_init()", "fence.mbarrier_init.release.cluster;"),
    ("setmaxnreg(24, False)", "setmaxnreg.dec.sync.aligned.u32 24;"),
    ("setmaxnreg(256, True)", "setmaxnreg.inc.sync.aligned.u32 256;"),
]  # fmt: skip


def resolved(ptx: str) -> list[str]:
    """The lines of inline assembly, with what their registers hold in place of them."""
    held: dict[str, str] = {}

    def value(name: str) -> str:
        return held.get(name, re.sub(r"^main_kernel[$_]", "", name).replace("param_1", "param"))

    for to, source, offset in re.findall(
        r"\t(?:mov|cvt|cvta|add|ld\.param)[.\w]* \t(%\w+), \[?([%\w$]+)\]?(?:, (\d+))?;", ptx
    ):
        width = re.search(rf"ld\.param\.(b\d+) \t{to},", ptx)
        name = f"{width[1]} param" if width else value(source)
        held[to] = name + (f"+{offset}" if offset else "")
    lines = re.findall(r"// begin inline asm\n\t(.*)\n", ptx)
    return [re.sub(r"%\w+", lambda match: value(match[0]), line) for line in lines]


@pytest.mark.parametrize(("call", "wanted"), CALLS)
def test_operands(call: str, wanted: str) -> None:
    ptx = assembly(function(CALL.replace("HERE", call)), f"cuda -arch={ARCH}")
    assert resolved(ptx) == [wanted]


@pytest.mark.parametrize(
    ("coordinates", "words"),
    [("", "1 to 5 axes, not 0"), (", 0, 0, 0, 0, 0, 0", "1 to 5 axes, not 6")],
)
def test_axes_of_maps(coordinates: str, words: str) -> None:
    for call in (
        f"cp_async_bulk_tensor(S.data, 0, M, T.address_of(Bar[0]){coordinates})",
        f"cp_async_bulk_tensor_store(M, S.data, 0{coordinates})",
    ):
        with pytest.raises(UnsupportedError, match=words):
            assembly(function(CALL.replace("HERE", call)), f"cuda -arch={ARCH}")


@pytest.mark.parametrize("count", [16, 20, 28, 257, 264])
def test_registers_come_by_eights(count: int) -> None:
    text = CALL.replace("HERE", f"setmaxnreg({count}, True)")
    with pytest.raises(UnsupportedError, match="setmaxnreg takes 24 to 256 registers"):
        assembly(function(text), f"cuda -arch={ARCH}")


@pytest.mark.parametrize("sizes", [[1, 1, 1], [8, 1, 1], [2, 2, 2], [1, 3, 2]])
def test_clusters_of_up_to_eight(sizes: list[int]) -> None:
    func = bulk_copy()
    ptx = assembly(func.replace(attrs={**func.attrs, "tir.cluster_dims": sizes}), "cuda")
    assert f".reqnctapercluster {', '.join(map(str, sizes))}" in ptx


@pytest.mark.parametrize("sizes", [[9, 1, 1], [2, 2, 3], [1, 1, 0], [1, -1, 1], [1, 1, 1, 1]])
def test_clusters_that_are_none(sizes: list[int]) -> None:
    func = bulk_copy()
    with pytest.raises(UnsupportedError, match="a cluster is three numbers"):
        assembly(func.replace(attrs={**func.attrs, "tir.cluster_dims": sizes}), "cuda")
