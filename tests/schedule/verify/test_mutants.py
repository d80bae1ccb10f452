"""Programs with a word changed here and there: none is judged otherwise than by brute force."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from sampling import sampled
from schedule.verify.oracle import judge
from schedule.verify.programs import STAGES, TILED, WHERE, program
from schedule.verify.texts import (
    CACHED,
    CACHED_B,
    CONV,
    DECOMPOSED,
    FUSED,
    INLINED,
    INSIDE,
    RFACTOR,
)
from tileloom.base.errors import UserError
from tileloom.schedule.verify import verify_program
from tileloom.tir import PrimFunc

MATMUL_HEAD = "A: 6, 5; B: 5, 7; C: 6, 7"
PLAIN = """
for i, j, k in T.grid(6, 7, 5):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SUM = """
for i, r in T.grid(6, 12):
    with T.block("S"):
        v, k = T.axis.remap("SR", [i, r])
        with T.init():
            S[v] = T.float32(0)
        S[v] = S[v] + X[v, k]
"""
TWO = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        B[v] = A[v] + T.float32(1)
for i in range(6):
    with T.block("D"):
        v = T.axis.spatial(6, i)
        D[v] = B[v] * (B[v + 1] - B[v + 2])
"""
PAIRS = {
    "tiled": (MATMUL_HEAD, TILED.format(j_tiles=2, where=WHERE), PLAIN),
    "fused": (MATMUL_HEAD, FUSED, PLAIN),
    "decomposed": (MATMUL_HEAD, DECOMPOSED, PLAIN),
    "cached": (MATMUL_HEAD, CACHED, PLAIN),
    "cached whole": (MATMUL_HEAD, CACHED_B, PLAIN),
    "factored": ("X: 6, 12; S: 6", RFACTOR, SUM),
    "inlined": (STAGES, INLINED.format(1, 1), TWO),
    "staged": (STAGES, TWO, TWO),
    "padded": ("X: 7; W: 3; Y: 4", CONV, CONV),
    "inside": ("X: 4, 6; Y: 4, 6; Z: 4", INSIDE, INSIDE),
}
TOKEN = re.compile(r"(?<![\w.\"])(\d+|v\w?\w?|[+*-]|range|T\.parallel|<)(?![\w\"])")


def mutant(text: str, rng: random.Random) -> str:
    """The text with one or two tokens changed to others of their kind."""
    for _ in range(rng.choice((1, 1, 2))):
        places = list(TOKEN.finditer(text))
        place = rng.choice(places)
        token = place[0]
        if token.isdigit():
            new: Any = str(max(0, int(token) + rng.choice((-1, 1))))
        elif token.startswith("v"):
            new = rng.choice([p[0] for p in places if p[0].startswith("v")])
        else:
            new = {"range": "T.parallel", "T.parallel": "range", "<": "<="}.get(token)
            new = new or rng.choice("+-*")
        text = text[: place.start()] + new + text[place.end() :]
    return text


def compare(func: PrimFunc, original: PrimFunc) -> str:
    """The verdict, which brute force does not contradict."""
    outcome, meant = judge(func), judge(original)
    right = outcome.sound and outcome.outputs == meant.outputs
    report = verify_program(func, original=original)
    if report.state == "wrong" and right:
        # A domain that is declared and not run is wrong in itself.
        assert {violation.kind for violation in report.violations} == {"missing"}, (report, func)
        point = report.violations[0].witness
        assert (point.block, tuple(point.iters.values())) not in outcome.runs
    elif report.state != "unknown":
        assert report.ok == right, (report, outcome.kinds(), func)
    assert report.state != "unknown" or not right or "not comparable" in str(report), report
    return report.state


def run(name: str, count: int) -> dict[str, int]:
    rng = random.Random(f"{name} {count}")
    head, text, plain = PAIRS[name]
    original = program(head, plain)
    assert compare(program(head, text), original) == "ok"
    found = {"ok": 0, "wrong": 0, "unknown": 0}
    while sum(found.values()) < count:
        try:
            func = program(head, mutant(text, rng))
        except UserError:
            continue
        try:
            found[compare(func, original)] += 1
        except (KeyError, ZeroDivisionError):  # brute force cannot run it
            continue
    return found


@pytest.mark.parametrize("name", sampled(PAIRS, 3))
def test_mutants(name: str) -> None:
    found = run(name, 25)
    assert found["wrong"] > 5, found


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_many_mutants(name: str) -> None:
    run(name, 400)
