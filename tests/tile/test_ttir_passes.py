"""The passes over programs without layouts, each before and after, and against Triton's own."""

from __future__ import annotations

import pytest

from tile.isomorphic import assert_isomorphic
from tile.oracle import needs_oracle, triton_passes
from tileloom.base.errors import UserError
from tileloom.tile import parse, run_passes, verify
from tileloom.tile.ir.core import Operation
from tileloom.tile.pipelines import make_ttir


def checked(text: str) -> Operation:
    """The module of a text, verified."""
    module = parse(text)
    verify(module)
    return module


def named(root: Operation, name: str) -> list[Operation]:
    """The operations of a name."""
    return [op for op in root.walk() if op.name == name]


BLOCKS = """tt.func public @f(%p: !tt.ptr<f16>, %q: !tt.ptr<f16>, %n: i64, %k: i32, %c: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %one = arith.constant 1 : i64
  %s = tt.make_tensor_ptr %p, [%n, %n], [%n, %one], [%c0, %k] {order = array<i32: 1, 0>}
    : <tensor<16x32xf16>>
  %t = tt.make_tensor_ptr %q, [%n, %n], [%n, %one], [%k, %c0] {order = array<i32: 1, 0>}
    : <tensor<16x32xf16>>
  %zero = arith.constant dense<0.0> : tensor<16x32xf16>
  %r:2 = scf.for %i = %c0 to %k step %c1 iter_args(%a = %s, %acc = %zero)
      -> (!tt.ptr<tensor<16x32xf16>>, tensor<16x32xf16>) : i32 {
    %x = tt.load %a {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32}
      : !tt.ptr<tensor<16x32xf16>>
    %y = arith.addf %acc, %x : tensor<16x32xf16>
    %b = tt.advance %a, [%c0, %c32] : <tensor<16x32xf16>>
    scf.yield %b, %y : !tt.ptr<tensor<16x32xf16>>, tensor<16x32xf16>
  }
  %u = tt.advance %r#0, [%c32, %c0] : <tensor<16x32xf16>>
  %v = tt.load %u {boundaryCheck = array<i32: 1>, padding = 2 : i32} : !tt.ptr<tensor<16x32xf16>>
  %w = arith.addf %v, %r#1 : tensor<16x32xf16>
  tt.store %t, %w {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<16x32xf16>>
  tt.store %t, %w : !tt.ptr<tensor<16x32xf16>>
  tt.return
}"""
BRANCH = """tt.func public @f(%p: !tt.ptr<i32>, %n: i64, %k: i32, %c: i1) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1 : i64
  %s = tt.make_tensor_ptr %p, [%n], [%one], [%c0] {order = array<i32: 0>} : <tensor<32xi32>>
  %r = scf.if %c -> (!tt.ptr<tensor<32xi32>>) {
    %a = tt.advance %s, [%k] : <tensor<32xi32>>
    scf.yield %a : !tt.ptr<tensor<32xi32>>
  } else {
    scf.yield %s : !tt.ptr<tensor<32xi32>>
  }
  %x = tt.load %r : !tt.ptr<tensor<32xi32>>
  tt.store %s, %x {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<32xi32>>
  tt.return
}"""
WHILE = """tt.func public @f(%p: !tt.ptr<i32>, %n: i64, %k: i32) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1 : i64
  %s = tt.make_tensor_ptr %p, [%n], [%one], [%c0] {order = array<i32: 0>} : <tensor<32xi32>>
  %r:2 = scf.while (%a = %s, %i = %c0) : (!tt.ptr<tensor<32xi32>>, i32)
      -> (!tt.ptr<tensor<32xi32>>, i32) {
    %go = arith.cmpi slt, %i, %k : i32
    scf.condition(%go) %a, %i : !tt.ptr<tensor<32xi32>>, i32
  } do {
  ^bb0(%a: !tt.ptr<tensor<32xi32>>, %i: i32):
    %b = tt.advance %a, [%k] : <tensor<32xi32>>
    %j = arith.addi %i, %k : i32
    scf.yield %b, %j : !tt.ptr<tensor<32xi32>>, i32
  }
  %x = tt.load %r#0 : !tt.ptr<tensor<32xi32>>
  tt.store %s, %x : !tt.ptr<tensor<32xi32>>
  tt.return
}"""
REWRITE = "triton-rewrite-tensor-pointer"


@pytest.mark.parametrize("text", [BLOCKS, BRANCH, WHILE])
def test_pointers_to_blocks(text: str) -> None:
    module = checked(text)
    run_passes(module, [REWRITE], check=True)
    assert not any(
        "tensor<" in str(v.type) and "ptr<tensor" in str(v.type)
        for op in module.walk()
        for v in op.results
    )
    loads = named(module, "tt.load")
    masks = [load.operand("mask") is not None for load in loads]
    assert masks == ([True, True] if text is BLOCKS else [False])


