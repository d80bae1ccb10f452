"""Products by TF32, scratch memory, accumulators' flags, the order of instructions."""

from __future__ import annotations

import pytest

from tileloom.base.errors import UserError
from tileloom.tile import parse, run_passes, show, verify
from tileloom.tile.ir.attributes import integer_value
from tileloom.tile.ir.core import Operation
from tileloom.tile.ir.rewriter import constant_of


def after(text: str, *passes: str) -> Operation:
    """The module of a text after passes, verified."""
    module = parse(text)
    verify(module)
    run_passes(module, passes, check=True)
    return module


def named(root: Operation, name: str) -> list[Operation]:
    """The operations of a name."""
    return [op for op in root.walk() if op.name == name]


DOT = """tt.func @f(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>, %c: tensor<16x16xf32>)
    -> tensor<16x16xf32> {{
  %d = tt.dot %a, %b, %c, inputPrecision = {precision} : tensor<16x32xf32> * tensor<32x16xf32>
    -> tensor<16x16xf32>
  tt.return %d : tensor<16x16xf32>
}}"""


def test_three_products_of_tf32() -> None:
    module = after(DOT.format(precision="tf32x3"), "tritongpu-F32DotTC")
    products = named(module, "tt.dot")
    assert [op.enum("inputPrecision") for op in products] == ["tf32"] * 3
    assert [op.operands[2].defining_op for op in products[1:]] == products[:2]
    asm, rest = "tt.elementwise_inline_asm", "arith.subf"
    kinds = [tuple(o.defining_op.name for o in op.operands[:2]) for op in products]  # type: ignore[union-attr]
    assert kinds == [(rest, asm), (asm, rest), (asm, asm)]


def test_other_precisions_stay() -> None:
    assert len(named(after(DOT.format(precision="ieee"), "tritongpu-F32DotTC"), "tt.dot")) == 1


SCRATCH = """
tt.func private @helper() {
  %0 = ttg.global_scratch_alloc {alignment = 8 : i32, nbytes = 100 : i32} : !tt.ptr<i8>
  tt.return
}
tt.func public @kernel() {
  %0 = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 130 : i32} : !tt.ptr<i8>
  tt.call @helper() : () -> ()
  %1 = ttg.global_scratch_alloc {alignment = 4 : i32, nbytes = 4 : i32} : !tt.ptr<i8>
  tt.return
}"""


def test_scratch_memory() -> None:
    module = after(SCRATCH, "tritongpu-global-scratch-memory-allocation")
    found = [
        integer_value(op.attributes.get("ttg.global_scratch_memory_offset"))
        for op in module.walk()
        if op.name in ("ttg.global_scratch_alloc", "tt.call")
    ]
    assert found == [0, 0, 136, 240]
    assert module.integer("ttg.global_scratch_memory_size") == 256
    assert module.integer("ttg.global_scratch_memory_alignment") == 128
    assert '"ttg.global_scratch_memory_size"' not in show(module)  # a name without dashes is bare


def test_scratch_memory_of_recursion_is_refused() -> None:
    with pytest.raises(UserError, match="calls itself"):
        after(
            SCRATCH.replace("tt.return", "tt.call @kernel() : () -> ()\n tt.return", 1),
            "tritongpu-global-scratch-memory-allocation",
        )


ACCUMULATOR = """
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1],
  instrShape = [16, 16, 16]}}>
#s = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
!a = !ttg.memdesc<64x64xf16, #s, #ttg.shared_memory>
!b = !ttg.memdesc<64x16xf16, #s, #ttg.shared_memory>
tt.func @f(%a: !a, %b: !b, %n: i32, %other: tensor<64x16xf32, #mma>) ->
    tensor<64x16xf32, #mma> {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #mma>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = {init})
    -> (tensor<64x16xf32, #mma>) : i32 {{
    %even = arith.cmpi eq, %i, %c1 : i32
    {body}
  }}
  tt.return %r : tensor<64x16xf32, #mma>
}}"""
PRODUCT = "ttng.warp_group_dot %a, %b, {c} : !a * !b -> tensor<64x16xf32, #mma>"
YIELD = "scf.yield {} : tensor<64x16xf32, #mma>"
SELECTED = "%s = arith.select %even, {}, {} : tensor<64x16xf32, #mma>"


