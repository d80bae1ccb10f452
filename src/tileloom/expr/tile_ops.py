"""Calls on the tile registers of x86 (AMX): eight squares of up to 16 rows of 64 bytes.

`tir.amx_configure(rows, bytes, rows, bytes, ...)` says how large tiles 0, 1, ... are, for the
thread that runs it, and leaves zeros in them; the others then call tiles by number. Pointers are
`tir.address_of(A[i])`, and a stride is the bytes from one row to the next.

| call | meaning |
|---|---|
| `amx_zero(c)` | zeros |
| `amx_load(c, pointer, stride)`, `amx_store(c, pointer, stride)` | rows from and to memory |
| `amx_load_once(c, pointer, stride)` | a load of what need not stay in the nearest cache |
| `amx_dot_bf16(c, a, b)` | sums of float32 `c` += pairs of bfloat16 of a's rows times b's |
| `amx_dot_s8s8(c, a, b)`, `u8s8`, `s8u8`, `u8u8` | sums of int32 `c` += fours of bytes |
| `amx_release()` | the thread uses tiles no more |

Row k of `b` has, for each column of `c`, a word of the factors that meet word k of a row of `a`.
"""

from __future__ import annotations

CONFIGURE, RELEASE = "tir.amx_configure", "tir.amx_release"
ZERO, LOAD, STORE = "tir.amx_zero", "tir.amx_load", "tir.amx_store"
LOAD_ONCE = "tir.amx_load_once"
DOT_BF16 = "tir.amx_dot_bf16"
#: By whether the bytes of the left and of the right operand are signed.
DOT_INT8 = {
    (True, True): "tir.amx_dot_s8s8",
    (True, False): "tir.amx_dot_s8u8",
    (False, True): "tir.amx_dot_u8s8",
    (False, False): "tir.amx_dot_u8u8",
}
TILES, TILE_ROWS, TILE_BYTES = 8, 16, 64

#: The calls, and how many arguments they take.
TILE_CALLS: dict[str, int | None] = {
    CONFIGURE: None, RELEASE: 0, ZERO: 1, LOAD: 3, LOAD_ONCE: 3, STORE: 3,
    DOT_BF16: 3,
    **dict.fromkeys(DOT_INT8.values(), 3),
}  # fmt: skip
