"""Blocks without an init that read what they write: which of them start it themselves."""

from __future__ import annotations

import pytest

from schedule.common import check_same, refused, schedule

TEXT = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            T.reads(READS)
            T.writes(C[vi])
            BODY
"""

START, ADD = "C[vi] = A[vi]", "C[vi] = C[vi] + A[vi]"


def text(*body: str, reads: str = "A[vi], C[vi]") -> str:
    return TEXT.replace("READS", reads).replace("BODY", ("\n" + " " * 12).join(body))


@pytest.mark.parametrize(
    "before",
    [text(START, reads="A[vi]"), text(START), text(START, ADD), text(START, ADD, ADD)],
    ids=["not read", "not read after all", "started", "started, added to twice"],
)
def test_what_is_stored_first_may_be_cached(before: str) -> None:
    sch = schedule(before)
    sch.cache_write("C", 0, "local")
    check_same(sch, before)


@pytest.mark.parametrize(
    "before",
    [text(ADD), text(ADD, START), text("if vi < 3:\n" + " " * 16 + START, ADD)],
    ids=["goes on", "starts later", "starts sometimes"],
)
def test_what_goes_on_may_not(before: str) -> None:
    sch = schedule(before)
    refused(sch, "does not start it", "cache_write", sch.get_block("C"), 0, "local")