def flagged(init: str, *body: str) -> tuple[Operation, Operation]:
    """The product and the loop of the accumulator's program after the pass."""
    text = ACCUMULATOR.format(init=init, body="\n".join(body))
    module = after(text, "tritongpu-optimize-accumulator-init")
    return named(module, "ttng.warp_group_dot")[0], named(module, "scf.for")[0]


def test_a_zero_accumulator_is_not_used() -> None:
    product, _ = flagged(
        "%zero",
        f"%d = {PRODUCT.format(c='%zero')}",
        "%e = arith.addf %d, %acc : tensor<64x16xf32, #mma>",
        YIELD.format("%e"),
    )
    assert integer_value(constant_of(product.operands[3])) == 0


def test_an_accumulator_that_starts_with_zero() -> None:
    product, loop = flagged("%zero", f"%d = {PRODUCT.format(c='%acc')}", YIELD.format("%d"))
    assert product.operands[3] is loop.body.arguments[2]
    assert integer_value(constant_of(loop.operands[4])) == 0
    assert integer_value(constant_of(loop.body.terminator.operands[1])) == 1


@pytest.mark.parametrize("zero_if_true", [True, False])
def test_an_accumulator_zeroed_before_the_product(zero_if_true: bool) -> None:
    pair = ("%zero", "%acc") if zero_if_true else ("%acc", "%zero")
    product, loop = flagged(
        "%other", SELECTED.format(*pair), f"%d = {PRODUCT.format(c='%s')}", YIELD.format("%d")
    )
    flag = product.operands[3].defining_op
    assert flag is not None and flag.name == "arith.select"
    assert flag.operands[1 if not zero_if_true else 2] is loop.body.arguments[2]
    assert product.operands[2] is loop.body.arguments[1]
    assert integer_value(constant_of(loop.operands[4])) == 1


def test_an_accumulator_zeroed_after_the_product() -> None:
    product, loop = flagged(
        "%zero",
        f"%d = {PRODUCT.format(c='%acc')}",
        SELECTED.format("%zero", "%d"),
        YIELD.format("%s"),
    )
    assert product.operands[3] is loop.body.arguments[2]
    assert integer_value(constant_of(loop.operands[4])) == 0
    last = loop.body.terminator
    assert last.operands[0] is product.results[0]
    assert last.operands[1].defining_op.name == "arith.select"  # type: ignore[union-attr]


def test_an_unknown_accumulator_is_used() -> None:
    product, loop = flagged("%other", f"%d = {PRODUCT.format(c='%acc')}", YIELD.format("%d"))
    assert len(product.operands) == 3
    assert len(loop.results) == 1


def test_a_conversion_sinks_below_a_deallocation() -> None:
    module = after(
        """#l = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4],
          order = [0]}>
        #m = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4],
          order = [0]}>
        #s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
        tt.func @f(%x: tensor<256xf32, #l>) -> tensor<256xf32, #m> {
          %a = ttg.local_alloc %x : (tensor<256xf32, #l>) ->
            !ttg.memdesc<256xf32, #s, #ttg.shared_memory>
          %c = ttg.convert_layout %x : tensor<256xf32, #l> -> tensor<256xf32, #m>
          ttg.local_dealloc %a : !ttg.memdesc<256xf32, #s, #ttg.shared_memory>
          %e = arith.negf %c : tensor<256xf32, #m>
          tt.return %e : tensor<256xf32, #m>
        }""",
        "tritongpu-reorder-instructions",
    )
    order = [op.name for op in named(module, "tt.func")[0].body]
    assert order == [
        *("ttg.local_alloc", "ttg.local_dealloc", "ttg.convert_layout", "arith.negf"),
        "tt.return",
    ]
