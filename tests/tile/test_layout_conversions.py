"""What conversions between layouts move, and conflicts of banks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tile.random_layouts import sample_distributed, some_blocked
from tileloom.base.errors import UserError
from tileloom.tile.ir.types import F16, F32, FloatType, TensorType
from tileloom.tile.layouts.banks import bank_use, offsets
from tileloom.tile.layouts.blocked import blocked_encoding
from tileloom.tile.layouts.conversion import (
    Movement,
    classify_conversion,
    feeds_wgmma,
    needs_shared_memory,
)
from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    DotOperandEncoding,
    Encoding,
    NvidiaMmaEncoding,
    SharedEncoding,
    SliceEncoding,
)
from tileloom.tile.layouts.shared import shared_for_operand, shared_for_wgmma
from tileloom.tile.layouts.to_linear import to_linear_layout

ROWS = BlockedEncoding((1, 4), (4, 8), (4, 1), (1, 0))
TWO = BlockedEncoding((2, 2), (32, 1), (1, 4), (1, 0))
F8 = FloatType("f8E5M2")
MMA = NvidiaMmaEncoding(2, 0, (4, 1))
HOPPER = NvidiaMmaEncoding(3, 0, (4, 1), None, (16, 64, 16))


@pytest.mark.parametrize(
    ("source", "target", "movement"),
    [
        (ROWS, ROWS, Movement.NOTHING),
        (ROWS, SliceEncoding(2, BlockedEncoding((1, 4, 1), (4, 8, 1), (4, 1, 1), (2, 1, 0))), 0),
        (ROWS, ROWS.replace(order=(0, 1)), Movement.SHUFFLES),
        (BlockedEncoding((2, 2), (8, 4), (4, 1), (1, 0)), MMA, Movement.SHUFFLES),
        (MMA, DotOperandEncoding(0, MMA, 2), Movement.NOTHING),
        (MMA, DotOperandEncoding(1, MMA, 2), Movement.SHARED_MEMORY),
        (HOPPER, DotOperandEncoding(0, HOPPER, 2), Movement.NOTHING),
        (HOPPER, DotOperandEncoding(0, HOPPER, 4), Movement.SHUFFLES),
        (ROWS, ROWS.replace(size_per_thread=(1, 8)), Movement.SHUFFLES),
        (TWO, TWO.replace(order=(0, 1)), Movement.REGISTERS),
        (ROWS, ROWS.replace(warps_per_cta=(2, 2)), Movement.SHARED_MEMORY),
    ],
)
def test_how_far_data_goes(source: Encoding, target: Encoding, movement: int) -> None:
    found = classify_conversion((64, 64), source, target)
    assert found.movement == movement, str(found)
    assert bool(found.reason) == (movement > Movement.NOTHING)


def test_copies_in_other_threads_need_no_data_from_them() -> None:
    whole = BlockedEncoding((8, 1), (1, 32), (1, 4), (0, 1))  # of 8 rows each thread has all
    spread = BlockedEncoding((1, 1), (8, 4), (1, 4), (0, 1))
    source, target = SliceEncoding(1, whole), SliceEncoding(1, spread)
    assert classify_conversion((8,), source, target).movement is Movement.SELECTS
    assert classify_conversion((8,), target, source).movement is Movement.SHUFFLES


def farthest(source: np.ndarray, target: np.ndarray) -> Movement:
    """By looking: each thread needs the elements of the target."""
    warps, lanes, _ = source.shape
    movement = Movement.REGISTERS
    for warp in range(warps):
        in_warp = set(source[warp].ravel().tolist())
        for lane in range(lanes):
            needed = set(target[warp, lane].tolist())
            if not needed <= in_warp:
                return Movement.SHARED_MEMORY
            if not needed <= set(source[warp, lane].tolist()):
                movement = Movement.SHUFFLES
    return movement


@pytest.mark.parametrize("seed", range(40))
def test_movement_is_what_elements_need(seed: int) -> None:
    random = Random(seed)
    shape, source, _ = sample_distributed(random)
    target: Encoding = some_blocked(random, shape, 2, 0)
    if random.random() < 0.5:
        source = blocked_encoding(shape, (1,) * len(shape), range(len(shape)), 4)
        target = source.replace(order=source.order[::-1])
    old, new = to_linear_layout(shape, source), to_linear_layout(shape, target)
    if old.in_sizes["warp"] != new.in_sizes["warp"]:
        with pytest.raises(UserError, match="different numbers of warps"):
            classify_conversion(shape, source, target)
        return
    found = classify_conversion(shape, source, target)
    expected = farthest(old.table()[0], new.table()[0])
    near = (Movement.NOTHING, Movement.REGISTERS, Movement.SELECTS)
    assert found.movement == expected or (expected in near and found.movement in near)
    places = found.places()
    assert np.array_equal(places.compose(old).table(), new.table())


def test_what_passes_ask() -> None:
    def tensors(*encodings: Encoding, element: FloatType = F16) -> list[TensorType]:
        return [TensorType((64, 64), element, encoding) for encoding in encodings]

    assert needs_shared_memory(*tensors(ROWS, MMA))
    assert not needs_shared_memory(*tensors(MMA, DotOperandEncoding(0, MMA, 2)))
    narrow = HOPPER.replace(instr_shape=(16, 64, 32))
    assert feeds_wgmma(
        *tensors(narrow, DotOperandEncoding(0, narrow, 4), element=FloatType("f8E5M2"))
    )
    assert not feeds_wgmma(*tensors(narrow, DotOperandEncoding(0, narrow, 1), element=F32))
    assert needs_shared_memory(*tensors(BlockedEncoding((2, 2), (8, 4), (4, 1), (1, 0)), MMA))


# Banks.


@pytest.mark.parametrize(
    ("encoding", "shared", "bits", "vector", "wavefronts", "conflicts"),
    [
        (BlockedEncoding((1, 1), (1, 32), (4, 1), (1, 0)), (1, 1, 1), 32, 1, 1, 0),
        (BlockedEncoding((1, 4), (1, 32), (4, 1), (1, 0)), (1, 1, 1), 32, 4, 4, 0),
        (BlockedEncoding((1, 1), (32, 1), (1, 4), (0, 1)), (1, 1, 1), 32, 1, 32, 31),
        (BlockedEncoding((1, 1), (32, 1), (1, 4), (0, 1)), (1, 1, 32), 32, 1, 1, 0),
        (BlockedEncoding((4, 1), (32, 1), (1, 4), (0, 1)), (1, 1, 32), 32, 1, 4, 3),
        (DotOperandEncoding(0, MMA, 2), (8, 1, 8), 16, 2, 1, 0),
        (DotOperandEncoding(0, MMA, 2), (1, 1, 1), 16, 2, 8, 7),
    ],
)
def test_wavefronts(
    encoding: Encoding,
    shared: tuple[int, int, int],
    bits: int,
    vector: int,
    wavefronts: int,
    conflicts: int,
) -> None:
    use = bank_use((128, 128), encoding, SharedEncoding(*shared, (1, 0)), bits)
    assert (use.vector, use.wavefronts, use.conflicts) == (vector, wavefronts, conflicts), str(use)
    assert use.total == use.accesses * wavefronts


@pytest.mark.parametrize("seed", range(10))
def test_offsets_are_where_elements_are(seed: int) -> None:
    random = Random(seed)
    shape, encoding, _ = sample_distributed(random)
    if len(shape) < 2:
        return
    order = tuple(range(len(shape) - 1, -1, -1))
    shared = SharedEncoding(4, 2, 4, order)
    memory = to_linear_layout(shape, shared).table().ravel()
    found = offsets(shape, encoding, shared, 16).table()
    assert np.array_equal(memory[found], to_linear_layout(shape, encoding).table()[0])


def test_layouts_for_tensor_cores_have_no_conflicts() -> None:
    operand = DotOperandEncoding(0, MMA, 2)
    shared = shared_for_operand(operand, (128, 32), (1, 0), 16)
    assert shared is SharedEncoding(8, 2, 4, (1, 0))
    assert bank_use((128, 32), operand, shared, 16).conflicts == 0
    right = DotOperandEncoding(1, MMA, 2)
    assert shared_for_operand(right, (32, 128), (1, 0), 16) is SharedEncoding(8, 1, 8, (1, 0))
    assert shared_for_wgmma((128, 64), (1, 0), 16).swizzle_bytes == 128
    with pytest.raises(UserError, match="multiple of 32 bytes, not of 8"):
        shared_for_wgmma((128, 4), (1, 0), 16)
