"""What GPU kernels cannot say: one call each that no code is made for, and the reason given."""

from __future__ import annotations

import pytest

from simt.matrix_programs import function
from tileloom.base.errors import UserError
from tileloom.driver import assembly

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((64,), "float16"), n: T.int32, B: T.Buffer((64,), "int32")):
    with T.block("root"):
        S = T.alloc_buffer((64,), "float16", scope="shared")
        R = T.alloc_buffer((8,), "float16", scope="local")
        Q = T.alloc_buffer((8,), "int8", scope="local")
        bar = T.alloc_buffer((1,), "uint64", scope="shared")
        M = T.alloc_buffer((256,), "float16", scope="wmma.matrix_a")
        C = T.alloc_buffer((256,), "float32", scope="wmma.accumulator")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            S[t] = A[t]
            R[0] = S[t]
            CALL
            B[t + 32] = T.int32(0)
"""
FILL = "T.tvm_fill_fragment(C.data, 16, 16, 16, 0, T.float32(0))"


def load(data: str = "M", source: str = 'S.access_ptr("r")', layout: str = "row_major") -> str:
    return f'T.tvm_load_matrix_sync({data}.data, 16, 16, 16, 0, {source}, 16, "{layout}")'


CALLS = [
    ('T.ptx_ldmatrix("float16", False, 3, ".b16", R.data, 0, S.data, 0)',
     "ldmatrix loads 1, 2 or 4 matrices, not 3"),
    ('T.ptx_ldmatrix("float16", False, n, ".b16", R.data, 0, S.data, 0)',
     "the number of matrices is a constant, not n"),
    ('T.ptx_ldmatrix("float16", False, 4, ".b8", R.data, 0, S.data, 0)',
     "ldmatrix moves elements of .b16"),
    ('T.ptx_ldmatrix("int8", True, 4, ".b16", Q.data, 0, S.data, 0)',
     "turns tiles of 16-bit elements, not of bytes"),
    ('T.ptx_cp_async("float16", S.data, 0, A.data, 0, 2)', "moves 4, 8 or 16 bytes, not 2"),
    ('T.ptx_cp_async("float16", S.data, 0, A.data, 0, n)',
     "an asynchronous copy to an unknown place"),
    ("T.ptx_wait_group(n)", "cp.async.wait_group takes a constant number, not n"),
    ("T.ptx_wait_group(-1)", "cp.async.wait_group takes a constant number, not -1"),
    ("T.ptx_cp_async_bulk_wait_group(n)", "takes a constant number, not n"),
    ("T.ptx_cp_async_bulk_wait_group(-1)", "takes a constant number, not -1"),
    ("T.ptx_cp_async_bulk_tensor(S.data, 0, A.data, bar.data, 0)", "is no map of a tensor"),
    (load(source="S.data"), "a fragment is moved through an access pointer"),
    (f'{load()}; {load(layout="col_major")}', "'M' are loaded in two layouts"),
    (load("R"), "is no array of fragments"),
    (load("C"), "accumulators are filled, not loaded"),
    ('T.tvm_storage_sync("local")', "'local'"),
    ("T.barrier_sync(16, 32)", "a block has barriers 0 to 15, not 16"),
    ("T.barrier_sync(-1, 32)", "a block has barriers 0 to 15, not -1"),
    ("T.barrier_arrive(0, 33)", "whole warps meet at a barrier, not 33 threads"),
    ("T.barrier_arrive(0, 0)", "whole warps meet at a barrier, not 0 threads"),
    ("T.reduce_add_sync(T.uint32(0xFFFFFFFF), T.int64(1))", "sums 32-bit integers at once"),
    ("T.ptx_wgmma_descriptor(S.access_ptr('r'), 128, 128, 48)",
     "a swizzle has 0, 32, 64 or 128 bytes, not 48"),
    ("T.call_extern('int32', n)", "an external call needs the function's name"),
    ("T.address_of(n)", "address_of needs an element of a flat buffer"),
    ("T.lookup_param(n)", "lookup_param needs a name"),
    ('T.tvm_storage_sync(n)', "a barrier names the memory that it orders"),
]  # fmt: skip


def kernel(*calls: str) -> str:
    return KERNEL.replace("CALL", "\n            ".join(f"T.evaluate({call})" for call in calls))


@pytest.mark.parametrize(("calls", "message"), CALLS)
def test_calls_without_code(calls: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        assembly(function(kernel(*calls.split("; "))), "cuda -arch=sm_90a")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"float32", scope="wmma', '"float64", scope="wmma',
         "no GPU code for fragments of float64 in 'wmma.accumulator'"),
        ('(8,), "int8", scope="local"', '(8,), "int8", scope="texture"', "texture"),
        ('(8,), "int8", scope="local"', '(n,), "int8", scope="local"',
         "'Q' has no constant size; a kernel's arrays need one"),
        ('(256,), "float32", scope="wmma', '(n,), "float32", scope="wmma',
         "fragments 'C' have no constant number"),
        ("FILL", "C[0] = 1.0", "no thread knows which elements of the fragments 'C' are its own"),
        ("FILL", "B[0] = T.Cast('int32', C[1])", "of the fragments 'C' are its own"),
    ],
)  # fmt: skip
def test_memory_and_loops_without_code(old: str, new: str, message: str) -> None:
    text = (
        kernel("T.int32(0)")
        .replace(
            "R[0] = S[t]", "R[0] = S[t]; Q[t % 8] = T.int8(1); B[t] = T.Cast('int32', Q[3]); FILL"
        )
        .replace("; ", "\n            ")
    )
    assert old in text
    text = text.replace(old, new).replace("FILL", f"T.evaluate({FILL})")
    with pytest.raises(UserError) as caught:
        assembly(function(text), "cuda -arch=sm_90a")
    assert message in str(caught.value)
