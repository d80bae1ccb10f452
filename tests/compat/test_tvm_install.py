"""Whole scripts that say `import tvm`, and the parts of TVM around them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import IRModule
from tileloom.compat.tvm.runtime import Device

SRC = Path(tileloom.__file__).resolve().parent.parent

SCRIPT = """
import numpy as np
import tvm
import tvm.testing
from tvm import te, tir
from tvm.ir import IRModule
from tvm.ir.module import IRModule as Same
from tvm.script import ir as I, tir as T
from tvm.script.parser import from_source
from tvm.tir import Schedule
from tvm.tir.expr import Add, IntImm
from tvm.tir.function import IndexMap
from tvm.tir.schedule import BlockRV, LoopRV, ScheduleError, Trace
from tvm.tir.schedule.schedule import Schedule as SameSchedule
from tvm.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)
from tvm.tir.stmt_functor import post_order_visit
from tvm.runtime import NDArray, Module
from tvm.runtime.ndarray import array
from tvm.target import Target
import tvm.tir.transform as passes


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


def test_it():
    sch = Schedule(MyModule, debug_mask="all")
    block = sch.get_block("B")
    (i,) = sch.get_loops(block)
    outer, inner = sch.split(i, factors=[2, 4])
    sch.vectorize(inner)
    verify_trace_roundtrip(sch=sch, mod=MyModule)
    lib = tvm.build(sch.mod, target="llvm")
    a = tvm.nd.array(np.arange(8).astype("float32"))
    b = tvm.nd.array(np.zeros(8, dtype="float32"))
    lib["main"](a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)
    assert SameSchedule is Schedule and Same is IRModule
    print("it runs", sch.mod["main"].attrs["global_symbol"])


if __name__ == "__main__":
    test_it()
