"""The built-in programs, what is printed of trials, and how calls are timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tileloom
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.cli import (
    app,
    bench_command,
    console,
    demo_command,
    models,
    run_command,
    timing,
    trial,
)
from tileloom.cli.programs import PROGRAMS, TrialProgram, convert, find_program

#: Sizes on which each program is quick.
SMALL = {
    "softmax": "3x5", "layer_norm": "3x8", "bias_gelu": "3x8", "chain": "7", "col_sums": "4x3",
    "dense": "3x4x5", "encoder": "2x3x64",
}  # fmt: skip


def arguments_of(name: str) -> tuple[Any, ...]:
    """Arguments of a small size, float64."""
    made = find_program(name).arguments(np.random.default_rng(1), SMALL[name])
    return tuple(convert(made, lambda a: a.astype(np.float64)))


@pytest.mark.parametrize("name", [p.name for p in PROGRAMS])
def test_programs_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    arguments = arguments_of(name)
    program = find_program(name)
    expected = program.torch(torch)(*convert(arguments, torch.from_numpy)).numpy()
    np.testing.assert_allclose(program.function(*arguments), expected, rtol=1e-9, atol=1e-12)


def test_the_encoder_is_that_of_the_sizes() -> None:
    x, layers, heads = find_program("encoder").arguments(np.random.default_rng(0), "2x3x128")
    assert (x.shape, len(layers), heads) == ((3, 128), 2, 2)
    shapes = {key: value.shape for key, value in layers[0].items()}
    assert shapes["qkv"] == (128, 384) and shapes["up"] == (128, 512)
    assert shapes["down"] == (512, 128) and shapes["up_bias"] == (512,)
    assert abs(layers[0]["scale1"].mean() - 1) < 0.1 and abs(layers[0]["shift1"].mean()) < 0.1
    assert find_program("encoder").arguments(np.random.default_rng(0), "1x3x32")[2] == 1


@pytest.mark.parametrize("shape", ["3", "3x4x5", "3x", "3xa", "3x²", "3x-1"])
def test_shapes_that_no_program_has(shape: str) -> None:
    with pytest.raises(UserError, match="cannot take an argument of shape") as caught:
        find_program("softmax").arguments(np.random.default_rng(0), shape)
    assert "2 extents, as 2048x2048" in str(caught.value)


def test_extents_are_decimal_digits() -> None:
    for text in ("n=²", "n=٣", "n=-1"):
        with pytest.raises(UserError, match="is no extent"):
            models.parse_dims([text])


# ---------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1, "100"), (0.0999, "99.9"), (0.0996, "99.6"), (0.1006, "101")]
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert console.milliseconds(seconds) == text


@pytest.mark.parametrize("left", [None, 0, 2])
def test_columns_of_words_are_at_the_left(left: int | None) -> None:
    more = {} if left is None else {"left": left}
    made = console.table("", ["a", "b", "c"], **more)
    words = 1 if left is None else left
    assert [c.justify for c in made.columns] == ["left"] * words + ["right"] * (3 - words)


def trial_of(kernels: list[str], error: float = 0.0, **seconds: float) -> Any:
    """A trial whose plan calls kernels of these names."""
    calls = [SimpleNamespace(kernel=name) for name in kernels]
    plan: Any = SimpleNamespace(segments=[SimpleNamespace(calls=calls)], kernel_count=len(kernels))
    return trial.Trial(PROGRAMS[0], 7, plan, error, 0.25, seconds)


@pytest.mark.parametrize(
    ("kernels", "text"),
    [
        (["k0_a_b"], r"1 kernel: 1x \[a b]"),
        (["k0_a", "k1_b", "k2_a"], r"3 kernels: 2x \[a]; 1x \[b]"),
    ],
)
def test_what_was_fused(kernels: list[str], text: str) -> None:
    found = demo_command.fused(trial_of(kernels))
    assert found == f"softmax was fused into {text}"


def test_the_table_of_trials() -> None:
    good = trial_of(["k"], tileloom=0.5, numpy=1.0)
    bad = trial_of(["k", "k"], error=0.5)
    made: Any = demo_command.report([good, bad])
    assert [c.header for c in made.columns][-2:] == ["ms", "x numpy"]
    cells = list(zip(*(c.cells for c in made.columns)))
    assert cells[0] == ("softmax 2048x2048", "7", "1", "0.0e+00", "250", "500", "[green]2.00[/]")
    assert cells[1][2:] == ("2", "[red]5.0e-01[/]", "250", "-", "-")
    assert good.is_right and not bad.is_right
    assert trial_of([], error=1e-5).is_right  # the tolerance itself


# ---------------------------------------------------------------------------- commands


def test_bench_ends_as_the_trial_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, status in ((0.0, 0), (1.0, 1)):
        made = trial_of(["k"], error)
        monkeypatch.setattr(bench_command, "attempt", lambda *_, made=made: made)
        assert CliRunner().invoke(app.cli, ["bench", "softmax"]).exit_code == status


@pytest.mark.parametrize("wrong", [False, True])
def test_bench_checks_models_before_it_times_them(
    wrong: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    timed: list[object] = []
    model = SimpleNamespace(get_inputs=list)
    calls = {"tileloom": lambda: [np.ones(2)], "peer": lambda: [np.ones(2) + wrong]}
    monkeypatch.setattr(models, "load", lambda *_: model)
    monkeypatch.setattr(bench_command, "model_calls", lambda *_: calls)
    monkeypatch.setattr(bench_command, "show_times", timed.append)
    (tmp_path / "m.onnx").touch()
    done = CliRunner().invoke(app.cli, ["bench", str(tmp_path / "m.onnx")])
    assert (done.exit_code, len(timed)) == ((2, 0) if wrong else (0, 1))
    assert ("differ by 1 where the largest is 2" in done.output) == wrong


def test_demo_tries_all_programs_or_those_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def attempt(program: Any, seconds: float) -> Any:
        tried.append(program.name)
        return trial_of(["k_last"])

    monkeypatch.setattr(demo_command, "attempt", attempt)
    monkeypatch.setattr(demo_command, "show_groups", lambda plan: "[groups] of it")
    done = CliRunner().invoke(app.cli, ["demo"])
    assert done.exit_code == 0 and tried == [p.name for p in PROGRAMS]
    assert "[groups] of it" not in done.output and "1x [last]" in done.output
    tried.clear()
    done = CliRunner().invoke(app.cli, ["demo", "--show", "--only", "chain", "--only", "dense"])
    assert tried == ["chain", "dense"] and "[groups] of it" in done.output


@pytest.mark.parametrize("error", [tileloom.InternalError("broken"), tileloom.UserError("wrong")])
def test_errors_are_lines_or_tracebacks(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(*_: object) -> None:
        raise error

    monkeypatch.setattr(bench_command, "attempt", attempt)
    ours = isinstance(error, tileloom.InternalError)
    done = CliRunner().invoke(app.cli, ["bench", "chain"])
    assert done.exit_code == (app.OUR_ERROR if ours else app.USER_ERROR)
    assert done.stdout == ""  # errors go to the other stream
    assert done.stderr.startswith("internal error: broken" if ours else "error: wrong")
    with override(full_traceback=True):
        assert CliRunner().invoke(app.cli, ["bench", "chain"]).exception is error


def test_commands_are_those_listed() -> None:
    group: Any = app.cli
    assert group.list_commands(None)[0] == "run"
    assert group.get_command(None, "timing") is None
    assert group.get_command(None, "bench").name == "bench"


def test_models_whose_inputs_are_written_keep_theirs() -> None:
    class Model:
        def get_inputs(self) -> list[Any]:
            return [SimpleNamespace(name="a", written=True), SimpleNamespace(name="b")]

        def run(self, _: None, feeds: dict[str, Any]) -> list[Any]:
            feeds["a"] += 1
            feeds["b"] += 1
            return [feeds["a"]]

    arrays = {"a": np.zeros(2), "b": np.zeros(2)}
    (found,) = models.call(Model(), arrays)  # type: ignore[arg-type]
    assert found.tolist() == [1, 1]
    assert arrays["a"].tolist() == [0, 0] and arrays["b"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("ours", "theirs", "rtol", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2, (True, 0.5, 2.5)),  # the tolerance itself
        ([1.0, 2.0], [1.0, 2.5], 0.19, (False, 0.5, 2.5)),
        ([np.nan, np.inf], [np.nan, np.inf], 0.0, (True, 0.0, 0.0)),
        ([np.nan, 1.0], [0.0, 1.0], 0.5, None),
        ([0.0, 0.0], [0.0, 0.0], 0.0, (True, 0.0, 0.0)),
    ],
)
def test_differences_of_arrays(ours: Any, theirs: Any, rtol: float, expected: Any) -> None:
    found = run_command.difference(np.array(ours), np.array(theirs), rtol)
    assert found == expected if expected is not None else not found[0]


def test_differences_of_sequences_and_of_kinds() -> None:
    one: Any
    one, two = np.array([1, 2], np.float32), np.array([1, 3], np.float32)
    assert run_command.difference([one, one], [one, two], 0.1) == (False, 1.0, 3.0)
    assert run_command.difference([one, two], [one, two], 0.0) == (True, 0.0, 3.0)
    assert run_command.difference([], [], 0.0) == (True, 0.0, 0.0)
    assert not run_command.difference(one, one.astype("float64"), 1.0)[0]
    assert not run_command.difference(one, one[:1], 1.0)[0]
    texts = np.array(["a", "b"])
    assert run_command.difference(texts, texts, 0.0)[0]
    assert not run_command.difference(texts, texts[::-1], 0.0)[0]


def test_the_table_of_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(run_command.out, "print", shown.append)
    results = [np.array([1, 2, 6], np.int32), ["a"], np.zeros((2, 0)), np.array(["x"])]
    run_command.show_outputs(["n", "s", "e", "t"], results)
    cells = list(zip(*(c.cells for c in shown[0].columns)))
    assert cells[0] == ("n", "int32", "[3]", "1", "3", "6")
    assert cells[1] == ("s", "list", "", "", "", "")
    assert cells[2] == ("e", "float64", "[2, 0]", "", "", "")
    assert cells[3][:3] == ("t", "<U1", "[1]") and cells[3][3:] == ("", "", "")
    justify = [c.justify for c in shown[0].columns]
    assert justify == ["left"] * 3 + ["right"] * 3
    assert not run_command.show_errors(["n"], [np.ones(2)], [np.zeros(2)], "peer", 0.5)
    assert run_command.show_errors(["n"], [np.ones(2)], [np.ones(2)], "peer", 0.0)
    assert [c.justify for c in shown[-1].columns] == ["left", "left", "right", "right"]


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_trials_count_and_check(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: Any = []
    monkeypatch.setattr(
        trial, "interleaved_times", lambda calls, **_: timed.append(set(calls)) or {}
    )
    monkeypatch.setattr(trial, "find_spec", lambda name: None)

    def function(x: Any) -> Any:
        wrong = off if x.dtype == np.float32 else 0.0
        return np.abs(x) + wrong if off else np.abs(x)

    made = TrialProgram("p", function, (3, 5), lambda r, c: _ones(r, c), lambda torch: function)
    found = trial.attempt(made, 0.1)
    assert found.nodes == (3 if off else 1)  # abs, a cast of the constant, add
    assert found.error == pytest.approx(off) and found.is_right == (off == 0.0)
    assert timed == ([{"tileloom", "numpy"}] if off == 0.0 else [])
    assert 0 < found.compile_seconds < 60


def _ones(rows: int, columns: int) -> Any:
    return lambda rng: (-np.ones((rows, columns), np.float32),)


def test_peers_are_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    x = np.array([[0.0, 1.0]], np.float32)
    calls = trial.torch_calls(find_program("softmax"), (x,))
    assert list(calls) == ["torch"]
    np.testing.assert_allclose(calls["torch"]().numpy().sum(), 1.0, rtol=1e-6)
    monkeypatch.setattr(trial, "find_spec", lambda name: None)
    assert trial.torch_calls(find_program("softmax"), (x,)) == {}


# ---------------------------------------------------------------------------- timing


class Clock:
    """Time that passes as told: by a second for each look at the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
        self.now, self.burnt, self.slept = 100.0, 0.0, 0
        clock = SimpleNamespace(
            perf_counter=self.look, process_time=lambda: self.burnt, sleep=self.sleep
        )
        self.busy = busy
        monkeypatch.setattr(timing, "time", clock)

    def look(self) -> float:
        self.now += 0.05
        return self.now

    def sleep(self, pause: float) -> None:
        self.slept += 1
        self.now += pause
        self.burnt += self.busy * pause


