"""What the emulator does not run, a line each in a kernel, and what it says of it."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.script import parse
from tileloom.simt import KernelDefect, run_kernels

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((64,), "int32"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 32)
    S_data = T.allocate([64], "float16", "shared")
    S = T.decl_buffer((64,), "float16", data=S_data, scope="shared")
    R_data = T.allocate([8], "float16", "local")
    R = T.decl_buffer((8,), "float16", data=R_data, scope="local")
    bar_data = T.allocate([1], "uint64", "shared")
    bar = T.decl_buffer((1,), "uint64", data=bar_data, scope="shared")
    for k in range(8):
        R[k] = T.float16(0)
    LINE
"""
MMA = 'T.evaluate(T.ptx_mma("float32", "m16n8k16", {}, "fp16", "fp16", "fp32", ' \
      "R.data, 0, R.data, 0, R.data, 0, {}))"  # fmt: skip
LINES = [
    ("if t == 0:\n        T.evaluate(T.tvm_storage_sync('shared'))",
     "1 of 32 threads reach a barrier; these do not"),
    ("if t < 31:\n        T.evaluate(T.tvm_storage_sync('shared'))",
     "31 of 32 threads reach a barrier; these do not"),
    ("M = T.decl_buffer((8, 8), 'int32', data=A.data)\n"
     "    T.evaluate(T.atomic_add(T.address_of(M[0, 0]), 1))", "knows no memory for"),
    ("M = T.decl_buffer((8, 8), 'float16', data=S.data, scope='shared')\n"
     "    T.evaluate(T.ptx_ldmatrix('float16', False, 1, '.b16', R.data, 0, "
     "T.address_of(M[0, 0]), 0))", "no memory is known for"),
    ("T.evaluate(T.ptx_ldmatrix('float16', False, 1, '.b16', R.data, 0, n, 0))",
     "no memory is known for"),
    ("A[t] = T.call_extern('int32', 'f', t)", "the emulator has no meaning for the call"),
    ("for i in T.parallel(4):\n        A[i] = 1", "race: one thread writes A[0]"),
    ('T.evaluate(T.ptx_ldmatrix("float16", False, 1, ".b16", R.data, 0, A.data, 0))',
     "ldmatrix reads shared memory, which"),
    ('T.evaluate(T.ptx_ldmatrix("float16", False, 3, ".b16", R.data, 0, S.data, 0))',
     "1, 2 or 4"),
    (MMA.format('"row", "row"', "False"), "mma takes A by rows and B by columns, not row and row"),
    (MMA.format('"col", "col"', "False"), "mma takes A by rows and B by columns, not col and col"),
    (MMA.format('"row", "col"', "True"), "only sums of integers saturate"),
    ("T.evaluate(T.ptx_mbarrier_init(bar.data, 0))", "a barrier of 0 arrivals"),
    ("T.evaluate(T.ptx_mbarrier_arrive(bar.data))", "uninitialised: bar_data[0]"),
    ("if t == 0:\n        T.evaluate(T.ptx_mbarrier_init(bar.data, 8))\n"
     "    T.evaluate(T.tvm_storage_sync('shared'))\n"
     "    T.evaluate(T.ptx_mbarrier_arrive(bar.data))", "32 threads arrive at"),
    ("T.evaluate(T.ptx_mbarrier_wait(bar.data, 7))", "is no parity"),
    ("T.evaluate(T.ptx_cp_async_bulk_tensor(S.data, 0, A.data, bar.data, 0))",
     "is no map of a tensor"),
    ('T.evaluate(T.tvm_load_matrix_sync(R.data, 16, 16, 8, 0, S.access_ptr("r"), 16, '
     '"row_major"))', "fragments of 16 by 16 by 16 only"),
]  # fmt: skip


def run(line: str) -> np.ndarray:
    out = np.arange(64, dtype="int32")
    run_kernels(parse(KERNEL.replace("LINE", line)), out, 3)
    return out


@pytest.mark.parametrize(("line", "message"), LINES)
def test_lines(line: str, message: str) -> None:
    with pytest.raises((UserError, KernelDefect)) as caught:
        run(line)
    assert message in str(caught.value)


LANES = np.arange(32)


@pytest.mark.parametrize(
    ("mode", "amount", "width", "source"),
    [
        ("", 3, 32, LANES * 0 + 3),
        ("", 11, 8, LANES // 8 * 8 + 3),
        ("", "t + 1", 4, LANES // 4 * 4 + (LANES + 1) % 4),
        ("_up", 1, 32, np.maximum(LANES - 1, 0)),
        ("_up", 3, 8, np.where(LANES % 8 < 3, LANES, LANES - 3)),
        ("_down", 1, 32, np.minimum(LANES + 1, 31)),
        ("_down", 3, 8, np.where(LANES % 8 >= 5, LANES, LANES + 3)),
        ("_xor", 5, 32, LANES ^ 5),
        ("_xor", 5, 4, LANES),
        ("_xor", 1, 2, LANES ^ 1),
    ],
)
def test_shuffles(mode: str, amount: int | str, width: int, source: np.ndarray) -> None:
    call = f"T.tvm_warp_shuffle{mode}(T.uint32(0xFFFFFFFF), A[t], {amount}, {width}, 32)"
    assert (run(f"A[t] = {call}")[:32] == source).all()


def test_a_shuffle_from_a_lane_that_does_not_come() -> None:
    call = "T.tvm_warp_shuffle{}(T.uint32(0x0000FFFF), A[t], {}, 32, 32)"
    line = "if t < 16:\n        A[t] = " + call
    assert (run(line.format("", 15))[:16] == 15).all()
    assert (run(line.format("_xor", 8))[:16] == LANES[:16] ^ 8).all()
    for mode, amount in (("", 16), ("_down", 1), ("_xor", 16)):
        with pytest.raises(KernelDefect, match="asks for the value of one that takes no part"):
            run(line.format(mode, amount))
