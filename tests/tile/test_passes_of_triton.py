"""Our passes beside those of Triton 3.2, on the same programs."""

from __future__ import annotations

import pytest

from tile.isomorphic import assert_isomorphic
from tile.matmul import matmul
from tile.oracle import needs_oracle, triton_passes
from tileloom.tile import parse, run_passes, show
from tileloom.tile.ir.core import Operation

SHAPES = [(128, 128, 32), (64, 256, 64), (16, 64, 16), (64, 16, 128), (32, 64, 32)]


def ours(text: str, *passes: str) -> Operation:
    """The module of a text after our passes."""
    module = parse(text)
    run_passes(module, passes, check=True)
    return module


@needs_oracle
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_default_layouts(shape: tuple[int, int, int], warps: int) -> None:
    text = matmul(*shape)
    found = ours(text, f"convert-triton-to-tritongpu{{target=cuda:80 num-warps={warps}}}")
    expected = triton_passes(text, f"ttir.add_convert_to_ttgpuir:cuda-80:{warps}:32:1")
    assert_isomorphic(found, expected)


@needs_oracle
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("capability", [75, 80, 89, 90])
@pytest.mark.parametrize("warps", [4, 8])
def test_tensor_cores(shape: tuple[int, int, int], capability: int, warps: int) -> None:
    given = ours(
        matmul(*shape),
        f"convert-triton-to-tritongpu{{target=cuda:{capability} num-warps={warps}}}",
        "cse",
    )
    text = show(given, spelling="3.2")
    found = ours(text, "tritongpu-accelerate-matmul")
    assert_isomorphic(found, triton_passes(text, "ttgpuir.add_accelerate_matmul"))


# Each pass of ours, that of Triton, and what is run before on both.
STEPS = [
    ("tritongpu-remove-layout-conversions", "ttgpuir.add_remove_layout_conversions"),
    ("tritongpu-optimize-thread-locality", "ttgpuir.add_optimize_thread_locality"),
    ("tritongpu-accelerate-matmul", "ttgpuir.add_accelerate_matmul"),
    ("tritongpu-remove-layout-conversions", "ttgpuir.add_remove_layout_conversions"),
    ("tritongpu-optimize-dot-operands", "ttgpuir.add_optimize_dot_operands:1"),
    ("cse", "common.add_cse"),
    ("tritongpu-reorder-instructions", "ttgpuir.add_reorder_instructions"),
    ("canonicalize", "common.add_canonicalizer"),
]


@needs_oracle
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("capability", [80, 90])
def test_one_pass_after_another(shape: tuple[int, int, int], capability: int) -> None:
    options = f"{{target=cuda:{capability}}}"
    text = show(ours(matmul(*shape), f"convert-triton-to-tritongpu{options}"), spelling="3.2")
    for own, theirs in STEPS:
        expected = triton_passes(text, theirs)
        assert_isomorphic(ours(text, own), expected, commute=True)
        text = show(expected, spelling="3.2")


def test_conversions_are_moved_without_an_oracle() -> None:
    module = ours(
        matmul(),
        "convert-triton-to-tritongpu{target=cuda:80},cse",
        "tritongpu-remove-layout-conversions,tritongpu-accelerate-matmul",
        "tritongpu-remove-layout-conversions",
    )
    left = [op for op in module.walk() if op.name == "ttg.convert_layout"]
    assert len(left) == 3  # to both operands, and of the result
    assert [op.name for op in module.walk()].count("tt.dot") == 1
