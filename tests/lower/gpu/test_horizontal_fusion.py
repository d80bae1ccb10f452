"""Kernels side by side in one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import gpu_lower, syncs
from tileloom import build
from tileloom.base.errors import UserError
from tileloom.expr import Expr, IntImm
from tileloom.lower.pipeline import GPU_PIPELINE, name_of, run_passes
from tileloom.script import from_source, show
from tileloom.simt import KernelDefect
from tileloom.tir import Allocate, AttrStmt, PrimFunc, collect

_HEAD = """@T.prim_func
def main({params}):
    T.func_attr({{"horizontal_fuse": True}})
"""
BOTH = 'A: T.Buffer((64,)), B: T.Buffer((64,)), C: T.Buffer((64,)), I: T.Buffer((64,), "int32")'


def number(expr: Expr) -> int:
    assert isinstance(expr, IntImm)
    return expr.value


def program(body: str, params: str = BOTH) -> PrimFunc:
    """A function with the attribute."""
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    func = from_source(_HEAD.format(params=params) + lines + "\n")
    assert isinstance(func, PrimFunc)
    return func


def fused(func: PrimFunc) -> PrimFunc:
    """The function after the pass."""
    names = [name_of(step) for step in GPU_PIPELINE]
    last = names.index("horizontal_fusion") + 1
    return run_passes(func, GPU_PIPELINE[:last], check=True)


def launched(func: PrimFunc) -> dict[str, int]:
    """The extents of the only kernel."""
    nodes = [n for n in collect(func.body, AttrStmt) if n.attr_key == "thread_extent"]
    assert len({n.node.thread_tag for n in nodes}) == len(nodes)
    return {n.node.thread_tag: number(n.value) for n in nodes}


def emulated(func: PrimFunc, *args: Any) -> None:
    """Run it."""
    build(func, "cuda -arch=sm_80", device="emulator")(*args)


def part(out: str, blocks: int, start: int = 0, more: str = "") -> str:
    """Blocks that store elements of a buffer, from one on."""
    return (
        f'for b in T.thread_binding({blocks}, "blockIdx.x"):\n'
        f'    for t in T.thread_binding(8, "threadIdx.x"):\n'
        f"        {out}[b * 8 + t + {start}] = A[b * 8 + t] {more}\n"
    )


def test_parts_follow_each_other() -> None:
    func = fused(program(part("B", 3) + part("C", 5) + part("B", 2, 24)))
    assert launched(func) == {"blockIdx.x": 10, "threadIdx.x": 8}
    assert "horizontal_fuse" not in func.attrs
    text = show(func)
    assert (
        text[text.index("    if ") :].rstrip()
        == """\
    if blockIdx_x < 3:
        B[blockIdx_x * 8 + threadIdx_x] = A[blockIdx_x * 8 + threadIdx_x]
    else:
        if blockIdx_x < 8:
            C[(blockIdx_x - 3) * 8 + threadIdx_x] = A[(blockIdx_x - 3) * 8 + threadIdx_x]
        else:
            B[(blockIdx_x - 8) * 8 + threadIdx_x + 24] = A[(blockIdx_x - 8) * 8 + threadIdx_x]"""
    )


def test_many_parts_are_found_by_halves() -> None:
    func = fused(program("".join(part("B", 1, 8 * k) for k in range(8))))
    assert launched(func)["blockIdx.x"] == 8
    text = show(func)
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) <= 4 * 5
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    emulated(func, a, b, b.copy(), np.zeros(64, "int32"))
    assert (b == np.tile(a[:8], 8)).all()


def test_other_threads_are_as_many_as_some_part_needs() -> None:
    """Those that a part has too many are idle; one that does not name a tag has one of it."""
    func = program("""
for b in T.thread_binding(2, "blockIdx.x"):
    for c in T.thread_binding(3, "blockIdx.y"):
        for t in T.thread_binding(4, "threadIdx.y"):
            B[b * 12 + c * 4 + t] = A[c]
