"""set_scope, storage_align, reorder_block_iter_var."""

from __future__ import annotations

from schedule.common import ELEMENTWISE, MATMUL, check_same, check_trace, refused, schedule


def test_set_scope_everywhere() -> None:
    sch = schedule(ELEMENTWISE)
    sch.set_scope("B", 0, "shared")
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert buffer.scope == "shared"
    assert sch.get(sch.get_block("B")).writes[0].buffer is buffer
    assert sch.get(sch.get_block("C")).reads[0].buffer is buffer
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_set_scope_by_name_and_twice() -> None:
    sch = schedule(ELEMENTWISE)
    sch.set_scope("B", "B", "local")
    before = sch.mod
    sch.set_scope("B", "B", "local")
    assert sch.mod is before


def test_set_scope_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    refused(sch, "no storage scope", "set_scope", sch.get_block("B"), 0, "nowhere")
    refused(sch, "parameter", "set_scope", sch.get_block("C"), 0, "shared")


def test_storage_align() -> None:
    sch = schedule(ELEMENTWISE)
    sch.storage_align("B", 0, axis=-2, factor=32, offset=8)
    sch.storage_align("B", 0, axis=1, factor=4, offset=0)
    sch.storage_align("B", 0, axis=0, factor=16, offset=1)  # replaces the first
    notes = sch.get(sch.get_block("B")).annotations["buffer_dim_align"]
    assert notes == [[0, 0, 16, 1], [0, 1, 4, 0]]
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_storage_align_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    refused(
        sch, "out of range", "storage_align", sch.get_block("B"), 0, axis=2, factor=32, offset=1
    )
    refused(sch, "positive", "storage_align", sch.get_block("B"), 0, axis=0, factor=0, offset=1)
    refused(sch, "parameter", "storage_align", sch.get_block("C"), 0, axis=0, factor=32, offset=1)


def test_reorder_block_iter_var() -> None:
    sch = schedule(MATMUL)
    sch.reorder_block_iter_var("C", [2, 0, 1])
    assert [axis.var.name for axis in sch.get(sch.get_block("C")).iter_vars] == ["vk", "vi", "vj"]
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


def test_reorder_block_iter_var_refusals() -> None:
    sch = schedule(MATMUL)
    for order in ([0, 1], [0, 0, 1], [0, 1, 3]):
        refused(sch, "is no order", "reorder_block_iter_var", sch.get_block("C"), order)
