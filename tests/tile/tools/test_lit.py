"""Test files in the way of `lit`: RUN lines, conditions, and FileCheck's directives."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tileloom.base.errors import UnsupportedError, UserError
from tileloom.cli.app import cli
from tileloom.tile.tools import shell
from tileloom.tile.tools.filecheck import run_filecheck
from tileloom.tile.tools.lit import holds, run_test
from tileloom.tile.tools.opt import ToolOutput
from tileloom.tile.tools.shell import run_line

pytest.importorskip("filecheck")

PROGRAM = """\
tt.func @f(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %b : i32
  %2 = arith.muli %0, %1 : i32
  tt.return %2 : i32
}
"""


def code_of(tmp_path: Path, comments: str, features: tuple[str, ...] = ()) -> tuple[str, str]:
    path = tmp_path / "test.mlir"
    path.write_text(comments + PROGRAM)
    result = run_test(path, features)
    return result.code, result.output


RUN = "// RUN: triton-opt %s -cse | FileCheck %s\n"


def test_a_file_passes_or_names_the_line(tmp_path: Path) -> None:
    checks = """\
// CHECK-LABEL: @f
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32
// CHECK-NEXT: [[S:%.*]] = arith.addi %[[A]]
// CHECK-NOT: arith.addi
// CHECK: arith.muli [[S]], [[S]]
"""
    assert code_of(tmp_path, RUN + checks) == ("PASS", "")
    code, output = code_of(tmp_path, RUN + checks.replace("muli", "divsi"))
    assert code == "FAIL"
    assert ":6: error:" in output
    assert "// CHECK: arith.divsi [[S]], [[S]]" in output
    assert "RUN line 1: triton-opt" in output


def test_run_lines_pipes_and_files(tmp_path: Path) -> None:
    comments = """\
// RUN: triton-opt %s \\
// RUN:    -cse -o %t && cat %t | FileCheck %s --check-prefixes=A,B --dump-input-context=20
// RUN: not triton-opt -fly %s 2>&1 | FileCheck %s --check-prefix ERR
// RUN: triton-opt < %s --mlir-print-op-generic 2> /dev/null | FileCheck --check-prefix=G %s
// RUN: env A=B echo one | count 1
// A: arith.addi
// B-NEXT: arith.muli
// ERR: no pass 'fly'
// G-COUNT-2: "arith.addi"
"""
    assert code_of(tmp_path, comments) == ("PASS", "")


def test_what_a_pass_shows_is_checked(tmp_path: Path) -> None:
    comments = """\
