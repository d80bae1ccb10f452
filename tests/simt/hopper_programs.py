"""Programs with barriers in memory, copies in bulk, and products of four warps."""

from __future__ import annotations

from math import prod

from simt.matrix_programs import function
from tileloom.target.matrix_units import GroupProduct, element
from tileloom.tir import PrimFunc


def bulk_copy(**changes: str) -> PrimFunc:
    """B = A + 1 by blocks of 256, in through a barrier and out in a group."""
    parts = {
        "init": "T.evaluate(T.ptx_mbarrier_init(T.address_of(Bar[0]), 1))",
        "expect": "T.evaluate(T.ptx_mbarrier_arrive_expect_tx(T.address_of(Bar[0]), 1024))",
        "wait": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 0))",
        "fence": "T.evaluate(T.ptx_fence_proxy_async())",
        "leave": "T.evaluate(T.ptx_cp_async_bulk_wait_group(0))",
        "meet": 'T.evaluate(T.tvm_storage_sync("shared"))',
        "bytes": "1024",
        **changes,
    }
    return function(f"""
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    with T.block("root"):
        S = T.alloc_buffer((256,), "float32", scope="shared")
        Bar = T.alloc_buffer((1,), "uint64", scope="shared")
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(128, thread="threadIdx.x"):
                if t == 0:
                    {parts["init"]}
                    T.evaluate(T.ptx_fence_mbarrier_init())
                T.evaluate(T.tvm_storage_sync("shared"))
                if t == 0:
                    {parts["expect"]}
                    T.evaluate(T.ptx_cp_async_bulk(
                        S.data, 0, A.data, b * 256, {parts["bytes"]}, T.address_of(Bar[0])
                    ))
                {parts["wait"]}
                for k in range(2):
                    S[k * 128 + t] = S[k * 128 + t] + T.float32(1)
                {parts["fence"]}
                {parts["meet"]}
                if t == 0:
                    T.evaluate(T.ptx_cp_async_bulk_store(B.data, b * 256, S.data, 0, 1024))
                    T.evaluate(T.ptx_cp_async_bulk_commit_group())
                    {parts["leave"]}
""")


