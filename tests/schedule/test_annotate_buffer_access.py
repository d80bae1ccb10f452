"""annotate_buffer_access: regions by hand, the trace, the refusals."""

from __future__ import annotations

from schedule.common import ELEMENTWISE, check_same, check_trace, refused, same_text, schedule

#: Every element is the one two places further, or the last one.
CLAMPED = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2.0
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[T.min(vi + 2, 15)]
"""


def test_reads_and_writes() -> None:
    sch = schedule(ELEMENTWISE)
    sch.annotate_buffer_access("C", 0, "read", lambda i, j: [(i, i + 1), (0, 8)])
    sch.annotate_buffer_access("C", 0, "write", lambda i, j: [i, (j - 1, j + 1)])
    sch.annotate_buffer_access("C", 0, "read", lambda i, j: [(i, i + 1), (j, j + 2)])
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[vi, vj : vj + 2])
            T.writes(C[vi, vj - 1 : vj + 1])
            T.block_attr({"explicit_read_region": [0], "explicit_write_region": [0]})
            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_text_of_the_trace() -> None:
    sch = schedule(CLAMPED)
    sch.annotate_buffer_access("C", 0, "read", lambda i: [(i, i * 2 + 3)])
    assert (
        'sch.annotate_buffer_access(block=b0, buffer_index=0, buf_type="read", '
        "gen_new_ranges=lambda vi: [(vi, vi * 2 + 3)])"
    ) in str(sch.trace)
    check_trace(sch, CLAMPED)


def test_moving_a_producer_follows_the_region() -> None:
    sch = schedule(CLAMPED)
    sch.annotate_buffer_access("C", 0, "read", lambda i: [(i, i + 3)])
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    assert sch.get(sch.get_loops("B")[1]).extent.value == 6
    check_trace(sch, CLAMPED)
    check_same(sch, CLAMPED)


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.get_block("C")

    def ranges(i: object, j: object) -> list[object]:
        return [i, j]

    refused(sch, "there is no 1", "annotate_buffer_access", block, 1, "read", ranges)
    refused(sch, "kind of access", "annotate_buffer_access", block, 0, "both", ranges)
    refused(sch, "2 dimensions", "annotate_buffer_access", block, 0, "read", lambda i, j: [i])
    refused(sch, "is a function", "annotate_buffer_access", block, 0, "read", 3)
    refused(
        sch, "begin, end", "annotate_buffer_access", block, 0, "read", lambda i, j: [(i, i, i), j]
    )