@pytest.mark.parametrize(("busy", "pauses"), [(0.0, 1), (0.1, 1), (0.2, 5), (1.0, 5)])
def test_it_waits_until_threads_rest(
    busy: float, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, busy)
    timing._rest(limit=0.3)
    assert clock.slept == pauses


def test_samples_are_of_warm_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.0)
    calls: list[float] = []
    found = timing._sample(lambda: calls.append(clock.now), 2, warm=0.12)
    assert len(calls) == 5  # one, two until it is warm, and two that are timed
    assert found == pytest.approx(0.025)


def test_rounds_end_with_the_time_but_three_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_rest", lambda: None)
    monkeypatch.setattr(timing, "_repeats", lambda call: 1)
    for seconds, rounds, expected in ((0.0, 15, 3), (100.0, 5, 5), (0.0, 2, 2)):
        samples: list[str] = []

        def sample(call: Any, repeats: int, samples: list[str] = samples) -> float:
            samples.append(call())
            return float(len(samples))

        monkeypatch.setattr(timing, "_sample", sample)
        calls = {"a": lambda: "a", "b": lambda: "b"}
        found = timing.interleaved_times(calls, rounds, seconds)
        assert sorted(samples) == ["a"] * expected + ["b"] * expected
        times = {n: [k + 1.0 for k, s in enumerate(samples) if s == n] for n in calls}
        assert found == {name: float(np.median(t)) for name, t in times.items()}


def test_short_calls_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for sample, repeats in ((1.0, 1), (1e-4, 10), (0.0, 10000)):
        monkeypatch.setattr(timing, "_sample", lambda call, count, s=sample: s)
        assert timing._repeats(lambda: None) == repeats
    calls: list[int] = []
    monkeypatch.undo()
    assert timing._sample(lambda: calls.append(1), 4, warm=0.0) >= 0
    assert len(calls) == 5  # one that is not timed
