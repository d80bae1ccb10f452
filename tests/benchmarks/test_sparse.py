"""Graphs, references and tables of the sparse benchmarks, on a small graph."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse

from benchmarks.harness import Cell, Effort, Row, Workload, run_one
from benchmarks.sparse import cases, choice, graphs, report
from benchmarks.sparse.graphs import Graph, Law

LAW = Law(300, 3_000, 2.2, 200, empty=0.2)
QUICK = Effort(rounds=1, min_rounds=1, sample_seconds=1e-6, idle_limit=0.0, warm_seconds=0.0)
Kind = Callable[[str, Callable[[], Graph], int], Workload]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graphs.draw(LAW)


def test_a_graph_has_the_edges_asked_for_each_once_and_sorted(graph: Graph) -> None:
    counts = np.diff(graph.indptr)
    row = np.repeat(np.arange(graph.rows), counts)
    assert np.all(np.diff(row * graph.rows + graph.indices) > 0)
    assert graph.rows == LAW.rows and len(graph.indices) == len(graph.data) == LAW.edges
    assert counts.max() <= LAW.most and (counts == 0).sum() == LAW.empty * LAW.rows
    assert graph.indices.min() >= 0 and graph.indices.max() < LAW.rows
    again, other = graphs.draw(LAW), graphs.draw(LAW, seed=1)
    assert np.array_equal(graph.indices, again.indices)
    assert not np.array_equal(graph.indices, other.indices)


def test_a_small_exponent_gives_hubs() -> None:
    rng = np.random.default_rng(0)
    flat = graphs.degrees(rng, Law(1_000, 10_000, 9.0, 500))
    hubs = graphs.degrees(rng, Law(1_000, 10_000, 2.2, 500))
    assert flat.mean() == hubs.mean() == 10
    assert hubs.std() > 2 * flat.std()


def test_graphs_are_kept(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = graphs.load("cora")
    monkeypatch.setattr(graphs, "draw", lambda law: pytest.fail("drawn again"))
    assert np.array_equal(graphs.load("cora").indices, made.indices)


@pytest.mark.parametrize(
    ("kind", "width"),
    # each kind with a multiple of vectors and with none, the longest once
    [(cases.spmm, 36), (cases.spmm, 128), (cases.sddmm, 16), (cases.sddmm, 36),
     (cases.attend, 16), (cases.attend, 36)],
)  # fmt: skip
def test_peers_agree_with_the_reference(kind: Kind, width: int, graph: Graph) -> None:
    row = run_one(kind("test", lambda: graph, width), None, QUICK)
    states = {name: cell.status for name, cell in row.cells.items()}
    assert set(states.values()) <= {"ok", "skipped"}, {c.peer: c.note for c in row.cells.values()}
    assert states.get("scipy", "ok") == "ok"
    assert states["c"] == ("ok" if shutil.which("cc") else "skipped")


def test_the_reference_of_attention_is_a_softmax_over_neighbours(graph: Graph) -> None:
    workload = cases.attend("test", lambda: graph, 8)
    indptr, indices, data, q, k, v = workload.make_inputs(np.random.default_rng(0))
    mask = scipy.sparse.csr_array((data, indices, indptr), shape=(len(q), len(k))).toarray()
    powers = np.where(mask != 0, np.exp(q.astype(np.float64) @ k.T / math.sqrt(8)), 0.0)
    total = powers.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, powers / np.where(total > 0, total, 1), 0) @ v
    found = workload.reference(indptr, indices, data, q, k, v)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_blocks_are_the_same_as_single_numbers() -> None:
    row = run_one(cases.blocked(128, 96, 0.5, width=24), None, QUICK)
    assert {cell.status for cell in row.cells.values()} <= {"ok", "skipped"}
    assert row.cells["scipy bsr"].status == "ok"


def test_names_are_distinct_and_each_case_has_a_table() -> None:
    names = [workload.name for workload in cases.workloads()]
    assert len(set(names)) == len(names)
    prefixes = tuple(p for table in report.TABLES for p in table.prefix.split())
    assert all(name.startswith(prefixes) for name in names)
    for prefix in prefixes:
        assert any(name.startswith(prefix) for name in names), prefix


def made(name: str, **milliseconds: float) -> Row:
    workload = Workload(name, lambda rng: (), lambda: np.zeros(0), {}, moved=10**6)
    cells = {p: Cell(p, samples=[ms / 1e3] if ms else []) for p, ms in milliseconds.items()}
    return Row(workload, cells, 0.0)


def test_tables_compare_with_the_best_of_the_others() -> None:
    rows = [made("spmm_a", tileloom=1, mkl=2, c=4), made("spmm_b", tileloom=1, mkl=3, c=0.5)]
    text = report.page(rows, triad=2e9)
    assert "| spmm_a | 1 | 50% | 2 | 4 | mkl | 2.00 (2.00) | 0.00 |" in text
    assert "best of them 1.00, mkl 2.45, c 1.41" in text
    assert "**missed**: 1.00, least 0.50" in text
    alone = report.page([made("spmm_a", tileloom=0, mkl=2, c=4)], triad=2e9)
    assert "| spmm_a | nan |" not in alone and "Geometric" not in alone


def test_calls_have_a_table_of_their_own_and_a_limit() -> None:
    text = report.page([made("spmm_call_16", tileloom=0.03, scipy=0.01)], triad=1.0)
    assert "What a call costs" in text and "Asked: 1.15" not in text
    assert "20 us asked; **missed**" in text


def test_matrices_of_blocks_are_filled_as_asked_for() -> None:
    found = choice.block(8, 0.5, 40, rows=320)
    assert found.rows == 320 and found.data.all()
    assert len(found.data) == pytest.approx(0.5 * 40 * 320, rel=0.1)
    row = run_one(choice.workload("test", found, 64), None, QUICK)
    assert {cell.status for cell in row.cells.values()} == {"ok"}