"""


def run(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *command],
        env=environment, capture_output=True, text=True, timeout=120, **options,
    )  # fmt: skip


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = run("-m", "tileloom.compat.tvm", str(script))
    assert result.stdout.strip() == "it runs main", result.stderr


def test_a_script_runs_with_the_name_replaced(tmp_path: Path) -> None:
    text = SCRIPT.replace("import tvm\n", "from tileloom.compat import tvm\n")
    text = text.replace("import tvm.testing\n", "import tileloom.compat.tvm.testing\n")
    text = text.replace(
        "import tvm.tir.transform as", "import tileloom.compat.tvm.tir.transform as"
    )
    text = text.replace("from tvm", "from tileloom.compat.tvm")
    script = tmp_path / "script.py"
    script.write_text(text)
    result = run(str(script))
    assert result.stdout.strip() == "it runs main", result.stderr


def test_the_documentation_runs(tmp_path: Path) -> None:
    page = (SRC.parent / "docs" / "tvm-users.md").read_text()
    (code,) = re.findall(r"```python\n(import numpy as np\n.*?)```", page, re.DOTALL)
    script = tmp_path / "script.py"
    script.write_text(code + "print(sch.mod['main'].script())")
    result = run("-m", "tileloom.compat.tvm", str(script))
    assert "T.parallel(8)" in result.stdout, result.stderr
    assert "T.vectorized(16)" in result.stdout


def test_modules_that_are_not_there(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import tvm\nimport tvm.relay\n")
    result = run("-m", "tileloom.compat.tvm", str(script))
    assert "No module named 'tvm.relay'" in result.stderr


def test_install_and_uninstall() -> None:
    before = set(sys.modules)
    tvm.install("tvm_by_another_name")
    import tvm_by_another_name.tir.schedule.testing as testing  # type: ignore[import-not-found]
    from tvm_by_another_name import te

    for name in ("custom_builder_runner", "local_rpc", "te_workload"):
        helpers = import_module(f"tvm_by_another_name.meta_schedule.testing.{name}")
        assert helpers.__name__.startswith("tileloom.compat.tvm.")
    assert te is tvm.te
    assert testing.verify_trace_roundtrip
    tvm.install("tvm_by_another_name")
    tvm.uninstall("tvm_by_another_name")
    assert not any(n.startswith("tvm_by_another_name") for n in set(sys.modules) - before)


def test_install_refuses_another_tvm() -> None:
    sys.modules["not_ours"] = sys
    with pytest.raises(tileloom.UserError, match="imported already"):
        tvm.install("not_ours")
    del sys.modules["not_ours"]


def test_missing_names_are_named() -> None:
    with pytest.raises(AttributeError, match=r"tvm\.relay of TVM is not provided"):
        _ = tvm.relay
    with pytest.raises(AttributeError, match=r"tvm\.te\.extern of TVM"):
        _ = tvm.te.extern


def test_registered_functions() -> None:
    @tvm.register_func("compat.test.twice", override=True)
    def twice(x: Any) -> Any:
        return 2 * x

    assert tvm.get_global_func("compat.test.twice") is twice
    assert tvm.get_global_func("compat.test.none", allow_missing=True) is None
    with pytest.raises(ValueError):
        tvm.get_global_func("compat.test.none")
    with pytest.raises(tvm.TVMError):
        tvm.register_func("compat.test.twice", lambda x: x)


def test_data_types() -> None:
    kind = tvm.DataType("float16x8")
    assert (kind.bits, kind.lanes, str(kind)) == (16, 8, "float16x8")
    assert tvm.runtime.convert([1, "a"])[0].dtype == "int32"
    assert tvm.__version__ == "0.20.0"


def test_errors() -> None:
    assert issubclass(tvm.tir.schedule.ScheduleError, tvm.TVMError)
    assert tvm.error.TVMError is tvm.TVMError


def test_assert_allclose_minds_shapes() -> None:
    tvm.testing.assert_allclose([1.0, 2.0], np.array([1.0, 2.0 + 1e-9]))
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([1.0, 2.0], [1.0, 2.1])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([[1.0, 1.0]], [1.0, 1.0])


@tvm.testing.requires_cuda
def test_needs_cuda() -> None:
    pytest.fail("there is none")


def test_marks_skip_what_cannot_run_here() -> None:
    def skipped(mark: Any) -> Any:
        def test() -> None:
            pass

        (condition,) = (m.args[0] for m in mark(test).pytestmark if m.name == "skipif")
        return condition

    assert not skipped(tvm.testing.requires_llvm)
    assert not skipped(tvm.testing.requires_package("numpy"))
    assert skipped(tvm.testing.requires_cuda)
    assert tvm.testing.device_enabled("llvm") and not tvm.testing.device_enabled("cuda")
    assert skipped(tvm.testing.requires_package("numpy", "no_such_package_of_that_name"))


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_on_targets(target: str, dev: Device) -> None:
    assert target == "llvm"
    assert dev == tvm.cpu(0)


extent = tvm.testing.parameter(1, 13)
left, right = tvm.testing.parameters((1, 10), (2, 20), ids=["one", "two"])


def test_parameters(extent: int, left: int, right: int) -> None:
    assert extent in (1, 13)
    assert right == 10 * left


class TestSimplified(tvm.testing.CompareBeforeAfter):
    """A pass on two programs written as methods."""

    transform = tvm.tir.transform.Simplify()

    def before(A: tvm.script.tir.Buffer((16,), "int32")) -> None:
        for i in range(16):
            A[i] = (i * 4 + 3) // 4

    def expected(A: tvm.script.tir.Buffer((16,), "int32")) -> None:
        for i in range(16):
            A[i] = i


class TestRaises(tvm.testing.CompareBeforeAfter):
    """A transform that is to raise."""

    def transform(self) -> Callable[..., Any]:
        def fail(mod: IRModule) -> None:
            raise ValueError(str(mod))

        return fail

    def before(self) -> IRModule:
        return tvm.IRModule({})

    expected = ValueError
