"""Products of bfloat16 numbers and of bytes whose right factor is packed as CPUs multiply them.

`matmul_u8s8_32x32x256_amx` adds the product of 32 rows of 256 bytes and 256 rows of 32 bytes to 32
by 32 sums. The rows of the right factor lie in fours (of bfloat16 in twos), those of a column next
to each other; `matmul_u8s8_words_32x32x64_amx` does the same where both factors come as words
(`expr.dot_ops`). Sums go through tile registers (`_amx`), or stay in vectors (`_dots`: VDPBF16PS,
VPDPBUSD), each made to the best code that the processor has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ....expr.tile_ops import TILE_BYTES, TILE_ROWS
from ....tir import PrimFunc
from ._text import Pair, pair

_TYPES = {"bf16": "bfloat16", "u8": "uint8", "s8": "int8"}
WORDS = "_words"
_NAME = re.compile(r"matmul_((?:bf16|[us]8[us]8)(?:_words)?)_(\d+)x(\d+)x(\d+)_(amx|dots)")
_ZEROS = {"float32": "T.float32(0)", "int32": "0"}
_LANES = 16


def packed_matmul(kinds: str, rows: int, columns: int, depth: int, unit: str) -> str:
    """The name of an intrinsic.

    Args:
        kinds: of the factors: "bf16", or "u8s8" and the like, or "bf16_words".
        unit: "amx" or "dots".

    >>> packed_matmul("bf16", 32, 16, 64, "amx")
    'matmul_bf16_32x16x64_amx'
    """
    return f"matmul_{kinds}_{rows}x{columns}x{depth}_{unit}"


def parts_of(kinds: str) -> int:
    """The elements of a factor in 32 bits.

    >>> parts_of("bf16"), parts_of("u8s8"), parts_of("u8s8_words")
    (2, 4, 1)
    """
    if kinds.endswith(WORDS):
        return 1
    return 2 if kinds == "bf16" else 4


def plain_product(kinds: str) -> PrimFunc:
    """What is computed, of one row, column and step along the depth, with nothing packed."""
    left, right, total = _types(kinds)
    head = f"""
    A = T.match_buffer(a, (1, 1), "{left}")
    B = T.match_buffer(b, (1, 1), "{right}")
    C = T.match_buffer(c, (1, 1), "{total}")
    for i, j, k in T.grid(1, 1, 1):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + {_multiplied(kinds, "A[vi, vk]", "B[vk, vj]")}"""
    return pair("abc", head, head)[0]


def _multiplied(kinds: str, left: str, right: str) -> str:
    total = _types(kinds)[2]
    if kinds.endswith(WORDS):
        return f"T.dot_{kinds.removesuffix(WORDS)}({_ZEROS[total]}, {left}, {right})"
    return f'T.cast({left}, "{total}") * T.cast({right}, "{total}")'


def definition(name: str) -> Callable[[], Pair] | None:
    """What makes the intrinsic of a name; None if there is no such product."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    kinds, unit = found[1], found[5]
    rows, columns, depth = map(int, found.groups()[1:4])
    if not rows or not columns or columns % _LANES or not depth or depth % parts_of(kinds):
        return None
    if unit == "amx":
        even = rows <= TILE_ROWS or (rows <= 2 * TILE_ROWS and rows % 2 == 0)
        step = TILE_BYTES // 4 * parts_of(kinds)
        if not even or columns > 2 * TILE_ROWS or depth % step:
            return None
    return partial(_product, kinds, rows, columns, depth, unit)


def _types(kinds: str) -> tuple[str, str, str]:
    if kinds.endswith(WORDS):
        return "int32", "int32", _types(kinds.removesuffix(WORDS))[2]
    if kinds == "bf16":
        return "bfloat16", "bfloat16", "float32"
    return _TYPES[kinds[:2]], _TYPES[kinds[2:]], "int32"


