"""Default layouts, what threads hold, layouts that follow from others; the first conversion."""

from __future__ import annotations

import pytest

from tileloom.base.errors import UserError
from tileloom.tile import parse, run_passes, verify
from tileloom.tile.ir.core import Operation
from tileloom.tile.ir.types import F32, TensorType
from tileloom.tile.layouts.blocked import (
    blocked_encoding,
    default_blocked,
    thread_local_encoding,
    thread_local_shape,
)
from tileloom.tile.layouts.encodings import BlockedEncoding, NvidiaMmaEncoding, SliceEncoding
from tileloom.tile.layouts.infer import halved, joined, permuted, reshaped
from tileloom.tile.layouts.properties import elements_per_thread


@pytest.mark.parametrize(
    ("shape", "sizes", "order", "warps", "expected"),
    [
        ((64, 64), (1, 4), (1, 0), 4, ((2, 16), (4, 1))),
        ((128, 32), (1, 1), (1, 0), 4, ((1, 32), (4, 1))),
        ((16, 1024), (1, 8), (1, 0), 8, ((1, 32), (2, 4))),
        ((4, 4), (1, 1), (0, 1), 4, ((4, 8), (1, 4))),
        ((1024,), (4,), (0,), 4, ((32,), (4,))),
        ((1,), (1,), (0,), 1, ((32,), (1,))),
        ((2, 4, 8), (1, 1, 1), (2, 1, 0), 2, ((1, 4, 8), (2, 1, 1))),
    ],
)
def test_threads_cover_the_fastest_dimension_first(
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    warps: int,
    expected: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    made = blocked_encoding(shape, sizes, order, warps)
    assert (made.threads_per_warp, made.warps_per_cta) == expected


@pytest.mark.parametrize(
    ("shape", "expected"), [((64, 64), 32), ((128,), 1), ((8,), 1), ((1, 1), 1), ((256, 2), 4)]
)
def test_elements_of_a_thread(shape: tuple[int, ...], expected: int) -> None:
    assert elements_per_thread(TensorType(shape, F32, default_blocked(shape, 4))) == expected


def test_elements_of_a_thread_of_a_slice_and_of_tensor_cores() -> None:
    parent = blocked_encoding((64, 64), (1, 4), (1, 0), 4)
    assert elements_per_thread(TensorType((64,), F32, SliceEncoding(1, parent))) == 8
    assert elements_per_thread(TensorType((64,), F32, SliceEncoding(0, parent))) == 4
    mma = NvidiaMmaEncoding(2, 0, (4, 1), None, (16, 8))
    assert elements_per_thread(TensorType((128, 128), F32, mma)) == 128


def test_layouts_follow() -> None:
    layout = blocked_encoding((64, 32), (1, 4), (1, 0), 4)
    assert permuted(permuted(layout, (1, 0)), (1, 0)) is layout  # type: ignore[arg-type]
    assert halved(joined(layout)) is layout  # type: ignore[arg-type]
    assert halved(layout) is None
    assert reshaped(layout, (64, 32), (64, 32)) is layout
    assert reshaped(default_blocked((64, 32), 4), (64, 32), (2048,)) is default_blocked((2048,), 4)


def test_reductions_stay_in_threads() -> None:
    layout = BlockedEncoding((1, 2), (1, 32), (4, 1), (1, 0))
    made = thread_local_encoding(layout, 1)
    assert made.size_per_thread == (1, 1, 2)
    assert made.order == (2, 1, 0)
    assert thread_local_shape((32, 128), layout, 1) == (32, 32, 4)


PRODUCT = """tt.func public @f(%a: tensor<32x16xf16>, %b: tensor<16x32xf16>, %p: !tt.ptr<f32>) {
  %c = arith.constant dense<0.0> : tensor<32x32xf32>
  %d = tt.dot %a, %b, %c : tensor<32x16xf16> * tensor<16x32xf16> -> tensor<32x32xf32>
  %s = "tt.reduce"(%d) <{axis = 1 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    tt.reduce.return %z : f32
  }) : (tensor<32x32xf32>) -> tensor<32xf32>
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  %t = tt.addptr %q, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %t, %s : tensor<32x!tt.ptr<f32>>
  tt.return
}"""


def converted(text: str, options: str = "") -> Operation:
    """The module of a text, with layouts."""
    module = parse(text)
    run_passes(module, [f"convert-triton-to-tritongpu{{{options}}}"])
    verify(module)
    return module


def test_programs_get_layouts() -> None:
    module = converted(PRODUCT, "target=cuda:80 num-warps=8")
    assert module.integer("ttg.num-warps") == 8
    tensors = [
        type for op in module.walk() for type in op.result_types if isinstance(type, TensorType)
    ]
    assert all(type.encoding is not None for type in tensors)
    store = next(op for op in module.walk() if op.name == "tt.store")
    source = store.operands[1].defining_op
    assert source is not None and source.name == "ttg.convert_layout"


def test_warps_are_a_power_of_two() -> None:
    with pytest.raises(UserError, match="power of two"):
        converted(PRODUCT, "num-warps=3")
