"""TVM's names at odd arguments: values against NumPy, targets, intervals, devices, refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import te, tir, topi
from tileloom.compat.tvm.arith import (
    Analyzer,
    IntervalSet,
    detect_linear_equation,
    normalize_to_iter_sum,
)
from tileloom.compat.tvm.ir import Op, PointerType, PrimType, Range
from tileloom.compat.tvm.runtime import module as modules
from tileloom.compat.tvm.target import Target
from tileloom.compat.tvm.tir.schedule.analysis import suggest_index_map

A, B = (np.random.default_rng(k).uniform(-2, 2, (3, 4)).astype("float32") for k in range(2))
ROW = np.array([1.5, -2.0, 0.5, 4.0], "float32")
LARGE = np.array([[60.0, 70.0, 88.0, 1.0], [-90.0, 3.0, 80.0, 80.0], [0, 0, 0, 0]], "float32")
BATCH = np.random.default_rng(3).random((2, 3, 4)).astype("float32")
ONE = np.random.default_rng(4).random((1, 5, 4)).astype("float32")


def computed(build: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a function of tensors gives for arrays."""
    inputs = [te.placeholder(x.shape, str(x.dtype), name=f"x{k}") for k, x in enumerate(arrays)]
    result = build(*inputs)
    out = tvm.nd.empty([int(extent) for extent in result.shape], str(result.dtype))
    tvm.build(te.create_prim_func([*inputs, result]))(*map(tvm.nd.array, arrays), out)
    return out.numpy()


def softmax(x: np.ndarray[Any, Any], axis: int) -> Any:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("build", "arrays", "wanted"),
    [
        (topi.divide, (A, B), A / B),
        (topi.minimum, (A, B), np.minimum(A, B)),
        (topi.greater, (A, B), A > B),
        (topi.less, (A, B), A < B),
        (lambda x, y: topi.power(topi.abs(x), y), (A, B), np.abs(A) ** B),
        (lambda x: topi.add(1.0, x), (A,), A + 1),
        (lambda x: topi.subtract(3.0, x), (A,), 3 - A),
        (lambda x: topi.floor_divide(x, 3), (np.arange(-6, 6),), np.arange(-6, 6) // 3),
        (lambda x: topi.mod(x, 3), (np.arange(-6, 6),), np.arange(-6, 6) % 3),
        (topi.add, (ROW, A), ROW + A),
        (topi.add, (A[:, :1].copy(), ROW[None].copy()), A[:, :1] + ROW),
        (lambda x: topi.full_like(x, 2.5), (A,), np.full_like(A, 2.5)),
        (lambda x: topi.negative(topi.floor(x)), (A,), -np.floor(A)),
        (topi.identity, (A,), A),
        (lambda x: topi.transpose(x, (2, 0, 1)), (BATCH,), BATCH.transpose(2, 0, 1)),
        (lambda x: topi.transpose(x, (-1, 0, 1)), (BATCH,), BATCH.transpose(2, 0, 1)),
        (lambda x: topi.reshape(x, (4, 2, 3)), (BATCH,), BATCH.reshape(4, 2, 3)),
        (lambda x: topi.squeeze(x, 0), (ONE,), ONE[0]),
        (lambda x: topi.squeeze(x, -3), (ONE,), ONE[0]),
        (lambda x: topi.expand_dims(x, 2, 3), (A,), A[:, :, None, None, None]),
        (lambda x: topi.sum(x, (0, -1)), (BATCH,), BATCH.sum((0, 2))),
        (lambda x: topi.sum(x, 1, True), (BATCH,), BATCH.sum(1, keepdims=True)),
        (lambda x: topi.min(x, 1), (BATCH,), BATCH.min(1)),
        (lambda x: topi.max(x, 0, True), (A,), A.max(0, keepdims=True)),
        (lambda x: topi.max(x, 1), (-np.abs(A),), -np.abs(A).min(1)),
        (lambda x: topi.min(x, 1), (np.abs(A) + 3,), np.abs(A).min(1) + 3),
        (lambda a, b: topi.matmul(a, b, transp_a=True), (A, B), A.T @ B),
        (lambda a, b: topi.matmul(a, b, True, True), (A, B[:, :3].copy()), A.T @ B[:, :3].T),
        (topi.nn.dense, (A, B, ROW[:3].copy()), A @ B.T + ROW[:3]),
        (lambda a, b: topi.nn.dense(a, b, out_dtype="float64"), (A, B), A.astype(float) @ B.T),
        (lambda a, b: topi.nn.batch_matmul(b, a), (BATCH, ONE), ONE @ BATCH.transpose(0, 2, 1)),
        (lambda a, b: topi.nn.batch_matmul(a, b), (BATCH, BATCH),
         BATCH @ BATCH.transpose(0, 2, 1)),
        (lambda a, b: topi.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False),
         (BATCH, BATCH), BATCH.transpose(0, 2, 1) @ BATCH),
        (topi.nn.softmax, (LARGE,), softmax(LARGE, 1)),
        (lambda x: topi.nn.softmax(x, 0), (LARGE,), softmax(LARGE, 0)),
        (lambda x: topi.nn.softmax(x, 1), (BATCH,), softmax(BATCH, 1)),
        (topi.nn.relu, (A,), np.maximum(A, 0)),
    ],
)  # fmt: skip
def test_topi(
    build: Callable[..., Any],
    arrays: tuple[np.ndarray[Any, Any], ...],
    wanted: np.ndarray[Any, Any],
) -> None:
    found = computed(build, *arrays)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_numbers_without_tensors() -> None:
    assert topi.add(2, 3).value == 5


