"""Layouts through operations: threads keep the elements that they had; properties of layouts."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest

from tile.oracle import OracleError, needs_oracle, triton_passes
from tile.random_layouts import powers, sample_distributed, some_blocked, some_order
from tileloom.tile import parse
from tileloom.tile.ir.core import Operation
from tileloom.tile.layouts.blocked import blocked_encoding, cta_split, default_blocked
from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    LinearEncoding,
    NvidiaMmaEncoding,
    SliceEncoding,
)
from tileloom.tile.layouts.infer import (
    halved,
    infer_dst_encoding,
    infer_src_encoding,
    joined,
    permuted,
    reshape_chunks,
    reshaped,
)
from tileloom.tile.layouts.properties import (
    contig_per_thread,
    cta_layout,
    order_of,
    size_per_thread,
    thread_order_of,
    threads_per_warp,
    warp_order_of,
    warps_per_cta,
)
from tileloom.tile.layouts.to_linear import to_linear_layout


def held(shape: tuple[int, ...], encoding: Encoding) -> list[list[int]]:
    """The elements of each thread, sorted."""
    table = to_linear_layout(shape, encoding).without_zeros("register").table()
    return [sorted(thread) for thread in table.reshape(-1, table.shape[-1]).tolist()]


def test_chunks_of_a_reshape() -> None:
    assert reshape_chunks((4, 4, 8), (16, 2, 4)) == [([0, 1], [0]), ([2], [1, 2])]
    assert reshape_chunks((8, 1), (8,)) == [([0, 1], [0])]
    assert reshape_chunks((6, 4), (4, 6)) == [([0, 1], [0, 1])]


@pytest.mark.parametrize("seed", range(60))
def test_a_reshape_keeps_elements_in_their_threads(seed: int) -> None:
    random = Random(seed)
    bits = random.randrange(4, 10)
    before, after = (powers(random, bits, random.randrange(1, 4)) for _ in range(2))
    encoding = some_blocked(random, before, 2, 0)
    found = reshaped(encoding, before, after)
    if found is not None:
        assert held(before, encoding) == held(after, found)
        back = reshaped(found, after, before)
        assert back is not None and back.replace(cta=encoding.cta) is encoding


def test_a_permutation_renames_dimensions() -> None:
    random = Random(1)
    for _ in range(20):
        shape = powers(random, 8, 3)
        encoding, order = some_blocked(random, shape, 2, 0), some_order(random, 3)
        found = permuted(encoding, order)
        if found is None:
            pytest.fail("blocked layouts can be permuted")
        new_shape = tuple(shape[d] for d in order)
        flat = np.arange(prod(shape)).reshape(shape).transpose(order).ravel()
        moved = np.sort(flat[np.array(held(new_shape, found))])
        assert moved.tolist() == held(shape, encoding)
        assert permuted(found, np.argsort(order).tolist()) is encoding


def test_halves_are_in_the_thread_that_has_the_whole() -> None:
    encoding = blocked_encoding((16, 32), (1, 2), (0, 1), 4)
    whole = joined(encoding)
    if whole is None:
        pytest.fail("blocked layouts can be joined")
    pairs = np.array(held((16, 32, 2), whole))
    assert (pairs[:, ::2] // 2).tolist() == (pairs[:, 1::2] // 2).tolist()
    assert (pairs[:, ::2] // 2).tolist() == held((16, 32), encoding)
    assert halved(whole) is encoding
    assert joined(SliceEncoding(0, encoding)) is None and halved(encoding) is None


PROGRAM = """
#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], \
order = [1, 0]}>
#s = #ttg.slice<{dim = 1, parent = #b}>
tt.func @f(%x: tensor<16x32xf32, #b>, %y: tensor<16xf32, #s>) {
  %0 = arith.addf %x, %x : tensor<16x32xf32, #b>
  %1 = tt.expand_dims %y {axis = 1 : i32} : tensor<16xf32, #s> -> tensor<16x1xf32, #b>
  %2 = tt.broadcast %1 : tensor<16x1xf32, #b> -> tensor<16x32xf32, #b>
  %3 = tt.reshape %x allow_reorder : tensor<16x32xf32, #b> -> tensor<512xf32, #ttg.blocked<{\
sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>
  %4 = ttg.convert_layout %x : tensor<16x32xf32, #b> -> tensor<16x32xf32, #b>
  %5 = "tt.scan"(%x) <{axis = 1 : i32, reverse = false}> ({
  ^bb0(%a: f32, %c: f32):
    tt.scan.return %a : f32
  }) : (tensor<16x32xf32, #b>) -> tensor<16x32xf32, #b>
  tt.return
}
"""


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        ("arith.addf", "same", "same"),
        ("tt.expand_dims", "parent", "slice"),
        ("tt.broadcast", "same", "same"),
        ("tt.reshape", None, None),
        ("ttg.convert_layout", None, None),
        ("tt.scan", "same", "same"),
    ],
)
def test_layouts_through_operations(name: str, forward: str | None, backward: str | None) -> None:
    op: Operation = next(op for op in parse(PROGRAM).walk() if op.name == name)
    blocked = default_blocked((16, 32), 4)
    sliced = SliceEncoding(1, blocked)
    start = sliced if forward == "parent" else blocked
    expected = {"same": blocked, "parent": blocked, "slice": sliced, None: None}
    assert infer_dst_encoding(op, start) is expected[forward]
    assert infer_src_encoding(op, blocked) is expected[backward]
    if name == "tt.scan":
        assert infer_dst_encoding(op, sliced) is None


# Properties.


@pytest.mark.parametrize("seed", range(30))
def test_neighbours_of_a_thread(seed: int) -> None:
    shape, encoding, _ = sample_distributed(Random(seed))
    layout = to_linear_layout(shape, encoding)
    bases = set(layout.basis_vectors("register"))
    places = list(layout.outs)
    for d, run in enumerate(contig_per_thread(encoding)):
        place = places.index(f"dim{d}")
        steps = (1 << k for k in range(min(run, shape[d]).bit_length() - 1))
        for step in steps:
            assert tuple(step if k == place else 0 for k in range(len(places))) in bases


def test_properties_of_operands_and_slices() -> None:
    mma = NvidiaMmaEncoding(2, 0, (2, 4))
    left, right = DotOperandEncoding(0, mma, 2), DotOperandEncoding(1, mma, 2)
    assert (size_per_thread(left), size_per_thread(right)) == ((2, 4), (4, 1))
    assert (threads_per_warp(left), threads_per_warp(right)) == ((8, 4), (4, 8))
    assert (warps_per_cta(left), warps_per_cta(right)) == ((2, 1), (1, 4))
    assert (order_of(left), order_of(right)) == ((1, 0), (0, 1))
    sliced = SliceEncoding(0, BlockedEncoding((1, 2, 4), (2, 4, 4), (1, 2, 2), (1, 2, 0)))
    assert (order_of(sliced), threads_per_warp(sliced)) == ((0, 1), (8, 4))
    assert warp_order_of(NvidiaMmaEncoding(3, 0, (4, 1), None, (16, 64, 16))) == (0, 1)
    linear = LinearEncoding(((0, 1), (8, 0)), ((1, 0), (0, 2), (2, 0)), ((4, 0),), ())
    assert (size_per_thread(linear), threads_per_warp(linear)) == ((2, 2), (4, 2))
    assert (order_of(linear), thread_order_of(linear)) == ((1, 0), (0, 1))
    assert contig_per_thread(linear) == (1, 2)


def test_thread_blocks_cut_the_slowest_dimension() -> None:
    assert cta_split((64, 64), (1, 4), (1, 0), 4) is CTALayout((4, 1), (4, 1), (1, 0))
    assert cta_split((1, 4), (1, 4), (1, 0), 2) is CTALayout((1, 2), (1, 1), (1, 0))
    shared = blocked_encoding((64, 64), (1, 4), (1, 0), 4, cta=4)
    operand = cta_layout(DotOperandEncoding(1, shared))
    assert operand.split == (1, 1) and operand.per_cga == (4, 1)


# Triton's own.

MODULE = """
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
"ttg.threads-per-warp" = 32 : i32}} {{
  tt.func @f(%x: {source}) {{
    %0 = tt.reshape %x : {source} -> {result}
    tt.return
  }}
}}
"""


@needs_oracle
@pytest.mark.slow
def test_reshapes_are_those_of_triton() -> None:
    random = Random(32)
    for _ in range(300):
        bits = random.randrange(4, 10)
        before, after = (powers(random, bits, random.randrange(1, 4)) for _ in range(2))
        encoding = some_blocked(random, before, 2, 0)
        found = reshaped(encoding, before, after)
        result = default_blocked(after, 4) if found is None else found
        types = [
            f"tensor<{'x'.join(map(str, shape))}xf32, {layout}>"
            for shape, layout in ((before, encoding), (after, result))
        ]
        module = parse(MODULE.format(source=types[0], result=types[1]))
        if found is None:
            with pytest.raises(OracleError, match="reshape"):
                triton_passes(module)
        else:
            triton_passes(module)