def tensor_copy(shape: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    """A box of one map through shared memory to another map, one block."""
    zeros = ", ".join("0" for _ in shape)
    count = prod(shape)
    size = count * 4
    return function(f"""
@T.prim_func
def main(M: T.handle("uint8", "grid_constant"), N: T.handle("uint8", "grid_constant")):
    with T.block("root"):
        S = T.alloc_buffer(({count},), "{kind}", scope="shared")
        Bar = T.alloc_buffer((1,), "uint64", scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                if t == 0:
                    T.evaluate(T.ptx_prefetch_tensormap(M))
                    T.evaluate(T.ptx_mbarrier_init(T.address_of(Bar[0]), 1))
                    T.evaluate(T.ptx_fence_mbarrier_init())
                    T.evaluate(T.ptx_mbarrier_arrive_expect_tx(T.address_of(Bar[0]), {size}))
                    T.evaluate(T.ptx_cp_async_bulk_tensor(
                        S.data, 0, M, T.address_of(Bar[0]), {zeros}
                    ))
                    T.evaluate(T.ptx_mbarrier_wait(T.address_of(Bar[0]), 0))
                    T.evaluate(T.ptx_cp_async_bulk_tensor_store(N, S.data, 0, {zeros}))
                    T.evaluate(T.ptx_cp_async_bulk_commit_group())
                    T.evaluate(T.ptx_cp_async_bulk_wait_group(0))
""")


def _pieces(row: str, column: str, rows: int, wide: int) -> str:
    """Where an element is: pieces of 8 rows of `wide` elements, all rows of a column of pieces."""
    return f"{column} // {wide} * {rows * wide} + {row} * {wide} + {column} % {wide}"


def group_product(product: GroupProduct, in_registers: bool, **changes: str) -> PrimFunc:
    """C = A @ B by 128 threads and one instruction; pieces of 8 rows of 16 bytes, no swizzle."""
    p = product
    wide = 128 // p.bits
    kind, total = element(p.a_type).dtype, element(p.c_type).dtype
    packed = max(1, 32 // p.bits)
    parts = {
        "fence": "T.evaluate(T.ptx_fence_proxy_async())",
        "meet": 'T.evaluate(T.tvm_storage_sync("shared"))',
        "start": "T.evaluate(T.ptx_wgmma_fence())",
        "commit": "T.evaluate(T.ptx_wgmma_commit_group())",
        "wait": "T.evaluate(T.ptx_wgmma_wait_group(0))",
        "accumulate": "T.bool(True)",
        "meanwhile": "T.evaluate(0)",
        **changes,
    }
    row = f"t // 32 * 16 + t % 32 // 4 + i // {packed} % 2 * 8"
    column = f"t % 4 * {packed} + i % {packed} + i // {2 * packed} * {4 * packed}"
    registers = load = ""
    left = f'T.ptx_wgmma_descriptor(SA.access_ptr("r"), {64 * 16}, 128, 0), 0'
    if in_registers:
        left = "R.data, 0"
        registers = f'R = T.alloc_buffer(({p.a.held},), "{kind}", scope="local")'
        load = f"""
                for i in T.unroll({p.a.held}):
                    R[i] = A[{row}, {column}]"""
    return function(f"""
@T.prim_func
def main(A: T.Buffer((64, {p.k}), "{kind}"), B: T.Buffer(({p.n}, {p.k}), "{kind}"),
         C: T.Buffer((64, {p.n}), "{total}")):
    with T.block("root"):
        SA = T.alloc_buffer(({64 * p.k},), "{kind}", scope="shared")
        SB = T.alloc_buffer(({p.n * p.k},), "{kind}", scope="shared")
        {registers}
        D = T.alloc_buffer(({p.c.held},), "{total}", scope="local")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(128, thread="threadIdx.x"):
                for i, k in T.grid(1, {p.k}):
                    if t < 64:
                        SA[{_pieces("t", "k", 64, wide)}] = A[t, k]
                for i, k in T.grid({-(-p.n // 128)}, {p.k}):
                    if i * 128 + t < {p.n}:
                        SB[{_pieces("(i * 128 + t)", "k", p.n, wide)}] = B[i * 128 + t, k]{load}
                {parts["fence"]}
                {parts["meet"]}
                for i in T.unroll({p.c.held}):
                    D[i] = T.{total}(1)
                {parts["start"]}
                T.evaluate(T.ptx_wgmma(
                    "{p.shape}", "{p.a_type}", "{p.b_type}", "{p.c_type}", {left},
                    T.ptx_wgmma_descriptor(SB.access_ptr("r"), {p.n * 16}, 128, 0),
                    D.data, 0, {parts["accumulate"]}
                ))
                {parts["commit"]}
                {parts["meanwhile"]}
                {parts["wait"]}
                for i in T.unroll({p.c.held}):
                    C[
                        t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2
                    ] = D[i]
""")


def pipeline(transposed: bool, depth: int, **changes: str) -> PrimFunc:
    """C = A @ B of 64 by 64: a warp brings tiles by two stages, four other warps multiply them.

    B is stored as (N, K), or `transposed` as (K, N).
    """
    parts = {
        "full": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Full[k % 2]), {full_parity}))",
        "full_parity": "k // 2 % 2",
        "empty": "T.evaluate(T.ptx_mbarrier_wait(T.address_of(Empty[k % 2]), {empty_parity}))",
        "empty_parity": "(k // 2 + 1) % 2",
        "release": "T.evaluate(T.ptx_mbarrier_arrive(T.address_of(Empty[k % 2])))",
        "bytes": "16384",
        "wait": "T.evaluate(T.ptx_wgmma_wait_group(0))",
        "fewer": "T.evaluate(0)",
        "more": "T.evaluate(0)",
        "threads": "160",
        **changes,
    }
    parts["full"] = parts["full"].format(**parts)
    parts["empty"] = parts["empty"].format(**parts)
    b_at = "0, k * 64" if transposed else "k * 64, 0"
    # A step of 16 along k: 32 bytes of each row, or 16 rows.
    b_step = "s * 1024" if transposed else "s * 16"
    return function(f"""
@T.prim_func
def main(MA: T.handle("uint8", "grid_constant"), MB: T.handle("uint8", "grid_constant"),
         C: T.Buffer((64, 64), "float32")):
    with T.block("root"):
        SA = T.alloc_buffer((2, 4096), "float16", scope="shared")
        SB = T.alloc_buffer((2, 4096), "float16", scope="shared")
        Full = T.alloc_buffer((2,), "uint64", scope="shared")
        Empty = T.alloc_buffer((2,), "uint64", scope="shared")
        D = T.alloc_buffer((32,), "float32", scope="local")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding({parts["threads"]}, thread="threadIdx.x"):
                if t == 0:
                    for s in range(2):
                        T.evaluate(T.ptx_mbarrier_init(T.address_of(Full[s]), 1))
                        T.evaluate(T.ptx_mbarrier_init(T.address_of(Empty[s]), 128))
                    T.evaluate(T.ptx_fence_mbarrier_init())
                T.evaluate(T.tvm_storage_sync("shared"))
                if t >= 128:
                    {parts["fewer"]}
                    if t == 128:
                        for k in range({depth // 64}):
                            {parts["empty"]}
                            T.evaluate(T.ptx_mbarrier_arrive_expect_tx(
                                T.address_of(Full[k % 2]), {parts["bytes"]}
                            ))
                            T.evaluate(T.ptx_cp_async_bulk_tensor(
                                SA.data, k % 2 * 4096, MA, T.address_of(Full[k % 2]), k * 64, 0
                            ))
                            T.evaluate(T.ptx_cp_async_bulk_tensor(
                                SB.data, k % 2 * 4096, MB, T.address_of(Full[k % 2]), {b_at}
                            ))
                else:
                    {parts["more"]}
                    for i in T.unroll(32):
                        D[i] = T.float32(0)
                    for k in range({depth // 64}):
                        {parts["full"]}
                        T.evaluate(T.ptx_wgmma_fence())
                        for s in T.unroll(4):
                            T.evaluate(T.ptx_wgmma(
                                "m64n64k16", "f16", "f16", "f32",
                                T.ptx_wgmma_descriptor(
                                    T.address_of(SA[k % 2, s * 16]), 16, 1024, 128
                                ), 0,
                                T.ptx_wgmma_descriptor(
                                    T.address_of(SB[k % 2, {b_step}]), 16, 1024, 128
                                ),
                                D.data, 0, T.bool(True), 0, {int(transposed)}
                            ))
                        T.evaluate(T.ptx_wgmma_commit_group())
                        {parts["wait"]}
                        {parts["release"]}
                    for i in T.unroll(32):
                        C[
                            t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8,
                            i // 4 * 8 + t % 4 * 2 + i % 2
                        ] = D[i]
""")