# ---------------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("text", "attrs"),
    [
        ("llvm", {}),
        ("llvm -num-cores 4", {"num-cores": 4}),
        ("llvm -num-cores=4 -mcpu=haswell", {"num-cores": 4, "mcpu": "haswell"}),
        ("llvm -fast -mattr=+avx2,+fma", {"fast": 1, "mattr": ["+avx2", "+fma"]}),
        ("llvm -keys=cpu,arm -device a", {"device": "a"}),
        ("cuda -arch=sm_80", {
            "arch": "sm_80", "max_num_threads": 1024, "max_threads_per_block": 1024,
            "max_shared_memory_per_block": 49152, "thread_warp_size": 32,
        }),
    ],
)  # fmt: skip
def test_targets_are_read(text: str, attrs: dict[str, object]) -> None:
    target = Target(text)
    assert target.attrs == attrs
    assert target.export() == {
        "kind": text.split()[0], "keys": target.keys, "tag": "", **attrs
    }  # fmt: skip
    assert Target(target) == target and hash(Target(target)) == hash(target)
    assert target != Target("cuda -arch=sm_75")


def test_limits_of_targets() -> None:
    usual = Target("cuda -arch=sm_80").tileloom
    assert (usual.max_threads, usual.shared_memory) == (1024, 163 << 10)
    limits = "-max_threads_per_block=256 -max_shared_memory_per_block=65536"
    small = Target(f"cuda -arch=sm_80 {limits}")
    for target in (small, Target(small), Target(small.export())):
        ours = target.tileloom
        assert (ours.max_threads, ours.shared_memory, ours.warp_size) == (256, 65536, 32)
    assert Target("llvm -max_threads_per_block=256").tileloom.max_threads == 0


