"""Passes over MLIR text: flags, pieces of files, messages and what is expected of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tileloom.base.errors import UserError
from tileloom.cli.app import cli
from tileloom.tile import parse
from tileloom.tile.passes.registry import find_pass
from tileloom.tile.tools.diagnostics import handled_by, report
from tileloom.tile.tools.flags import parse_flags
from tileloom.tile.tools.opt import run_opt

LAYOUT = (
    "#blocked = #triton_gpu.blocked<{sizePerThread = [1], threadsPerWarp = [32], "
    "warpsPerCTA = [4], order = [0]}>\n"
)
TWICE = (
    LAYOUT
    + """\
tt.func @f(%a: tensor<128xi32, #blocked>) -> tensor<128xi32, #blocked> {
  %0 = arith.addi %a, %a : tensor<128xi32, #blocked>
  %1 = arith.addi %a, %a : tensor<128xi32, #blocked>
  %2 = arith.muli %0, %1 : tensor<128xi32, #blocked>
  tt.return %2 : tensor<128xi32, #blocked>
}
"""
)


def test_flags_are_passes_in_their_order() -> None:
    words = ["-cse", "--tritongpu-reorder-instructions", "a.mlir", "-debug-only=x", "-o", "b"]
    settings = parse_flags([*words, "--passes", "builtin.module(cse,tt.func(cse))"])
    names = [step.tile_pass.name for step in settings.steps]
    assert names == ["cse", "tritongpu-reorder-instructions", "cse", "cse"]
    assert (settings.path, settings.output) == ("a.mlir", "b")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-fly"], "no option and no pass 'fly'"),
        (["a", "b"], "reads one file"),
        (["--spelling=4"], "no spelling '4'"),
        (["-cse=x=1"], "no option 'x'"),
        (["-timing=maybe"], "true or false"),
        (["--passes"], "needs a value"),
    ],
)
def test_wrong_flags_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_flags(words)


def test_passes_run_and_the_spelling_is_kept() -> None:
    made = run_opt(["-cse"], TWICE)
    assert (made.status, made.out.count("arith.addi")) == (0, 1)
    assert "#triton_gpu.blocked" in made.out
    assert "#ttg.blocked" in run_opt(["--spelling=3.3"], TWICE).out
    assert made.out.startswith("#blocked = ")
    assert "#blocked" not in run_opt(["-mlir-print-local-scope"], TWICE).out
    assert '"tt.func"' in run_opt(["--mlir-print-op-generic"], TWICE).out


def test_changes_between_passes_and_times() -> None:
    made = run_opt(["-cse", "-cse", "--print-between-passes", "--print-diff", "--timing"], TWICE)
    assert "-    %1 = arith.addi" in made.err
    assert "After cse: no change" in made.err
    assert "2 x cse" in made.err
    whole = run_opt(["-cse", "--print-between-passes"], TWICE).err
    assert whole.startswith("// -----// After cse //----- //\n#blocked")


def test_pieces_are_independent_and_keep_their_lines() -> None:
    """The second piece does not know the alias of the first; the third is read all the same."""
    text = f"{TWICE}// -----\n\ntt.func @g(%a: tensor<4xi32, #blocked>) {{ tt.return }}\n// -----\n"
    made = run_opt(["-split-input-file"], text + "tt.func @h() { tt.return }\n")
    assert made.status == 1
    assert made.err.startswith("<stdin>:10:30: error: undefined symbol alias id 'blocked'\ntt.func")
    assert made.err.splitlines()[2] == " " * 29 + "^"
    assert "@f" in made.out and "@h" in made.out and "@g" not in made.out
    assert made.out.count("// -----") == 2


BROKEN = """\
tt.func @f(%a: i32) {
  %0 = arith.addf %a, %a : i32 // expected-error {{must be floating-point-like}}
  tt.return
}
tt.func @g(%a: i32) {
  // expected-error @+2 {{operand}}
  // expected-error-re @below {{operand #{{[0-9]}} must}}
  %0 = arith.negf %a : i32
  tt.return
  // expected-remark @unknown {{nothing}}
}
"""


def test_messages_that_are_expected() -> None:
    made = run_opt(["-verify-diagnostics"], BROKEN)
    assert made.status == 1
    missing = [line for line in made.err.splitlines() if "not produced" in line]
    assert len(missing) == 2  # one of two expectations for one error, and the remark
    cut = [line for line in BROKEN.splitlines() if "-re " not in line and "remark" not in line]
    text = "\n".join(cut).replace("@+2", "@+1")
    assert run_opt(["-verify-diagnostics"], text).status == 0
    assert run_opt([], text).err.count(" error: ") == 2
    wrong = run_opt(["-verify-diagnostics"], text.replace("@+1", "@+2"))
    assert "unexpected error: 'arith.negf' op operand #0" in wrong.err


def test_above_below_and_pieces() -> None:
    text = """\
// -----
tt.func @f(%a: i32) {
  %0 = arith.negf %a : i32
  // expected-error @above {{floating}}
  tt.return
}
"""
    assert run_opt(["-split-input-file", "-verify-diagnostics"], text).status == 0
    text = text.replace("@above", "@-1")
    assert run_opt(["-split-input-file", "-verify-diagnostics"], text).status == 0


def test_unknown_operations_need_a_flag() -> None:
    text = 'tt.func @f() {\n  "my.op"() : () -> ()\n  tt.return\n}'
    made = run_opt([], text)
    assert (made.status, "2:3: error: operation 'my.op'" in made.err) == (1, True)
    assert '"my.op"()' in run_opt(["-allow-unregistered-dialect"], text).out


def test_passes_report_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    def remark(module: object, **_options: object) -> None:
        op = next(op for op in module.walk() if op.name == "tt.return")  # type: ignore[attr-defined]
        report("remark", "here", op)

    object.__setattr__(found := find_pass("cse"), "function", found.function)
    monkeypatch.setitem(find_pass.__globals__["PASSES"], "cse", type(found)("cse", remark))
    text = "tt.func @f() {\n  tt.return // expected-remark {{here}}\n}"
    assert run_opt(["-cse", "-verify-diagnostics"], text).status == 0
    made = run_opt(["-cse"], text)
    assert (made.status, made.err.splitlines()[0]) == (0, "<stdin>:2:3: remark: here")
    report("remark", "nobody listens", parse(text))
    with handled_by(lambda diagnostic: None):
        report("remark", "and one does")


def call(*words: object, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(word) for word in words], input=text)
    return result.exit_code, result.output


def test_the_command_takes_both_kinds_of_text(tmp_path: Path) -> None:
    path = tmp_path / "a.mlir"
    path.write_text(TWICE)
    assert call("opt", "-cse", path)[1].count("arith.addi") == 1
    assert call("opt", "-", "--passes", "cse", text=TWICE)[1].count("arith.addi") == 1
    assert call("opt", path, "-o", tmp_path / "b.mlir", "-cse") == (0, "")
    assert call("opt", tmp_path / "b.mlir", "-split-input-file", "-debug-only=x")[0] == 0
    assert call("opt", path, "-fly")[0] == 1
    code, output = call("opt", path, "--until", "flat")
    assert (code, "is for TVMScript" in output) == (2, True)
    script = tmp_path / "a.py"
    script.write_text("@T.prim_func\ndef f(): ...")
    for flag in ("-cse", "--timing"):
        code, output = call("opt", script, flag)
        assert (code, flag.lstrip("-") in output) == (2, True)
    assert "tritongpu-reorder-instructions" in call("opt", "list")[1]
