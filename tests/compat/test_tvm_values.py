"""What TVM's names hand on: defaults, options, refusals, small objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.base.errors import UserError
from tileloom.compat.tvm import IRModule, te, tir
from tileloom.compat.tvm.ir import PointerType, PrimType, Range
from tileloom.compat.tvm.ir import transform as passes
from tileloom.compat.tvm.ir.normal_form import normal_form
from tileloom.compat.tvm.runtime import module as modules
from tileloom.compat.tvm.runtime import ndarray


def test_functions_are_kept_under_names() -> None:
    name = "tests.values.kept"
    first, second = (lambda: 1), (lambda: 2)
    assert tvm.register_func(name, first) is first
    with pytest.raises(UserError, match="registered already"):
        tvm.register_func(name, second)
    assert tvm.get_global_func(name) is first
    assert tvm.register_func(name, override=True)(second) is second
    assert tvm.get_global_func(name) is second

    def named_by_itself() -> None: ...

    tvm.register_func(named_by_itself, override=True)
    assert tvm.get_global_func("named_by_itself") is named_by_itself
    assert tvm.get_global_func("tests.values.none", allow_missing=True) is None
    with pytest.raises(ValueError, match="cannot find"):
        tvm.get_global_func("tests.values.none")


@pytest.mark.parametrize(
    ("number", "count", "exists"), [(0, 1, True), (1, 1, False), (1, 2, True), (0, 0, False)]
)
def test_devices_that_exist_are_waited_for(
    number: int, count: int, exists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    gpus = SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        device=lambda index: SimpleNamespace(synchronize=lambda: waited.append(index)),
    )
    monkeypatch.setattr(ndarray, "gpus", gpus)
    gpu = tvm.cuda(number)
    assert gpu.exist is exists
    for device in (gpu, tvm.cpu(number), tvm.vulkan(number)):
        device.sync()
    assert waited == [number] * exists


def test_arrays_hand_on_what_is_asked() -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    made = tvm.nd.array(values)
    assert tvm.nd.empty(5).shape == (5,) and tvm.nd.empty([2, 3], "int8").dtype == "int8"
    assert np.asarray(made).dtype == np.float32 and np.array(made, "int16").dtype == np.int16
    assert np.shares_memory(np.from_dlpack(made), made._data)
    assert made.__dlpack_device__()[0] == 1
    made[0] = tvm.nd.array(np.full(3, 8, "float32"))
    assert made[0].tolist() == [8, 8, 8]
    assert repr(made).startswith("<NDArray shape=(2, 3), cpu(0)>\n")
    for share in (ndarray.from_dlpack, ndarray.numpyasarray):
        values[1, 1] = 0
        share(values)[1, 1] = -1
        assert values[1, 1] == -1


@pytest.mark.parametrize(
    ("given", "used"), [(-1, 64), (0, 64), (1, 1), (16, 16), (128, 128)]
)  # fmt: skip
def test_alignments_of_buffers(given: int, used: int) -> None:
    assert tir.decl_buffer((4,), data_alignment=given).data_alignment == used


def test_buffers() -> None:
    assert tir.decl_buffer((4,)).dtype == "float32" and tir.decl_buffer(4, "int8").dtype == "int8"
    shared = tir.decl_buffer((4,), scope="shared")
    assert tir.decl_buffer((4,), data=shared.data).scope() == "shared"
    assert tir.decl_buffer((4,), data=shared.data, scope="local").scope() == "local"
    assert tir.decl_buffer((4,)).scope() == "global"
    kinds = {"": "default", "broadcast": "auto_broadcast", "default": "default"}
    assert {k: tir.decl_buffer((4,), buffer_type=k).buffer_type for k in kinds} == kinds
    split = tir.decl_buffer((2, 4), axis_separators=[1], strides=(8, 1), elem_offset=3)
    assert split.axis_separators == (1,) and split.elem_offset.value == 3
    assert [s.value for s in split.strides] == [8, 1]


def test_annotations_of_allocations() -> None:
    var = tir.Var("p", PointerType(PrimType("int32")))
    body = tir.Evaluate(0)
    for notes in (None, {}, {"a": 1}):
        one = tir.Allocate(var, "int32", [2], tir.const(True), body, annotations=notes)
        other = tir.AllocateConst(var, "int32", [2], np.zeros(2, "int32"), body, annotations=notes)
        assert one.annotations == other.annotations == (notes or {})


def test_types_are_our_own_where_there_are_elements() -> None:
    for name in ("handle", "void"):
        assert type(PrimType(name).dtype) is str
    assert type(PrimType("int8").dtype) is not str


def test_what_is_normal_already_stays() -> None:
    x = tir.Var("x", "float32")
    i = tir.Var("i", "int32")
    expr = tir.exp(x) + x
    assert normal_form(expr) is expr
    changed = normal_form(tir.exp(x) + tir.Select(i - i < 1, x, x * x))
    assert changed is not expr and not tvm.ir.structural_equal(changed, expr)


def test_contexts_and_passes() -> None:
    assert passes.PassContext().opt_level == passes.PassContext.current().opt_level == 2
    x = te.placeholder((4,), name="x")
    mod = tvm.IRModule({"f": te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)])})
    seen: list[str] = []

    @passes.module_pass(name="seen")
    def note(module: IRModule, _context: passes.PassContext) -> IRModule:
        seen.append("run")
        return module

    with passes.PassContext(opt_level=3, disabled_pass=["seen"]) as outer:
        assert note(mod) is mod and seen == [] and passes.PassContext.current() is outer
        with passes.PassContext() as inner:
            assert passes.PassContext.current() is inner
            note(mod)
    assert seen == ["run"] and passes.PassContext.current() is not outer
    both = passes.Sequential([note, note])
    both(mod)
    assert len(seen) == 3
    with pytest.raises(UserError, match="pass over modules, got PrimFunc"):
        note(mod["f"])
    made = [
        both, note, tir.transform.SplitHostDevice(), tir.transform.BindTarget("llvm"),
        tir.transform.AnnotateEntryFunc(), tir.transform.Filter(lambda _: True),
        passes.PrintIR(),
    ]  # fmt: skip
    assert [each.info.opt_level for each in made] == [0] * len(made)
    assert list(tir.transform.Filter(lambda func: False)(mod).functions) == []
    options: Any
    for options, words in [
        ({"config": {"a.b": 1}}, "without effect here: a.b"),
        ({"instruments": [1]}, "without effect here: instruments"),
    ]:
        with pytest.warns(UserWarning, match=words):
            passes.PassContext(**options)


def test_only_functions_that_are_alone_are_entries() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)])
    mark = tir.transform.AnnotateEntryFunc()
    for names, marked in ((("f",), True), (("f", "g"), False)):
        after = mark(tvm.IRModule(dict.fromkeys(names, func)))
        assert ("tir.is_entry_func" in after["f"].attrs) is marked
        if marked:
            assert after["f"].attrs["tir.is_entry_func"] in (True, 1)


def test_regions_of_blocks() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0, name="y")])
    sch = tir.Schedule(func)
    block = sch.get(sch.get_block("y"))
    buffers = {buffer.data: buffer for buffer in func.buffer_map.values()}
    read_and_written = tir.analysis.get_block_read_write_region(block, buffers)
    assert [[r.buffer.name for r in part] for part in read_and_written] == [["x"], ["y"]]
    every = tir.analysis.get_block_access_region(block, buffers)
    assert len(every) == 3 and every[2] == []


def test_pauses_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(perf_counter=lambda: 0.0, sleep=pauses.append)
    monkeypatch.setattr(modules, "time", clock)
    calls = [0]

    def run(*_args: object) -> None:
        calls[0] += 1

    module = modules.Module({"f": run}, lambda _: "")
    options: dict[str, Any] = {"number": 3, "cooldown_interval_ms": 4}
    for repeat, every, count in [(5, 2, 2), (1, 1, 0), (3, 1, 2), (4, 3, 1)]:
        pauses.clear()
        calls[0] = 0
        timed = module.time_evaluator(
            "f", tvm.cpu(), repeat=repeat, repeats_to_cooldown=every, **options
        )
        assert len(timed().results) == repeat
        assert pauses == [0.004] * count and calls[0] == 1 + 3 * repeat
    module.time_evaluator("f", tvm.cpu(), repeat=5)()
    assert len(pauses) == 1 and calls[0] == 1 + 3 * 4 + 1 + 10 * 5


def test_figures_of_runs() -> None:
    found = modules.BenchmarkResult([1.0, 2.0, 6.0])
    assert (found.mean, found.median, found.min, found.max) == (3.0, 2.0, 1.0, 6.0)
    assert found.std == pytest.approx((14 / 3) ** 0.5)
    assert str(modules.BenchmarkResult([0.5])).startswith("BenchmarkResult(mean=500.0000 ms")


def test_modules_of_kernels() -> None:
    def kernel(*args: object) -> tuple[object, ...]:
        return args

    source = {"llvm": "ir", "asm": "machine"}.__getitem__
    cpu, gpu = (
        modules.Module({"f": kernel, "g": kernel}, source, kind) for kind in ("cpu", "cuda")
    )
    assert cpu.imported_modules == [] and cpu.type_key == gpu.type_key == "llvm"
    (inner,) = gpu.imported_modules
    assert (inner.type_key, inner.get_source(), inner.get_source("ll")) == ("cuda", "machine", "ir")
    assert [cpu.get_source(k) for k in ("", "ll", "s", "asm")] == ["ir", "ir", "machine", "machine"]
    with pytest.raises(AttributeError, match="no entry among"):
        _ = cpu.entry_func
    array = tvm.nd.empty((2,))
    assert cpu["f"](array, tir.IntImm("int32", 3), 4) == (array._data, 3, 4)
    both = modules.Module({"main": kernel, "g": kernel}, source)
    assert both.entry_func.name == "main" and both.mod is both is both.jit()


def test_ranges() -> None:
    found: Any = Range.from_min_extent(2, 5)
    assert (found.min.value, found.extent.value) == (2, 5)
    assert (Range(5).min.value, Range(5).extent.value) == (0, 5)