def test_what_targets_know() -> None:
    cpu, gpu = Target("llvm -num-cores 4"), Target("cuda")
    assert (cpu.get_target_device_type(), gpu.get_target_device_type()) == (1, 2)
    assert (cpu.keys, gpu.keys) == (["cpu"], ["cuda", "gpu"])
    assert (cpu.num_cores, cpu.mcpu, gpu.arch) == (4, None, "sm_90")
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = cpu.colour
    assert str(Target("llvm -mattr=+avx2,+fma")) == "llvm -keys=cpu -mattr=+avx2,+fma"
    both: Any = gpu.with_host("llvm -num-cores 2")
    assert both.host.num_cores == 2
    assert Target(both).host.num_cores == 2 and Target(both, "llvm").host.num_cores is None
    assert Target({"kind": "cuda", "host": "llvm"}).host.kind.name == "llvm"
    for text, words in [("", "needs a name"), ("nvidia/abacus", "unknown target tag")]:
        with pytest.raises(ValueError, match=words):
            Target(text)
    with pytest.raises(ValueError, match="no target is set"):
        Target.current(allow_none=False)
    with cpu:
        with gpu:
            assert Target.current(allow_none=False) is gpu
        assert Target.current() is cpu
    assert Target.current() is None


# ---------------------------------------------------------------------------- arithmetic


def test_intervals() -> None:
    for low, high, nothing in [(0, 3, False), (3, 3, False), (4, 3, True)]:
        assert IntervalSet(low, high).is_nothing() is nothing
    n = tir.Var("n", "int32")
    assert not IntervalSet(n, 3).is_nothing()
    assert not IntervalSet(0, 3).is_everything()


def test_linear_equations_of_several_variables() -> None:
    x, y, z = (tir.Var(name, "int32") for name in "xyz")
    found = detect_linear_equation(x * 4 - y * 2 + z + 7, [x, y])
    for have, want in zip(found, [4, -2, z + 7], strict=True):
        assert Analyzer().can_prove_equal(have, want)
    assert detect_linear_equation(x * y, [x, y]) == []
    assert detect_linear_equation(x // 2, [x]) == []


def test_sums_of_splits() -> None:
    i, j = (tir.Var(name, "int32") for name in "ij")
    domains: dict[Any, Any] = {i: Range(0, 8), j: Range(0, 4)}
    assert len(normalize_to_iter_sum(i * 4 + j, domains).args) > 0
    with pytest.raises(ValueError, match="no sum of splits"):
        normalize_to_iter_sum(i * i, domains)


@pytest.mark.parametrize(
    ("shape", "access", "found"),
    [
        ((32, 64), lambda j, i, k: [i, j * 8 + k], "(i0, i1) -> (i1 // 8, i0, i1 % 8)"),
        ((64, 32), lambda j, i, k: [j * 8 + k, i], "(i0, i1) -> (i0 // 8, i1, i0 % 8)"),
        ((8, 32, 8), lambda j, i, k: [j, i, k], "(i0, i1, i2) -> (i0, i1, i2)"),
        ((8, 32), lambda j, i, k: [k, i], "(i0, i1) -> (i1, i0)"),
        # Gaps, what is not linear, and overlaps have no layout.
        ((32, 128), lambda j, i, k: [i, j * 16 + k], None),
        ((32, 128), lambda j, i, k: [i, j * 8 + k * 2], None),
        ((64, 64), lambda j, i, k: [i, j * j + k], None),
        ((0, 64), lambda j, i, k: [i, j * 8 + k], None),
    ],
)  # fmt: skip
def test_layouts_are_suggested(
    shape: tuple[int, ...], access: Callable[..., Any], found: str | None
) -> None:
    j, i, k = (tir.Var(name, "int32") for name in "jik")
    loops = [
        tir.For(v, 0, n, tir.ForKind.SERIAL, tir.Evaluate(0)) for v, n in ((j, 8), (i, 32), (k, 8))
    ]
    made = suggest_index_map(tir.decl_buffer(shape), access(j, i, k), loops)
    assert (None if made is None else str(made)) == (found and f"IndexMap({found})")


# ---------------------------------------------------------------------------- nodes, arrays


def test_types_of_variables() -> None:
    assert PrimType("handle") == PrimType("handle") != PrimType("void")
    assert PrimType("int8") == PrimType("int8") != PrimType("int32")
    assert PrimType("int32").dtype == "int32" and hash(PrimType("int8")) == hash(PrimType("int8"))
    assert PointerType(PrimType("int8")).storage_scope == "global"
    assert PointerType(PrimType("int8"), "shared").storage_scope == "shared"
    with pytest.raises(ValueError, match="no operation"):
        Op.get("tir.unheard_of")
    assert str(Op.get("tir.exp")) == "tir.exp"
    with pytest.raises(ValueError, match=r"called like 'tir\.exp'"):
        tir.Call("float32", "exp", [1.0])
    assert tir.Call("float32", "tir.exp", [1.0]).dtype == "float32"


def test_axes_of_threads() -> None:
    assert te.thread_axis("threadIdx.x").dom is None
    assert te.thread_axis("threadIdx.x").thread_tag == "threadIdx.x"
    for given in ((2, 34), Range(2, 34)):
        axis: Any = te.thread_axis(given, "threadIdx.y", "t")
        assert (axis.dom.min.value, axis.dom.extent.value) == (2, 32)
        assert (axis.thread_tag, axis.var.name) == ("threadIdx.y", "t")
    assert te.thread_axis(32, "threadIdx.y").dom.extent.value == 32


def test_modules_as_mappings() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, topi.exp(x)])
    module = tvm.IRModule({"f": func})
    assert "f" in module and "g" not in module and list(module) == ["f"] and len(module) == 1
    module["g"] = func
    assert len(module) == 2 and "g" in module
    del module["f"]
    assert list(module) == ["g"]
    built = tvm.build(tvm.IRModule({"f": func}))
    for entry in (built, built.entry_func, built.get_function("__tvm_main__")):
        out = tvm.nd.empty((4,))
        entry(tvm.nd.array(np.ones(4, "float32")), out)
        np.testing.assert_allclose(out.numpy(), np.e, rtol=1e-6)
    assert built.implements_function("f") and not built.implements_function("h")
    assert built.implements_function("__tvm_main__")
    with pytest.raises(AttributeError, match="no function 'h'"):
        built.get_function("h")
    assert "define" in built.get_source() and "define" not in built.get_source("s")


