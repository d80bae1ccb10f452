"""Every operation of our dialects in the text of Triton 3.2, for comparison with its wheel.

A line is `arguments | operations`; types are short names, see `TYPES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LAYOUTS = """\
#B1 = #triton_gpu.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], \
order = [0]}>
#B2 = #triton_gpu.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], \
warpsPerCTA = [4, 1], order = [1, 0]}>
#B3 = #triton_gpu.blocked<{sizePerThread = [1, 1, 2], threadsPerWarp = [1, 32, 1], \
warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#T2 = #triton_gpu.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], \
warpsPerCTA = [1, 4], order = [0, 1]}>
#M2 = #triton_gpu.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [16, 8]}>
#M3 = #triton_gpu.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [16, 64, 16]}>
#D0 = #triton_gpu.dot_op<{opIdx = 0, parent = #M2, kWidth = 2}>
#D1 = #triton_gpu.dot_op<{opIdx = 1, parent = #M2, kWidth = 2}>
#S = #triton_gpu.shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], \
hasLeadingOffset = true}>
#ST = #triton_gpu.shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [0, 1], \
hasLeadingOffset = true}>
#S1 = #triton_gpu.shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], \
hasLeadingOffset = false}>
#AM = #triton_gpu.amd_mfma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [32, 32], isTransposed = false}>
#AW = #triton_gpu.amd_wmma<{version = 1, isTranspose = false, warpsPerCTA = [4, 1]}>
#SM = #triton_gpu.shared_memory
"""
TYPES = {
    "P": "!tt.ptr<f32>",
    "P8": "!tt.ptr<i8>",
    "PH": "!tt.ptr<f16>",
    "BP": "!tt.ptr<tensor<64x32xf16>>",
    "I": "tensor<128xi32, #B1>",
    "J": "tensor<128xi64, #B1>",
    "K": "tensor<128xi1, #B1>",
    "F": "tensor<128xf32, #B1>",
    "H": "tensor<128xf16, #B1>",
    "E": "tensor<128xf8E5M2, #B1>",
    "PT": "tensor<128x!tt.ptr<f32>, #B1>",
    "PI": "tensor<128x!tt.ptr<i32>, #B1>",
    "G": "tensor<64x32xf32, #B2>",
    "GH": "tensor<64x32xf16, #B2>",
    "GT": "tensor<32x64xf16, #T2>",
    "G3": "tensor<64x32x2xf32, #B3>",
    "PG": "tensor<64x32x!tt.ptr<f16>, #B2>",
    "KG": "tensor<64x32xi1, #B2>",
    "R": "tensor<64xf32, #triton_gpu.slice<{dim = 1, parent = #B2}>>",
    "C1": "tensor<64x1xf32, #B2>",
    "A": "tensor<64x32xf16, #D0>",
    "B": "tensor<32x64xf16, #D1>",
    "C": "tensor<64x64xf32, #M2>",
    "W": "tensor<64x64xf32, #M3>",
    "MD": "!tt.memdesc<64x32xf16, #S, #SM>",
    "MM": "!tt.memdesc<64x32xf16, #S, #SM, mutable>",
    "MT": "!tt.memdesc<32x64xf16, #ST, #SM>",
    "M3D": "!tt.memdesc<3x64x32xf16, #S, #SM, mutable>",
    "BAR": "!tt.memdesc<1xi64, #S1, #SM, mutable>",
    "TOK": "!triton_gpu.async.token",
    "N": "tensor<128xf32>",
}

OPERATIONS = """\
x i32, p P | tt.return
| %0 = tt.get_program_id x : i32
| %0 = tt.get_program_id y : i32
| %0 = tt.get_num_programs z : i32
| %0 = tt.make_range {end = 128 : i32, start = 0 : i32} : I
a J | %0 = tt.int_to_ptr %a : J -> PT
a PT | %0 = tt.ptr_to_int %a : PT -> J
a F | %0 = tt.bitcast %a : F -> I
a H | %0 = tt.fp_to_fp %a : H -> F
a F | %0 = tt.fp_to_fp %a, rounding = rtne : F -> E
a f32 | %0 = tt.splat %a : f32 -> F
a R | %0 = tt.expand_dims %a {axis = 1 : i32} : R -> C1
a C1 | %0 = tt.broadcast %a : C1 -> G
a N | %0 = tt.reshape %a : N -> tensor<4x32xf32>
a N | %0 = tt.reshape %a allow_reorder : N -> tensor<4x32xf32>
a N | %0 = tt.reshape %a allow_reorder efficient_layout : N -> tensor<4x32xf32>
a GH | %0 = tt.trans %a {order = array<i32: 1, 0>} : GH -> GT
a N, b N | %0 = tt.cat %a, %b : N -> tensor<256xf32>
a G, b G | %0 = tt.join %a, %b : G -> G3
a G3 | %l, %r = tt.split %a : G3 -> G
a F | %0 = tt.precise_sqrt %a : F
a F, b F | %0 = tt.precise_divf %a, %b : F
a I, b I | %0 = tt.mulhiui %a, %b : I
a F, b F | %0 = tt.clampf %a, %b, %b, propagateNan = none : F
a F, b F | %0 = tt.clampf %a, %b, %b, propagateNan = all : F
a F | %0 = tt.extern_elementwise %a {libname = "l", libpath = "", pure = true, symbol = "s"} : \
(F) -> F
a F | %0 = tt.elementwise_inline_asm "add" {constraints = "=r,r", packed_element = 1 : i32, \
pure = true} %a : F -> F
a I | %0:2 = tt.elementwise_inline_asm "add" {constraints = "=r,=r,r", packed_element = 1 : i32, \
pure = false} %a : I -> I, I
a PT, o I | %0 = tt.addptr %a, %o : PT, I
a P, o i32 | %0 = tt.addptr %a, %o : P, i32
a PT | %0 = tt.load %a : PT
a PT, k K | %0 = tt.load %a, %k : PT
a PT, k K, f F | %0 = tt.load %a, %k, %f cacheModifier = ca evictionPolicy = evict_first : PT
a PT | %0 = tt.load %a evictionPolicy = evict_last {isVolatile = true} : PT
a PT | %0 = tt.load %a {cache = 2 : i32, evict = 3 : i32, isVolatile = false} : PT
a P | %0 = tt.load %a : P
a BP | %0 = tt.load %a {boundaryCheck = array<i32: 1>, padding = 2 : i32} : BP
a PT, f F | tt.store %a, %f : PT
a PT, f F, k K | tt.store %a, %f, %k cacheModifier = wb : PT
a P, f f32, k i1 | tt.store %a, %f, %k evictionPolicy = evict_first : P
a PT, f F, k K | %0 = tt.atomic_rmw fadd, acq_rel, gpu, %a, %f, %k : (PT, F, K) -> F
a PI, f I | %0 = tt.atomic_rmw exch, relaxed, sys, %a, %f : (PI, I) -> I
a P, f f32, k i1 | %0 = tt.atomic_rmw fadd, release, cta, %a, %f, %k : (P, f32, i1) -> f32
a PI, f I | %0 = tt.atomic_cas acquire, gpu, %a, %f, %f : (PI, I, I) -> I
a PH, n i64, z i32 | %0 = tt.make_tensor_ptr %a, [%n, %n], [%n, %n], [%z, %z] \
{order = array<i32: 1, 0>} : <tensor<64x32xf16>>
a BP, z i32 | %0 = tt.advance %a, [%z, %z] : <tensor<64x32xf16>>
a P8, z i32 | %0 = tt.experimental_descriptor_load %a[%z, %z] : !tt.ptr<i8> -> GH
a P8, z i32, g GH | tt.experimental_descriptor_store %a[%z, %z], %g : !tt.ptr<i8>, GH
a A, b B, c C | %0 = tt.dot %a, %b, %c : A * B -> C
a A, b B, c C | %0 = tt.dot %a, %b, %c, inputPrecision = tf32 : A * B -> C
a A, b B, c C | %0 = tt.dot %a, %b, %c {maxNumImpreciseAcc = 32 : i32} : A * B -> C
a A, b B, c C | %0 = tt.dot %a, %b, %c, inputPrecision = tf32x3 {maxNumImpreciseAcc = 4 : i32} : \
A * B -> C
a I | %0 = tt.histogram %a : I -> tensor<16xi32, #B1>
a G | %0 = "tt.reduce"(%a) <{axis = 1 : i32}> ({ ^bb0(%x: f32, %y: f32): \
%s = arith.addf %x, %y : f32 tt.reduce.return %s : f32 }) : (G) -> R
a F, b I | %0:2 = "tt.reduce"(%a, %b) ({ ^bb0(%x: f32, %i: i32, %y: f32, %j: i32): \
tt.reduce.return %x, %j : f32, i32 }) {axis = 0 : i32} : (F, I) -> (f32, i32)
a G | %0 = "tt.scan"(%a) <{axis = 1 : i32, reverse = false}> ({ ^bb0(%x: f32, %y: f32): \
%s = arith.addf %x, %y : f32 tt.scan.return %s : f32 }) : (G) -> G
a G | %0 = "tt.scan"(%a) <{axis = 0 : i32, reverse = true}> ({ ^bb0(%x: f32, %y: f32): \
%s = arith.maximumf %x, %y : f32 tt.scan.return %s : f32 }) : (G) -> G
| tt.print "a" {hex = false, isSigned = array<i32>}
a F, i i32 | tt.print "a: " {hex = true, isSigned = array<i32: 1, 1>} : %a, %i : F, i32
k K | tt.assert %k, "message" : K
k i1 | tt.assert %k, "with \\22quotes\\22" : i1
a GH | %0 = triton_gpu.convert_layout %a : GH -> A
a GH | %0 = triton_gpu.convert_layout %a {tag} : GH -> tensor<64x32xf16, #M2>
a GH | %0 = triton_gpu.convert_layout %a : GH -> tensor<64x32xf16, #AM>
a GH | %0 = triton_gpu.convert_layout %a : GH -> tensor<64x32xf16, #AW>
a GH | %0 = triton_gpu.convert_layout %a : GH -> \
tensor<64x32xf16, #triton_gpu.dot_op<{opIdx = 0, parent = #AM, kWidth = 8}>>
a GH | %0 = triton_gpu.convert_layout %a : GH -> \
tensor<64x32xf16, #triton_gpu.dot_op<{opIdx = 1, parent = #B2}>>
| %0 = triton_gpu.local_alloc : () -> M3D
a GH | %0 = triton_gpu.local_alloc %a : (GH) -> MD
a GH | %0 = triton_gpu.local_alloc %a {alignment = 16 : i32} : (GH) -> MD
a M3D | triton_gpu.local_dealloc %a : M3D
a M3D, z i32 | %0 = triton_gpu.memdesc_subview %a[%z, %z, %z] : M3D -> MM
a MD | %0 = tt.trans %a {order = array<i32: 1, 0>} : MD -> MT
a MD | %0 = triton_gpu.local_load %a : MD -> GH
a MD, t TOK | %0 = triton_gpu.local_load %a token %t : MD -> A
a MM, g GH | triton_gpu.local_store %g, %a : GH -> MM
p PG, m MM | %0 = triton_gpu.async_copy_global_to_local %p, %m : PG -> <64x32xf16, #S, #SM, mutable>
p PG, m MM, k KG, g GH | %0 = triton_gpu.async_copy_global_to_local %p, %m mask %k other %g \
cacheModifier = ca evictionPolicy = evict_first {isVolatile = true} : PG -> \
<64x32xf16, #S, #SM, mutable>
| %0 = triton_gpu.async_commit_group
t TOK | %0 = triton_gpu.async_commit_group %t, %t
| %0 = triton_gpu.async_wait {num = 2 : i32}
t TOK | %0 = triton_gpu.async_wait %t, %t {num = 0 : i32}
a MD, b MT, c W | %0 = triton_nvidia_gpu.warp_group_dot %a, %b, %c : MD * MT -> W
a MD, b MT, c W, u i1 | %0 = triton_nvidia_gpu.warp_group_dot %a, %b, %c, %u \
{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 32 : i32} : MD * MT -> W
a W, b MD | %0:2 = triton_nvidia_gpu.warp_group_dot_wait %a, %b {pendings = 1 : i32} : W, MD
a BAR | triton_nvidia_gpu.init_barrier %a, 1 : BAR
a BAR | triton_nvidia_gpu.inval_barrier %a : BAR
a BAR, p i1 | triton_nvidia_gpu.barrier_expect %a, 49152, %p : BAR
a BAR, p i32 | triton_nvidia_gpu.wait_barrier %a, %p : BAR
d P8, z i32, b BAR, m MM, p i1 | triton_nvidia_gpu.async_tma_copy_global_to_local %d[%z, %z] %m, \
%b, %p : !tt.ptr<i8>, BAR -> MM
d P8, z i32, m MM | triton_nvidia_gpu.async_tma_copy_local_to_global %d[%z, %z] %m : \
!tt.ptr<i8>, MM
| triton_nvidia_gpu.async_tma_store_wait {pendings = 0 : i32}
| triton_nvidia_gpu.fence_async_shared {bCluster = false}
| triton_nvidia_gpu.cluster_arrive {relaxed = 1 : i1}
| triton_nvidia_gpu.cluster_wait
| gpu.barrier
a I, b I | %0 = arith.addi %a, %b overflow<nsw> : I
a I, b I | %0 = arith.addi %a, %b overflow<nsw, nuw> {tag = "x"} : I
a F, b F | %0 = arith.addf %a, %b fastmath<fast> : F
a F, b F | %0 = arith.mulf %a, %b fastmath<nnan,contract> : F
a F | %0 = arith.negf %a : F
a I, b I | %0 = arith.cmpi "slt", %a, %b : I
a F, b F | %0 = arith.cmpf oeq, %a, %b : F
a F, b F | %0 = arith.cmpf ult, %a, %b fastmath<nnan> : F
k K, a I | %0 = arith.select %k, %a, %a : K, I
k i1, a I | %0 = arith.select %k, %a, %a : I
k i1, a i32 | %0 = arith.select %k, %a, %a : i32
a I | %0 = arith.extsi %a : I to J
a K | %0 = arith.extui %a : K to I
a J | %0 = arith.trunci %a : J to I
a H | %0 = arith.extf %a : H to F
a F | %0 = arith.truncf %a : F to H
a F | %0 = arith.truncf %a to_nearest_even : F to H
a I | %0 = arith.sitofp %a : I to F
a I | %0 = arith.uitofp %a : I to F
a F | %0 = arith.fptosi %a : F to I
a F | %0 = arith.fptoui %a : F to I
a i32 | %0 = arith.index_cast %a : i32 to index
a i32 | %0 = arith.index_castui %a : i32 to index
a F | %0 = arith.bitcast %a : F to I
a i32 | %l, %h = arith.mulsi_extended %a, %a : i32
a i32 | %l, %h = arith.mului_extended %a, %a : i32
a i32 | %l, %h = arith.addui_extended %a, %a : i32, i1
a F | %0 = math.fma %a, %a, %a : F
a F | %0 = math.powf %a, %a : F
a F | %0 = math.exp2 %a fastmath<fast> : F
a I | %0 = math.absi %a : I
a I | %0 = math.ctpop %a : I
| %0 = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
| %0 = arith.constant dense<0xFF800000> : F
| %0 = arith.constant dense<-1.5e-3> : H
| %0 = arith.constant 0x7FC00000 : f32
| %0 = arith.constant 0.1 : f64
| %0 = arith.constant 0.1 : f32
| %0 = arith.constant 1.17549435E-38 : f32
| %0 = arith.constant dense<0.1> : tensor<2xbf16>
| %0 = arith.constant dense<[true, false]> : tensor<2xi1>
| %0 = arith.constant dense<"0x0100000002000000"> : tensor<2xi32>
| %0 = arith.constant {tag} 1 : index
| %0 = arith.constant true
| %0 = arith.constant -1 : i8
| %0 = ub.poison : i32
| %0 = ub.poison : F
a i32 | %0 = builtin.unrealized_conversion_cast %a : i32 to f32
x i32, f f32 | %r = scf.for %i = %x to %x step %x iter_args(%c = %f) -> (f32) : i32 { \
scf.yield %c : f32 } {tt.num_stages = 3 : i32}
x index | scf.for %i = %x to %x step %x { %u = arith.addi %i, %i : index }
k i1, f f32 | %r:2 = scf.if %k -> (f32, i1) { scf.yield %f, %k : f32, i1 } else { \
scf.yield %f, %k : f32, i1 }
k i1, f f32 | %r = scf.if %k -> f32 { scf.yield %f : f32 } else { scf.yield %f : f32 }
k i1 | scf.if %k { gpu.barrier } else { gpu.barrier } {tag}
k i1, f f32 | %r = scf.while (%c = %f) : (f32) -> f32 { scf.condition(%k) %c : f32 } do { \
^bb0(%d: f32): scf.yield %d : f32 } attributes {tag}
k i1 | scf.while : () -> () { scf.condition(%k) } do { scf.yield }
k i1 | cf.assert %k, "message"
k i1, x i32 | cf.cond_br %k, ^bb1, ^bb2(%x : i32) ^bb1: tt.return ^bb2(%y: i32): cf.br ^bb1
x i32 | %0 = tt.call @g(%x) : (i32) -> i32
"""


def _spelled(text: str) -> str:
    return re.sub(r"(?<![#%@\"\w.^!])[A-Z][A-Z0-9a-z]*\b", lambda m: TYPES.get(m[0], m[0]), text)


def function(line: str, name: str) -> str:
    """A function that has the operations of a line."""
    left, _, right = line.partition("|")
    pairs = [word.split() for word in left.split(",") if word.strip()]
    arguments = ", ".join(f"%{name}: {TYPES.get(kind, kind)}" for name, kind in pairs)
    body = _spelled(right.strip())
    end = "" if "tt.return" in body else "\n    tt.return"
    return f"  tt.func @{name}({arguments}) {{\n    {body}{end}\n  }}\n"


def module(lines: Iterable[str]) -> str:
    """A module with a function for each line."""
    functions = "".join(function(line, f"f{index}") for index, line in enumerate(lines))
    return (
        f'{LAYOUTS}module attributes {{"triton_gpu.num-ctas" = 1 : i32, '
        f'"triton_gpu.num-warps" = 4 : i32, "triton_gpu.threads-per-warp" = 32 : i32}} {{\n'
        f"  tt.func private @g(i32) -> i32\n{functions}}}\n"
    )
