"""Calls that the lanes of a warp carry out together: what is written for each type and GPU."""

from __future__ import annotations

import re

import pytest

from codegen import test_instructions
from codegen.test_instructions import instructions, kernel_text
from tileloom.base.errors import UnsupportedError

THREAD = 't = T.launch_thread("threadIdx.x", 32); '
ALL = "T.uint32(0xFFFFFFFF)"
ARRAYS = {
    "A": "float32", "H": "bfloat16", "F": "float16", "I": "int32", "U": "uint8", "L": "int64",
    "D": "float64", "P": "bool", "W": "uint32", "Q": "uint64",
}  # fmt: skip
#: What makes 32 bits of a value in a register, and the value of them.
BITS = {
    "A": ("bitcast", "bitcast"), "H": ("zext", "trunc"), "F": ("bitcast; zext", "trunc; bitcast"),
    "I": ("", ""), "U": ("zext", "trunc"), "P": ("zext", "trunc"), "W": ("", ""),
}  # fmt: skip


@pytest.fixture(autouse=True)
def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head with an array of each type."""
    params = "".join(f'    {n}: T.Buffer((64,), "{kind}"),\n' for n, kind in ARRAYS.items())
    head = f"@T.prim_func\ndef main(n: T.int32,\n{params}):\n"
    monkeypatch.setattr(test_instructions, "HEAD", head)


def between(line: str, arch: str = "sm_90a") -> str:
    """What comes after the thread's number, but for places and memory."""
    names = instructions(kernel_text(THREAD + line, arch))
    assert names[0].endswith("tid.x")
    kept = [n for n in names[1:] if n.split()[0] not in ("load", "store", "getelementptr")]
    return "; ".join(kept)


def joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


@pytest.mark.parametrize("mode", ["down", "up", "idx", "bfly"])
@pytest.mark.parametrize("name", BITS)
def test_shuffles_of_32_bits(name: str, mode: str) -> None:
    op = {"idx": "shuffle", "bfly": "shuffle_xor"}.get(mode, f"shuffle_{mode}")
    found = between(f"{name}[t] = T.tvm_warp_{op}({ALL}, {name}[t], 3, 16, 32)")
    pack, unpack = BITS[name]
    clamp = "or 0" if mode == "up" else "or 31"
    wanted = joined(
        "zext", "icmp ne 0" * (name == "P"), "sub 32 16; shl 8", clamp, pack,
        f"call llvm.nvvm.shfl.sync.{mode}.i32 -1 3", unpack, "zext" * (name == "P"),
    )  # fmt: skip
    assert found == wanted


@pytest.mark.parametrize("name", ["L", "D", "Q"])
def test_shuffles_of_64_bits_are_two(name: str) -> None:
    found = between(f"{name}[t] = T.tvm_warp_shuffle_up({ALL}, {name}[t], 1, 32, 32)")
    move = "trunc; call llvm.nvvm.shfl.sync.up.i32 -1 1; zext"
    cast = "bitcast" * (name == "D")
    start = "zext; sub 32 32; shl 8; or 0"
    assert found == joined(start, cast, move, "lshr 32", move, "shl 32; or", cast)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("which", ["any", "all"])
def test_matches(name: str, which: str) -> None:
    found = between(f"W[t] = T.match_{which}_sync({ALL}, {name}[t])")
    wide = name in ("L", "D", "Q")
    pack = ("bitcast" * (name == "D")) if wide else BITS[name][0]
    call = f"call llvm.nvvm.match.{which}.sync.i{64 if wide else 32}"
    call += " -1" if which == "any" else "p -1; extractvalue 0"
    assert found == joined("zext", "icmp ne 0" * (name == "P"), pack, call)


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("name", ["I", "W"])
def test_sums_of_warps(op: str, name: str) -> None:
    line = f"{name}[t] = T.reduce_{op}_sync({ALL}, {name}[t])"
    word = f"u{op}" if name == "W" and op in ("min", "max") else op
    assert between(line, "sm_80") == f"zext; call llvm.nvvm.redux.sync.{word} -1"
    text = kernel_text(THREAD + line)
    (args,) = re.findall(r'call i32 @"llvm\.nvvm\.redux[^"]*"\((.*)\)', text)
    assert args.endswith("i32 -1")  # the value comes first, then the lanes
    with pytest.raises(UnsupportedError, match=f"reduce_{op}_sync needs sm_80 or newer"):
        kernel_text(THREAD + line, "sm_75")