def test_arrays() -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    made = tvm.nd.array(values)
    copied = made.numpy()
    copied[0, 0] = 7
    assert made.numpy()[0, 0] == 0 and (made.ndim, len(made), made.shape) == (2, 2, (2, 3))
    made[1, 2] = 9
    assert made[1, 2] == 9 and made.same_as(made) and not made.same_as(tvm.nd.array(values))
    with pytest.raises(ValueError, match="does not fit"):
        made.copyfrom(np.zeros(6))
    assert made.copyto(tvm.nd.empty((2, 3))).numpy()[1, 2] == 9
    assert made.copyto(tvm.cpu()).numpy()[1, 2] == 9
    assert made._create_view((6,)).shape == (6,)
    assert made._create_view((2, 3), "int32").dtype == "int32"
    with pytest.raises(tvm.TVMError, match="cannot be put on"):
        tvm.nd.array(values, tvm.opencl(0))


@pytest.mark.parametrize(
    ("name", "number", "device"),
    [("cpu", 0, (1, 0)), ("cpu:1", 0, (1, 1)), ("llvm -mcpu=x", 0, (1, 0)), ("cuda", 2, (2, 2)),
     ("cuda:3", 0, (2, 3)), ("vulkan", 0, (7, 0)), ("rocm:1", 5, (10, 1))],
)  # fmt: skip
def test_devices(name: str, number: int, device: tuple[int, int]) -> None:
    found = tvm.device(name, number)
    assert (found.device_type, found.device_id) == device
    assert found == tvm.device(str(name).split()[0], number) != tvm.device("metal")
    assert hash(found) == hash(tvm.device(name, number))
    assert tvm.cpu(1) != tvm.cpu(0) and tvm.cpu().exist and not tvm.vulkan().exist
    with pytest.raises(ValueError, match="unknown device"):
        tvm.device("abacus")