// RUN: triton-opt %s -test-print-alignment -o %t 2>&1 | FileCheck %s
// CHECK: @f
// CHECK: contiguity = [1], divisibility = [1]
"""
    assert code_of(tmp_path, comments) == ("PASS", "")


@pytest.mark.parametrize(
    ("comments", "code"),
    [
        (RUN + "// CHECK: nothing\n// XFAIL: *\n", "XFAIL"),
        (RUN + "// CHECK: addi\n// XFAIL: a\n", "XPASS"),
        (RUN + "// CHECK: addi\n// XFAIL: b\n", "PASS"),
        (RUN + "// REQUIRES: a, b\n", "UNSUPPORTED"),
        (RUN + "// UNSUPPORTED: a && !b\n", "UNSUPPORTED"),
        ("// RUN: llc %s\n", "UNRESOLVED"),
        ("", "UNRESOLVED"),
        ("// RUN: triton-opt %s | FileCheck %s --check-prefix=NONE\n", "FAIL"),
        ("// RUN: false | true\n", "FAIL"),
    ],
)
def test_verdicts(tmp_path: Path, comments: str, code: str) -> None:
    assert code_of(tmp_path, comments, ("a",))[0] == code


TEXT = "#l = [3]\nfunc @f {\n  %0 = a 4\n  %1 = b 12\n\n  a\n}\nfunc @g {\n  ret %0 // 5\n}\n"


@pytest.mark.parametrize(
    ("checks", "flags", "passes"),
    [
        ("CHECK: l = [[[#N:]]]\nCHECK: a [[#M:]]\nCHECK: b [[#N+M + 5]]\n", (), True),
        ("CHECK: l = [[[#N:]]]\nCHECK: a [[#N+2]]\n", (), False),
        ("CHECK: l = [[[#%d,N:]]]\nCHECK-NEXT: f\nCHECK-NEXT: a [[#N+1]]\n", (), True),
        ("CHECK: // [[#@LINE+4]]\n", (), True),
        ("CHECK: // [[@LINE+5]]\n", (), False),
        ("CHECK-DAG: = b {{.*}}\nCHECK-DAG: = a\nCHECK-EMPTY:\nCHECK-NEXT: a\n", (), False),
        ("CHECK-DAG: = b\nCHECK-DAG: = a\nCHECK-NOT: func\nCHECK: ret\n", (), False),
        ("CHECK-DAG: a\nCHECK-DAG: a\nCHECK-NOT: a\nCHECK-DAG: ret\n", (), True),
        ("CHECK-NOT: = b\nCHECK: = b\n", (), True),
        ("CHECK-NOT: = a\nCHECK-DAG: = b\n", (), False),
        ("CHECK: = a\nCHECK-SAME: b\n", (), False),
        ("CHECK: = a\nCHECK-NEXT: func\n", (), False),
        ("CHECK: [[UNKNOWN]]\n", (), False),
        ("CHECK: = b {{[0-9]+}}\nCHECK-EMPTY:\nCHECK-NEXT: a\n", (), True),
        ("CHECK-COUNT-2: func\nCHECK-NOT: func\n", (), True),
        ("CHECK: @f\nCHECK: @g\n", ("--implicit-check-not=ret",), False),
        ("CHECK: @f\nCHECK: ret\n", ("--implicit-check-not=ret",), True),
        ("CHECK: [[X:%.]] =\nCHECK-LABEL: @g\nCHECK: ret [[X]]\n", (), True),
        ("CHECK: [[X:%.]] =\nCHECK-LABEL: @g\nCHECK: ret [[X]]\n", ("--enable-var-scope",), False),
        ("CHECK: [[$X:%.]] =\nCHECK-LABEL: @g\nCHECK: ret [[$X]]\n", ("--enable-var-scope",), True),
        ("CHECK: %0 = a\n", ("--match-full-lines",), False),
        ("CHECK: %0 = a 4\n", ("--match-full-lines",), True),
        ("A: = a\n", ("--check-prefixes=A,B",), False),
        ("A: = a\n", ("--check-prefixes=A,B", "--allow-unused-prefixes"), True),
        ("CHECK: = [[V]]\n", ("-DV=a",), True),
        ("CHECK{LITERAL}: [3]\n", (), True),
        ("COM: CHECK: nothing\nCHECK: a\n", (), True),
    ],
)
def test_directives(tmp_path: Path, checks: str, flags: tuple[str, ...], passes: bool) -> None:
    path = tmp_path / "checks"
    path.write_text(checks)
    made = run_filecheck([str(path), *flags], TEXT)
    assert (made.status == 0) == passes, made.err


def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--ignore-case"):
        run_filecheck(["a", "--ignore-case"], "")
    with pytest.raises(UserError, match="needs the file"):
        run_filecheck([], "")
    with pytest.raises(UnsupportedError, match="no program 'rm'"):
        run_line("rm a")
    with pytest.raises(UnsupportedError, match="'>>x'"):
        run_line("cat a >> x")
    with pytest.raises(UserError, match="too early"):
        holds("a &&", ())


def test_a_defect_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_arguments: object, _text: str) -> ToolOutput:
        raise ZeroDivisionError("here")

    monkeypatch.setattr(shell, "PROGRAMS", {**shell.PROGRAMS, "broken": broken})
    code, output = code_of(tmp_path, "// RUN: broken\n")
    assert (code, "ZeroDivisionError: here" in output) == ("FAIL", True)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "good.mlir").write_text(RUN + "// CHECK: muli\n" + PROGRAM)
    (tmp_path / "other.mlir").write_text(PROGRAM)
    result = CliRunner().invoke(cli, ["lit", str(tmp_path)])
    assert (result.exit_code, "1 PASS" in result.output) == (0, True)
    (tmp_path / "bad.mlir").write_text(RUN + "// CHECK: divsi\n" + PROGRAM)
    result = CliRunner().invoke(cli, ["lit", "-q", str(tmp_path)])
    assert result.exit_code == 1
    assert "// CHECK: divsi" in result.output
    assert "good.mlir" not in result.output
