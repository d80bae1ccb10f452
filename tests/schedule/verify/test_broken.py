"""Scheduled programs with a word changed: what is called right computes the right results."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from schedule.random_steps import PROGRAMS, Walker
from schedule.test_random_steps import inputs_of
from tileloom import Schedule
from tileloom.base.errors import UserError
from tileloom.schedule.verify import verify_program
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc, run

pytest.importorskip("islpy")

# Numbers of more than one kind, iteration variables, operators.
TOKEN = re.compile(r"(?<![\w.\"(])(\d+|v_?\w+|[+*-]|//|%|<=?|>=?)(?![\w\".(])")


def mutant(text: str, rng: random.Random) -> str:
    """The text with a token of a block's body or bindings changed."""
    lines = text.splitlines()
    places = [
        (n, found)
        for n, line in enumerate(lines)
        if not any(word in line for word in ("T.reads", "T.writes", "def ", "alloc", "remap"))
        for found in TOKEN.finditer(line)
    ]
    n, found = rng.choice(places)
    token, line = found[0], lines[n]
    names = re.findall(r"\bv_?\w+", line)
    if token.isdigit():
        new = str(max(0, int(token) + rng.choice((-1, 1))))
    elif token[0] == "v":
        new = rng.choice(names)
    else:
        new = rng.choice({"<": ("<=", ">"), "//": ("%",), "%": ("//",)}.get(token, ("+", "-", "*")))
    lines[n] = line[: found.start()] + new + line[found.end() :]
    return "\n".join(lines)


def judged(seed: int, rng: random.Random) -> str:
    """The verdict on one mutant, which its results do not contradict."""
    make = PROGRAMS[seed % len(PROGRAMS)]
    sch = Schedule(make(), seed=seed + 1)
    walker = Walker(sch, seed)
    for _ in range(7):
        walker.step()
    original, right = make(), sch.mod["main"]
    if [b.static_shape for b in original.buffers] != [b.static_shape for b in right.buffers]:
        return "another layout"
    try:
        found = parse(mutant(str(sch.mod), rng))
        func = found["main"] if isinstance(found, IRModule) else found
        assert isinstance(func, PrimFunc)
        report = verify_program(func, original=original)
    except UserError:
        return "no program"
    if report.ok:
        wanted, got = inputs_of(original, seed), inputs_of(original, seed)
        run(original, *wanted)
        run(func, *got)
        np.testing.assert_allclose(got[-1], wanted[-1], rtol=2e-4, atol=2e-5, err_msg=str(func))
    return report.state


def count(seeds: range) -> Counter[str]:
    rng = random.Random(seeds.start)
    return Counter(judged(seed, rng) for seed in seeds)


def test_some_broken_schedules() -> None:
    found = count(range(30))
    assert found["wrong"] > 6 and found["ok"], found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_broken_schedules(part: int) -> None:
    found = count(range(1000 + part * 100, 1100 + part * 100))
    assert found["wrong"] > 30, found
