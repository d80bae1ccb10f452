"""Intrinsics of users: what is refused, and what is found out by running both halves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from schedule.common import parse
from tileloom import UserError
from tileloom.schedule import tensor_intrin
from tileloom.schedule.tensor_intrin import TensorIntrin, check_equivalence, root_block
from tileloom.tir import PrimFunc

TEXT = """
@T.prim_func
def f(A: T.Buffer((SIZE,), "KIND"OPTIONS), B: T.Buffer((SIZE,), "KIND")):
    for i in range(COUNT):
        with T.block("B"):
            v = T.axis.spatial(COUNT, i)
            B[v] = VALUE
"""


def func(value: str = "A[v]", kind: str = "float32", **pieces: str) -> Any:
    size = pieces.get("SIZE", "4")
    defaults = {"SIZE": size, "COUNT": size, "OPTIONS": "", "VALUE": value, "KIND": kind}
    text = TEXT
    for name, piece in {**defaults, **pieces}.items():
        text = text.replace(name, piece)
    return parse(text)


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tensor_intrin, "_REGISTERED", dict(tensor_intrin._REGISTERED))
    yield


def test_a_name_is_given_once() -> None:
    made = TensorIntrin.register("mine", func(), func())
    assert TensorIntrin.get("mine") is made and made.checked
    assert "mine" in TensorIntrin.names()
    for name in ("mine", "mma_fill_16x16_f32"):
        with pytest.raises(UserError, match=f"there is a tensor intrinsic called '{name}' already"):
            TensorIntrin.register(name, func(), func())
    again = TensorIntrin.register("mine", func(), func(), override=True)
    assert TensorIntrin.get("mine") is again is not made


def test_what_is_made_by_hand_is_not_checked() -> None:
    assert not TensorIntrin(func(), func("A[v] + A[v]")).checked


def test_names_that_are_none() -> None:
    assert TensorIntrin.get("no_such", allow_missing=True) is None
    with pytest.raises(UserError, match="no tensor intrinsic is called 'xyzzy'") as found:
        TensorIntrin.get("xyzzy")
    assert found.value.hint is None
    with pytest.raises(UserError, match="is called 'mma_fill_16x16_f33'") as found:
        TensorIntrin.get("mma_fill_16x16_f33")
    assert "mma_fill_16x16_f32" in str(found.value.hint)


@pytest.mark.parametrize(
    ("impl", "match"),
    [
        (func(SIZE="5"), "the description has .* the implementation"),
        (func(kind="float16"), "the description has .* the implementation"),
        (func(OPTIONS=', scope="shared"'), "'A' of the description is in 'global' memory"),
        (
            parse("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    T.evaluate(A[0])\n"),
            "the description takes 2 buffers, the implementation 1",
        ),
        (
            parse(
                "@T.prim_func\ndef f(A: T.Buffer((4, 1)), B: T.Buffer((4,))):\n"
                "    T.evaluate(A[0, 0])\n"
            ),
            "the description has .* the implementation",
        ),
        (
            parse("@T.prim_func\ndef f(A: T.Buffer((4,)), n: T.int32):\n    T.evaluate(A[n])\n"),
            "the parameter 'n' of the implementation is no buffer",
        ),
        ("text", "the implementation of a tensor intrinsic is a PrimFunc, got 'text'"),
    ],
    ids=["size", "type", "scope", "count", "rank", "number", "text"],
)
def test_halves_that_do_not_fit(impl: PrimFunc, match: str) -> None:
    with pytest.raises(UserError, match=match):
        TensorIntrin.register("mine", func(), impl)
    assert TensorIntrin.get("mine", allow_missing=True) is None


def test_a_root_block_is_put_around() -> None:
    whole = func()
    assert TensorIntrin(whole, whole).desc is whole
    bare = whole.replace(body=root_block(whole).body)
    with pytest.raises(UserError, match="has no root block"):
        root_block(bare)
    root = root_block(TensorIntrin(bare, bare).desc)
    assert [region.buffer.name for region in root.reads] == ["A"]
    assert [region.buffer.name for region in root.writes] == ["B"]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("float32", "A[v] * T.float32(1.001)"),
        ("float64", "A[v] * T.float64(1.00000001)"),
        ("float16", "A[v] * T.float16(1.1)"),
        ("bfloat16", "A[v] * T.bfloat16(1.5)"),
        ("int32", "A[v] + 1"),
        ("uint8", "T.max(A[v], T.uint8(130))"),
        ("int8", "T.max(A[v], T.int8(-100))"),
        ("bool", "A[0]"),
    ],
)
def test_halves_that_compute_different_things(kind: str, wrong: str) -> None:
    assert check_equivalence("mine", func(kind=kind, SIZE="32"), func(kind=kind, SIZE="32"))
    with pytest.raises(UserError, match="'mine' leave different values in 'B'"):
        check_equivalence("mine", func(kind=kind, SIZE="32"), func(wrong, kind, SIZE="32"))


def test_what_is_rounded_differently_is_the_same() -> None:
    almost = func("A[v] * T.float32(1.00001)", SIZE="32")
    assert check_equivalence("mine", func(SIZE="32"), almost)


def test_elements_that_are_left_alone_count() -> None:
    with pytest.raises(UserError, match="leave different values in 'B'"):
        check_equivalence("mine", func(), func(COUNT="3"))


def test_what_takes_too_long_is_not_checked() -> None:
    long = func(SIZE=str((1 << 20) + 1))
    assert not check_equivalence("mine", long, long)


def test_buffers_are_parts_of_larger_ones() -> None:
    """Rows of a part lie further apart than they are long, which a compact buffer denies."""
    text = """
@T.prim_func
def f(A: T.Buffer((2, 4)), b: T.handle):
    B = T.match_buffer(b, (2, 4)STRIDES)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v // 4, v % 4] = A[v // 4, v % 4]
"""
    plain = parse(text.replace("STRIDES", ""))
    strided = parse(
        text.replace("STRIDES", ", strides=[T.int32(), 1]")
        .replace("    B = T.match", "    s = T.int32()\n    B = T.match")
        .replace("T.int32(), 1", "s, 1")
    )
    assert check_equivalence("mine", plain, strided)
