"""Programs for the tests of interpreters, and random ones."""

from __future__ import annotations

VECTOR_ADD = """
tt.func public @add(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %z: !tt.ptr<f32>, %n: i32) {
  %c64 = arith.constant 64 : i32
  %pid = tt.get_program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %range = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %first = tt.splat %start : i32 -> tensor<64xi32>
  %i = arith.addi %first, %range : tensor<64xi32>
  %limit = tt.splat %n : i32 -> tensor<64xi32>
  %mask = arith.cmpi slt, %i, %limit : tensor<64xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %xp = tt.addptr %xs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %a = tt.load %xp, %mask : tensor<64x!tt.ptr<f32>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %yp = tt.addptr %ys, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %b = tt.load %yp, %mask : tensor<64x!tt.ptr<f32>>
  %c = arith.addf %a, %b : tensor<64xf32>
  %zs = tt.splat %z : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %zp = tt.addptr %zs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %zp, %c, %mask : tensor<64x!tt.ptr<f32>>
  tt.return
}"""

SOFTMAX = """
tt.func public @softmax(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
  %low = arith.constant dense<0xFF800000> : tensor<32xf32>
  %pid = tt.get_program_id x : i32
  %start = arith.muli %pid, %n : i32
  %i = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  %limit = tt.splat %n : i32 -> tensor<32xi32>
  %mask = arith.cmpi slt, %i, %limit : tensor<32xi32>
  %row = tt.addptr %x, %start : !tt.ptr<f32>, i32
  %rows = tt.splat %row : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %rows, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  %a = tt.load %p, %mask, %low : tensor<32x!tt.ptr<f32>>
  %most = "tt.reduce"(%a) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %m = arith.maxnumf %l, %r : f32
    tt.reduce.return %m : f32
  }) : (tensor<32xf32>) -> f32
  %mosts = tt.splat %most : f32 -> tensor<32xf32>
  %d = arith.subf %a, %mosts : tensor<32xf32>
  %e = math.exp %d : tensor<32xf32>
  %sum = "tt.reduce"(%e) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tt.reduce.return %s : f32
  }) : (tensor<32xf32>) -> f32
  %sums = tt.splat %sum : f32 -> tensor<32xf32>
  %q = arith.divf %e, %sums : tensor<32xf32>
  %out = tt.addptr %y, %start : !tt.ptr<f32>, i32
  %outs = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %o = tt.addptr %outs, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %o, %q, %mask : tensor<32x!tt.ptr<f32>>
  tt.return
}"""

# C[16, 16] = A[16, K] B[K, 16], row after row, K in steps of 16, by pointers to blocks.
MATMUL = """
tt.func public @matmul(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %c: !tt.ptr<f32>, %k: i32) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %l1 = arith.constant 1 : i64
  %l16 = arith.constant 16 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %kl = arith.extsi %k : i32 to i64
  %pa = tt.make_tensor_ptr %a, [%l16, %kl], [%kl, %l1], [%c0, %c0] {order = array<i32: 1, 0>} :
    <tensor<16x16xf16>>
  %pb = tt.make_tensor_ptr %b, [%kl, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} :
    <tensor<16x16xf16>>
  %r:3 = scf.for %i = %c0 to %k step %c16 iter_args(%acc = %zero, %qa = %pa, %qb = %pb) ->
    (tensor<16x16xf32>, !tt.ptr<tensor<16x16xf16>>, !tt.ptr<tensor<16x16xf16>>) : i32 {
    %x = tt.load %qa {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} :
      !tt.ptr<tensor<16x16xf16>>
    %y = tt.load %qb {boundaryCheck = array<i32: 0>, padding = 1 : i32} :
      !tt.ptr<tensor<16x16xf16>>
    %d = tt.dot %x, %y, %acc : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
    %na = tt.advance %qa, [%c0, %c16] : <tensor<16x16xf16>>
    %nb = tt.advance %qb, [%c16, %c0] : <tensor<16x16xf16>>
    scf.yield %d, %na, %nb : tensor<16x16xf32>, !tt.ptr<tensor<16x16xf16>>,
      !tt.ptr<tensor<16x16xf16>>
  }
  %pc = tt.make_tensor_ptr %c, [%l16, %l16], [%l16, %l1], [%c0, %c0] {order = array<i32: 1, 0>} :
    <tensor<16x16xf32>>
  tt.store %pc, %r#0 {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<16x16xf32>>
  tt.return
}"""

