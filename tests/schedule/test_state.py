"""References under all kinds of statements, and the operations that change a program."""

from __future__ import annotations

import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_same, parse, schedule
from tileloom import Schedule, UserError
from tileloom.base.errors import InternalError
from tileloom.expr import const
from tileloom.schedule.state import ScheduleState, copy_loop
from tileloom.tir import For, IRModule, SeqStmt, seq

UNDER = """
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")):
    for i in range(6):
HEAD
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + 1.0
TAIL
"""
SECOND = """\
            for k in range(4):
                with T.block("C"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = A[vi, vk] * 2.0"""


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("        if i < 4:", ""),
        ("        if i < 4:", "        else:\n" + SECOND),
        ('        with T.attr(i, "mark", 1):', ""),
        ("        if True:", "            T.evaluate(A[i, 0])"),
    ],
    ids=["if", "if else", "attr", "beside another"],
)
def test_steps_on_loops_under_statements(head: str, tail: str) -> None:
    text = UNDER.replace("HEAD", head).replace("TAIL", tail)
    sch = schedule(text, enable_check=False)
    names = ["B", "C"] if 'T.block("C")' in text else ["B"]
    for name in names:
        loops = sch.get_loops(name)
        assert [sch.get(loop).extent.value for loop in loops] == [6, 4]
        outer, inner = sch.split(loops[1], [2, 2])
        sch.unroll(inner)
        assert sch.get(sch.get_loops(name)[1]) is sch.get(outer)
    sch.state.verify_references()
    check_same(sch, text)


def test_questions_about_references() -> None:
    state = Schedule(parse(MATMUL)).state
    root = state.root("main")
    assert state.function_of(root) == "main" and root.parent is None
    assert state.realize(root).block is root.block
    [block] = [sref for sref in state.sref_of.values() if sref.is_block and sref is not root]
    loops = [sref for sref in state.sref_of.values() if sref.is_loop]
    assert len(loops) == 3
    assert state.realize(block).block is block.block
    assert state.function_of(block) == "main"
    with pytest.raises(InternalError, match="a loop is needed"):
        _ = block.loop
    with pytest.raises(InternalError, match="a block is needed"):
        _ = loops[0].block
    with pytest.raises(InternalError, match="no reference to this For"):
        state.sref(copy_loop(loops[0].loop, loops[0].loop.body))
    assert "'C'" in repr(block) and "'i'" in repr(loops[0])


def test_what_must_not_be_replaced() -> None:
    state = Schedule(parse(MATMUL)).state
    before, root = state.mod, state.root("main")
    state.replace(root, root.block)  # itself
    assert state.mod is before
    [block] = [sref for sref in state.sref_of.values() if sref.is_block and sref is not root]
    with pytest.raises(InternalError, match="a block can be replaced by a block only"):
        state.replace(block, block.block.body)
    with pytest.raises(InternalError, match="the root block of a function stays where it is"):
        state.replace_realize(root, state.realize(root))
    func = state.mod["main"]
    with pytest.raises(InternalError, match="must not change the body"):
        state.update_function("main", func.replace(body=seq(func.body, func.body)))
    state.update_function("main", func.replace(attrs={"mark": 1}))
    assert state.mod["main"].attrs["mark"] == 1


def test_references_that_are_wrong_are_found() -> None:
    state = Schedule(parse(MATMUL)).state
    state.verify_references()
    loops = [sref for sref in state.sref_of.values() if sref.is_loop]
    loops[1].parent = loops[2]
    with pytest.raises(InternalError, match=r"the reference StmtSRef\(loop 'j'\) to for j, k"):
        state.verify_references()
    state = Schedule(parse(MATMUL)).state
    loop = next(sref for sref in state.sref_of.values() if sref.is_loop)
    state.sref_of[copy_loop(loop.loop, loop.loop.body)] = loop
    with pytest.raises(InternalError, match="1 references to statements long gone"):
        state.verify_references()


def test_what_expires_has_no_statement() -> None:
    state = Schedule(parse(ELEMENTWISE)).state
    root = state.root("main")
    gone = [sref for sref in state.sref_of.values() if sref is not root]
    body = root.block.body
    assert isinstance(body, SeqStmt)
    first = body.seq[0]
    assert isinstance(first, For)
    state.replace(root, root.block.replace(body=first))
    state.verify_references()
    kept = [sref for sref in gone if sref.stmt is not None]
    assert len(kept) == 3 and len(gone) == 6
    assert all(sref.parent is None for sref in gone if sref not in kept)
    expired = next(sref for sref in gone if sref not in kept)
    with pytest.raises(InternalError, match="the reference has expired"):
        state.replace(expired, first)


def test_copies_have_references_of_their_own() -> None:
    state = Schedule(parse(MATMUL)).state
    other, twins = state.copy()
    assert set(twins) == set(state.sref_of.values())
    assert {id(sref) for sref in twins.values()} == {id(s) for s in other.sref_of.values()}
    loop = next(sref for sref in state.sref_of.values() if sref.is_loop)
    twin = twins[loop]
    assert twin is not loop and twin.stmt is loop.stmt
    other.replace(twin, twin.loop.replace(kind="unrolled"))
    state.verify_references()
    other.verify_references()
    assert loop.loop.kind == "serial" and twin.loop.kind == "unrolled"


def test_functions_only() -> None:
    with pytest.raises(UserError, match="cannot schedule int: only tensor IR functions"):
        ScheduleState(IRModule({"main": 3}))  # type: ignore[dict-item]


def test_copies_of_loops_are_whole() -> None:
    sch = schedule(MATMUL)
    loop = sch.get_loops("C")[0]
    sch.annotate(loop, "mark", 5)
    sch.bind(loop, "threadIdx.x")
    stmt = sch.get(loop)
    again = copy_loop(stmt, stmt.body)
    for name in ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations"):
        assert getattr(again, name) is getattr(stmt, name)
    assert again.annotations["mark"] == const(5) or again.annotations["mark"] == 5