def test_pointers_into_other_tensors_are_refused() -> None:
    text = BRANCH.replace("scf.yield %s", "scf.yield %t").replace(
        "  %r = ",
        "  %t = tt.make_tensor_ptr %p, [%one], [%one], [%c0] {order = array<i32: 0>} "
        ": <tensor<32xi32>>\n  %r = ",
    )
    with pytest.raises(UserError, match="another tensor"):
        run_passes(checked(text), [REWRITE])


COMBINE = """tt.func public @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %d: tensor<16x16xf32>,
    %p: tensor<16x!tt.ptr<f32>>, %c: i1, %o: tensor<16xf32>)
    -> (tensor<16x16xf32>, tensor<16x!tt.ptr<f32>>, tensor<16xf32>) {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %0 = tt.dot %a, %b, %zero, inputPrecision = tf32 : tensor<16x16xf32> * tensor<16x16xf32>
    -> tensor<16x16xf32>
  %1 = arith.addf %0, %d : tensor<16x16xf32>
  %c7 = arith.constant dense<7> : tensor<16xi32>
  %c8 = arith.constant dense<8> : tensor<16xi32>
  %2 = tt.addptr %p, %c7 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %3 = tt.addptr %2, %c8 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %m = tt.splat %c : i1 -> tensor<16xi1>
  %4 = tt.load %p, %m : tensor<16x!tt.ptr<f32>>
  %5 = arith.select %c, %4, %o : tensor<16xf32>
  tt.return %1, %3, %5 : tensor<16x16xf32>, tensor<16x!tt.ptr<f32>>, tensor<16xf32>
}"""
SUM = """tt.func public @f(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>) -> tensor<16x16xf32> {
  %0 = tt.expand_dims %a {axis = 2 : i32} : tensor<16x32xf32> -> tensor<16x32x1xf32>
  %1 = tt.expand_dims %b {axis = 0 : i32} : tensor<32x16xf32> -> tensor<1x32x16xf32>
  %2 = tt.broadcast %0 : tensor<16x32x1xf32> -> tensor<16x32x16xf32>
  %3 = tt.broadcast %1 : tensor<1x32x16xf32> -> tensor<16x32x16xf32>
  %4 = arith.mulf %2, %3 : tensor<16x32x16xf32>
  %5 = "tt.reduce"(%4) <{axis = 1 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tt.reduce.return %s : f32
  }) : (tensor<16x32x16xf32>) -> tensor<16x16xf32>
  tt.return %5 : tensor<16x16xf32>
}"""
BROADCAST = """tt.func public @f(%a: tensor<16x1xi32>, %s: i32, %q: i32)
    -> (tensor<16x16xi32>, tensor<16x16xi32>, tensor<16x16xi1>) {
  %0 = tt.splat %s : i32 -> tensor<16x16xi32>
  %1 = tt.splat %q : i32 -> tensor<16x16xi32>
  %2 = arith.addi %0, %1 : tensor<16x16xi32>
  %3 = tt.broadcast %a : tensor<16x1xi32> -> tensor<16x16xi32>
  %4 = arith.muli %3, %0 : tensor<16x16xi32>
  %c = arith.constant dense<5> : tensor<16x16xi32>
  %5 = arith.cmpi slt, %3, %c : tensor<16x16xi32>
  tt.return %2, %4, %5 : tensor<16x16xi32>, tensor<16x16xi32>, tensor<16x16xi1>
}"""
UNROLL = """tt.func public @f(%p: !tt.ptr<i32>, %n: i32, %x: i32) {
  %lower = arith.constant LOWER : i32
  %upper = arith.constant UPPER : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %lower to BOUND step %c1 iter_args(%a = %x) -> (i32) : i32 {
    %b = arith.muli %a, %i : i32
    tt.store %p, %b : !tt.ptr<i32>
    scf.yield %b : i32
  } {tt.loop_unroll_factor = 3 : i32}
  tt.store %p, %r : !tt.ptr<i32>
  tt.return
}"""


def unrolled(lower: int, upper: int, bound: str = "%upper") -> str:
    """The loop between bounds."""
    text = UNROLL.replace("LOWER", str(lower)).replace("UPPER", str(upper))
    return text.replace("BOUND", bound)


