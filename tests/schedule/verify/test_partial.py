"""Partial reductions that declare more iterations than run: right if no term is left out."""

from __future__ import annotations

import pytest

from schedule.verify.programs import program
from tileloom.schedule.verify import verify_program

pytest.importorskip("islpy")

BUFFERS = "X: 6, 8; S: 6"
ORIGINAL = """
for i, k in T.grid(6, 8):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + X[vi, vk]
"""
PARTIAL = """
F = T.alloc_buffer((6, 3))
for i, k0, k1 in T.grid(6, 3, 3):
    with T.block("S_rf"):
        vk0, vi, vk1 = T.axis.remap("SSR", [k0, i, k1])
        T.where({where})
        with T.init():
            F[vi, vk0] = T.float32(0)
        F[vi, vk0] = F[vi, vk0] + X[vi, {at}]
for i, k0 in T.grid(6, 3):
    with T.block("S"):
        vk0, vi = T.axis.remap("RS", [k0, i])
        T.where({outer})
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + F[vi, vk0]
"""
# The init of the partial results runs twice, and each half of the terms starts from it.
TWICE = """
F = T.alloc_buffer((6, 3))
for half in range(2):
    for i, k0 in T.grid(6, 3):
        with T.block("S_init"):
            vk0, vi = T.axis.remap("SS", [k0, i])
            F[vi, vk0] = T.float32(0)
    for i, k0, k1 in T.grid(6, 3, 2):
        with T.block("S_rf"):
            vk0, vi = T.axis.remap("SS", [k0, i])
            vk1 = T.axis.reduce(4, half * 2 + k1)
            T.where(k0 * 3 + half * 2 + k1 < 8 and half * 2 + k1 < 3)
            F[vi, vk0] = F[vi, vk0] + X[vi, vk0 * 3 + vk1]
for i, k0 in T.grid(6, 3):
    with T.block("S"):
        vk0, vi = T.axis.remap("RS", [k0, i])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + F[vi, vk0]
"""


def partial(where: str, at: str = "vk0 * 3 + vk1", outer: str = "k0 < 3") -> str:
    return PARTIAL.format(where=where, at=at, outer=outer)


def test_all_terms_are_there() -> None:
    func = program(BUFFERS, partial("k0 * 3 + k1 < 8"))
    assert verify_program(func, original=program(BUFFERS, ORIGINAL)).ok
    # Nobody knows of how many terms without the original.
    assert {v.kind for v in verify_program(func).violations} == {"missing"}


@pytest.mark.parametrize(
    "body",
    [
        partial("k0 * 3 + k1 < 7"),
        partial("k0 * 3 + k1 < 8 and k1 < 2"),
        partial("k0 * 3 + k1 < 8", "T.max(vk0 * 3 + vk1 - 1, 0)"),
        partial("k0 * 3 + k1 < 8", outer="k0 < 2"),
        TWICE,
    ],
)
def test_a_term_is_missing(body: str) -> None:
    report = verify_program(program(BUFFERS, body), original=program(BUFFERS, ORIGINAL))
    assert report.state == "wrong", report
