"""Asynchronous copies: how many bytes are moved and how many are read."""

from __future__ import annotations

import pytest

from codegen.nvptx.test_hopper import CALL, resolved
from simt.matrix_programs import function
from tileloom.driver import assembly

#: The arguments of a copy, and the instruction with what its registers hold.
COPIES = [
    ("S.data, 4, A.data, 8, 4", "cp.async.ca.shared.global [S+16], [b64 param+32], 4;"),
    ("S.data, 4, A.data, 8, 8", "cp.async.ca.shared.global [S+16], [b64 param+32], 8;"),
    ("S.data, 4, A.data, 8, 16", "cp.async.cg.shared.global [S+16], [b64 param+32], 16;"),
    ("S.data, 4, A.data, 8, 16, 12", "cp.async.cg.shared.global [S+16], [b64 param+32], 16, 12;"),
    ("S.data, 4, A.data, 8, 4, 0", "cp.async.ca.shared.global [S+16], [b64 param+32], 4, 0;"),
    ("S.data, 4, A.data, 8, 16, T.bool(True)",
     "cp.async.cg.shared.global [S+16], [b64 param+32], 16, 16;"),
    ("S.data, 4, A.data, 8, 16, T.bool(False)",
     "cp.async.cg.shared.global [S+16], [b64 param+32], 16, 0;"),
    ("S.data, 4, A.data, 8, 8, T.int64(8)",
     "cp.async.ca.shared.global [S+16], [b64 param+32], 8, 8;"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "wanted"), COPIES)
def test_copies(arguments: str, wanted: str) -> None:
    func = function(CALL.replace("HERE", f'cp_async("float32", {arguments})'))
    assert resolved(assembly(func, "cuda -arch=sm_90a")) == [wanted]


def test_a_condition_chooses_all_bytes_or_none() -> None:
    call = 'cp_async("float32", S.data, 4, A.data, 8, 16, n < T.int64(3))'
    ptx = assembly(function(CALL.replace("HERE", call)), "cuda -arch=sm_90a")
    assert "selp.b32" in ptx and ", 16, 0, %p" in ptx


@pytest.mark.parametrize(
    ("call", "wanted"),
    [("commit_group()", "cp.async.commit_group;"), ("wait_group(0)", "cp.async.wait_group 0;"),
     ("wait_group(3)", "cp.async.wait_group 3;")],
)  # fmt: skip
def test_groups(call: str, wanted: str) -> None:
    ptx = assembly(function(CALL.replace("HERE", call)), "cuda -arch=sm_90a")
    assert resolved(ptx) == [wanted]
