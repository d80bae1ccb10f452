"""Dot products of words and tile registers: what they mean, and the instructions they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.emitting import compare, mapped
from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError, VerifyError
from tileloom.driver import assembly, build
from tileloom.expr import Call, Expr, broadcast_to, const
from tileloom.expr.dot_ops import ROUND_BF16
from tileloom.script import parse
from tileloom.target import Target
from tileloom.tir import PrimFunc, structural_equal
from tileloom.tir.run import run

RAPIDS = "cpu -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"
HASWELL = "cpu -mtriple=x86_64-linux-gnu -mcpu=haswell"
WITHOUT = "cpu -mattr=-avx512vnni,-avxvnni,-avx512bf16"
LANES = (1, 4, 8, 16, 32)
FACTORS = {"s8": "int8", "u8": "uint8"}


def dots(name: str, total: str, lanes: int) -> PrimFunc:
    def dot(x: Expr, y: Expr, z: Expr) -> Expr:
        return Call(x.dtype, f"tir.{name}", (x, y, z))

    return mapped([total, "int32", "int32"], [dot], lanes, 64)


def words(rng: np.random.Generator) -> np.ndarray:
    found = rng.integers(-(2**31), 2**31, 64).astype("int32")
    found[:4] = [-1, 0x7F7F7F7F, -0x7F7F7F80, 0]
    return found


@pytest.mark.parametrize("target", ["cpu", WITHOUT])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("signs", ["u8s8", "s8u8", "s8s8", "u8u8"])
def test_dot_products_of_bytes(signs: str, lanes: int, target: str) -> None:
    rng = np.random.default_rng(0)
    total, x, y = words(rng), words(rng), words(rng)[::-1].copy()
    [got] = compare(dots(f"dot_{signs}", "int32", lanes), total, x, y, target=target)
    left, right = (
        v.view(FACTORS[kind]).astype("int64") for v, kind in ((x, signs[:2]), (y, signs[2:]))
    )
    want = total + (left * right).reshape(64, 4).sum(1)
    assert np.array_equal(got, want.astype("int32"))


@pytest.mark.parametrize("target", ["cpu", WITHOUT])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_dot_products_of_bytes_in_offset_binary(kind: str, lanes: int, target: str) -> None:
    """The left bytes are of the kind of the right ones, with their sign bits flipped."""
    rng = np.random.default_rng(0)
    total, x, y = words(rng), words(rng), words(rng)[::-1].copy()
    [got] = compare(dots(f"dot_o8{kind}", "int32", lanes), total, x, y, target=target)
    flipped = x.view("uint8") ^ np.uint8(128)
    left, right = (v.view(FACTORS[kind]).astype("int64") for v in (flipped, y))
    want = total + (left * right).reshape(64, 4).sum(1)
    assert np.array_equal(got, want.astype("int32"))


@pytest.mark.parametrize("target", ["cpu", WITHOUT])
@pytest.mark.parametrize("lanes", LANES)
def test_dot_products_of_bfloat16(lanes: int, target: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((2, 128)).astype("float32").view("uint32") >> 16
    x, y = (half.astype("uint16").view("int32") for half in numbers)
    total = rng.standard_normal(64).astype("float32")
    compare(dots("dot_bf16", "float32", lanes), total, x, y, tolerance=1e-4, target=target)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("kind", ["int8", "uint8", "bfloat16"])
def test_words_of_neighbours(kind: str, lanes: int) -> None:
    rng = np.random.default_rng(0)
    parts = 32 // (16 if kind == "bfloat16" else 8)
    own = dtype(kind).numpy
    arrays = [rng.integers(0, 128, 64).astype(own) for _ in range(parts)]

    def word(*values: Expr) -> Expr:
        return Call(_like(values[0], "int32"), "tir.word", values)

    [got] = compare(mapped([kind] * parts, [word], lanes, 64), *arrays)
    assert np.array_equal(got.view(own).reshape(64, parts), np.stack(arrays, 1))


@pytest.mark.parametrize("name", ["dot_u8s8", "dot_bf16"])
def test_a_dot_product_takes_what_it_is_added_to(name: str) -> None:
    kind = "float32" if name == "dot_bf16" else "int32"

    def added(x: Expr, y: Expr, z: Expr) -> Expr:
        zero = const(0, kind) if x.dtype.lanes == 1 else broadcast_to(const(0, kind), 16)
        total: Expr = x + Call(x.dtype, f"tir.{name}", (zero, y, z))
        return total

    text = assembly(mapped([kind, "int32", "int32"], [added], 16, 16), RAPIDS)
    assert "vdpbf16ps" in text or "vpdpbusd" in text
    assert "vpadd" not in text and "vaddps" not in text


@pytest.mark.parametrize("target", ["cpu", WITHOUT])
@pytest.mark.parametrize("lanes", LANES)
def test_roundings_to_bfloat16(lanes: int, target: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 512, dtype="uint32")
    bits[:8] = [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0x7F800000, 0x3F808000, 0x3F818000, 0, 1]
    bits[8:12] = [0x007FFFFF, 0x80000001, 0x00800000, 0x807F8000]
    bits[12:100] &= 0xFF8FFFFF
    x = bits.view("float32")
    func = mapped(["float32"], [lambda v: Call(_like(v, "bfloat16"), ROUND_BF16, (v,))], lanes, 512)
    [got] = compare(func, x, target=target)
    want = np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)
    with np.errstate(invalid="ignore"):
        want = want.astype(got.dtype)
    assert np.array_equal(np.isnan(got), np.isnan(x))
    assert np.array_equal(got.view("uint16")[~np.isnan(x)], want.view("uint16")[~np.isnan(x)])


def _like(value: Expr, kind: str) -> str:
    return kind if value.dtype.lanes == 1 else f"{kind}x{value.dtype.lanes}"


def test_the_instructions() -> None:
    func = mapped(["float32"], [lambda v: Call("bfloat16x16", ROUND_BF16, (v,))], 16, 64)
    assert "vcvtneps2bf16" in assembly(func, RAPIDS)
    assert "vcvtneps2bf16" not in assembly(func, HASWELL)
    for name, kind, instruction in (
        ("dot_u8s8", "int32", "vpdpbusd"), ("dot_bf16", "float32", "vdpbf16ps"),
    ):  # fmt: skip
        for lanes in (4, 8, 16):
            assert instruction in assembly(dots(name, kind, lanes), RAPIDS)
        assert instruction not in assembly(dots(name, kind, 8), HASWELL)


TILES = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (160,), "{left}")
    B = T.match_buffer(b, (64,), "{right}")
    C = T.match_buffer(c, (12,), "{total}")
    T.evaluate(T.amx_configure(3, 16, 3, 8, 2, 16))
    T.evaluate(T.amx_load(0, T.address_of(C[0]), 16))
    T.evaluate(T.amx_load(1, T.address_of(A[{first}]), {stride}))
    T.evaluate(T.amx_load_once(2, T.address_of(B[0]), 16))
    T.evaluate(T.amx_{dot}(0, 1, 2))
    T.evaluate(T.amx_store(0, T.address_of(C[0]), 16))
    T.evaluate(T.amx_release())
"""
DOTS = ("dot_s8s8", "dot_s8u8", "dot_u8s8", "dot_u8u8", "dot_bf16")


