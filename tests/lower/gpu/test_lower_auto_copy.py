"""Copies by all threads: each element is moved once, whatever the shape and the threads are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import Var, evaluate
from tileloom.lower.gpu.lower_auto_copy import lower_auto_copy
from tileloom.script import from_source
from tileloom.tir import (
    VECTORIZED,
    BlockRealize,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    collect,
)

HEAD = """
@T.prim_func
def main(A: T.Buffer((4096,), "{kind}")):
    S = T.alloc_buffer((4096,), "{kind}", scope="{scope}")
"""


def program(
    extents: tuple[int, ...],
    threads: Mapping[str, int],
    notes: Mapping[str, int],
    *,
    kind: str = "float32",
    scope: str = "shared",
    inside: bool = False,
    value: str = "A[{}]",
) -> PrimFunc:
    """A copy of a box whose loops begin at 3; `inside`: within the loops over the threads."""
    around = [f'for {t[-1]} in T.thread_binding({n}, thread="{t}"):' for t, n in threads.items()]
    index = "0"
    for k, extent in enumerate(extents):
        index = f"({index}) * {extent} + (i{k} - 3)"
    loops = [f"for i{k} in range(3, {3 + extent}):" for k, extent in enumerate(extents)]
    body = [
        'with T.block("copy"):',
        "    T.reads()",
        "    T.writes()",
        f"    T.block_attr({dict(notes) | {'auto_copy': 1, 'other': 5}})",
        *("    " * (k + 1) + loop for k, loop in enumerate(loops)),
        "    " * (len(loops) + 1) + f"S[{index}] = {value.format(index)}",
    ]
    if inside:
        body = [
            *("    " * k + line for k, line in enumerate(around)),
            *("    " * len(around) + line for line in body),
        ]
    else:
        body += ["    " * k + line for k, line in enumerate(around)]
        body += ["    " * len(around) + "T.evaluate(A.data)"]
    grid = ['for b in T.thread_binding(2, thread="blockIdx.x"):', *("    " + x for x in body)]
    text = HEAD.format(kind=kind, scope=scope) + "\n".join("    " + line for line in grid) + "\n"
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def moves(
    stmt: Stmt, env: dict[Var, int], local: dict[Any, int]
) -> Iterator[tuple[int, int | None]]:
    """Where each store puts what, program in order for one thread; `local` is its own memory."""
    match stmt:
        case SeqStmt():
            for part in stmt.seq:
                yield from moves(part, env, local)
        case BlockRealize():
            yield from moves(stmt.block.body, env, local)
        case IfThenElse():
            if evaluate(stmt.condition, env):
                yield from moves(stmt.then_case, env, local)
        case For():
            low, extent = (int(evaluate(e, env)) for e in (stmt.min, stmt.extent))
            for k in range(low, low + extent):
                yield from moves(stmt.body, {**env, stmt.loop_var: k}, local)
        case BufferStore():
            assert isinstance(stmt.value, BufferLoad)
            load = stmt.value
            place, source = (
                tuple(int(evaluate(i, env)) for i in node.indices) for node in (stmt, load)
            )
            thread = tuple(v for var, v in env.items() if var.name.startswith("threadIdx"))
            if load.buffer.name.endswith("_local"):
                value = local.pop((thread, source))
            else:
                value = source[0]
            if stmt.buffer.name.endswith("_local"):
                assert (thread, place) not in local
                assert all(0 <= p < int(n) for p, n in zip(place, stmt.buffer.shape))  # type: ignore[call-overload]
                local[thread, place] = value
            else:
                yield place[0], value


def copied(func: PrimFunc) -> Stmt:
    (block,) = (r for r in collect(func.body, BlockRealize) if r.block.name_hint == "copy")
    assert dict(block.block.annotations) == {"other": 5}
    return block


def lanes_of(wanted: int, size: int, innermost: int) -> int:
    """The widest power of two of elements within so many bytes that divides the last extent."""
    fit = [1 << k for k in range(10) if (1 << k) * size <= wanted and innermost % (1 << k) == 0]
    return max(fit, default=1)


XY = {"threadIdx.y": 2, "threadIdx.x": 4}
CASES = [
    ((32,), {"threadIdx.x": 8}, 16),
    ((32,), {"threadIdx.x": 8}, 0),
    ((32,), {"threadIdx.x": 8}, 4),
    ((33,), {"threadIdx.x": 8}, 16),
    ((34,), {"threadIdx.x": 8}, 16),
    ((5, 12), {"threadIdx.x": 7}, 16),
    ((5, 12), XY, 16),
    ((5, 12), XY, 12),
    ((2, 3, 4), XY, 8),
    ((3, 1, 8), {"threadIdx.z": 3, **XY}, 32),
    ((1,), XY, 16),
    ((7, 3), {"threadIdx.x": 64}, 16),
    ((4, 8), {"threadIdx.x": 1}, 8),
]


@pytest.mark.parametrize("local_stage", [0, 1])
@pytest.mark.parametrize(("extents", "threads", "size"), CASES)
@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_every_element_is_moved_once(
    extents: tuple[int, ...], threads: dict[str, int], size: int, local_stage: int, kind: str
) -> None:
    notes = {"vector_bytes": size, "local_stage": local_stage}
    func = lower_auto_copy(program(extents, threads, notes, kind=kind))
    stmt = copied(func)
    local: dict[Any, int] = {}
    assert Counter(moves(stmt, {}, local)) == Counter((k, k) for k in range(prod(extents)))
    assert not local
    lanes = lanes_of(size, 4 if kind == "float32" else 1, extents[-1])
    total, count = prod(extents) // lanes, prod(threads.values())
    loops = collect(stmt, For)
    parts = 1 + local_stage
    assert [int(f.extent) for f in loops if f.kind == VECTORIZED] == [lanes] * parts * (lanes > 1)  # type: ignore[call-overload]
    assert len(collect(stmt, IfThenElse)) == parts * (total % count > 0)
    bound = [(f.thread_binding.thread_tag, int(f.extent)) for f in loops if f.thread_binding]  # type: ignore[call-overload]
    assert sorted(bound) == sorted(threads.items()) * parts or parts == 2
    steps = [int(f.extent) for f in loops if f.loop_var.name == "step"]  # type: ignore[call-overload]
    assert steps == [-(-total // count)] * parts


@pytest.mark.parametrize(
    "options",
    [{"inside": True}, {"scope": "local"}, {"scope": "global"}, {"scope": "warp"}],
    ids=str,
)
@pytest.mark.parametrize(("extents", "size"), [((32,), 16), ((3, 6), 16), ((3, 5), 16), ((8,), 0)])
def test_a_copy_of_one_thread_is_in_vectors(
    options: dict[str, Any], extents: tuple[int, ...], size: int
) -> None:
    """Threads share what goes between global and shared memory, outside of their loops."""
    notes = {"vector_bytes": size, "local_stage": 1}
    stmt = copied(lower_auto_copy(program(extents, {"threadIdx.x": 8}, notes, **options)))
    assert Counter(moves(stmt, {}, {})) == Counter((k, k) for k in range(prod(extents)))
    lanes = lanes_of(size, 4, extents[-1])
    kinds = [f.kind for f in collect(stmt, For)]
    assert kinds == ["serial"] * len(extents) + ["vectorized"] * (lanes > 1)


@pytest.mark.parametrize("value", ["A[{}] + T.float32(1)", "T.float32(0)"])
def test_what_computes_is_no_copy(value: str) -> None:
    with pytest.raises(UserError, match="does not copy one buffer to another in loops"):
        lower_auto_copy(program((8,), {"threadIdx.x": 8}, {}, value=value))
