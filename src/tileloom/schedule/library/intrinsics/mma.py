"""Tiles of 16 by 16 on `mma.sync`, under the names of TVM's `tir.tensor_intrin.cuda`.

A warp keeps a tile as 32 rows, one for each of its threads, in memory of scope "warp". Where an
element stands there is for the layout functions below to say: they go into `transform_layout`, and
the descriptions hold the same. Those of A and of accumulators are the hardware's own. That of B is
TVM's: `mma_ldmatrix_*_b*` and the products agree on it, and nothing else should read such a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ._text import Pair, pair

Layout = Callable[[Any, Any], tuple[Any, Any]]
_SIDE, _WARP = 16, 32


# ---------------------------------------------------------------------------- layouts


def shared_16x16_to_mma_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The thread, and the number among what it holds: of 16-bit factors, and of accumulators.

    >>> shared_16x16_to_mma_32x8_layout(9, 10)
    (5, 6)
    """
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + i // 8 * 2 + j % 2


def shared_16x32_to_mma_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Factors of 8 bits: A, and B that is stored by columns."""
    return 4 * (i % 8) + j % 16 // 4, 8 * (j // 16) + i // 8 * 4 + j % 4


def shared_32x16_to_mma_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """B of 8 bits that is stored by rows."""
    return i % 16 // 4 + 4 * (j % 8), 8 * (j // 8) + i // 16 * 4 + i % 4


def shared_16x8_to_mma_32x4_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Factors of tf32: A."""
    return 4 * (i % 8) + j % 4, 2 * (j // 4) + i // 8


def shared_8x16_to_mma_32x4_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """B of tf32 that is stored by rows."""
    return 4 * (j % 8) + i % 4, 2 * (j // 8) + i // 4


def shared_16x4_to_mma_32x2_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Factors of float64: A, and B that is stored by columns."""
    return 4 * (i % 8) + j, i // 8


def _b_of_f64(i: Any, j: Any) -> tuple[Any, Any]:
    return shared_16x4_to_mma_32x2_layout(j, i)


def _b_of_tf32_by_columns(i: Any, j: Any) -> tuple[Any, Any]:
    return shared_8x16_to_mma_32x4_layout(j, i)


def _a_by_columns(i: Any, j: Any) -> tuple[Any, Any]:
    return shared_16x16_to_mma_32x8_layout(j, i)


@dataclass(frozen=True)
class Factor:
    """Factors of one type.

    Attributes:
        dtype: in tensor IR; `ptx` what `ptx_mma` calls it.
        depth: how far a tile reaches along k.
        bits: of an element.
        layouts: of "a", "a_trans", "b", "b_trans": a tile as it is stored, to threads.
    """

    dtype: str
    ptx: str
    depth: int
    bits: int
    layouts: dict[str, Layout]

    @property
    def held(self) -> int:
        """How many elements of a tile a thread holds."""
        return _SIDE * self.depth // _WARP

    @property
    def parts(self) -> int:
        """How many instructions multiply a tile."""
        return 4 if self.bits == 64 else 2

    def shape(self, which: str) -> tuple[int, int]:
        """The tile as it is stored."""
        return (_SIDE, self.depth) if which in ("a", "b_trans") else (self.depth, _SIDE)


_HALVES: dict[str, Layout] = {
    "a": shared_16x16_to_mma_32x8_layout,
    "a_trans": _a_by_columns,
    "b": shared_16x16_to_mma_32x8_layout,
    "b_trans": shared_16x16_to_mma_32x8_layout,
}
_BYTES: dict[str, Layout] = {
    "a": shared_16x32_to_mma_32x16_layout,
    "b": shared_32x16_to_mma_32x16_layout,
    "b_trans": shared_16x32_to_mma_32x16_layout,
}
_WORDS: dict[str, Layout] = {
    "a": shared_16x8_to_mma_32x4_layout,
    "b": shared_8x16_to_mma_32x4_layout,
    "b_trans": _b_of_tf32_by_columns,
}
_DOUBLES: dict[str, Layout] = {
    "a": shared_16x4_to_mma_32x2_layout,
    "b": _b_of_f64,
    "b_trans": shared_16x4_to_mma_32x2_layout,
}
#: By the names in intrinsics: "mma_ldmatrix_f16_a", "mma_f16f16f32" and so on.
FACTORS: dict[str, Factor] = {
    "f16": Factor("float16", "fp16", 16, 16, _HALVES),
    "bf16": Factor("bfloat16", "bf16", 16, 16, _HALVES),
    "tf32": Factor("float32", "tf32", 8, 32, _WORDS),
    "i8": Factor("int8", "int8", 32, 8, _BYTES),
    "u8": Factor("uint8", "uint8", 32, 8, _BYTES),
    "e4m3": Factor("float8_e4m3fn", "e4m3", 32, 8, _BYTES),
    "e5m2": Factor("float8_e5m2", "e5m2", 32, 8, _BYTES),
    "f64": Factor("float64", "fp64", 4, 64, _DOUBLES),
}
_TOTALS = {
    "f16": ("float16", "fp16"), "f32": ("float32", "fp32"), "f64": ("float64", "fp64"),
    "i32": ("int32", "int32"),
}  # fmt: skip
_SUMS = {
    "f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "i8": ("i32",), "u8": ("i32",),
    "e4m3": ("f32",), "e5m2": ("f32",), "f64": ("f64",),
}  # fmt: skip


class _Name:
    """A name in the text of a program that a layout function is run on."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _with(self, sign: str, other: Any) -> _Name:
        return _Name(f"({self.text} {sign} {other.text if isinstance(other, _Name) else other})")

    def _from(self, sign: str, other: Any) -> _Name:
        return _Name(f"({other} {sign} {self.text})")

    def __add__(self, other: Any) -> _Name:
        return self._with("+", other)

    def __mul__(self, other: Any) -> _Name:
        return self._with("*", other)

    def __mod__(self, other: Any) -> _Name:
        return self._with("%", other)

    def __floordiv__(self, other: Any) -> _Name:
        return self._with("//", other)

    def __rmul__(self, other: Any) -> _Name:
        return self._from("*", other)


def _at(layout: Layout, i: str, j: str) -> str:
    thread, local = layout(_Name(i), _Name(j))
    return f"{thread.text}, {local.text}"


# ---------------------------------------------------------------------------- text


def _warp(name: str, kind: str, held: int) -> str:
    return (
        f'{name} = T.match_buffer({name.lower()}, ({_WARP}, {held}), "{kind}", align=64, '
        f'offset_factor={held}, scope="warp")'
    )


def _tile(name: str, kind: str, shape: tuple[int, int], scope: str, strides: str = "") -> str:
    rest = f", strides=[{strides}]" if strides else ""
    return (
        f'{name} = T.match_buffer({name.lower()}, {shape}, "{kind}", align=64, '
        f'offset_factor=1, scope="{scope}"{rest})'
    )


def load(name: str, which: str, scope: str) -> Pair:
    """A factor from shared memory into a warp, by `ldmatrix` where it can."""
    factor = FACTORS[name]
    rows, columns = shape = factor.shape(which)
    layout = factor.layouts[which]
    warp = _warp("W", factor.dtype, factor.held)
    region = f"""
    with T.block("root"):
        T.reads(S[0:{rows}, 0:{columns}])
        T.writes(W[0:{_WARP}, 0:{factor.held}])"""
    desc = f"""
    {warp}
    {_tile("S", factor.dtype, shape, scope)}{region}
        for i, j in T.grid({rows}, {columns}):
            with T.block("shared_warp"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(S[vi, vj])
                T.writes(W[{_at(layout, "vi", "vj")}])
                W[{_at(layout, "vi", "vj")}] = S[vi, vj]"""
    impl = f"""
    s0 = T.int32()
    s1 = T.int32()
    {warp}
    {_tile("S", factor.dtype, shape, scope, "s0, s1")}{region}
        for tx in T.thread_binding({_WARP}, thread="threadIdx.x"):
{_loading(factor, which)}"""
    return pair("ws", desc, impl)


def _loading(factor: Factor, which: str) -> str:
    """What a thread does to load its part of a factor."""
    vector = 128 // factor.bits
    if factor.bits == 64:
        place = "tx % 4, i * 8 + tx // 4" if which == "b" else "i * 8 + tx // 4, tx % 4"
        return f"""\
            for i in T.unroll(2):
                W[tx, i] = S[{place}]"""
    if which == "b" and factor.bits != 16:
        return _loading_one_by_one(factor)
    if which in ("a", "b"):
        row, column = "tx % 16", f"{vector} * (tx // 16)"
    else:
        row, column = "8 * (tx // 16) + tx % 8", f"{vector} * (tx % 16 // 8)"
    transposed = which in ("b", "a_trans")
    return f"""\
            T.evaluate(T.ptx_ldmatrix(
                "{factor.dtype}", T.bool({transposed}), 4, ".b16",
                W.data, W.elem_offset + tx * {factor.held},
                S.access_ptr("r"), s0 * ({row}) + {column}
            ))"""


def _loading_one_by_one(factor: Factor) -> str:
    """`ldmatrix` turns tiles of 16-bit elements only."""
    packed = 32 // factor.bits
    depth = f"i // {packed} % 2 * {4 * packed} + tx % 4 * {packed} + i % {packed}"
    return f"""\
            for i in T.unroll({factor.held}):
                W[tx, i] = S[{depth}, i // {2 * packed} * 8 + tx // 4]"""


def product(name: str, total: str, a: str, b: str) -> Pair:
    """`C += A @ B` of 16 by 16."""
    factor = FACTORS[name]
    kind, ptx = _TOTALS[total]
    held, depth = factor.held, factor.depth
    head = f"""
    {_warp("A", factor.dtype, held)}
    {_warp("B", factor.dtype, held)}
    {_warp("C", kind, 8)}
    with T.block("root"):
        T.reads(C[0:{_WARP}, 0:8], A[0:{_WARP}, 0:{held}], B[0:{_WARP}, 0:{held}])
        T.writes(C[0:{_WARP}, 0:8])"""
    at_a = _at(factor.layouts[a], *(("vi", "vk") if a == "a" else ("vk", "vi")))
    at_b = _at(factor.layouts[b], *(("vk", "vj") if b == "b" else ("vj", "vk")))
    at_c = _at(shared_16x16_to_mma_32x8_layout, "vi", "vj")

    def cast(load: str) -> str:
        return load if kind == factor.dtype else f'T.cast({load}, "{kind}")'

    desc = f"""{head}
        for i, j, k in T.grid({_SIDE}, {_SIDE}, {depth}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[{at_c}], A[{at_a}], B[{at_b}])
                T.writes(C[{at_c}])
                C[{at_c}] = C[{at_c}] + {cast(f"A[{at_a}]")} * {cast(f"B[{at_b}]")}"""
    calls = "\n".join(_multiplying(factor, kind, ptx, part) for part in range(factor.parts))
    impl = f"""{head}
        for tx in T.thread_binding({_WARP}, thread="threadIdx.x"):
{calls}"""
    return pair("abc", desc, impl)


def _multiplying(factor: Factor, kind: str, ptx: str, part: int) -> str:
    """One of the instructions of a tile: half of its columns; of float64, half of its rows too."""
    rows, (down, across) = 16 // (factor.parts // 2), divmod(part, 2)
    return f"""\
            T.evaluate(T.ptx_mma(
                "{kind}", "m{rows}n8k{factor.depth}", "row", "col",
                "{factor.ptx}", "{factor.ptx}", "{ptx}",
                A.data, A.elem_offset + tx * {factor.held} + {down},
                B.data, B.elem_offset + tx * {factor.held} + {across * factor.held // 2},
                C.data, C.elem_offset + tx * 8 + {across * 4 + down * 2}, T.bool(False)
            ))"""


def fill(total: str) -> Pair:
    """An accumulator of zeros."""
    kind, _ = _TOTALS[total]
    head = f"""
    {_warp("W", kind, 8)}
    with T.block("root"):
        T.reads()
        T.writes(W[0:{_WARP}, 0:8])"""
    at = _at(shared_16x16_to_mma_32x8_layout, "vi", "vj")
    desc = f"""{head}
        for i, j in T.grid({_SIDE}, {_SIDE}):
            with T.block("C_warp"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(W[{at}])
                W[{at}] = T.{kind}(0)"""
    impl = f"""{head}
        for tx in T.thread_binding({_WARP}, thread="threadIdx.x"):
            T.evaluate(T.mma_fill("{kind}", 8, W.data, W.elem_offset + tx * 8))"""
    return pair("w", desc, impl)


def store(total: str, scope: str) -> Pair:
    """An accumulator into memory."""
    kind, _ = _TOTALS[total]
    region = f"""
    with T.block("root"):
        T.reads(W[0:{_WARP}, 0:8])
        T.writes(C[0:{_SIDE}, 0:{_SIDE}])"""
    at = _at(shared_16x16_to_mma_32x8_layout, "vi", "vj")
    shape = (_SIDE, _SIDE)
    desc = f"""
    {_warp("W", kind, 8)}
    {_tile("C", kind, shape, scope)}{region}
        for i, j in T.grid({_SIDE}, {_SIDE}):
            with T.block("C_warp"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(W[{at}])
                T.writes(C[vi, vj])
                C[vi, vj] = W[{at}]"""
    impl = f"""
    s0 = T.int32()
    s1 = T.int32()
    {_warp("W", kind, 8)}
    {_tile("C", kind, shape, scope, "s0, s1")}{region}
        for tx in T.thread_binding({_WARP}, thread="threadIdx.x"):
            T.evaluate(T.mma_store(
                "{kind}", {_SIDE}, {_SIDE}, C.access_ptr("w"), W.data, W.elem_offset + tx * 8, s0
            ))"""
    return pair("wc", desc, impl)


# ---------------------------------------------------------------------------- names


def _definitions() -> Iterator[tuple[str, Callable[[], Pair]]]:
    for name, factor in FACTORS.items():
        for which in factor.layouts:
            for tail, scope in (("", "shared"), ("_dyn", "shared.dyn")):
                yield f"mma_ldmatrix_{name}_{which}{tail}", partial(load, name, which, scope)
        for total in _SUMS[name]:
            for a in ("a", "a_trans") if "a_trans" in factor.layouts else ("a",):
                for b in ("b", "b_trans"):
                    tail = ("_trans_a" if a == "a_trans" else "") + (
                        "_trans_b" if b == "b_trans" else ""
                    )
                    yield f"mma_{name}{name}{total}{tail}", partial(product, name, total, a, b)
    for total in _TOTALS:
        yield f"mma_fill_{_SIDE}x{_SIDE}_{total}", partial(fill, total)
        for scope in ("global", "shared", "shared.dyn"):
            place = scope.replace(".", "_")
            for tail in ("", "_"):  # TVM's names end so
                yield (
                    f"mma_store_{_SIDE}x{_SIDE}_{total}_{place}{tail}",
                    partial(store, total, scope),
                )


DEFINITIONS: dict[str, Callable[[], Pair]] = dict(_definitions())