def _product(kinds: str, rows: int, columns: int, depth: int, unit: str) -> Pair:
    (left, right, total), parts = _types(kinds), parts_of(kinds)
    words = depth // parts
    part, stride = ("", "") if parts == 1 else (f", {parts}", f" {parts},")
    head = f"""
    ra = T.int32()
    rb = T.int32()
    rc = T.int32()
    A = T.match_buffer(a, ({rows}, {depth}), "{left}", offset_factor=1, strides=[ra, 1])
    B = T.match_buffer(b, ({words}, {columns}{part}), "{right}", offset_factor=1,
        strides=[rb,{stride} 1])
    C = T.match_buffer(c, ({rows}, {columns}), "{total}", offset_factor=1, strides=[rc, 1])
    with T.block("root"):
        T.reads(C[0:{rows}, 0:{columns}], A[0:{rows}, 0:{depth}],
            B[0:{words}, 0:{columns}{part and f", 0:{parts}"}])
        T.writes(C[0:{rows}, 0:{columns}])"""
    desc = f"""
        for i, j, k in T.grid({rows}, {columns}, {words}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + {_multiplied(kinds, "A[vi, vk]", "B[vk, vj]")}"""
    if parts > 1:
        product = _multiplied(kinds, f"A[vi, vk * {parts} + vp]", "B[vk, vj, vp]")
        desc = f"""
        for i, j, k, p in T.grid({rows}, {columns}, {words}, {parts}):
            with T.block("update"):
                vi, vj, vk, vp = T.axis.remap("SSRR", [i, j, k, p])
                C[vi, vj] = C[vi, vj] + {product}"""
    lines = (_tiles if unit == "amx" else _vectors)(kinds, rows, columns, words)
    return pair("abc", head + desc, head + "".join(f"\n        {line}" for line in lines))


def _tiles(kinds: str, rows: int, columns: int, words: int) -> list[str]:
    """Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns."""
    parts, dot = parts_of(kinds), kinds.removesuffix(WORDS)
    down = 1 if rows <= TILE_ROWS else 2
    across, height, size = columns // TILE_ROWS, rows // down, 4 // parts
    sizes = [*[height] * 6, TILE_ROWS, TILE_ROWS]
    sums = [
        (2 * i + j, f"T.address_of(C[{i * height}, {j * TILE_ROWS}]), rc * 4")
        for i in range(down)
        for j in range(across)
    ]
    lines = [f"T.evaluate(T.amx_configure({', '.join(f'{n}, {TILE_BYTES}' for n in sizes)}))"]
    lines += [f"T.evaluate(T.amx_load({c}, {at}))" for c, at in sums]
    lines.append(f"for k in range({words // TILE_ROWS}):")
    for j in range(across):
        first = ", 0" if parts > 1 else ""
        at = f"T.address_of(B[k * {TILE_ROWS}, {j * TILE_ROWS}{first}])"
        lines.append(f"    T.evaluate(T.amx_load({6 + j}, {at}, rb * {size}))")
    for i in range(down):
        at = f"T.address_of(A[{i * height}, k * {TILE_ROWS * parts}])"
        lines.append(f"    T.evaluate(T.amx_load({4 + i}, {at}, ra * {size}))")
        lines += [
            f"    T.evaluate(T.amx_dot_{dot}({2 * i + j}, {4 + i}, {6 + j}))" for j in range(across)
        ]
    lines += [f"T.evaluate(T.amx_store({c}, {at}))" for c, at in sums]
    return [*lines, "T.evaluate(T.amx_release())"]


def _vectors(kinds: str, rows: int, columns: int, words: int) -> list[str]:
    """Rows of sums as vectors, all of them in registers."""
    parts, total = parts_of(kinds), _types(kinds)[2]
    loops = (
        f"for i in T.unroll({rows}):",
        f"    for s in T.unroll({columns // _LANES}):",
        f"        for j in T.vectorized({_LANES}):",
    )
    column = f"s * {_LANES} + j"
    left = ", ".join(f"A[i, k * {parts} + {p}]" for p in range(parts))
    right = ", ".join(f"B[k, {column}, {p}]" for p in range(parts))
    factors = f"T.word({left}), T.word({right})" if parts > 1 else f"A[i, k], B[k, {column}]"
    dot = f"T.dot_{kinds.removesuffix(WORDS)}(R[i, {column}], {factors})"
    return [
        f'R = T.alloc_buffer(({rows}, {columns}), "{total}", scope="local")',
        *loops, f"            R[i, {column}] = C[i, {column}]",
        f"for k in range({words}):",
        *(f"    {line}" for line in loops), f"                R[i, {column}] = {dot}",
        *loops, f"            C[i, {column}] = R[i, {column}]",
    ]  # fmt: skip
