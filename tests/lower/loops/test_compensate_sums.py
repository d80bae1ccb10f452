"""Long sums in runs: which loops are cut, which are left, and what comes out."""

from typing import Any

import numpy as np
import pytest

from tileloom import build
from tileloom.base.sums import COMPENSATED, SUM_RUN
from tileloom.lower.loops.compensate_sums import compensate_sums
from tileloom.lower.loops.long_sums import RUN, SHORT
from tileloom.script import parse
from tileloom.tir import BufferStore, For, IfThenElse, PrimFunc, collect
from tileloom.tir.run import run
from tileloom.tir.structural import structural_equal

ONE_SUM = """
@T.prim_func
def main(A: T.Buffer(({n},), "{kind}"), C: T.Buffer((1,), "{kind}")):
    C[0] = T.{kind}(0)
    for k in range({n}):
        C[0] = C[0] + A[k]
"""


def function(text: str) -> PrimFunc:
    parsed = parse(text)
    assert isinstance(parsed, PrimFunc)
    return parsed


def wanted(text: str, **fields: object) -> PrimFunc:
    """A function whose sums are to be compensated."""
    func = function(text.format(**fields) if fields else text)
    return func.with_attr(COMPENSATED, True)


def sums(func: PrimFunc, *arrays: np.ndarray) -> np.ndarray:
    """The last argument after the interpreter has run a function."""
    args = [array.copy() for array in arrays]
    run(func, *args)
    return args[-1]


def is_left_alone(func: PrimFunc) -> bool:
    return structural_equal(compensate_sums(func), func)


@pytest.mark.parametrize("n", [129, 1000, 1009, 4096])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_sum_of_equal_numbers_is_nearly_exact(n: int, kind: str) -> None:
    func = wanted(ONE_SUM, n=n, kind=kind)
    values = np.full(n, 0.1, kind)
    (got,) = sums(compensate_sums(func), values, np.full(1, np.nan, kind))
    exact = n * float(values[0])
    assert abs(float(got) - exact) <= 4 * np.finfo(kind).eps * exact


