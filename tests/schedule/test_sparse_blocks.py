"""Steps on blocks with loops of data-dependent length and indices that are data, against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tileloom
from schedule.common import check_trace, refused, schedule
from tileloom.schedule import Schedule

scipy_sparse = pytest.importorskip("scipy.sparse")

ROWS, COLUMNS, FEATURES, STORED = 12, 9, 8, 40

CSR = f"""
@T.prim_func
def main(
    A: T.Buffer(({STORED},), "float32"), P: T.Buffer(({ROWS + 1},), "int32"),
    Q: T.Buffer(({STORED},), "int32"), B: T.Buffer(({COLUMNS}, {FEATURES}), "float32"),
    C: T.Buffer(({ROWS}, {FEATURES}), "float32"),
):
    for i in range({ROWS}):
        with T.block("row"):
            vi = T.axis.spatial({ROWS}, i)
            for j, k in T.grid(P[vi + 1] - P[vi], {FEATURES}):
                with T.block("sum"):
                    vj = T.axis.reduce({STORED}, j)
                    vk = T.axis.spatial({FEATURES}, k)
                    with T.init():
                        C[vi, vk] = T.float32(0)
                    C[vi, vk] = C[vi, vk] + A[P[vi] + vj] * B[Q[P[vi] + vj], vk]
"""

#: Values of a pattern whose rows are listed: products of rows of X and Y.
SDDMM = f"""
@T.prim_func
def main(
    X: T.Buffer(({ROWS}, {FEATURES}), "float32"), Y: T.Buffer(({COLUMNS}, {FEATURES}), "float32"),
    R: T.Buffer(({STORED},), "int32"), Q: T.Buffer(({STORED},), "int32"),
    C: T.Buffer(({STORED},), "float32"),
):
    for e, k in T.grid({STORED}, {FEATURES}):
        with T.block("dot"):
            ve, vk = T.axis.remap("SR", [e, k])
            with T.init():
                C[ve] = T.float32(0)
            C[ve] = C[ve] + X[R[ve], vk] * Y[Q[ve], vk]
