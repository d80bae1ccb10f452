"""Loops over products of open sizes are cut at these sizes."""

from __future__ import annotations

from itertools import product

import pytest

from tileloom import Schedule, te
from tileloom.expr import Expr, FloorDiv, FloorMod, Var
from tileloom.expr.evaluate import evaluate
from tileloom.schedule.verify.unfuse import unfuse
from tileloom.tir import PARALLEL, BlockRealize, For, PrimFunc, Stmt, StmtRewriter, collect
from tileloom.tir.walk import substitute_stmt

N, M, K = (Var(name) for name in "nmk")


def added(*extents: Expr | int) -> Schedule:
    a = te.placeholder(extents, name="A")
    b = te.compute(extents, lambda *index: a[index] + 1.0, name="B")
    return Schedule(te.create_prim_func([a, b]))


def instances(func: PrimFunc, sizes: dict[Var, int]) -> list[tuple[int, ...]]:
    """The values of the block's variables, in the order in which they come."""
    loops = collect(func.body, For)
    ranges = [range(int(evaluate(loop.extent, sizes))) for loop in loops]
    block = collect(func.body, BlockRealize)[-1]
    found = []
    for point in product(*ranges):
        at = {**sizes, **dict(zip((loop.loop_var for loop in loops), point, strict=True))}
        found.append(tuple(int(evaluate(value, at)) for value in block.iter_values))
    return found


@pytest.mark.parametrize(
    "extents", [(M, N), (M, N, 4), (M, 4, N), (4, M, N), (M, N, K), (M, N, 4, K), (M, 3, N, 5)]
)
def test_cut_loops_run_the_same_instances_in_order(
    extents: tuple[Expr | int, ...],
) -> None:
    sch = added(*extents)
    sch.parallel(sch.fuse(*sch.get_loops("B")))
    func = sch.mod["main"]
    cut = unfuse(func)
    loops = collect(cut.body, For)
    assert len(loops) > 1 and all(loop.kind == "parallel" for loop in loops)
    for sizes in ({N: 3, M: 2, K: 5}, {N: 1, M: 1, K: 2}, {N: 4, M: 0, K: 1}):
        assert instances(cut, sizes) == instances(func, sizes)


def test_products_are_proven() -> None:
    pytest.importorskip("islpy")
    sch = added(M, N, 4)
    sch.parallel(sch.fuse(*sch.get_loops("B")))
    assert sch.verify().ok


def test_chunks_are_cut_too() -> None:
    pytest.importorskip("islpy")
    sch = added(M, N)
    outer, inner = sch.get_loops("B")
    chunk, _ = sch.split(inner, [None, 8])
    sch.parallel(sch.fuse(outer, chunk))
    loops = collect(unfuse(sch.mod["main"]).body, For)
    assert [str(loop.extent) for loop in loops] == ["m", "(n + 7) // 8", "8"]
    assert sch.verify().ok


def test_races_across_cut_loops_are_found() -> None:
    pytest.importorskip("islpy")
    a = te.placeholder((M, N), name="A")
    k = te.reduce_axis((0, N), name="k")
    b = te.compute((M,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    fused = sch.fuse(*sch.get_loops("B"))
    func = sch.mod["main"]
    racing = func.replace(body=Share(sch.get(fused).loop_var).visit(func.body))
    assert "race" in str(Schedule(racing).verify())


class Share(StmtRewriter):
    """Makes a loop parallel that a schedule would not."""

    def __init__(self, var: Var) -> None:
        self.var = var

    def visit_For(self, stmt: For) -> Stmt:
        return stmt.replace(kind=PARALLEL) if stmt.loop_var is self.var else stmt


@pytest.mark.parametrize("extents", [(4, 8), (M, 8), (4, N), (M, 2, 3)])
def test_one_open_size_needs_no_cut(extents: tuple[Expr | int, ...]) -> None:
    sch = added(*extents)
    sch.fuse(*sch.get_loops("B"))
    func = sch.mod["main"]
    assert unfuse(func) is func


def test_what_may_be_negative_cuts_nothing() -> None:
    """Of two negative numbers the product is positive: the loop runs, a nest would not."""
    sch = added(M, N)
    fused = sch.fuse(*sch.get_loops("B"))
    body = substitute_stmt(sch.get(fused), {N: Var("p")})
    assert unfuse(sch.mod["main"].replace(body=body)).body is body


def test_digits_of_digits() -> None:
    """A remainder by two sizes, and its quotient and remainder by one."""
    sch = added(M, N, K)
    f = sch.get(sch.fuse(*sch.get_loops("B"))).loop_var
    func = sch.mod["main"]
    inside = FloorMod(f, N * K)
    values = (FloorDiv(f, N * K), FloorDiv(inside, K), FloorMod(inside, K))
    other = func.replace(body=Bind(values).visit(func.body))
    cut = unfuse(other)
    assert len(collect(cut.body, For)) == 3
    sizes = {N: 2, M: 3, K: 4}
    assert instances(cut, sizes) == instances(func, sizes)


class Bind(StmtRewriter):
    """Gives the block with variables other values for them."""

    def __init__(self, values: tuple[Expr, ...]) -> None:
        self.values = values

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        if stmt.iter_values:
            return stmt.replace(iter_values=self.values)
        return super().visit_BlockRealize(stmt)