def test_runs_are_cut_by_the_extent_alone() -> None:
    func = compensate_sums(wanted(ONE_SUM, n=1024, kind="float32"))
    extents = [loop.extent.value for loop in collect(func.body, For)]
    assert extents == [32, 32]
    odd = compensate_sums(wanted(ONE_SUM, n=1009, kind="float32"))
    outer: Any
    outer, inner = collect(odd.body, For)
    assert outer.extent.value == -(-1009 // RUN)
    assert not isinstance(inner.extent, type(outer.extent))  # the last run is shorter


def test_a_loop_may_ask_for_longer_runs() -> None:
    text = ONE_SUM.replace("range({n})", f'T.serial({{n}}, annotations={{{{"{SUM_RUN}": 256}}}})')
    extents = [loop.extent.value for loop in collect(
        compensate_sums(wanted(text, n=4096, kind="float32")).body, For)]  # fmt: skip
    assert extents == [16, 256]
    assert is_left_alone(wanted(text, n=1024, kind="float32"))


def test_what_is_short_or_not_asked_for_stays() -> None:
    assert is_left_alone(wanted(ONE_SUM, n=RUN * SHORT, kind="float32"))
    assert is_left_alone(function(ONE_SUM.format(n=4096, kind="float32")))
    assert is_left_alone(wanted(ONE_SUM, n=4096, kind="int32"))


COLUMNS = """
@T.prim_func
def main(A: T.Buffer((6000,), "float32"), C: T.Buffer((20,), "float32")):
    for k, v in T.grid(300, 5):
        C[v * 4:v * 4 + 4] = C[v * 4:v * 4 + 4] + A[k * 20 + v * 4:k * 20 + v * 4 + 4]
"""


def test_columns_go_through_runs_together() -> None:
    func = wanted(COLUMNS)
    values = np.random.default_rng(0).random(6000, "float32")
    start = np.arange(20, dtype="float32")
    result = compensate_sums(func)
    assert not structural_equal(result, func)
    exact = values.astype("float64").reshape(300, 20).sum(0) + start
    np.testing.assert_allclose(sums(result, values, start), exact, rtol=2e-7)


ROWS = """
@T.prim_func
def main(A: T.Buffer((3000,), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(3):
        for k in range(500):
            C[i * 2] = C[i * 2] + A[i * 1000 + k]
            C[i * 2 + 1] = C[i * 2 + 1] + A[i * 1000 + 500 + k]
"""


def test_two_places_of_one_buffer_are_told_apart() -> None:
    func = wanted(ROWS)
    values = np.random.default_rng(0).random(3000, "float32")
    got = sums(compensate_sums(func), values, np.zeros(6, "float32"))
    assert not is_left_alone(func)
    np.testing.assert_allclose(got, values.astype("float64").reshape(6, 500).sum(1), rtol=2e-7)


@pytest.mark.parametrize(
    "body",
    [
        "C[0] = C[0] + C[1]; C[1] = C[1] + A[k]",  # one place is read while it is added to
        "C[0] = C[0] + A[k]; C[k % 2] = C[k % 2] + A[k]",  # two places that may be one
        "C[B[0]] = C[B[0]] + A[k]",  # a place that data decides
        "C[0] = C[0] * A[k]",
        "C[0] = A[k] + A[0]",
        "if A[k] > T.float32(0): C[1] = C[1] + A[k]",  # a place that may not be there
    ],
)
def test_what_cannot_be_cut_is_left_alone(body: str) -> None:
    lines = "".join(f"        {line.strip()}\n" for line in body.split(";"))
    text = (
        "@T.prim_func\n"
        'def main(A: T.Buffer((1000,), "float32"), B: T.Buffer((1,), "int32"),\n'
        '         C: T.Buffer((2,), "float32")):\n'
        "    for k in range(1000):\n" + lines
    )
    assert is_left_alone(wanted(text))


GUARDED = """
@T.prim_func
def main(A: T.Buffer((1000,), "float32"), C: T.Buffer((1,), "float32")):
    acc = T.allocate([1], "float32", "local")
    acc_1 = T.decl_buffer((1,), data=acc, scope="local")
    acc_1[0] = T.float32(0)
    for k in range(1000):
        if A[k] > T.float32(0.5):
            acc_1[0] = acc_1[0] + A[k]
    C[0] = acc_1[0]
"""


def test_a_register_may_be_added_to_under_a_branch() -> None:
    func = wanted(GUARDED)
    assert not is_left_alone(func)
    values = np.random.default_rng(0).random(1000, "float32")
    (got,) = sums(compensate_sums(func), values, np.zeros(1, "float32"))
    exact = values[values > 0.5].astype("float64").sum()
    assert abs(got - exact) <= 2e-7 * exact


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_infinities_come_out_as_from_a_running_sum(odd: float) -> None:
    func = compensate_sums(wanted(ONE_SUM, n=1000, kind="float32"))
    values = np.ones(1000, "float32")
    values[777] = odd
    (got,) = sums(func, values, np.zeros(1, "float32"))
    np.testing.assert_equal(got, np.float32(odd))
    values[3] = -odd
    assert np.isnan(sums(func, values, np.zeros(1, "float32"))[0])


def test_an_overflow_is_an_infinity() -> None:
    func = compensate_sums(wanted(ONE_SUM, n=1000, kind="float32"))
    assert sums(func, np.full(1000, 3e38, "float32"), np.zeros(1, "float32"))[0] == np.inf


OPEN = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((1,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C[0] = T.float32(0)
    for k in range(n):
        C[0] = C[0] + A[k]
"""


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 1000, 100_003])
def test_an_extent_that_is_not_known(n: int) -> None:
    kernel = build(wanted(OPEN))
    values, result = np.full(n, 0.1, "float32"), np.full(1, np.nan, "float32")
    kernel(values, result)
    exact = n * float(np.float32(0.1))
    assert abs(float(result[0]) - exact) <= 5e-7 * exact


def test_an_open_loop_of_one_run_stays_as_it_is() -> None:
    func = wanted(OPEN)
    (loop,) = collect(func.body, For)
    made = compensate_sums(func)
    (branch,) = collect(made.body, IfThenElse)
    assert structural_equal(branch.condition, loop.extent <= RUN)
    assert isinstance(branch.then_case, For) and len(collect(branch.then_case, BufferStore)) == 1
    assert branch.else_case is not None and len(collect(branch.else_case, For)) == 2


def test_an_open_loop_around_another_is_all_runs() -> None:
    nested = OPEN.replace("for k in range(n):", "for j, k in T.grid(n, 64):").replace(
        "(n,)", "(n * 64,)"
    )
    made = compensate_sums(wanted(nested.replace("A[k]", "A[j * 64 + k]")))
    assert collect(made.body, For) and not collect(made.body, IfThenElse)