"""

Steps = Callable[[Schedule], Any]


def matrix(empty: bool) -> Any:
    """A matrix in CSR; rows without elements, or in each row one at least."""
    rng = np.random.default_rng(3)
    free = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    first = free[:, 4] if not empty else free[:1, 4]
    others = free[::2] if empty else free
    rest = rng.permutation(np.setdiff1d(others.reshape(-1), first))
    flat = np.sort(np.concatenate([first, rest[: STORED - len(first)]]))
    values = rng.uniform(-1, 1, STORED).astype("f")
    return scipy_sparse.csr_matrix((values, divmod(flat, COLUMNS)), (ROWS, COLUMNS))


def check_rows(sch: Schedule, empty: bool = False, **where: Any) -> None:
    """The product of a matrix in CSR and a dense one."""
    a, b = matrix(empty), np.random.default_rng(4).uniform(-1, 1, (COLUMNS, FEATURES)).astype("f")
    c = np.full((ROWS, FEATURES), np.nan, "f")
    arrays = [a.data, a.indptr.astype("i"), a.indices.astype("i"), b, c]
    tileloom.build(sch.mod["main"], **where)(*arrays)
    np.testing.assert_allclose(c, a @ b, 1e-5, 1e-5)


def check_dots(sch: Schedule, **where: Any) -> None:
    """The stored elements of a product."""
    a, rng = matrix(empty=True).tocoo(), np.random.default_rng(5)
    x, y = (rng.uniform(-1, 1, (n, FEATURES)).astype("f") for n in (ROWS, COLUMNS))
    c = np.full(STORED, np.nan, "f")
    tileloom.build(sch.mod["main"], **where)(x, y, a.row.astype("i"), a.col.astype("i"), c)
    np.testing.assert_allclose(c, (x @ y.T)[a.row, a.col], 1e-5, 1e-5)


# ---------------------------------------------------------------------------- rows of CSR


def tiled(sch: Schedule, cache: str) -> None:
    j, k = sch.get_loops("sum")
    outer, inner = sch.split(k, [None, 4])
    sch.reorder(outer, j, inner)
    back = getattr(sch, cache)("sum", 0, "local")
    sch.reverse_compute_at(back, outer)
    sch.vectorize(inner)
    sch.decompose_reduction("sum", j)
    sch.parallel(sch.get_loops("row")[0])


def cached(sch: Schedule, name: str) -> None:
    sch.cache_read("sum", name, "local")


def gathered(sch: Schedule, name: str) -> None:
    copy = sch.reverse_cache_read("sum", name, "local")
    sch.compute_at(copy, sch.get_loops("sum")[0])


ON_ROWS: dict[str, Steps] = {
    "parallel": lambda s: s.parallel(s.get_loops("row")[0]),
    "unevenly parallel": lambda s: s.parallel(s.split(s.get_loops("row")[0], [None, 5])[0]),
    "vectorize": lambda s: s.vectorize(s.split(s.get_loops("sum")[1], [None, 4])[1]),
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("sum"))),
    "unroll": lambda s: s.unroll(s.split(s.get_loops("sum")[0], [None, 3])[1]),
    "fuse": lambda s: s.fuse(*s.get_loops("sum")),
    "annotate": lambda s: s.annotate(s.get_loops("sum")[0], "pragma_unroll_explicit", 0),
    "decompose_reduction": lambda s: s.decompose_reduction("sum", s.get_loops("sum")[0]),
    "cache_write": lambda s: tiled(s, "cache_write"),
    "reverse_cache_write": lambda s: tiled(s, "reverse_cache_write"),
    **{f"cache_read {name}": partial(cached, name=name) for name in "APBQ"},
    "compute_at": lambda s: s.compute_at(s.cache_read("sum", "P", "local"), s.get_loops("sum")[0]),
    "gather A": lambda s: gathered(s, "A"),
    "gather B": lambda s: gathered(s, "B"),
    "rfactor": lambda s: s.rfactor(s.split(s.get_loops("sum")[0], [None, 4])[1], 0),
    "lift_loop": lambda s: s.lift_loop(s.split(s.get_loops("sum")[1], [None, 4])[0]),
}


@pytest.mark.parametrize("name", ON_ROWS)
def test_steps_on_rows(name: str) -> None:
    sch = schedule(CSR)
    ON_ROWS[name](sch)
    check_trace(sch, CSR)
    check_rows(sch)


@pytest.mark.parametrize("split", [None, [None, 3], [2, None]])
def test_rows_without_elements_are_started(split: list[Any] | None) -> None:
    sch = schedule(CSR)
    j = sch.get_loops("sum")[0]
    sch.decompose_reduction("sum", j if split is None else sch.split(j, split)[0])
    check_rows(sch, empty=True)


def test_parts_of_rows_without_elements_are_started() -> None:
    """More parts than a row has steps are started: nobody takes those."""
    sch = schedule(CSR)
    part = sch.rfactor(sch.split(sch.get_loops("sum")[0], [None, 4])[1], 0)
    sch.decompose_reduction(part, sch.get_loops(part)[0])
    sch.decompose_reduction("sum", sch.get_loops("sum")[0])
    check_rows(sch, empty=True)


def test_rows_of_a_gpu() -> None:
    sch = schedule(CSR)
    j, k = sch.get_loops("sum")
    sch.reorder(k, j)
    sch.bind(sch.get_loops("row")[0], "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    sch.decompose_reduction("sum", j)
    check_rows(sch, empty=True, target="cuda", device="emulator")


def test_what_data_decides_is_not_moved() -> None:
    sch = schedule(CSR)
    j, _ = sch.get_loops("sum")
    refused(sch, "runs the reduction variable 'vj'", "parallel", j)
    refused(sch, "is not known outside of block 'row'", "lift_loop", j)
    copy = sch.cache_read("sum", "B", "local")
    refused(sch, "which part of 'B_local' is needed depends on data", "compute_at", copy, j)
    block, fused = sch.get_block("sum"), sch.fuse(*sch.get_loops("sum"))
    refused(sch, "not affine in the loops around it", "decompose_reduction", block, fused)


# ---------------------------------------------------------------------------- elements of a pattern


def pairs_of_rows(sch: Schedule) -> None:
    e, _ = sch.get_loops("dot")
    outer, inner = sch.split(e, [None, 8])
    for name in ("X", "Y"):
        sch.compute_at(sch.reverse_cache_read("dot", name, "local"), inner, True)
    sch.parallel(outer)


def in_lanes(sch: Schedule, gpu: bool) -> None:
    """Each element by several lanes, or threads, which then add up what they have."""
    _, lane = sch.split(sch.get_loops("dot")[1], [None, 4])
    if not gpu:
        back = sch.reverse_cache_write("dot", 0, "local")
    part = sch.rfactor(lane, 1)
    e, step, lane = sch.get_loops(part)
    sch.reorder(e, lane, step)
    sch.set_scope(part, 0, "local")
    sch.reverse_compute_at("dot", e)
    if gpu:
        sch.bind(e, "blockIdx.x")
        sch.bind(lane, "threadIdx.x")
        sch.bind(sch.get_loops("dot")[-1], "threadIdx.x")
    else:
        sch.reverse_compute_at(back, e)
        sch.parallel(e)


ON_ELEMENTS: dict[str, Steps] = {
    "parallel": lambda s: s.parallel(s.split(s.get_loops("dot")[0], [None, 7])[0]),
    "gathers": pairs_of_rows,
    "lanes": lambda s: in_lanes(s, gpu=False),
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("dot"))),
}


@pytest.mark.parametrize("name", ON_ELEMENTS)
def test_steps_on_elements(name: str) -> None:
    sch = schedule(SDDMM)
    ON_ELEMENTS[name](sch)
    check_trace(sch, SDDMM)
    check_dots(sch)


def test_elements_of_a_gpu() -> None:
    sch = schedule(SDDMM)
    in_lanes(sch, gpu=True)
    check_trace(sch, SDDMM)
    check_dots(sch, target="cuda", device="emulator")


# ---------------------------------------------------------------------------- additions

SCATTER = """
@T.prim_func
def main(A: T.Buffer((10, 6), "float32"), R: T.Buffer((10,), "int32"),
         C: T.Buffer((4, 6), "float32")):
    for i, k in T.grid(10, 6):
        with T.block("add"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[R[vi], vk] = C[R[vi], vk] + A[vi, vk]
"""
DECOMPOSED = """
@T.prim_func
def main(A: T.Buffer((8, 6, 5), "float32"), C: T.Buffer((8, 5), "float32")):
    for i, k in T.grid(8, 5):
        with T.block("start"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = T.float32(0)
    for i, j, k in T.grid(8, 6, 5):
        with T.block("add"):
            vi, vj, vk = T.axis.remap("SRS", [i, j, k])
            C[vi, vk] = C[vi, vk] + A[vi, vj, vk]
"""


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
@pytest.mark.parametrize("loop", [0, 2])
def test_loops_that_place_what_is_added(kind: str, loop: int) -> None:
    """Reductions that are decomposed already; TVM wants these steps before that."""
    sch = schedule(DECOMPOSED)
    getattr(sch, kind)(sch.get_loops("add")[loop])
    check_trace(sch, DECOMPOSED)
    a, c = np.random.default_rng(0).uniform(-1, 1, (8, 6, 5)).astype("f"), np.ones((8, 5), "f")
    tileloom.build(sch.mod["main"])(a, c)
    np.testing.assert_allclose(c, a.sum(1), 1e-5, 1e-5)


def test_loops_that_may_add_to_one_element_twice() -> None:
    sch = schedule(SCATTER)
    i, k = sch.get_loops("add")
    refused(sch, "may add to one element of 'C'", "parallel", i)
    both = sch.copy()
    fused = both.fuse(i, k)
    refused(both, "may add to one element of 'C'", "parallel", fused)
    sch.parallel(k)
    sch.reorder(k, i)
    sch = schedule(DECOMPOSED)
    refused(sch, "adds several times to one element", "parallel", sch.get_loops("add")[1])
    refused(sch, "adds several times to one element", "bind", sch.get_loops("add")[1],
            "threadIdx.x")  # fmt: skip


@pytest.mark.parametrize("where", [{}, {"target": "cuda", "device": "emulator"}])
@pytest.mark.parametrize("fused", [False, True])
def test_atomic_additions_run_together(where: dict[str, Any], fused: bool) -> None:
    sch = schedule(SCATTER)
    sch.annotate("add", "atomic", True)
    assert "T.atomic_add(T.address_of(C[R[vi], vk]), A[vi, vk])" in str(sch.mod)
    loop = sch.fuse(*sch.get_loops("add")) if fused else sch.get_loops("add")[0]
    outer, inner = sch.split(loop, [None, 4])
    if where:
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
    else:
        sch.parallel(outer)
    check_trace(sch, SCATTER)
    rng = np.random.default_rng(0)
    a, r = rng.uniform(-1, 1, (10, 6)).astype("f"), rng.integers(0, 4, 10).astype("i")
    c, wanted = np.ones((4, 6), "f"), np.ones((4, 6))
    np.add.at(wanted, r, a)
    tileloom.build(sch.mod["main"], **where)(a, r, c)
    np.testing.assert_allclose(c, wanted, 1e-5, 1e-5)


def test_what_is_stored_is_added_with_the_note() -> None:
    """As in SparseTIR; a block with a start, and notes of another value, stay as they are."""
    text = SCATTER.replace("C[R[vi], vk] + A", "A")
    sch = schedule(text)
    sch.annotate("add", "atomic", False)
    assert "atomic_add" not in str(sch.mod)
    sch.unannotate("add", "atomic")
    sch.annotate("add", "atomic", True)
    assert "T.atomic_add(T.address_of(C[R[vi], vk]), A[vi, vk])" in str(sch.mod)
    sch = schedule(CSR)
    sch.annotate("sum", "atomic", True)
    assert "atomic_add" not in str(sch.mod)


def test_rows_of_their_own_run_together() -> None:
    """What a block with others inside declares is its own element of an intermediate buffer."""
    text = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
    S = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            for j in range(6):
                with T.block("sum"):
                    vj = T.axis.reduce(6, j)
                    with T.init():
                        S[vi] = T.float32(0)
                    S[vi] = S[vi] + A[vi, vj]
            for j in range(6):
                with T.block("quotient"):
                    vj = T.axis.spatial(6, j)
                    B[vi, vj] = A[vi, vj] / S[vi]
"""
    sch = schedule(text)
    sch.parallel(sch.get_loops("row")[0])
    check_trace(sch, text)
    a, b = np.random.default_rng(0).uniform(1, 2, (8, 6)).astype("f"), np.empty((8, 6), "f")
    tileloom.build(sch.mod["main"])(a, b)
    np.testing.assert_allclose(b, a / a.sum(1, keepdims=True), 1e-5)
    shared = schedule(text.replace("S[vi]", "S[0]"))
    refused(shared, "it both reads and writes 'S'", "parallel", shared.get_loops("row")[0])
