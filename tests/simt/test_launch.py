"""Launches: blocks and threads by their axes, arguments, and the host's own statements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.script import parse
from tileloom.simt import EmulatedKernel, KernelDefect, launch, run_kernels, sizes_of
from tileloom.target import target

GRID, BLOCK = (2, 3, 4), (5, 3, 2)  # x, y, z


@pytest.mark.parametrize("together", [1, 60, 1 << 16])
def test_axes(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads know their places, however many blocks are run together."""
    monkeypatch.setattr(launch, "TOGETHER", together)
    names = [f"blockIdx.{axis}" for axis in "xyz"] + [f"threadIdx.{axis}" for axis in "xyz"]
    extents = GRID + BLOCK
    lines = [
        f"    i{k} = T.launch_thread('{name}', {n})"
        for k, (name, n) in enumerate(zip(names, extents, strict=True))
    ]
    digits = " + ".join(f"i{k} * {10**k}" for k in range(6))
    at = " + ".join(f"i{k} * {int(np.prod(extents[:k]))}" for k in range(6))
    func: Any = parse(
        "@T.prim_func\ndef kernel(B: T.Buffer((720,), 'int32'), C: T.Buffer((720,), 'int32')):\n"
        + "\n".join(lines)
        + f"\n    B[{at}] = {digits}\n    C[{at}] = T.lane_id()"
    )
    b, c = np.zeros(720, "int32"), np.zeros(720, "int32")
    run_kernels(func, b, c)
    places = [place[::-1] for place in itertools.product(*(range(n) for n in reversed(extents)))]
    assert b.tolist() == [sum(i * 10**k for k, i in enumerate(place)) for place in places]
    threads = [x + 5 * y + 15 * z for *_, x, y, z in places]
    assert c.tolist() == threads


def one(size: Any = 12) -> Any:
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer((3, 4), "float32"), n: T.int32, B: T.Buffer(({size},), "int32")):
    b = T.launch_thread("blockIdx.x", 3)
    t = T.launch_thread("threadIdx.x", 4)
    B[b * 4 + t] = b * 10 + n
""")


def arguments() -> tuple[Any, int, Any]:
    return np.ones((3, 4), "float32"), 7, np.zeros(12, "int32")


@pytest.mark.parametrize(
    ("blocks", "run"),
    [
        (None, [0, 1, 2]),
        ([1], [1]),
        ([2, 0], [0, 2]),
        ([2, 2], [2]),
        ([], []),
        ([0, 1, 2], [0, 1, 2]),
    ],
)
def test_some_blocks(blocks: list[int] | None, run: list[int]) -> None:
    a, n, b = arguments()
    steps = run_kernels(one(), a, n, b, blocks=blocks)
    assert b.tolist() == [
        block * 10 + 7 if block in run else 0 for block in (0, 1, 2) for _ in "1234"
    ]
    assert steps * 3 == run_kernels(one(), *arguments()) * len(run)


@pytest.mark.parametrize("blocks", [[3], [-1], [0, 3], [-1, 2], [100]])
def test_blocks_that_there_are_not(blocks: list[int]) -> None:
    with pytest.raises(ArgumentError, match=r"the grid has blocks 0 to 2, not \["):
        run_kernels(one(), *arguments(), blocks=blocks)


def test_arguments() -> None:
    a, n, b = arguments()
    for given, said in (
        ((a, n), "kernel takes 3 arguments, not 2"),
        ((a, n, b, b), "kernel takes 3 arguments, not 4"),
        ((a, n, b.astype("int64")), "argument 'B' is an array of int32, not int64"),
        ((a, n, b.tolist()), "argument 'B' is an array of int32, not list"),
        ((np.ones((4, 3), "float32").T, n, b), "argument 'A' is not contiguous"),
    ):
        with pytest.raises(ArgumentError) as caught:
            run_kernels(one(), *given)
        assert said in str(caught.value)
    with pytest.raises(KernelDefect, match=r"B\[11\] is outside of 11 elements"):
        run_kernels(one(), a, n, b[:11])


def test_the_host() -> None:
    """It allocates, names, counts, and launches in turn."""
    func: Any = parse("""
@T.prim_func
def kernel(A: T.Buffer((8,), "int32"), n: T.int32):
    W_data = T.allocate([n, 4], "int32", "global")
    W = T.decl_buffer((8,), "int32", data=W_data)
    m: T.int32 = n * 3
    for k in range(1, n + 1):
        with T.launch_thread("threadIdx.x", 8) as t:
            W[t] = A[t] * m
        with T.launch_thread("threadIdx.x", n * 4) as u:
            A[u] = W[u] + k
""")
    a = np.arange(8, dtype="int32")
    run_kernels(func, a, 2)
    assert a.tolist() == [(x * 6 + 1) * 6 + 2 for x in range(8)]


def test_memory_of_the_host_has_its_size() -> None:
    func: Any = parse(
        """
