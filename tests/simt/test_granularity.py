"""In which pieces memory is accessed, by statement."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.script import parse
from tileloom.simt.granularity import granularity

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((256,), "float16"), F: T.Buffer((256,), "float32"),
           D: T.Buffer((64,), "float64"), M: T.handle("uint8", "grid_constant"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 32)
    S_data = T.allocate([512], "float16", "shared")
    S = T.decl_buffer((512,), "float16", data=S_data, scope="shared")
    R_data = T.allocate([8], "float16", "local")
    R = T.decl_buffer((8,), "float16", data=R_data, scope="local")
    bar_data = T.allocate([2], "uint64", "shared")
    bar = T.decl_buffer((2,), "uint64", data=bar_data, scope="shared")
    LINE
"""
BAR = "T.address_of(bar[0])"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("A[t] = T.float16(1)", {"A": 2}),
        ("F[t] = T.Cast('float32', A[t])", {"A": 2, "F": 4}),
        ("D[t] = T.float64(1)", {"D": 8}),
        # Vectors begin at what is known of the index.
        ("A[t * 8:t * 8 + 8] = A[n * 4:n * 4 + 8]", {"A": 8}),
        ("A[t * 8:t * 8 + 8] = T.Broadcast(T.float16(1), 8)", {"A": 16}),
        ("A[t * 8:t * 8 + 4] = T.Broadcast(T.float16(1), 4)", {"A": 8}),
        ("A[t * 8 + 2:t * 8 + 6] = T.Broadcast(T.float16(1), 4)", {"A": 4}),
        ("A[n:n + 8] = T.Broadcast(T.float16(1), 8)", {"A": 2}),
        ("A[0:8] = T.Broadcast(T.float16(1), 8)", {"A": 16}),
        ("F[t * 2:t * 2 + 2] = T.Broadcast(T.float32(1), 2)", {"F": 8}),
        ("F[t * 8:t * 8 + 8] = T.Broadcast(T.float32(1), 8)", {"F": 16}),  # no more than 16
        ("D[t * 4:t * 4 + 4] = T.Broadcast(T.float64(1), 4)", {"D": 16}),
        ("F[T.Ramp(t, 2, 4)] = T.Broadcast(T.float32(1), 4)", {"F": 4}),
        ("A.vstore([T.Ramp(t * 8, 1, 8)], T.Broadcast(T.float16(1), 8),"
         " predicate=T.Ramp(t, 1, 8) < T.Broadcast(n, 8))", {"A": 2}),
        ("F[t * 4:t * 4 + 4] = F.vload([T.Ramp(t * 4, 1, 4)],"
         " predicate=T.Ramp(t, 1, 4) < T.Broadcast(n, 4))", {"F": 4}),
        # Asynchronous copies: as many bytes as they move, from where they are known to begin.
        ("T.ptx_cp_async(S.data, t * 8, A.data, t * 8, 16)", {"S": 16, "A": 16}),
        ("T.ptx_cp_async(S.data, t * 8, A.data, t * 4, 16)", {"S": 16, "A": 8}),
        ("T.ptx_cp_async(S.data, t * 8, A.data, t * 8, 8)", {"S": 8, "A": 8}),
        ("T.ptx_cp_async(S.data, t, F.data, n, 4)", {"S": 2, "F": 4}),
        ("T.ptx_cp_async(S.data, 0, A.data, 0, 16)", {"S": 16, "A": 16}),
        ("T.ptx_cp_async(S.access_ptr('w', offset=t * 4), t * 8, A.data, t * 8, 16)",
         {"S": 8, "A": 16}),
        ("T.ptx_cp_async(S.data, t * 8, A.data, t * 8, 16, F[t] > T.float32(0))",
         {"S": 16, "A": 16, "F": 4}),
        ("T.ptx_cp_async(T.address_of(S[t * 8]), 0, A.data, T.Cast('int32', F[t]), 16)",
         {"S": 2, "A": 2, "F": 4}),
        ("T.ptx_ldmatrix('float16', False, 4, '.b16', R.data, 0, S.data, t * 8)",
         {"R": 2, "S": 16}),
        ("T.ptx_ldmatrix('float16', False, 4, '.b16', R.data, 0, S.data, t * 4)",
         {"R": 2, "S": 8}),
        ("T.ptx_ldmatrix('float16', False, 4, '.b16', R.data, 0, S.access_ptr('r'), t * 24)",
         {"R": 2, "S": 16}),
        # Engines take whole pieces.
        (f"T.ptx_cp_async_bulk(S.data, 0, A.data, t, n, {BAR})", {"S": 16, "A": 16, "bar": 8}),
        ("T.ptx_cp_async_bulk_store(A.data, T.Cast('int32', F[t]), S.data, 0, n)",
         {"S": 16, "A": 16, "F": 4}),
        (f"T.ptx_cp_async_bulk_tensor(S.data, 0, M, {BAR}, n, 0)", {"S": 16, "bar": 8}),
        ("T.ptx_cp_async_bulk_tensor_store(M, T.address_of(S[t]), 0, n, 0)", {"S": 16}),
        # Others may touch single elements.
        ("T.evaluate(T.atomic_add(T.address_of(F[t]), T.float32(1)))", {"F": 4}),
        ("T.evaluate(T.call_extern('int32', 'f', A.data))", {"A": 2}),
        ("T.evaluate(T.call_extern('int32', 'f', F.access_ptr('r'), D[t]))", {"F": 4, "D": 8}),
    ],
)  # fmt: skip
def test_pieces(line: str, found: dict[str, int]) -> None:
    func: Any = parse(KERNEL.replace("LINE", line))
    seen = {data.name.removesuffix("_data"): n for data, n in granularity(func.body).items()}
    seen.pop("M", None)
    assert seen == found
