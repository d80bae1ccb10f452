"""Names that low-level programs use: combiners, threads, targets, intrinsics of LLVM."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base import UserError
from tileloom.expr import CommReducer, IterVar
from tileloom.script import from_source, show
from tileloom.target import Target
from tileloom.tir import AttrStmt, Block, assert_structural_equal, collect, structural_equal


def read(body: str, params: str = 'A: T.Buffer((16,), "float32")') -> Any:
    text = "\n".join(f"    {line}" for line in body.strip().splitlines())
    func = from_source(f"@T.prim_func\ndef main({params}):\n{text}\n")
    assert_structural_equal(from_source(show(func)), func)
    return func


def attrs(func: Any) -> list[AttrStmt]:
    return collect(func.body, AttrStmt)


def test_combiner() -> None:
    func = read('T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "k", 1)\nA[0] = 1.0')
    (found,) = attrs(func)
    assert isinstance(found.node, CommReducer)
    assert str(found.node.result[0]) == "x0 + y0"
    assert "T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)])" in show(func)


def test_combiner_of_pairs() -> None:
    func = read(
        "T.attr(T.comm_reducer(lambda i, v, j, w: (T.min(i, j), T.max(v, w)), "
        '[T.int32(9), T.float32("-inf")]), "k", 1)\nA[0] = 1.0'
    )
    combiner = attrs(func)[0].node
    assert len(combiner.lhs) == len(combiner.result) == 2
    assert combiner.lhs[1].dtype == "float32"


@pytest.mark.parametrize(
    "text",
    [
        "T.comm_reducer(lambda x: x, [T.float32(0)])",
        "T.comm_reducer(lambda x, y: (x, y), [T.float32(0)])",
        'T.iter_var(T.int32(), None, "Nobody", "threadIdx.x")',
    ],
)
def test_mistakes(text: str) -> None:
    with pytest.raises(UserError):
        read(f'T.attr({text}, "k", 1)\nA[0] = 1.0')


def test_thread_by_its_variable() -> None:
    by_hand = read(
        'tx = T.int32()\nT.attr(T.iter_var(tx, None, "ThreadIndex", "threadIdx.x"), '
        '"thread_extent", 16)\nA[tx] = 1.0'
    )
    assert isinstance(attrs(by_hand)[0].node, IterVar)
    assert_structural_equal(by_hand, read('tx = T.launch_thread("threadIdx.x", 16)\nA[tx] = 1.0'))


def test_targets() -> None:
    func: Any = read('T.func_attr({"target": T.target({"kind": "llvm", "mcpu": "znver4", "keys": '
                '["cpu"], "num-cores": 3})})\nA[0] = 1.0')  # fmt: skip
    assert isinstance(func.attrs["target"], Target)
    assert func.attrs["target"].cores == 3
    other: Any = read('T.func_attr({"target": T.target("cuda -arch=sm_80")})\nA[0] = 1.0')
    assert other.attrs["target"].sm == 80
    assert not structural_equal(func, other)


def test_intrinsics_of_llvm_have_names() -> None:
    func: Any = read(
        'A[0] = T.call_llvm_pure_intrin("float32", '
        'T.llvm_lookup_intrinsic_id("llvm.fabs.f32"), T.uint32(1), A[1])'
    )
    assert func.body.value.args[0].value == "llvm.fabs.f32"


def test_nodes_by_their_names() -> None:
    func: Any = read(
        'T.evaluate(T.call_extern("int32", "f", T.StringImm("text"), T.BufferLoad(A, [3])))'
    )
    assert [str(arg) for arg in func.body.value.args] == ['"f"', '"text"', "A[3]"]


@pytest.mark.parametrize(
    ("given", "read_from", "written_to"),
    [("T.reads(A[0:8])", 8, 1), ("T.writes(B[0:8])", 1, 8), ("pass", 1, 1)],
)
def test_regions_that_are_not_given_are_inferred(
    given: str, read_from: int, written_to: int
) -> None:
    func = read(
        f"""
for i in range(8):
    with T.block("b"):
        vi = T.axis.spatial(8, i)
        {given}
        B[vi] = A[vi]
""",
        'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")',
    )
    (block,) = (b for b in collect(func.body, Block) if b.name_hint == "b")
    found = [(r.buffer.name, str(r.region[0].extent)) for r in (*block.reads, *block.writes)]
    assert found == [("A", str(read_from)), ("B", str(written_to))]
