"""Block scopes, region cover, stage pipelines, kinds of blocks."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import ELEMENTWISE, NORMALISE, parse, schedule
from tileloom.base.errors import InternalError
from tileloom.expr import OPAQUE, REDUCE, SPATIAL, Range, Var, const
from tileloom.schedule import ScheduleError
from tileloom.schedule.analysis import affine, blocks, cover, scope, tree
from tileloom.schedule.state import ScheduleState
from tileloom.tir import IRModule, pre_order

HEAD = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,){scope})
"""


def opened(text: Any) -> Any:
    sch = schedule(text)
    return sch, sch.state, lambda name: sch.get_sref(sch.get_block(name))


def fault(body: Any, scope_text: str = "") -> Any:
    """The region cover fault of block C in a function with a buffer B between A and C."""
    _, state, block = opened(HEAD.format(scope=scope_text) + body)
    found = cover.region_cover_fault(state, block("C"))
    pipeline = cover.stage_pipeline_fault(state, block("root"))
    assert (found is None) == (pipeline is None)
    return found


def test_cover_of_whole_buffers() -> None:
    assert (
        fault(
            """
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi]
"""
        )
        is None
    )


@pytest.mark.parametrize(
    ("producer", "consumer", "covered"),
    [
        ("4, i * 4 + j", "4, i * 4 + j", True),
        ("4, i * 4 + j", "3, i * 4 + j", True),
        ("3, i * 4 + j", "4, i * 4 + j", False),
        ("4, i * 4 + j", "4, i * 4 + 3 - j", True),
        ("4, i * 4 + j", "4, (i * 4 + j + 1) % 16", False),
        ("2, i * 4 + j * 2", "4, i * 4 + j", False),  # every other element
        ("4, i * 4 + j", "2, i * 4 + j * 2", True),
        ("16, j", "4, i * 4 + j", True),
        ("4, 12 - i * 4 + j", "4, i * 4 + j", False),
    ],
)
def test_cover_in_one_iteration(producer: str, consumer: str, covered: bool) -> None:
    (n, p), (m, c) = producer.split(", "), consumer.split(", ")
    text = f"""
    for i in range(4):
        for j in range({n}):
            with T.block("B"):
                v = T.axis.spatial(16, {p})
                B[v] = A[v]
        for j in range({m}):
            with T.block("C"):
                v = T.axis.spatial(16, {c})
                C[v] = B[v]
"""
    assert (fault(text) is None) == covered


def test_cover_under_a_condition() -> None:
    text = """
    for i in range(4):
        for j in range(5):
            with T.block("B"):
                v = T.axis.spatial(16, i * 4 + j)
                T.where(j < {limit})
                B[v] = A[v]
        for j in range(5):
            with T.block("C"):
                v = T.axis.spatial(16, i * 4 + j)
                T.where(j < 4)
                C[v] = B[v]
"""
    assert fault(text.format(limit=4)) is None
    assert fault(text.format(limit=3)) is not None


@pytest.mark.parametrize(
    ("storage", "covered"), [("shared", True), ("global", True), ("local", False)]
)
def test_threads_share_memory(storage: str, covered: bool) -> None:
    text = """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(16, t * 4 + j)
                B[v] = A[v]
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(16, t * 4 + j)
                C[v] = B[15 - v]
"""
    # What one thread reads others have written, into memory that they may share.
    assert (fault(text, f', scope="{storage}"') is None) == covered
    assert fault(text.replace("15 - v", "v"), f', scope="{storage}"') is None


def test_overwriting_breaks_the_pipeline() -> None:
    _, state, block = opened(
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = A[v]
    for i in range(16):
        with T.block("A"):
            v = T.axis.spatial(16, i)
            A[v] = 0.0
"""
    )
    text, place = cover.stage_pipeline_fault(state, block("root"))  # type: ignore[misc]
    assert "overwrites" in text and place is block("A")
    graph = scope.scope_of(state, block("A"))
    assert [d.kind for d in graph.by_dst[block("A").block]] == [scope.DepKind.WAR]


def test_kinds_of_blocks() -> None:
    sch, state, block = opened(NORMALISE)
    s, c = block("S"), block("C")
    with pytest.raises(ScheduleError, match="not a complete block"):
        blocks.check_complete(state, s)
    with pytest.raises(ScheduleError, match="not a reduction block"):
        blocks.check_reduction(state, c)
    assert blocks.is_output(state, c) and not blocks.is_output(state, s)
    assert blocks.has_trivial_binding(state, s)
    loops = [sch.get_sref(loop) for loop in sch.get_loops("S")]
    assert [blocks.loop_iter_type(state, loop) for loop in loops] == [SPATIAL, REDUCE]
    fused = sch.get_sref(sch.fuse(*sch.get_loops("S")))
    assert blocks.loop_iter_type(state, fused) == OPAQUE
    assert not blocks.has_trivial_binding(state, s) and affine.affine_binding(state, s)
    assert "no T.init" in blocks.reduction_fault(state, c, tree.scope_root(c))  # type: ignore[operator]


def test_quick_and_exact_affine_maps_agree() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    domains = {i: Range(0, 4), j: Range(0, 3), k: Range(0, 1)}
    cases = [
        ([i, j], True),
        ([i * 3 + j], True),
        ([i + j * 4 + k * 7], True),
        ([i * 4 + j], False),  # gaps
        ([i, i], False),
        ([i * 3 + j, j], False),
        ([k, i], True),
        ([i * 2], False),
    ]
    for values, wanted in cases:
        assert affine.is_affine(values, domains, const(True)) == wanted, values


def test_tree() -> None:
    sch, state, block = opened(ELEMENTWISE)
    b, c = block("B"), block("C")
    i, j = (sch.get_sref(loop) for loop in sch.get_loops("B"))
    assert tree.lowest_common_ancestor([b, c]) is block("root")
    assert tree.lowest_common_ancestor([b, i]) is i and tree.lowest_common_ancestor([j]) is j
    assert tree.is_ancestor(i, b) and not tree.is_ancestor(b, i)
    assert tree.only_child_chain(i, b) and not tree.only_child_chain(block("root"), b)
    assert state.function_of(j) == "main" and state.root("main") is block("root")


def test_references_survive_replacement() -> None:
    _, state, block = opened(ELEMENTWISE)
    b, c, root = block("B"), block("C"), block("root")
    before = c.stmt
    state.replace(b, b.block.replace(name_hint="renamed"))
    assert b.block.name_hint == "renamed" and c.stmt is before
    state.replace(
        root, root.block.replace(body=root.block.body.replace(seq=root.block.body.seq[:1]))
    )
    assert c.stmt is None and b.stmt is not None and b.parent.parent.parent is root
    state.verify_references()
    assert len(state.sref_of) == 4


def test_broken_references_are_noticed() -> None:
    _, state, block = opened(ELEMENTWISE)
    block("B").parent = None
    with pytest.raises(InternalError):
        state.verify_references()


def test_a_wrong_memo_is_noticed() -> None:
    sch, state, block = opened(ELEMENTWISE)
    affine.affine_binding(state, block("B"))
    for key in state.memo:
        if key[0].__name__ == "_affine_under":
            state.memo[key] = False
    with pytest.raises(InternalError, match="affine"):
        sch.unroll(sch.get_loops("C")[0])


def test_a_function_without_blocks_gets_a_root() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = 1.0
"""
    )
    state = ScheduleState(IRModule({"main": func}))
    assert len(state.sref_of) == 2
    assert sum(1 for _ in pre_order(state.mod["main"].body)) == 4
