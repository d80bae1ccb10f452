"""LLVM IR to objects and assembly: vector width, processors, errors, time."""

from __future__ import annotations

import gc
import mmap
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tileloom.base.errors import InternalError
from tileloom.codegen import host, jit, parallel_stub, pyentry
from tileloom.target import Target, target

SOURCES = Path(__file__).resolve().parents[2] / "src"
AARCH64 = target("cpu -mtriple=aarch64-linux-gnu")

SAXPY = """
define i32 @saxpy(ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%j, %loop]
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %px
  %e = fmul fast float %a, 3.0
  %b = load float, ptr %py
  %s = fadd fast float %e, %b
  store float %s, ptr %py
  %j = add nuw nsw i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %loop, label %done
done:
  ret i32 0
}
"""


@pytest.mark.parametrize(
    ("cpu", "expected", "forbidden"),
    [
        ("x86-64", "xmm", "ymm"),
        ("haswell", r"vfmadd\d+ps.*ymm", "zmm"),
        ("skylake-avx512", r"vfmadd\d+ps.*zmm", None),
        ("sapphirerapids", r"vfmadd\d+ps.*zmm", None),
        ("znver4", r"vfmadd\d+ps.*zmm", None),
    ],
)
def test_loops_get_the_full_vector_width(cpu: str, expected: str, forbidden: str | None) -> None:
    text = jit.assembly(SAXPY, target(f"cpu -mtriple=x86_64-linux-gnu -mcpu={cpu}"))
    assert re.search(expected, text)
    assert forbidden is None or forbidden not in text


def test_host_code_uses_what_the_host_has() -> None:
    text = jit.assembly(SAXPY, Target.host())
    wanted = {512: "zmm", 256: "ymm"}.get(Target.host().vector_bits)
    assert wanted is None or wanted in text


def test_aarch64_assembles() -> None:
    assert re.search(r"fmla\s+v", jit.assembly(SAXPY, AARCH64))
    assert jit.compile_ir(SAXPY, AARCH64)[18] == 183
    for source in (parallel_stub.source("aarch64"), pyentry.source()):
        assert jit.compile_ir(source, AARCH64)[:4] == b"\x7fELF"


def test_features_that_a_cpu_lacks_are_not_used() -> None:
    without = target("cpu -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=-fma")
    name, features = host.llvm_cpu(without)
    assert name == "haswell" and "+fma" not in features.split(",")
    assert "vfmadd" not in jit.assembly(SAXPY, without)
    if Target.host().has("fma"):
        without = target("cpu -mattr=-fma,-avx512f")
        assert without.is_native and "vfmadd" not in jit.assembly(SAXPY, without)


def test_lower_levels_do_less() -> None:
    assert "<16 x float>" not in jit.optimised_ir(SAXPY, Target.host(), 0)
    assert " x float>" in jit.optimised_ir(SAXPY, Target.host())


def test_bad_ir_is_our_defect_and_shown_in_part() -> None:
    lines = ["define i32 @f() {", *[f"  %v{n} = add i32 0, {n}" for n in range(100)]]
    lines[50] = "  %v49 = add i32 0, nonsense"
    with pytest.raises(InternalError) as caught:
        jit.compile_ir("\n".join([*lines, "  ret i32 0", "}"]), Target.host())
    text = str(caught.value)
    assert "defect in Tileloom" in text and "   51   %v49" in text and "%v9 " not in text
    with pytest.raises(InternalError, match="LLVM refuses"):
        jit.compile_ir("define i32 @f() {\n  %a = add i32 %b, 1\n  ret i32 %a\n}", Target.host())


def test_threads_may_compile_at_once() -> None:
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(jit.compile_ir(SAXPY, Target.host())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 4 and len(set(results)) == 1


def test_compiling_is_deterministic_across_processes() -> None:
    """Else the disk cache would be of little use to checks of what is shipped."""
    script = (
        "import hashlib, sys; from tileloom.target import Target; "
        "from tileloom.codegen import jit, pyentry; "
        "print(hashlib.sha256(jit.compile_ir(pyentry.source(), Target.host())).hexdigest())"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": str(SOURCES)},
            capture_output=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert len(shown) == 1 and len(shown.pop()) == 65


def test_compiling_leaves_nothing_behind() -> None:
    """LLVM's pass managers and contexts are freed: 100 KB for each module otherwise."""
    target = Target.host()

    def compile_one(number: int) -> None:
        jit.compile_ir(f"define i32 @f() {{ ret i32 {number} }}", target)

    def resident() -> int:
        gc.collect()
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * mmap.PAGESIZE

    for number in range(20):
        compile_one(number)
    before = resident()
    for number in range(100):
        compile_one(number)
    assert resident() - before < 1 << 20


def test_each_module_has_a_pass_builder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run would call what the first left: 30 ms for each module after some thousand."""
    made, create = [], jit.llvm.create_pass_builder

    def note(*args: Any) -> Any:
        made.append(create(*args))
        return made[-1]

    monkeypatch.setattr(jit.llvm, "create_pass_builder", note)
    for _ in range(3):
        jit.compile_ir(SAXPY, Target.host())
    assert len({id(builder) for builder in made}) == 3
    assert all(builder.closed for builder in made)


def test_a_module_that_is_refused_is_freed_before_its_context() -> None:
    wrong = """define i32 @f(i1 %c, i32 %n) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 %n, 2
  br label %b
b:
  ret i32 %x
}"""
    for text in ("not IR", wrong):
        with pytest.raises(InternalError, match="refuses our IR"):
            jit.compile_ir(text, Target.host())
        gc.collect()
    assert jit.compile_ir("define i32 @f() { ret i32 0 }", Target.host())


@pytest.mark.parametrize(
    ("line", "shown"),
    [(1, (1, 4)), (2, (1, 5)), (4, (1, 7)), (5, (2, 8)), (9, (6, 9)), (8, (5, 9))],
)
def test_what_is_shown_of_refused_code(line: int, shown: tuple[int, int]) -> None:
    """The line that LLVM names, and three on either side."""
    text = "\n".join(f"line {k}" for k in range(1, 10))
    found = jit._excerpt(text, f"LLVM says: <string>:{line}:7: error").splitlines()
    first, last = shown
    assert found == [f"{k:5} line {k}" for k in range(first, last + 1)]
    assert jit._excerpt(text, "of no line") == text