for b in T.thread_binding(3, "blockIdx.x"):
    for t in T.thread_binding(8, "threadIdx.x"):
        C[b * 8 + t] = C[b * 8 + t] + A[t]""")
    assert launched(fused(func)) == {
        "blockIdx.x": 5, "blockIdx.y": 3, "threadIdx.x": 8, "threadIdx.y": 4,
    }  # fmt: skip
    text = show(fused(func))
    assert "if threadIdx_x < 1:" in text
    assert "if blockIdx_y < 1 and threadIdx_y < 1:" in text
    a, b, c = np.random.default_rng(0).standard_normal((3, 64)).astype("float32")
    expected = c.copy()
    expected[:24] += np.tile(a[:8], 3)
    emulated(func, a, b, c, np.zeros(64, "int32"))
    np.testing.assert_array_equal(b[:24].reshape(2, 3, 4), np.tile(a[:3, None], (2, 1, 4)))
    np.testing.assert_array_equal(c, expected)


def test_empty_parts_are_left_out() -> None:
    func = fused(program(part("B", 0) + part("B", 2) + part("C", 0)))
    assert launched(func) == {"blockIdx.x": 2, "threadIdx.x": 8}
    assert "if " not in show(func)
    nothing = fused(program(part("B", 0) + part("C", 0)))
    assert launched(nothing) == {}
    build(nothing, "cuda", device="emulator")


def test_numbers_of_blocks_that_are_not_known_yet() -> None:
    func = program(
        """
for b in T.thread_binding(n, "blockIdx.x"):
    B[b] = 1.0
for b in T.thread_binding(m, "blockIdx.x"):
    C[b] = 2.0
for b in T.thread_binding(2, "blockIdx.x"):
    C[b + 60] = 3.0""",
        BOTH + ", n: T.int32, m: T.int32",
    )
    kernel = build(func, "cuda", device="emulator")
    i = np.zeros(64, "int32")
    for n, m in ((3, 5), (0, 4), (4, 0), (0, 0)):
        a, b, c = np.zeros((3, 64), "float32")
        kernel(a, b, c, i, n, m)
        assert b.tolist() == [1] * n + [0] * (64 - n)
        assert c.tolist() == [2] * m + [0] * (60 - m) + [3, 3, 0, 0]


def test_wide_indices() -> None:
    func = program("""
for b in T.thread_binding(T.int64(3), "blockIdx.x"):
    B[b] = 1.0
for b in T.thread_binding(4, "blockIdx.x"):
    C[b] = 2.0""")
    b, c = np.zeros((2, 64), "float32")
    emulated(func, b, b, c, np.zeros(64, "int32"))
    assert (b.sum(), c.sum()) == (3, 8)


_SUMS = """
for i in T.thread_binding({blocks}, "blockIdx.x"):
    with T.block("{name}"):
        vi = T.axis.spatial({blocks}, i)
        {name} = T.alloc_buffer(({threads},), scope="{scope}")
        for t in T.thread_binding({threads}, "threadIdx.x"):
            {name}[t] = A[vi + t]
        for t in T.thread_binding({threads}, "threadIdx.x"):
            if t == 0:
                {out}[vi] = {name}[0]
                for k in range(1, {threads}):
                    {out}[vi] = {out}[vi] + {name}[k]
"""


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_barriers_and_shared_memory(scope: str) -> None:
    """All threads of a block come to the barriers of a part; parts have the same memory."""
    func = program(
        _SUMS.format(name="S", blocks=5, threads=16, out="B", scope=scope)
        + _SUMS.format(name="R", blocks=7, threads=32, out="C", scope=scope)
    )
    flat = gpu_lower(func)
    assert syncs(flat) == 2
    (memory,) = collect(flat.body, Allocate)
    assert number(memory.extents[0]) == 128
    a = np.random.default_rng(0).standard_normal(64).astype("float32")
    b, c = np.zeros((2, 64), "float32")
    emulated(func, a, b, c, np.zeros(64, "int32"))
    np.testing.assert_allclose(b[:5], [a[k : k + 16].sum() for k in range(5)], rtol=1e-5)
    np.testing.assert_allclose(c[:7], [a[k : k + 32].sum() for k in range(7)], rtol=1e-5)


_TURN = """
            with T.block("{name}"):
                {name} = T.alloc_buffer((32,), scope="shared")
                for t in T.thread_binding(32, "threadIdx.x"):
                    {name}[t] = A[t]
                for t in T.thread_binding(32, "threadIdx.x"):
                    B[vi * 32 + t] = {name}[31 - t]"""


@pytest.mark.parametrize(("condition", "floats"), [("vk % 2 == 0", 64), ("vi == 0", 32)])
def test_memory_of_branches(condition: str, floats: int) -> None:
    """Two may have one piece where a block comes by one of them only, however often."""
    func = program(f"""