@pytest.mark.parametrize("name", ["A", "L", "U", "F", "Q"])
def test_sums_of_warps_that_are_none(name: str) -> None:
    with pytest.raises(UnsupportedError, match="a warp sums 32-bit integers at once"):
        kernel_text(f"{THREAD}{name}[t] = T.reduce_add_sync({ALL}, {name}[t])")


#: @ stands for a call of an intrinsic of NVPTX, `bool` for a byte that is made one.
REST = [
    (f"P[t] = T.elect_sync({ALL})", "sm_90", "@elect.sync -1; extractvalue 1; zext; zext"),
    (f"P[t] = T.elect_sync({ALL})", "sm_89",
     "@read.ptx.sreg.laneid; call llvm.cttz.i32 -1 0; icmp eq; zext; zext"),
    (f"W[t] = T.ballot_sync({ALL}, P[t])", "sm_70", "bool; @vote.ballot.sync -1"),
    (f"P[t] = T.any_sync({ALL}, P[t])", "sm_70", "bool; @vote.any.sync -1; zext"),
    (f"P[t] = T.all_sync({ALL}, P[t])", "sm_70", "bool; @vote.all.sync -1; zext"),
    ("W[t] = T.activemask()", "sm_70", "@activemask; zext"),
    ("I[t] = T.lane_id()", "sm_70", "@read.ptx.sreg.laneid; zext"),
    (f"T.evaluate(T.syncwarp({ALL}))", "sm_70", "@bar.warp.sync -1"),
    ('T.evaluate(T.tvm_storage_sync("warp"))', "sm_70", "@bar.warp.sync -1"),
    ('T.evaluate(T.tvm_storage_sync("shared"))', "sm_70", "@barrier.cta.sync.aligned.all 0"),
    ('T.evaluate(T.tvm_storage_sync("shared.dyn"))', "sm_70",
     "@barrier.cta.sync.aligned.all 0"),
    ("T.evaluate(T.barrier_sync(15, 64))", "sm_70", "@barrier.cta.sync.aligned.count 15 64"),
    ("T.evaluate(T.barrier_arrive(0, 32))", "sm_70", "@barrier.cta.arrive.aligned.count 0 32"),
    ("T.evaluate(T.barrier_sync(n, T.int64(64)))", "sm_70",
     "trunc 64; @barrier.cta.sync.aligned.count"),
    *((f"W[t] = T.lanemask_{w}()", "sm_70", f"@read.ptx.sreg.lanemask.{w}; zext")
      for w in ("lt", "le", "eq", "ge", "gt")),
]  # fmt: skip


@pytest.mark.parametrize(("line", "arch", "wanted"), REST)
def test_votes_masks_and_barriers(line: str, arch: str, wanted: str) -> None:
    wanted = wanted.replace("@", "call llvm.nvvm.").replace("bool", "zext; icmp ne 0")
    assert between(line, arch) == wanted


@pytest.mark.parametrize(
    ("scope", "words"),
    [("block", 'syncscope("block") acq_rel'), ("gpu", 'syncscope("device") acq_rel'),
     ("system", "acq_rel")],
)  # fmt: skip
def test_fences(scope: str, words: str) -> None:
    text = kernel_text(f'{THREAD}T.evaluate(T.memory_fence("{scope}"))')
    assert [line.strip() for line in text.splitlines() if "fence" in line] == [f"fence {words}"]


@pytest.mark.parametrize("scope", ['"warp"', '""', "n"])
def test_fences_for_nobody(scope: str) -> None:
    with pytest.raises(UnsupportedError, match="a fence is for one of block, gpu, system"):
        kernel_text(f"{THREAD}T.evaluate(T.memory_fence({scope}))")