INLINE = """module {
  tt.func private @one(%x: i32) -> i32 {
    %c1 = arith.constant 1 : i32
    %0 = arith.addi %x, %c1 : i32
    tt.return %0 : i32
  }
  tt.func private @two(%x: i32, %c: i1, %p: !tt.ptr<i32>) -> i32 {
    %0 = tt.call @one(%x) : (i32) -> i32
    cf.cond_br %c, ^a, ^b
  ^a:
    tt.store %p, %0 : !tt.ptr<i32>
    tt.return %x : i32
  ^b:
    tt.return %0 : i32
  }
  tt.func private @apart(%x: i32) -> i32 attributes {noinline = true} {
    tt.return %x : i32
  }
  tt.func public @f(%p: !tt.ptr<i32>, %n: i32, %c: i1) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %0 = tt.call @one(%i) : (i32) -> i32
      tt.store %p, %0 : !tt.ptr<i32>
      %1 = tt.call @two(%i, %c, %p) : (i32, i1, !tt.ptr<i32>) -> i32
      tt.store %p, %1 : !tt.ptr<i32>
    }
    %2 = tt.call @two(%n, %c, %p) : (i32, i1, !tt.ptr<i32>) -> i32
    tt.store %p, %2 : !tt.ptr<i32>
    %3 = tt.call @apart(%n) : (i32) -> i32
    tt.store %p, %3 : !tt.ptr<i32>
    tt.return
  }
}"""
INVARIANT = """tt.func public @f(%p: !tt.ptr<i32>, %n: i32, %m: i32, %c: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %a = arith.muli %n, %m : i32
    %b = arith.divsi %a, %m : i32
    %d = arith.divsi %a, %c4 : i32
    %e = arith.remsi %a, %m : i32
    %l = tt.load %p : !tt.ptr<i32>
    scf.for %j = %c0 to %i step %c1 : i32 {
      %x = arith.addi %i, %d : i32
      %y = arith.addi %x, %j : i32
      %z = scf.if %c -> (i32) {
        %w = arith.addi %d, %m : i32
        scf.yield %w : i32
      } else {
        scf.yield %d : i32
      }
      %s = arith.addi %y, %z : i32
      tt.store %p, %s : !tt.ptr<i32>
    }
    %t = arith.addi %b, %l : i32
    tt.store %p, %t : !tt.ptr<i32>
    tt.store %p, %e : !tt.ptr<i32>
  }
  tt.return
}"""
UNCALLED = """module {
  tt.func private @a(%x: i32) -> i32 {
    %0 = tt.call @b(%x) : (i32) -> i32
    tt.return %0 : i32
  }
  tt.func private @b(%x: i32) -> i32 {
    tt.return %x : i32
  }
  tt.func private @c(%x: i32) -> i32 attributes {noinline = true} {
    tt.return %x : i32
  }
  tt.func public @f(%n: i32) -> i32 {
    %0 = tt.call @c(%n) : (i32) -> i32
    tt.return %0 : i32
  }
}"""
LATER = ("tt.num_stages",)  # of the rest of an unrolled loop
SIMPLE = ["canonicalize", "cse"]
LIKE_TRITON = {
    "inline": "common.add_inliner",
    "canonicalize": "common.add_canonicalizer",
    "cse": "common.add_cse",
    "licm": "common.add_licm",
    "symbol-dce": "common.add_symbol_dce",
    "triton-combine": "ttir.add_combine",
    "triton-reorder-broadcast": "ttir.add_reorder_broadcast",
    "triton-rewrite-tensor-pointer": "ttir.add_rewrite_tensor_pointer",
    "triton-loop-unroll": "ttir.add_loop_unroll",
}
CASES = {
    "block pointers": (BLOCKS, [REWRITE, *SIMPLE]),
    "block pointers of branches": (BRANCH, [REWRITE, *SIMPLE]),
    "combinations": (COMBINE, ["triton-combine"]),
    "a sum of products": (SUM, ["triton-combine"]),
    "broadcasts": (BROADCAST, ["triton-reorder-broadcast"]),
    "an unrolled loop": (unrolled(0, 9), ["triton-loop-unroll"]),
    "an unrolled loop and the rest": (unrolled(2, 13), ["triton-loop-unroll"]),
    "an unrolled loop and one iteration": (unrolled(0, 10), ["triton-loop-unroll"]),
    "an unrolled loop of three": (unrolled(1, 4), ["triton-loop-unroll"]),
    "an unrolled loop of none": (unrolled(1, 3), ["triton-loop-unroll"]),
    "an unrolled loop of unknown length": (unrolled(0, 0, "%n"), ["triton-loop-unroll"]),
    "calls": (INLINE, ["inline"]),
    "invariants": (INVARIANT, ["licm"]),
    "functions without callers": (UNCALLED, ["symbol-dce"]),
}


@pytest.mark.parametrize("name", CASES)
def test_valid_after(name: str) -> None:
    text, passes = CASES[name]
    run_passes(checked(text), passes, check=True)


@needs_oracle
@pytest.mark.parametrize("name", CASES)
def test_oracle(name: str) -> None:
    text, passes = CASES[name]
    module = checked(text)
    expected = triton_passes(module, *(LIKE_TRITON[each] for each in passes))
    run_passes(module, passes, check=True)
    assert_isomorphic(module, expected, ignore=LATER)


@needs_oracle
@pytest.mark.parametrize("text", [BLOCKS, BRANCH, COMBINE, BROADCAST, INVARIANT, INLINE])
def test_pipeline(text: str) -> None:
    module = checked(text)
    steps = [*make_ttir()]
    names = [
        "licm" if each.tile_pass.name.startswith("loop-inv") else each.tile_pass.name
        for each in steps
    ]
    expected = triton_passes(module, *(LIKE_TRITON[name] for name in names))
    run_passes(module, steps, check=True)
    assert_isomorphic(module, expected)