for b in T.thread_binding(2, "blockIdx.x"):
    for k in range(4):
        with T.block("x"):
            vi, vk = T.axis.remap("SR", [b, k])
            if {condition}:{_TURN.format(name="S").replace(chr(10), chr(10) + "    ")}
            else:{_TURN.format(name="R").replace(chr(10), chr(10) + "    ")}""")
    memory = list(collect(gpu_lower(func).body, Allocate))
    assert sum(number(node.extents[0]) * node.dtype.bytes for node in memory) == 4 * floats
    a, b, c = np.random.default_rng(0).standard_normal((3, 64)).astype("float32")
    emulated(func, a, b, c, np.zeros(64, "int32"))
    assert (b.reshape(2, 32) == a[:32][::-1]).all()


def test_scratch_memory_of_the_device() -> None:
    """Memory around some part is around the launch."""
    func = program("""
with T.block("root"):
    S = T.alloc_buffer((64,), scope="global")
    for b in T.thread_binding(2, "blockIdx.x"):
        for t in T.thread_binding(32, "threadIdx.x"):
            S[b * 32 + t] = A[b * 32 + t]
            B[b * 32 + t] = S[b * 32 + t]
    for b in T.thread_binding(1, "blockIdx.x"):
        C[b] = 1.0""")
    a = np.arange(64, dtype="float32")
    b, c = np.zeros((2, 64), "float32")
    emulated(func, a, b, c, np.zeros(64, "int32"))
    assert (a == b).all()
    assert c[0] == 1


def test_without_the_attribute_or_with_one_kernel_nothing_changes() -> None:
    func = program(part("B", 2) + part("C", 2))
    several = fused(func.without_attr("horizontal_fuse"))
    assert several.attrs.keys() == func.attrs.keys() - {"horizontal_fuse"}
    assert len(list(collect(several.body, AttrStmt))) == 4
    assert show(fused(func.with_attr("horizontal_fuse", False))) == show(several)
    one = program(part("B", 2))
    assert show(fused(one)) == show(fused(one.without_attr("horizontal_fuse")))


_REDUCED = """
for b in T.thread_binding(4, "blockIdx.x"):
    for t in T.thread_binding({threads}, "threadIdx.x"):
        with T.block("sum"):
            vb = T.axis.spatial(4, b)
            vt = T.axis.reduce({threads}, t)
            with T.init():
                C[vb] = 0.0
            C[vb] = C[vb] + A[vt]
"""


def test_reductions_over_threads() -> None:
    """They need the threads that they have been made for."""
    same = program(part("B", 2) + _REDUCED.format(threads=8))
    a = np.arange(64, dtype="float32")
    b, c = np.zeros((2, 64), "float32")
    emulated(same, a, b, c, np.zeros(64, "int32"))
    assert c[:5].tolist() == [28, 28, 28, 28, 0]
    assert (b[:16] == a[:16]).all()
    fewer = program(part("B", 2) + _REDUCED.format(threads=4))
    with pytest.raises(UserError, match=r"\(4 of threadIdx.x\), and it reduces over threads"):
        fused(fewer)


def _voting(x: int, y: int) -> str:
    return f"""
for b in T.thread_binding(2, "blockIdx.x"):
    for u in T.thread_binding({y}, "threadIdx.y"):
        for t in T.thread_binding({x}, "threadIdx.x"):
            if T.any_sync(A[t] > 0.0):
                B[b] = 1.0"""


@pytest.mark.parametrize(
    ("own", "other", "fits"),
    [
        ((32, 1), (32, 4), True),
        ((32, 2), (64, 2), True),
        ((64, 2), (96, 2), True),
        ((16, 1), (16, 4), True),
        ((16, 2), (16, 4), True),
        ((16, 2), (32, 2), False),
        ((32, 2), (48, 2), False),
        ((16, 1), (32, 1), True),
    ],
)
def test_warps_that_work_together_stay_as_they_are(
    own: tuple[int, int], other: tuple[int, int], fits: bool
) -> None:
    func = program(
        _voting(*own)
        + f"""
