"""A product of matrices as a tile program: the example of tests of pipelines."""

from __future__ import annotations

MATMUL = """
tt.func public @matmul(%pa: !tt.ptr<f16> {tt.divisibility = 16 : i32},
    %pb: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %pc: !tt.ptr<f32> {tt.divisibility = 16 : i32},
    %K: i32 {tt.divisibility = 16 : i32}, %sa: i32 {tt.divisibility = 16 : i32},
    %sb: i32 {tt.divisibility = 16 : i32}, %sc: i32 {tt.divisibility = 16 : i32}) {
  %zero = arith.constant dense<0.0> : tensor<@Mx@Nxf32>
  %none = arith.constant dense<0.0> : tensor<@Mx@Kxf16>
  %c0 = arith.constant 0 : i32
  %ck = arith.constant @K : i32
  %cm = arith.constant @M : i32
  %cn = arith.constant @N : i32
  %ckt = arith.constant dense<@K> : tensor<@Mx@Kxi32>
  %i = tt.get_program_id x : i32
  %j = tt.get_program_id y : i32
  %m0 = tt.make_range {end = @M : i32, start = 0 : i32} : tensor<@Mxi32>
  %n0 = tt.make_range {end = @N : i32, start = 0 : i32} : tensor<@Nxi32>
  %k0 = tt.make_range {end = @K : i32, start = 0 : i32} : tensor<@Kxi32>
  %om = arith.muli %i, %cm : i32
  %oms = tt.splat %om : i32 -> tensor<@Mxi32>
  %rm = arith.addi %oms, %m0 : tensor<@Mxi32>
  %on = arith.muli %j, %cn : i32
  %ons = tt.splat %on : i32 -> tensor<@Nxi32>
  %rn = arith.addi %ons, %n0 : tensor<@Nxi32>
  %rme = tt.expand_dims %rm {axis = 1 : i32} : tensor<@Mxi32> -> tensor<@Mx1xi32>
  %sas = tt.splat %sa : i32 -> tensor<@Mx1xi32>
  %ra = arith.muli %rme, %sas : tensor<@Mx1xi32>
  %ke = tt.expand_dims %k0 {axis = 0 : i32} : tensor<@Kxi32> -> tensor<1x@Kxi32>
  %rab = tt.broadcast %ra : tensor<@Mx1xi32> -> tensor<@Mx@Kxi32>
  %keb = tt.broadcast %ke : tensor<1x@Kxi32> -> tensor<@Mx@Kxi32>
  %oa = arith.addi %rab, %keb : tensor<@Mx@Kxi32>
  %pas = tt.splat %pa : !tt.ptr<f16> -> tensor<@Mx@Kx!tt.ptr<f16>>
  %a0 = tt.addptr %pas, %oa : tensor<@Mx@Kx!tt.ptr<f16>>, tensor<@Mx@Kxi32>
  %kc = tt.expand_dims %k0 {axis = 1 : i32} : tensor<@Kxi32> -> tensor<@Kx1xi32>
  %sbs = tt.splat %sb : i32 -> tensor<@Kx1xi32>
  %rb = arith.muli %kc, %sbs : tensor<@Kx1xi32>
  %rne = tt.expand_dims %rn {axis = 0 : i32} : tensor<@Nxi32> -> tensor<1x@Nxi32>
  %rbb = tt.broadcast %rb : tensor<@Kx1xi32> -> tensor<@Kx@Nxi32>
  %rnb = tt.broadcast %rne : tensor<1x@Nxi32> -> tensor<@Kx@Nxi32>
  %ob = arith.addi %rbb, %rnb : tensor<@Kx@Nxi32>
  %pbs = tt.splat %pb : !tt.ptr<f16> -> tensor<@Kx@Nx!tt.ptr<f16>>
  %b0 = tt.addptr %pbs, %ob : tensor<@Kx@Nx!tt.ptr<f16>>, tensor<@Kx@Nxi32>
  %step = arith.muli %sb, %ck : i32
  %steps = tt.splat %step : i32 -> tensor<@Kx@Nxi32>
  %r:3 = scf.for %k = %c0 to %K step %ck iter_args(%acc = %zero, %qa = %a0, %qb = %b0)
      -> (tensor<@Mx@Nxf32>, tensor<@Mx@Kx!tt.ptr<f16>>, tensor<@Kx@Nx!tt.ptr<f16>>) : i32 {
    %left = arith.subi %K, %k : i32
    %ls = tt.splat %left : i32 -> tensor<1x@Kxi32>
    %m1 = arith.cmpi slt, %ke, %ls : tensor<1x@Kxi32>
    %mask = tt.broadcast %m1 : tensor<1x@Kxi1> -> tensor<@Mx@Kxi1>
    %a = tt.load %qa, %mask, %none : tensor<@Mx@Kx!tt.ptr<f16>>
    %b = tt.load %qb : tensor<@Kx@Nx!tt.ptr<f16>>
    %d = tt.dot %a, %b, %acc, inputPrecision = tf32
      : tensor<@Mx@Kxf16> * tensor<@Kx@Nxf16> -> tensor<@Mx@Nxf32>
    %na = tt.addptr %qa, %ckt : tensor<@Mx@Kx!tt.ptr<f16>>, tensor<@Mx@Kxi32>
    %nb = tt.addptr %qb, %steps : tensor<@Kx@Nx!tt.ptr<f16>>, tensor<@Kx@Nxi32>
    scf.yield %d, %na, %nb
      : tensor<@Mx@Nxf32>, tensor<@Mx@Kx!tt.ptr<f16>>, tensor<@Kx@Nx!tt.ptr<f16>>
  }
  %scs = tt.splat %sc : i32 -> tensor<@Mx1xi32>
  %rc = arith.muli %rme, %scs : tensor<@Mx1xi32>
  %rcb = tt.broadcast %rc : tensor<@Mx1xi32> -> tensor<@Mx@Nxi32>
  %rnc = tt.broadcast %rne : tensor<1x@Nxi32> -> tensor<@Mx@Nxi32>
  %oc = arith.addi %rcb, %rnc : tensor<@Mx@Nxi32>
  %pcs = tt.splat %pc : !tt.ptr<f32> -> tensor<@Mx@Nx!tt.ptr<f32>>
  %qc = tt.addptr %pcs, %oc : tensor<@Mx@Nx!tt.ptr<f32>>, tensor<@Mx@Nxi32>
  tt.store %qc, %r#0 : tensor<@Mx@Nx!tt.ptr<f32>>
  tt.return
}"""


def matmul(m: int = 128, n: int = 128, k: int = 32) -> str:
    """The program for tiles of m by n, k at a time; C = A B in float16, summed in float32."""
    return MATMUL.replace("@M", str(m)).replace("@N", str(n)).replace("@K", str(k))
