"""Programs run thread by thread: layouts, shared memory, and what is wrong with them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tile.run.programs import PIPELINE
from tile.run.random_programs import (
    RandomProgram,
    random_blocked,
    random_layout,
    random_shared,
)
from tile.validation import check_pass
from tileloom.tile import parse, run_passes, show
from tileloom.tile.ir.types import as_tensor
from tileloom.tile.run import ExecutionError, run, run_threads

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_on_integers(seed: int) -> None:
    a, b = (RNG.integers(-(2**31), 2**31, 8).tolist() for _ in range(2))
    b[:4] = RNG.integers(-9, 9, 4).tolist()
    program = RandomProgram(seed, a, b)
    (found,) = run(parse(program.text()), "f", [a, b])
    assert found.tolist() == program.values[program.result], program.text()


CONVERT = """
tt.func @f(%a: tensor<{shape}xf32, {first}>) -> tensor<{shape}xf32, {last}> {{
  %0 = ttg.convert_layout %a : tensor<{shape}xf32, {first}> -> tensor<{shape}xf32, {middle}>
  %m = ttg.local_alloc %0 : (tensor<{shape}xf32, {middle}>) ->
    !ttg.memdesc<{shape}xf32, {shared}, #ttg.shared_memory>
  %t = ttg.memdesc_trans %m {{order = array<i32: 1, 0>}} : !ttg.memdesc<{shape}xf32, {shared},
    #ttg.shared_memory> -> !ttg.memdesc<{back}xf32, {transposed}, #ttg.shared_memory>
  %1 = ttg.local_load %t : !ttg.memdesc<{back}xf32, {transposed}, #ttg.shared_memory> ->
    tensor<{back}xf32, {flipped}>
  %2 = tt.trans %1 {{order = array<i32: 1, 0>}} : tensor<{back}xf32, {flipped}> ->
    tensor<{shape}xf32, {again}>
  %3 = ttg.convert_layout %2 : tensor<{shape}xf32, {again}> -> tensor<{shape}xf32, {last}>
  tt.return %3 : tensor<{shape}xf32, {last}>
}}"""


def flipped(encoding: object) -> object:
    """The layout of the transposed matrix."""
    fields = ("size_per_thread", "threads_per_warp", "warps_per_cta")
    changes = {
        field: getattr(encoding, field)[::-1] for field in fields if hasattr(encoding, field)
    }
    order = tuple(1 - axis for axis in encoding.order)  # type: ignore[attr-defined]
    return encoding.replace(order=order, **changes)  # type: ignore[attr-defined]


def conversions(seed: int) -> str:
    """A program that converts a matrix between random layouts, through shared memory too."""
    generator = random.Random(seed)
    rows, columns = (generator.choice((4, 16, 64)) for _ in range(2))
    shared, again = random_shared(generator), random_blocked(generator, 2)
    names = {name: random_layout(generator, 2) for name in ("first", "middle", "last")}
    return CONVERT.format(
        **names,
        shape=f"{rows}x{columns}",
        back=f"{columns}x{rows}",
        shared=shared,
        transposed=flipped(shared),
        again=again,
        flipped=flipped(again),
    )


def check_conversions(seed: int) -> None:
    module = parse(conversions(seed))
    function = next(op for op in module.walk() if op.name == "tt.func")
    a = RNG.random(as_tensor(function.body.arguments[0].type).shape).astype(np.float32)
    for runner in (run, run_threads):
        np.testing.assert_array_equal(runner(module, "f", [a])[0], a)


@pytest.mark.parametrize("seed", range(15))
def test_conversions_keep_tensors(seed: int) -> None:
    check_conversions(seed)


@pytest.mark.slow
def test_many_conversions_keep_tensors() -> None:
    for seed in range(1000):
        check_conversions(seed)


REDUCE = """
tt.func @f(%a: tensor<16x32xi32, {layout}>) -> tensor<16x32xi32, {layout}> {{
  %0 = "tt.reduce"(%a) <{{axis = {axis} : i32}}> ({{
  ^bb0(%l: i32, %r: i32):
    %s = arith.addi %l, %r : i32
    tt.reduce.return %s : i32
  }}) : (tensor<16x32xi32, {layout}>) -> tensor<{left}xi32, {part}>
  %1 = tt.expand_dims %0 {{axis = {axis} : i32}} : tensor<{left}xi32, {part}> ->
    tensor<{one}xi32, {layout}>
  %2 = tt.broadcast %1 : tensor<{one}xi32, {layout}> -> tensor<16x32xi32, {layout}>
  %3 = "tt.scan"(%2) <{{axis = 1 : i32, reverse = false}}> ({{
  ^bb0(%l: i32, %r: i32):
    %s = arith.addi %l, %r : i32
    tt.scan.return %s : i32
  }}) : (tensor<16x32xi32, {layout}>) -> tensor<16x32xi32, {layout}>
  tt.return %3 : tensor<16x32xi32, {layout}>
}}"""


@pytest.mark.parametrize("seed", range(8))
def test_reductions_over_registers_lanes_and_warps(seed: int) -> None:
    generator = random.Random(seed)
    layout, axis = random_blocked(generator, 2), generator.randrange(2)
    text = REDUCE.format(
        layout=layout,
        axis=axis,
        part=f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>",
        left=(32, 16)[axis],
        one=("1x32", "16x1")[axis],
    )
    a = RNG.integers(-99, 99, (16, 32)).astype(np.int32)
    expected = np.broadcast_to(a.sum(axis, keepdims=True), a.shape).cumsum(1)
    np.testing.assert_array_equal(run_threads(parse(text), "f", [a])[0], expected)


BLOCKED = (
    "#ttg.blocked<{{sizePerThread = [{}], threadsPerWarp = [32], warpsPerCTA = [{}], order = [0]}}>"
)
ONE, TWO = BLOCKED.format(1, 2), BLOCKED.format(2, 2)


def thread_error(body: str, given: str = f"%a: tensor<64xi32, {ONE}>", count: int = 64) -> str:
    """The message of a program that is wrong."""
    module = parse(f"tt.func @f({given}) {{\n{body}\n tt.return\n}}")
    with pytest.raises(ExecutionError) as caught:
        run_threads(module, "f", [np.zeros(count, np.int32)])
    return str(caught.value)


def test_inconsistent_layouts() -> None:
    other = ONE.replace("sizePerThread = [1]", "sizePerThread = [1, 1]").replace("[32]", "[32, 1]")
    other = other.replace("[2]", "[2, 1]").replace("[0]", "[1, 0]")
    wrong = other.replace("[32, 1]", "[16, 2]")
    expand = "%0 = tt.expand_dims %a {axis = 1 : i32} : tensor<64xi32, ONE> -> tensor<64x1xi32, TO>"
    text = thread_error(expand.replace("ONE", ONE).replace("TO", wrong))
    assert "layouts are inconsistent" in text and "lane 0 is to have element (32, 0)" in text
    run_threads(
        parse(
            f"tt.func @f(%a: tensor<64xi32, #ttg.slice<{{dim = 1, parent = {other}}}>>) {{"
            + expand.replace("ONE", f"#ttg.slice<{{dim = 1, parent = {other}}}>").replace(
                "TO", other
            )
            + "\n tt.return }"
        ),
        "f",
        [np.zeros(64, np.int32)],
    )
    no_layout = thread_error("tt.return", "%a: tensor<64xi32>")
    assert "has no layout" in no_layout


REPLICATED = f"""
  %0 = tt.get_program_id x : i32
  %p = tt.splat %x : !tt.ptr<i32> -> tensor<32x!tt.ptr<i32>, {ONE}>
  %one = arith.constant dense<1> : tensor<32xi32, {ONE}>
  %old = tt.atomic_rmw add, acq_rel, gpu, %p, %one : (tensor<32x!tt.ptr<i32>, {ONE}>,
    tensor<32xi32, {ONE}>) -> tensor<32xi32, {ONE}>
  tt.return %old : tensor<32xi32, {ONE}>"""


def test_each_element_is_added_once() -> None:
    module = parse(f"tt.func @f(%x: !tt.ptr<i32>) -> tensor<32xi32, {ONE}> {{{REPLICATED}\n}}")
    x = np.zeros(1, np.int32)
    (old,) = run_threads(module, "f", [x])
    assert x[0] == 32 and sorted(old.tolist()) == list(range(32))


# Pipelines: four tiles of 64 numbers are added, with copies that run ahead.


def pipelined(**changes: object) -> Any:
    """What the program with two buffers leaves, thread by thread."""
    values = {"ahead": 1, "first": 1024, "second": 1536, "index": "%next", **changes}
    x, z = np.arange(256, dtype=np.int32), np.zeros(64, np.int32)
    run_threads(parse(PIPELINE.format(**values)), "f", [x, z])
    return z


def test_a_pipeline() -> None:
    expected = np.arange(256).reshape(4, 64).sum(0)
    np.testing.assert_array_equal(pipelined(), expected)
    np.testing.assert_array_equal(pipelined(ahead=0), expected)  # more waiting does no harm


def test_a_wait_that_is_too_weak() -> None:
    with pytest.raises(ExecutionError, match="no wait before covers its group") as caught:
        pipelined(ahead=2)
    assert "%v = ttg.local_load %view" in str(caught.value)


def test_a_copy_over_the_buffer_at_hand() -> None:
    with pytest.raises(ExecutionError, match="but a copy is still to fill them"):
        pipelined(index="%now")


def test_overlapping_buffers() -> None:
    with pytest.raises(ExecutionError, match=r"of line \d+ at bytes 1024 to 1536 has written them"):
        pipelined(second=1280)


WGMMA = """
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1],
  instrShape = [16, 64, 16]}}>