def tile_program(dot: str) -> PrimFunc:
    """Three rows of two words times two of four columns; rows of A are 20 words apart."""
    names = ("bfloat16",) * 2 if dot == "dot_bf16" else [FACTORS[dot[4:6]], FACTORS[dot[6:]]]
    total = "float32" if dot == "dot_bf16" else "int32"
    stride = 80 if dot == "dot_bf16" else 40
    text = TILES.format(left=names[0], right=names[1], total=total, dot=dot, first=4, stride=stride)
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def tile_arguments(func: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = [buffer.dtype.numpy for buffer in func.buffers]
    return [
        rng.integers(-128, 128, size).astype(kind)
        for size, kind in zip((160, 64, 12), kinds, strict=True)
    ]


def tile_result(dot: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    parts = 2 if dot == "dot_bf16" else 4
    left = np.stack([a[4 + 40 * r :][: 2 * parts] for r in range(3)]).astype("float64")
    right = b[: 8 * parts].reshape(2, 4, parts).astype("float64")
    return c.reshape(3, 4) + np.einsum("rwp,wcp->rc", left.reshape(3, 2, parts), right)


@pytest.mark.parametrize("dot", DOTS)
def test_tiles_in_the_interpreter_and_on_the_machine(dot: str) -> None:
    func = tile_program(dot)
    a, b, c = tile_arguments(func)
    want = tile_result(dot, a, b, c)
    for strict in (False, True):
        found = c.copy()
        run(func, a, b, found, strict=strict)
        assert np.array_equal(found.reshape(3, 4), want)
    assert "tileloaddt1" in assembly(func, RAPIDS)
    assert f"td{'pbf16ps' if dot == 'dot_bf16' else 'pb'}" in assembly(func, RAPIDS)
    if Target.host().has("amx-bf16") and Target.host().has("amx-int8"):
        found = c.copy()
        build(func)(a, b, found)
        assert np.array_equal(found.reshape(3, 4), want)


def test_tiles_are_refused_where_there_are_none() -> None:
    with pytest.raises(UnsupportedError, match="amx_configure needs a CPU with amx-tile"):
        assembly(tile_program("dot_bf16"), HASWELL)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("amx_load_once(2,", "amx_load_once(8,", "tiles 0 to 7, not 8"),
        ("amx_configure(3, 16", "amx_configure(17, 16", "up to 16 rows of up to 64 bytes"),
        ("amx_configure(3, 16", "amx_configure(3", "up to 16 rows of up to 64 bytes"),
        ("amx_configure(3, 16", "amx_configure(3, 0", "up to 16 rows of up to 64 bytes"),
        ("amx_configure(3, 16", "amx_configure(0, 16", "up to 16 rows of up to 64 bytes"),
        ("amx_configure(3, 16", "amx_configure(3, 68", "up to 16 rows of up to 64 bytes"),
    ],
)
def test_tiles_that_there_are_not(old: str, new: str, message: str) -> None:
    text = TILES.format(
        left="int8", right="int8", total="int32", dot="dot_s8s8", first=4, stride=40
    )
    with pytest.raises(UnsupportedError, match=message):
        assembly(parse(text.replace(old, new)), RAPIDS)


def test_the_interpreter_watches_memory_of_tiles() -> None:
    text = TILES.format(
        left="int8", right="int8", total="int32", dot="dot_s8s8", first=150, stride=40
    )
    with pytest.raises(VerifyError, match="a tile reaches out of memory of 160 bytes"):
        run(parse(text), *tile_arguments(parse(text)))
    unset = text.replace("T.evaluate(T.amx_configure(3, 16, 3, 8, 2, 16))", "T.evaluate(0)")
    with pytest.raises(VerifyError, match="amx_configure comes first"):
        run(parse(unset), *tile_arguments(parse(unset)))


def test_scripts_of_dots_come_back() -> None:
    rounding = mapped(["float32"], [lambda v: Call("bfloat16", ROUND_BF16, (v,))], 1, 64)
    for func in (tile_program("dot_u8s8"), dots("dot_u8s8", "int32", 16), rounding):
        again = parse(func.script())
        assert structural_equal(again, func)