for b in T.thread_binding(2, "blockIdx.x"):
    for u in T.thread_binding({other[1]}, "threadIdx.y"):
        for t in T.thread_binding({other[0]}, "threadIdx.x"):
            C[b] = 1.0"""
    )
    if fits:
        fused(func)
    else:
        with pytest.raises(UserError, match=r"fewer threads than others .*its warps work together"):
            fused(func)


REFUSED = [
    (part("B", 2) + "for i in range(8):\n    C[i] = 1.0", "this is no loop bound to blockIdx.x"),
    (
        part("B", 2) + 'for t in T.thread_binding(8, "threadIdx.x"):\n    C[t] = 1.0',
        "a part has no loop bound to blockIdx.x: C.threadIdx_x. = ",
    ),
    (
        part("B", 2)
        + 'for k in range(2):\n    for b in T.thread_binding(8, "blockIdx.x"):\n        C[b] = 1.0',
        "this is no loop bound to blockIdx.x: for k in range",
    ),
    (part("B", 2) + part("B", 4), "two parts touch one element of 'B'"),
    (part("B", 2) + part("B", 4, 15), "two parts touch one element of 'B'"),
    (part("B", 2) + part("C", 4, 0, "+ B[b]"), "two parts touch one element of 'B'"),
    (part("C", 4, 0, "+ B[b + 9]") + part("B", 2), "two parts touch one element of 'B'"),
    (
        'for b in T.thread_binding(1 << 20, "blockIdx.x"):\n'
        "    for k in range(1 << 10):\n"
        "        if b % 3 == 1:\n            D[b] = 1.0\n"
        'for b in T.thread_binding(1 << 20, "blockIdx.x"):\n'
        "    if b % 7 == 4:\n        D[b] = 1.0\n",
        "two parts touch one element of 'D'",
    ),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_refusals(body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fused(program(body, BOTH + ", D: T.Buffer((1 << 20,))"))


def test_what_does_not_meet_is_left_alone() -> None:
    fused(program(part("B", 2) + part("B", 4, 16)))
    fused(program(part("B", 2) + part("C", 4, 0, "+ B[b + 16]")))
    fused(program("""
for b in T.thread_binding(32, "blockIdx.x"):
    if b % 2 == 0:
        B[b] = 1.0
for b in T.thread_binding(16, "blockIdx.x"):
    B[b * 2 + 1] = 2.0"""))  # fmt: skip


_SCATTER = """
for b in T.thread_binding({0}, "blockIdx.x"):
    B[I[b]] = {1}"""


def test_the_emulator_finds_what_the_data_make_meet() -> None:
    func = program(
        _SCATTER.format(4, "A[b]") + _SCATTER.format(3, "A[b + 8]").replace("[b]]", "[b + 8]]")
    )
    a, b, c = np.random.default_rng(0).standard_normal((3, 64)).astype("float32")
    rows = np.arange(64, dtype="int32")
    emulated(func, a, b, c, rows)
    assert (b[8:11] == a[8:11]).all()
    rows[9] = 2
    with pytest.raises(KernelDefect, match="race"):
        emulated(func, a, b, c, rows)


def test_atomic_parts_may_meet() -> None:
    body = """
for b in T.thread_binding(4, "blockIdx.x"):
    with T.block("{0}"):
        vb = T.axis.spatial(4, b)
        T.block_attr({{"atomic": True}})
        B[I[vb]] = B[I[vb]] + A[vb + {1}]"""
    func = program(body.format("x", 0) + body.format("y", 4))
    a, b, c = np.random.default_rng(0).standard_normal((3, 64)).astype("float32")
    rows = np.array([5, 5, 9, 3] * 16, "int32")
    expected = b.copy()
    np.add.at(expected, rows[:4], a[:4] + a[4:8])
    emulated(func, a, b, c, rows)
    np.testing.assert_allclose(b, expected, rtol=1e-5)