@T.prim_func
def kernel(A: T.Buffer((8,), "int32")):
    W_data = T.allocate([4], "int32x2", "global")
    W = T.decl_buffer((8,), "int32", data=W_data)
    t = T.launch_thread("threadIdx.x", COUNT)
    W[t] = t
    A[t % 8] = W[t]
""".replace("COUNT", "8")
    )
    a = np.zeros(8, "int32")
    run_kernels(func, a)
    assert a.tolist() == list(range(8))
    more: Any = parse(func.script().replace('"threadIdx.x", 8', '"threadIdx.x", 9'))
    with pytest.raises(KernelDefect, match=r"W\w*\[8\] is outside of 8 elements"):
        run_kernels(more, a)


def test_what_hosts_do_not_do() -> None:
    func: Any = parse("""
@T.prim_func
def kernel(A: T.Buffer((8,), "int32")):
    A[0] = 1
    t = T.launch_thread("threadIdx.x", 8)
    A[t] = t
""")
    with pytest.raises(UnsupportedError, match="the host has a BufferStore of its own"):
        run_kernels(func, np.zeros(8, "int32"))


def test_global_memory_is_not_watched_where_it_is_only_read() -> None:
    func: Any = parse("""
@T.prim_func
def kernel(A: T.Buffer((1,), "int32"), B: T.Buffer((64,), "int32")):
    b = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", 32)
    B[b * 32 + t] = A[0]
""")
    b = np.zeros(64, "int32")
    run_kernels(func, np.array([5], "int32"), b)
    assert (b == 5).all()
    race: Any = parse(func.script().replace("A[0]", "A[0]\n    A[0] = 1"))
    with pytest.raises(KernelDefect, match="race"):
        run_kernels(race, np.array([5], "int32"), b)


EXP = """
@T.prim_func
def kernel(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    b = T.launch_thread("blockIdx.x", 10)
    t = T.launch_thread("threadIdx.x", 100)
    B[b * 100 + t] = VALUE
"""


@pytest.mark.parametrize(
    ("value", "exact"),
    [("T.exp(A[b * 100 + t])", np.exp), ("T.float32(1) / A[b * 100 + t]", np.reciprocal)],
)
def test_functions_may_be_off(value: str, exact: Any) -> None:
    """By a number that says how: the same one gives the same, and none gives exact values."""
    func: Any
    func, a = parse(EXP.replace("VALUE", value)), np.linspace(0.5, 3, 1000).astype("float32")

    def found(fast_math: int | None) -> Any:
        b = np.zeros(1000, "float32")
        run_kernels(func, a, b, fast_math=fast_math)
        return b

    assert abs(found(None) / exact(a) - 1).max() < 2**-22
    assert (found(1) == found(1)).all() and (found(1) != found(2)).any()
    assert (found(0) != found(None)).any()
    np.testing.assert_allclose(found(0), exact(a), 2**-18)


# ---------------------------------------------------------------------------- called as compiled

SIZES = """
@T.prim_func
def kernel(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m,), "float32")
    t = T.launch_thread("threadIdx.x", 4)
    B[t] = T.float32(1)
"""


def test_where_sizes_stand() -> None:
    func: Any = parse(SIZES)
    assert sizes_of(func, 2) == [[(0, 0)], [(0, 1), (1, 0)]]
    assert sizes_of(func, 3) == [[(0, 1), (1, 0)]] and sizes_of(func, 4) == []
    nothing: Any = parse(SIZES.replace("(n, m)", "(8, m)"))
    with pytest.raises(UnsupportedError, match="no argument has 'n' for an extent"):
        sizes_of(nothing, 2)


def test_sizes_are_taken_from_arguments() -> None:
    func: Any = parse(SIZES.replace("T.float32(1)", "T.Cast('float32', n * 10 + m)"))
    kernel = EmulatedKernel(func, target("cuda -arch=sm_80"), sizes_of(func, 2))
    b = np.zeros(4, "float32")
    kernel(np.zeros((3, 4), "float32"), b)
    assert b.tolist() == [34] * 4 and repr(kernel) == "EmulatedKernel(kernel)"
    with pytest.raises(ArgumentError, match=r"arguments have \[4, 5\] elements where one size"):
        kernel(np.zeros((3, 5), "float32"), b)
    with pytest.raises(ArgumentError, match=r"arguments have \[\] elements where one size"):
        kernel(np.float32(3), b)
    with pytest.raises(ArgumentError, match=r"\[\] elements"):
        kernel()


def test_targets_must_have_the_instructions() -> None:
    func: Any = parse("""
@T.prim_func
def kernel(B: T.Buffer((32,), "int32")):
    t = T.launch_thread("threadIdx.x", 32)
    B[t] = T.reduce_add_sync(t)
""")
    b = np.zeros(32, "int32")
    EmulatedKernel(func, target("cuda -arch=sm_80"))(b)
    assert (b == 496).all()
    EmulatedKernel(func)(b)
    with pytest.raises(UnsupportedError, match="reduce_add_sync needs sm_80"):
        EmulatedKernel(func, target("cuda -arch=sm_75"))
