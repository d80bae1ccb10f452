"""The words that CPUs multiply: which there are, by their manuals."""

from __future__ import annotations

import pytest

from tileloom.base import dtype
from tileloom.driver.plan import machine_of
from tileloom.graph.words import TILE_WORDS, Words, find_words
from tileloom.target import Target

BYTES = {"u8u8": ("uint8", "uint8"), "u8s8": ("uint8", "int8"),
         "s8u8": ("int8", "uint8"), "s8s8": ("int8", "int8")}  # fmt: skip


def words(left: str, right: str, total: str, bits: int, *features: str) -> Words | None:
    cpu = Target(kind="cpu", arch="x86_64", features=features, vector_bits=bits, cores=1)
    return find_words(dtype(left), dtype(right), dtype(total), machine_of(cpu))


@pytest.mark.parametrize("kinds", BYTES)
@pytest.mark.parametrize(
    ("bits", "feature", "there"),
    [
        (512, "avx512vnni", True),
        (256, "avx512vnni", True),
        (256, "avxvnni", True),
        (512, "avxvnni", False),  # which has registers of 256 bits
        (512, "avx512bf16", False),
        (512, "avx512f", False),
        (256, "amx-int8", False),
    ],
)
def test_dot_products_of_bytes(kinds: str, bits: int, feature: str, there: bool) -> None:
    """Unsigned ones times signed ones; of one kind, the left ones in offset binary."""
    found = words(*BYTES[kinds], "int32", bits, feature)
    if not there:
        assert found is None
        return
    left, right = kinds[0], kinds[2]
    same = left == right
    name = f"o8{right}8" if same else kinds
    assert found == Words(f"tir.dot_{name}", 4, 1, same)


@pytest.mark.parametrize("kinds", BYTES)
@pytest.mark.parametrize("more", [(), ("avx512vnni",)])
def test_tiles_of_bytes_are_of_any_kinds(kinds: str, more: tuple[str, ...]) -> None:
    assert words(*BYTES[kinds], "int32", 512, "amx-int8", *more) == Words(
        f"tir.dot_{kinds}", 4, TILE_WORDS
    )


def test_dot_products_of_halves() -> None:
    pair = "bfloat16", "bfloat16", "float32"
    assert words(*pair, 512, "avx512bf16") == Words("tir.dot_bf16", 2)
    assert words(*pair, 256, "avx512bf16") == Words("tir.dot_bf16", 2)
    assert words(*pair, 512, "amx-bf16") == Words("tir.dot_bf16", 2, TILE_WORDS)
    for bits, feature in ((512, "amx-int8"), (512, "avx512vnni"), (256, "amx-bf16")):
        assert words(*pair, bits, feature) is None


ALL = ("avx512vnni", "avxvnni", "avx512bf16", "amx-int8", "amx-bf16")


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ("int8", "int8", "int64"), ("int8", "int16", "int32"), ("int16", "int16", "int32"),
        ("uint8", "int8", "float32"), ("bfloat16", "bfloat16", "bfloat16"),
        ("bfloat16", "float32", "float32"), ("float32", "bfloat16", "float32"),
        ("float16", "float16", "float32"), ("float32", "float32", "float32"),
    ],
)  # fmt: skip
def test_types_that_no_word_holds(left: str, right: str, total: str) -> None:
    assert words(left, right, total, 512, *ALL) is None
