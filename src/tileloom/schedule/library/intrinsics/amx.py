"""Products of small matrices of words in the tile registers of x86 (AMX).

`amx_u8s8_32x32x64` multiplies 32 rows of 64 words with 64 rows of 32 words: the product of 32 by
256 bytes with 256 by 32 bytes. Rows and columns are one or two tiles, of up to 16 each; the columns
of a tile and its words along the depth are 16. Sums begin from zero. The letters are those of the
dot product, whose first factor is of the rows; with `_columns_first` it is of the columns. Each
implementation says how large its tiles are; where many run, `hoist_tile_setup` says so once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ....expr.tile_ops import TILE_BYTES, TILE_ROWS
from ._text import Pair, pair

_NAME = re.compile(r"amx_(bf16|[us]8[us]8)_(\d+)x(\d+)x(\d+)(_columns_first)?")


def amx_product(
    kinds: str, rows: int, columns: int, words: int, columns_first: bool = False
) -> str:
    """The name of an intrinsic.

    Args:
        kinds: of the factors: "bf16", or "u8s8" and the like.
        columns_first: whether the first factor is of the columns.

    >>> amx_product("bf16", 32, 16, 48)
    'amx_bf16_32x16x48'
    """
    return f"amx_{kinds}_{rows}x{columns}x{words}{'_columns_first' * columns_first}"


def definition(name: str) -> Callable[[], Pair] | None:
    """What makes the intrinsic of a name; None if there is no such product."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    kinds, (rows, columns, words) = found[1], map(int, found.groups()[1:4])
    even = rows <= TILE_ROWS or (rows <= 2 * TILE_ROWS and rows % 2 == 0)
    if (
        not rows
        or not even
        or columns not in (TILE_ROWS, 2 * TILE_ROWS)
        or words % TILE_ROWS
        or not words
    ):
        return None
    return partial(_product, kinds, rows, columns, words, found[5] is not None)


def _product(kinds: str, rows: int, columns: int, words: int, columns_first: bool) -> Pair:
    total, zero = ("float32", "T.float32(0)") if kinds == "bf16" else ("int32", "0")
    head = f"""
    ra = T.int32()
    rb = T.int32()
    rc = T.int32()
    A = T.match_buffer(a, ({rows}, {words}), "int32", offset_factor=1, strides=[ra, 1])
    B = T.match_buffer(b, ({words}, {columns}), "int32", offset_factor=1, strides=[rb, 1])
    C = T.match_buffer(c, ({rows}, {columns}), "{total}", scope="local", offset_factor=1,
        strides=[rc, 1])
    with T.block("root"):
        T.reads(A[0:{rows}, 0:{words}], B[0:{words}, 0:{columns}])
        T.writes(C[0:{rows}, 0:{columns}])"""
    factors = ("B[vk, vj]", "A[vi, vk]") if columns_first else ("A[vi, vk]", "B[vk, vj]")
    desc = f"""
        with T.init():
            for i, j in T.grid({rows}, {columns}):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = {zero}
        for i, j, k in T.grid({rows}, {columns}, {words}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.dot_{kinds}({zero}, {", ".join(factors)})"""
    by_rows = kinds[2:] + kinds[:2] if columns_first and kinds != "bf16" else kinds
    body = "".join(f"\n        {line}" for line in _body(by_rows, rows, columns, words))
    return pair("abc", head + desc, head + body)


def _body(kinds: str, rows: int, columns: int, words: int) -> list[str]:
    """Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns."""
    down = 1 if rows <= TILE_ROWS else 2
    across = columns // TILE_ROWS
    height = rows // down
    sizes = [*[height] * 6, TILE_ROWS, TILE_ROWS]
    places = [(i, j, 2 * i + j) for i in range(down) for j in range(across)]
    lines = [f"T.evaluate(T.amx_configure({', '.join(f'{n}, {TILE_BYTES}' for n in sizes)}))"]
    lines += [f"T.evaluate(T.amx_zero({c}))" for _, _, c in places]
    lines.append(f"for k in range({words // TILE_ROWS}):")
    for j in range(across):
        at = f"T.address_of(B[k * {TILE_ROWS}, {j * TILE_ROWS}])"
        lines.append(f"    T.evaluate(T.amx_load_once({6 + j}, {at}, rb * 4))")
    for i in range(down):
        at = f"T.address_of(A[{i * height}, k * {TILE_ROWS}])"
        lines.append(f"    T.evaluate(T.amx_load({4 + i}, {at}, ra * 4))")
        lines += [
            f"    T.evaluate(T.amx_dot_{kinds}({2 * i + j}, {4 + i}, {6 + j}))"
            for j in range(across)
        ]
    for i, j, c in places:
        at = f"T.address_of(C[{i * height}, {j * TILE_ROWS}])"
        lines.append(f"T.evaluate(T.amx_store({c}, {at}, rc * 4))")
    return [*lines, "T.evaluate(T.amx_release())"]