def test_runs_are_repeated_until_they_take_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    calls = [0]
    monkeypatch.setattr(modules, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def takes(seconds: float) -> Callable[..., Any]:
        def run(*_args: object) -> None:
            calls[0] += 1
            clock[0] += seconds

        return run

    assert modules._seconds(takes(0.5), (), 4, 0.0) == 0.5 and calls == [4]
    calls[0] = 0
    assert modules._seconds(takes(0.5), (), 1, 2.0) == 0.5 and calls == [1 + 4]
    calls[0] = 0
    assert modules._seconds(takes(1.0), (), 1, 1.0) == 1.0 and calls == [1]


def test_buffers_by_their_flat_index() -> None:
    ib = tir.ir_builder.create()
    one = ib.allocate("int32", (8,), name="one")
    two = ib.allocate("int32", (3, 4), name="two")
    three = ib.allocate("int32", (2, 3, 4), name="three")
    with ib.for_range(0, 8, name="i") as i:
        one[i] = two[i] + three[i]
        two[i % 3, i % 4] = three[i % 2, i % 3, 1]
    text = str(ib.get())
    assert (
        "one" in text and "two_1[i // 4, i % 4] + three_1[i // 4 // 3, i // 4 % 3, i % 4]" in text
    )
    assert "two_1[i % 3, i % 4] = three_1[i % 2, i % 3, 1]" in text


def test_loops_of_a_builder() -> None:
    ib = tir.ir_builder.create()
    assert str(ib.get()) == "T.evaluate(0)"
    ib = tir.ir_builder.create()
    shared = ib.pointer("int32", "p", "shared")
    plain = ib.pointer("float32", "q")
    with ib.for_range(2, 10, "i", dtype="int64", kind="unroll") as i:
        with pytest.raises(tvm.TVMError, match="still open"):
            ib.get()
        plain[i] = 1.0
        with ib.for_range(1, 4, kind="vectorize") as j:
            shared[j] = 3
    assert str(i.dtype) == "int64" and str(j.dtype) == "int32"
    text = str(ib.get())
    assert "for i in T.unroll(T.int64(2), T.int64(10)):" in text
    assert "in T.vectorized(1, 4):" in text
    assert (shared._buffer.scope, plain._buffer.scope) == ("shared", "global")


def test_what_is_known_of_variables() -> None:
    x = tir.Var("x", "int32")
    known = Analyzer()
    known.update(x, IntervalSet(2, 5))
    bound = known.const_int_bound(x)
    assert (bound.min_value, bound.max_value) == (2, 5)
    known.update(x, IntervalSet(0, 1), True)
    assert known.const_int_bound(x).max_value == 1
    known.update(x, known.modular_set(x * 4 + 3), True)
    assert known.modular_set(x).coeff == 4 and known.modular_set(x).base == 3


def test_transforms_of_expressions_keep_what_they_do_not_change() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    expr = (x + 1) * (y + 2)
    same = tir.stmt_functor.ir_transform(expr, None, lambda node: None)
    assert same is expr
    changed = tir.stmt_functor.ir_transform(
        expr, None, lambda node: y if node is x else None, ["tir.Var"]
    )
    assert tvm.ir.structural_equal(changed, (y + 1) * (y + 2))


def test_what_is_built() -> None:
    x = te.placeholder((4,), name="x")
    tensors = [x, topi.exp(x)]
    func = te.create_prim_func(tensors)
    machine = Target("llvm").tileloom
    for what, names in [
        (tensors, ["main"]), (func, ["main"]), (tvm.IRModule({"f": func, "g": func}), ["f", "g"])
    ]:  # fmt: skip
        built = tvm.build(what, machine)
        assert all(built.implements_function(name) for name in names)
    assert tvm.build(func, name="other").implements_function("other")
    with pytest.raises(tvm.TVMError, match="cannot build int"):
        tvm.build(3)


# ---------------------------------------------------------------------------- testing

TESTS = """
import pytest
from tileloom.compat.tvm.script import tir as T
import tileloom.compat.tvm.testing as testing

size = testing.parameter(1, 2, 3)
word = testing.parameter(by_dict={"a": "x", "b": "y"})
left, right = testing.parameters((1, 10), (2, 20), (3, 30))
other, = testing.parameters((4,), (5,))
seen = []

@testing.fixture
def plain():
    return 5

@testing.fixture(cache_return_value=True)
def cached():
    return 6

def test_sizes(size, word):
    seen.append((size, word))

def test_together(left, right, other):
    assert right == 10 * left
    seen.append((left, other))

def test_fixtures(plain, cached):
    assert (plain, cached) == (5, 6)

@testing.requires_cuda
def test_of_a_gpu():
    raise AssertionError

@testing.requires_llvm
def test_of_a_cpu():
    seen.append("cpu")

@testing.parametrize_targets("llvm")
def test_of_targets(target, dev):
    assert str(target) == "llvm" and dev.device_type == 1
    seen.append("target")

@testing.parametrize_targets
def test_of_all_targets(target, dev):
    assert target == "llvm"

@testing.parametrize_targets("cuda", "llvm")
def test_of_two_targets(target, dev):
    assert target == "llvm"

class TestComparison(testing.CompareBeforeAfter):
    def transform(self):
        return lambda module: module

    def before(a: T.Buffer((4,), "float32")):
        for i in range(4):
            a[i] = 1.0

    def expected(a: T.Buffer((4,), "float32")):
        for i in range(4):
            a[i] = 1.0

class TestFailure(testing.CompareBeforeAfter):
    @pytest.fixture
    def transform(self):
        def run(module):
            raise ValueError
        return run

    def before(a: T.Buffer((4,), "float32")):
        a[0] = 1.0

    expected = ValueError

@pytest.mark.xfail(strict=True)
class TestDifference(testing.CompareBeforeAfter):
    def transform(self):
        return lambda module: module

    def before(a: T.Buffer((4,), "float32")):
        a[0] = 1.0

    def expected(a: T.Buffer((4,), "float32")):
        a[0] = 2.0

def test_all():
    assert seen == [(size, word) for size in (1, 2, 3) for word in "xy"] or len(seen) == 14
    assert {s for s in seen if isinstance(s, str)} == {"cpu", "target"}
    assert sorted(s for s in seen if not isinstance(s, str) and not isinstance(s[1], str)) == [
        (k, m) for k in (1, 2, 3) for m in (4, 5)]

if __name__ == "__main__":
    testing.main()
"""


def test_the_testing_module(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_names=TESTS)
    result = pytester.runpytest("-p", "no:cacheprovider", "-q")
    # Of 18 combinations of three places, three and two, the 6 where both stand together run.
    result.assert_outcomes(passed=6 + 6 + 8, skipped=12 + 2, xfailed=1)


def test_main_runs_the_file_that_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileloom.compat.tvm import testing

    given: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["file.py", "-k", "x"])
    monkeypatch.setattr(testing, "_pytest", lambda: SimpleNamespace(main=given.append))
    with pytest.raises(SystemExit):
        testing.main()
    assert given == [[__file__, "-k", "x"]]


def test_equality_of_expressions_is_asserted() -> None:
    x = tir.Var("x", "int32")
    tvm.testing.assert_prim_expr_equal(x + x, x * 2)
    with pytest.raises(ValueError, match="not equal"):
        tvm.testing.assert_prim_expr_equal(x + 1, x)
    tvm.testing.assert_allclose([1.0, 2.0], [1.0, 2.0 + 1e-9])
    for wrong in ([1.0, 2.1], [1.0], [[1.0, 2.0]]):
        with pytest.raises(AssertionError):
            tvm.testing.assert_allclose([1.0, 2.0], wrong)