# Adds four tiles of 64 numbers; a copy of the next one runs while one is added.
PIPELINE = """
#b = #ttg.blocked<{{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
!tile = !ttg.memdesc<64xi32, #s, #ttg.shared_memory, mutable>
!tiles = !ttg.memdesc<2x64xi32, #s, #ttg.shared_memory, mutable>
tt.func public @f(%x: !tt.ptr<i32>, %z: !tt.ptr<i32>) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %step = arith.constant dense<64> : tensor<64xi32, #b>
  %zero = arith.constant dense<0> : tensor<64xi32, #b>
  %i = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, #b>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #b>
  %p = tt.addptr %xs, %i : tensor<64x!tt.ptr<i32>, #b>, tensor<64xi32, #b>
  %buffers = ttg.local_alloc {{allocation.offset = {first} : i32}} : () -> !tiles
  %kept = ttg.local_alloc %i {{allocation.offset = {second} : i32}} : (tensor<64xi32, #b>) ->
    !ttg.memdesc<64xi32, #s, #ttg.shared_memory>
  %one = ttg.memdesc_subview %buffers[%c0, %c0] : !tiles -> !tile
  %t0 = ttg.async_copy_global_to_local %p, %one : tensor<64x!tt.ptr<i32>, #b> -> <64xi32, #s,
    #ttg.shared_memory, mutable>
  %g0 = ttg.async_commit_group %t0
  %r:2 = scf.for %n = %c0 to %c4 step %c1 iter_args(%sum = %zero, %q = %p) ->
    (tensor<64xi32, #b>, tensor<64x!tt.ptr<i32>, #b>) : i32 {{
    %after = arith.addi %n, %c1 : i32
    %next = arith.remsi %after, %c2 : i32
    %now = arith.remsi %n, %c2 : i32
    %more = arith.cmpi slt, %after, %c4 : i32
    %mask = tt.splat %more : i1 -> tensor<64xi1, #b>
    %ahead = tt.addptr %q, %step : tensor<64x!tt.ptr<i32>, #b>, tensor<64xi32, #b>
    %target = ttg.memdesc_subview %buffers[{index}, %c0] : !tiles -> !tile
    %t = ttg.async_copy_global_to_local %ahead, %target mask %mask : tensor<64x!tt.ptr<i32>, #b> ->
      <64xi32, #s, #ttg.shared_memory, mutable>
    %g = ttg.async_commit_group %t
    %w = ttg.async_wait %g {{num = {ahead} : i32}}
    %view = ttg.memdesc_subview %buffers[%now, %c0] : !tiles -> !tile
    %v = ttg.local_load %view token %w : !tile -> tensor<64xi32, #b>
    %total = arith.addi %sum, %v : tensor<64xi32, #b>
    scf.yield %total, %ahead : tensor<64xi32, #b>, tensor<64x!tt.ptr<i32>, #b>
  }}
  %end = ttg.async_wait {{num = 0 : i32}}
  %same = ttg.local_load %kept : !ttg.memdesc<64xi32, #s, #ttg.shared_memory> ->
    tensor<64xi32, #b>
  ttg.local_dealloc %buffers : !tiles
  %zs = tt.splat %z : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #b>
  %o = tt.addptr %zs, %same : tensor<64x!tt.ptr<i32>, #b>, tensor<64xi32, #b>
  tt.store %o, %r#0 : tensor<64x!tt.ptr<i32>, #b>
  tt.return
}}"""