#b = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
  order = [1, 0]}}>
#s = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
!view = !ttg.memdesc<64x64xf16, #s, #ttg.shared_memory, mutable>
tt.func @f(%x: tensor<64x64xf16, #b>, %y: tensor<64x64xf16, #b>) -> tensor<64x64xf32, #mma> {{
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #mma>
  %a = ttg.local_alloc %x : (tensor<64x64xf16, #b>) -> !view
  %c = ttg.local_alloc %y : (tensor<64x64xf16, #b>) -> !view
  %0 = ttng.warp_group_dot %a, %c, %zero {{isAsync = true}} : !view * !view ->
    tensor<64x64xf32, #mma>
  %1 = ttng.warp_group_dot_wait %0 {{pendings = {pendings} : i32}} : tensor<64x64xf32, #mma>
  {after}
  %2 = arith.addf %1, %1 : tensor<64x64xf32, #mma>
  tt.return %2 : tensor<64x64xf32, #mma>
}}"""


@pytest.mark.parametrize(
    ("pendings", "after", "message"),
    [
        (0, "", None),
        (1, "", "uses the result of a product on its way"),
        (1, "ttg.local_store %y, %a : tensor<64x64xf16, #b> -> !view", "may still read them"),
        (0, "ttg.local_dealloc %a : !view\n ttg.local_dealloc %c : !view", None),
        (1, "ttg.local_dealloc %a : !view", "freed that a product may still read"),
    ],
)
def test_products_on_their_way(pendings: int, after: str, message: str | None) -> None:
    module = parse(WGMMA.format(pendings=pendings, after=after))
    x, y = RNG.standard_normal((2, 64, 64)).astype(np.float16)
    if message is None:
        expected = 2 * (x.astype(np.float64) @ y.astype(np.float64))
        np.testing.assert_allclose(
            run_threads(module, "f", [x, y])[0], expected, rtol=1e-2, atol=1e-2
        )
        return
    with pytest.raises(ExecutionError, match=message):
        run_threads(module, "f", [x, y])


def test_a_pass_is_checked() -> None:
    program = RandomProgram(5, [3] * 64, [5] * 64)
    before = parse(program.text())
    after = parse(show(before))
    run_passes(after, ["convert-triton-to-tritongpu"], check=True)
    given = [RNG.integers(-99, 99, 64).astype(np.int32) for _ in range(2)]
    check_pass(before, after, given)
    function = next(op for op in after.walk() if op.name == "tt.func")
    function.body.terminator.set_operand(0, function.body.arguments[0])
    with pytest.raises(AssertionError, match="run by tensors"):
        check_pass(before, after, given)


EXCHANGE = """
#one = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}}>
#two = #ttg.blocked<{{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}}>
#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
!buffers = !ttg.memdesc<2x64xi32, #s, #ttg.shared_memory, mutable>
!buffer = !ttg.memdesc<64xi32, #s, #ttg.shared_memory, mutable>
tt.func @f(%a: tensor<64xi32, #one>) -> tensor<64xi32, #two> {{
  %c1 = arith.constant 1 : i32
  %m = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> !buffers
  %v = ttg.memdesc_index %m[%c1] : !buffers -> !buffer
  ttg.local_store %a, %v : tensor<64xi32, #one> -> !buffer
  {first}
  %r = ttg.local_load %v : !buffer -> tensor<64xi32, #one>
  {second}
  ttg.local_store %a, %v : tensor<64xi32, #one> -> !buffer
  %b = ttg.convert_layout %r {{allocation.offset = {scratch} : i32,
    allocation.size = 256 : i32}} :
    tensor<64xi32, #one> -> tensor<64xi32, #two>
  %again = ttg.local_load %v : !buffer -> tensor<64xi32, #two>
  tt.return %b : tensor<64xi32, #two>
}}"""


@pytest.mark.parametrize(
    ("first", "second", "scratch", "message"),
    [
        ("gpu.barrier", "gpu.barrier", 512, None),
        ("", "gpu.barrier", 512, "are read, which other threads have written since"),
        ("gpu.barrier", "", 512, "are written, which other threads have read since"),
        ("gpu.barrier", "gpu.barrier", 256, "written, which other threads have written since"),
    ],
)
def test_barriers(first: str, second: str, scratch: int, message: str | None) -> None:
    module = parse(EXCHANGE.format(first=first, second=second, scratch=scratch))
    a = np.arange(64, dtype=np.int32)
    if message is None:
        np.testing.assert_array_equal(run_threads(module, "f", [a], barriers=True)[0], a)
        return
    with pytest.raises(ExecutionError, match=message):
        run_threads(module, "f", [a], barriers=True)


def test_scratch_memory_over_a_buffer() -> None:
    module = parse(EXCHANGE.format(first="", second="", scratch=256))
    with pytest.raises(ExecutionError, match=r"line 16 at bytes 256 to 512 has written them: the"):
        run_threads(module, "f", [np.arange(64, dtype=np.int32)])
