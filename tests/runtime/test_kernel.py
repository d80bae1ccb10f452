"""Calling kernels: what is accepted and refused, on the native way and the slow one."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileloom.base.dtype import dtype
from tileloom.base.errors import ArgumentError, InternalError
from tileloom.runtime import Kernel, KernelAssertionError, ParamSpec, entry, kernel

SOURCES = str(Path(__file__).resolve().parents[2] / "src")
# Stores the pointers it is given into what its last parameter points to.
RECORD = """
define i32 @record__packed(ptr %args) {{
  %last.place = getelementptr ptr, ptr %args, i64 {last}
  %last = load ptr, ptr %last.place
  call void @llvm.memcpy.p0.p0.i64(ptr %last, ptr %args, i64 {bytes}, i1 false)
  ret i32 0
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
# out[i] = the 8 bytes of the i-th scalar.
SCALARS = """
define i32 @scalars__packed(ptr %args) {{
entry:
  %out = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %place = getelementptr ptr, ptr %args, i64 %next
  %pointer = load ptr, ptr %place
  %value = load i64, ptr %pointer
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %value, ptr %to
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""
FAIL = """
define i32 @fail__packed(ptr %args) {
  %p = load ptr, ptr %args
  %v = load i32, ptr %p
  ret i32 %v
}
"""
SLEEP = """
declare i32 @usleep(i32)
define i32 @sleep__packed(ptr %args) {
  %x = call i32 @usleep(i32 100000)
  ret i32 0
}
"""


def buffer(name: str, kind: str, shape: Any, **rest: Any) -> ParamSpec:
    return ParamSpec(name, "buffer", dtype(kind), tuple(shape), **rest)


def scalar(name: str, kind: str, **rest: Any) -> ParamSpec:
    return ParamSpec(name, "scalar", dtype(kind), **rest)


@pytest.fixture(params=["native", "slow"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels built in the test go through the native entry, or do without."""
    if request.param == "slow":
        monkeypatch.setattr(kernel, "make_builtin", lambda *_: None)
    return request.param


@pytest.fixture
def recorder(assemble: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Makes a kernel with the given buffers; it writes the addresses it got into its last one."""

    def make(*params: ParamSpec) -> Kernel:
        out = buffer("out", "int64", (len(params) + 1,), access="w")
        text = RECORD.format(last=len(params), bytes=8 * (len(params) + 1))
        loaded = assemble(text)
        return Kernel("f", loaded.address("record__packed"), [*params, out], loaded)

    return make


def run(function: Kernel, *arguments: Any) -> list[int]:
    out = np.zeros(len(function.params), np.int64)
    returned: Any = function(*arguments, out)  # type: ignore[func-returns-value]
    assert returned is None
    return out.tolist()[:-1]


def refused(function: Kernel, *arguments: Any) -> str:
    out = np.zeros(len(function.params), np.int64)
    with pytest.raises(ArgumentError) as caught:
        function(*arguments, out)
    assert not out.any(), "the kernel ran"
    return str(caught.value)


def test_the_native_way_is_there() -> None:
    assert entry._code() is not None


@pytest.mark.parametrize(
    "kind", ["float16", "bfloat16", "float32", "float64", "int8", "uint64", "bool", "int64"]
)
def test_arrays_of_all_types_pass_through(recorder: Callable[..., Any], kind: str) -> None:
    a, b = np.zeros((3, 5), dtype(kind).numpy), np.zeros((), dtype(kind).numpy)
    function = recorder(buffer("a", kind, (3, 5)), buffer("b", kind, ()))
    assert run(function, a, b) == [a.ctypes.data, b.ctypes.data]


def test_every_wrong_type_is_refused(recorder: Callable[..., Any]) -> None:
    kinds = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "bool"]
    for kind in kinds:
        function = recorder(buffer("a", kind, (4,)))
        for other in kinds:
            if other != kind:
                text = refused(function, np.zeros(4, dtype(other).numpy))
                assert text.startswith("f() argument 1 (a): expected")
                assert f"{kind} array" in text and other in text


def test_equal_but_not_identical_numpy_types(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "int64", (4,)))
    same = np.zeros(4, np.dtype(np.longlong))
    assert run(function, same) == [same.ctypes.data]
    tagged = np.zeros(4, np.dtype("int64", metadata={"x": 1}))
    assert run(function, tagged) == [tagged.ctypes.data]
    assert "byte order" in refused(function, np.zeros(4, ">i8"))


@pytest.mark.parametrize("shape", [(4, 3), (3,), (3, 4, 1), (), (3, 5), (0, 4)])
def test_wrong_shapes_are_refused(recorder: Callable[..., Any], shape: tuple[int, ...]) -> None:
    text = refused(recorder(buffer("a", "float32", (3, 4))), np.zeros(shape, np.float32))
    assert "(3, 4)" in text and str(shape) in text


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 0, 2), (1, 1), (1,)])
def test_zero_and_one_extents(recorder: Callable[..., Any], shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, np.float32)
    run(recorder(buffer("a", "float32", shape)), a)
    run(recorder(buffer("a", "float32", shape)), np.asfortranarray(a))


def test_symbols_bind_and_agree(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", ("n", "m")), buffer("b", "float32", ("m", 2)))
    a, b = np.zeros((3, 5), np.float32), np.zeros((5, 2), np.float32)
    run(function, a, b)
    run(function, a[:, :0].copy(), b[:0])
    text = refused(function, a, b[:4])
    assert "argument 2 (b)" in text and "m is 4 here, but 5 by axis 1 of argument 1 (a)" in text


def test_implicit_scalars_come_from_shapes(assemble: Callable[..., Any], way: str) -> None:
    loaded = assemble(SCALARS.format(count=2))
    out = buffer("out", "int64", ("n",), access="w")
    params = [out, scalar("n", "int32", implicit=True), scalar("n", "int64", implicit=True)]
    function = Kernel("f", loaded.address("scalars__packed"), params, loaded)
    for extent in (2, 3, 17):
        result = np.zeros(extent, np.int64)
        function(result)
        assert result.tolist() == [extent, extent] + [0] * (extent - 2)
    with pytest.raises(ArgumentError, match=r"f\(\) takes 1 arguments \(out\), got 2"):
        function(result, 3)
    with pytest.raises(InternalError):
        Kernel("f", 1, [scalar("n", "int32", implicit=True)])


def test_a_narrow_implicit_scalar_is_checked(assemble: Callable[..., Any], way: str) -> None:
    loaded = assemble(SCALARS.format(count=1))
    params = [buffer("out", "int64", ("n",), access="w"), scalar("n", "int8", implicit=True)]
    function = Kernel("f", loaded.address("scalars__packed"), params, loaded)
    function(np.zeros(127, np.int64))
    with pytest.raises(ArgumentError, match="extent n is 128"):
        function(np.zeros(128, np.int64))


def test_explicit_scalars_tie_symbols(recorder: Callable[..., Any]) -> None:
    function = recorder(scalar("n", "int32"), buffer("a", "float32", ("n",)))
    a = np.zeros(6, np.float32)
    assert run(function, 6, a)[1] == a.ctypes.data
    assert "n is 6 here, but 5 by argument 1" in refused(function, 5, a)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int8", -128, -128 & 0xFF),
        ("int8", 127, 127),
        ("uint8", 255, 255),
        ("int32", -(2**31), 2**31),
        ("uint32", 2**32 - 1, 2**32 - 1),
        ("int64", -1, 2**64 - 1),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("int64", -(2**63), 2**63),
        ("bool", True, 1),
        ("bool", np.False_, 0),
        ("int32", np.int16(-5), 2**32 - 5),
        ("int32", np.array(7), 7),
        ("int32", True, 1),
        ("float32", 1.5, 0x3FC00000),
        ("float32", 2, 0x40000000),
        ("float32", -1.0, 0xBF800000),
        ("float32", np.float64(0.5), 0x3F000000),
        ("float32", float("inf"), 0x7F800000),
        ("float32", float("-inf"), 0xFF800000),
        ("float64", -1.0, 0xBFF0000000000000),
        ("float64", 1e300, 0x7E37E43C8800759C),
        ("float16", 1.0, 0x3C00),
        ("bfloat16", 1.0, 0x3F80),
        ("bfloat16", ml_dtypes.bfloat16(2), 0x4000),
    ],
)
def test_scalars(
    assemble: Callable[..., Any], way: str, kind: str, value: Any, expected: int
) -> None:
    loaded = assemble(SCALARS.format(count=1))
    params = [buffer("out", "int64", (1,), access="w"), scalar("x", kind)]
    function = Kernel("f", loaded.address("scalars__packed"), params, loaded)
    out = np.zeros(1, np.int64)
    function(out, value)
    mask = (1 << dtype(kind).bytes * 8) - 1
    assert int(out[0]) & mask == expected


def test_nan_is_a_number(assemble: Callable[..., Any], way: str) -> None:
    loaded = assemble(SCALARS.format(count=1))
    params = [buffer("out", "int64", (1,), access="w"), scalar("x", "float32")]
    out = np.zeros(1, np.int64)
    Kernel("f", loaded.address("scalars__packed"), params, loaded)(out, float("nan"))
    assert np.isnan(out.view(np.float32)[0])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("int8", -129),
        ("uint8", -1),
        ("int32", 2**31),
        ("int64", 2**63),
        ("int64", 10**30),
        ("uint64", -1),
        ("uint64", 2**64),
        ("bool", 2),
        ("int32", 1.0),
        ("int32", np.float32(1)),
        ("int32", "1"),
        ("int32", None),
        ("float32", "1"),
        ("float32", None),
        ("float32", 1e39),
        ("float32", -1e39),
        ("float16", 70000.0),
        ("float32", [1.0]),
        ("float64", 1j),
    ],
)
def test_bad_scalars_are_refused(recorder: Callable[..., Any], kind: str, value: Any) -> None:
    text = refused(recorder(scalar("x", kind)), value)
    assert text.startswith(f"f() argument 1 (x): expected a {kind} number, got")


def test_layouts_that_are_not_row_major_are_refused(recorder: Callable[..., Any]) -> None:
    a = np.zeros((4, 6), np.float32)
    function = recorder(buffer("a", "float32", (4, 3)))
    for bad in (a[:, ::2], a[:, 2:5], np.zeros((3, 4), np.float32).T, a[::-1, :3]):
        assert "row-major" in refused(function, bad)
    assert "(24, 8)" in refused(function, a[:, ::2])
    run(function, a.reshape(-1)[:12].reshape(4, 3))


def test_strided_parameters(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", (4, 3), strides=(6, 2)))
    a = np.zeros((4, 6), np.float32)
    assert run(function, a[:, ::2]) == [a.ctypes.data]
    assert "expected strides (24, 8), got (12, 4)" in refused(function, np.zeros((4, 3), "f4"))
    one = recorder(buffer("a", "float32", (1, 3), strides=(77, 2)))
    run(one, a[:1, ::2])


def test_symbolic_strides(recorder: Callable[..., Any]) -> None:
    a = np.zeros((4, 6), np.float32)
    two = recorder(
        buffer("a", "float32", (4, 3), strides=("s", 1)),
        buffer("b", "float32", (4, 2), strides=("s", 1)),
    )
    run(two, a[:, :3], np.zeros((4, 6), np.float32)[:, 1:3])
    assert "expected strides (24, 4)" in refused(two, a[:, :3], np.zeros((4, 2), np.float32))


def test_alignment_is_checked(recorder: Callable[..., Any]) -> None:
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64
    good = raw[start : start + 64].view(np.float32)
    bad = raw[start + 16 : start + 80].view(np.float32)
    odd = np.frombuffer(raw.data, np.float32, 16, start + 1)
    function = recorder(buffer("a", "float32", (16,), alignment=64))
    assert run(function, good) == [good.ctypes.data]
    assert "multiple of 64" in refused(function, bad)
    assert "multiple of 4" in refused(recorder(buffer("a", "float32", (16,))), odd)


def test_read_only_arrays_may_only_be_read(recorder: Callable[..., Any]) -> None:
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    run(recorder(buffer("a", "float32", (4,))), a)
    for access in ("w", "rw"):
        text = refused(recorder(buffer("a", "float32", (4,), access=access)), a)
        assert "argument 1 (a)" in text and "read-only" in text


def test_outputs_must_not_share_memory(recorder: Callable[..., Any]) -> None:
    a = np.zeros(10, np.float32)
    reads = recorder(buffer("a", "float32", (6,)), buffer("b", "float32", (6,)))
    run(reads, a[:6], a[2:8])
    run(reads, a[:6], a[:6])
    for access in ("w", "rw"):
        writes = recorder(buffer("a", "float32", (6,)), buffer("b", "float32", (4,), access=access))
        run(writes, a[:6], a[6:])
        run(writes, a[4:], a[:4])
        for first, second in [(a[:6], a[5:9]), (a[4:], a[1:5]), (a[:6], a[:4]), (a[:6], a[1:5])]:
            text = refused(writes, first, second)
            assert "argument 2 (b): shares memory with argument 1 (a)" in text
    other_order = recorder(buffer("a", "float32", (4,), access="w"), buffer("b", "float32", (6,)))
    assert "writes to a" in refused(other_order, a[:4], a[3:9])


def test_empty_arrays_share_nothing(recorder: Callable[..., Any]) -> None:
    a = np.zeros(10, np.float32)
    function = recorder(buffer("a", "float32", (10,)), buffer("b", "float32", (0,), access="w"))
    run(function, a, a[5:5])


@pytest.mark.parametrize(
    "value", [None, 1, 2.5, "text", [1.0] * 4, (1, 2), {}, object(), np.float32(3)]
)
def test_things_that_are_no_arrays(recorder: Callable[..., Any], value: Any) -> None:
    text = refused(recorder(buffer("a", "float32", (4,))), value)
    assert text.startswith("f() argument 1 (a): expected a float32 array of shape (4,), got not an")


def test_wrong_count_names_the_parameters(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", (4,)), scalar("x", "int32"))
    with pytest.raises(ArgumentError, match=r"f\(\) takes 3 arguments \(a, x, out\), got 0"):
        function()
    with pytest.raises(ArgumentError, match="got 4"):
        function(1, 2, 3, 4)


def test_subclasses_and_interfaces_are_accepted(recorder: Callable[..., Any]) -> None:
    class Sub(np.ndarray):
        pass

    class Interface:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

    class Array:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
            return self.array

    class Pack:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **rest: Any) -> Any:
            return self.array.__dlpack__(**rest)

        def __dlpack_device__(self) -> tuple[int, ...]:
            return self.array.__dlpack_device__()

    a: Any = np.arange(12, dtype=np.float32).reshape(3, 4)
    function = recorder(buffer("a", "float32", (3, 4)))
    for same in (a.view(Sub), Interface(a), Array(a), Pack(a), memoryview(a)):
        assert run(function, same) == [a.ctypes.data]


def test_pytorch_tensors_are_accepted(recorder: Callable[..., Any]) -> None:
    torch = pytest.importorskip("torch")
    for kind in ("float32", "bfloat16", "bool", "int64", "float16"):
        function = recorder(buffer("a", kind, (3, 4)))
        tensor = torch.zeros(3, 4, dtype=getattr(torch, kind))
        assert run(function, tensor) == [tensor.data_ptr()]
        if kind != "bool" and tensor.is_floating_point():
            assert run(function, tensor.requires_grad_()) == [tensor.data_ptr()]
    function = recorder(buffer("a", "float32", (3, 4)))
    assert "row-major" in refused(function, torch.zeros(4, 3).T)
    assert "float64" in refused(function, torch.zeros(3, 4, dtype=torch.float64))
    assert "sparse" in refused(function, torch.zeros(3, 4).to_sparse())
    assert "one on meta" in refused(function, torch.zeros(3, 4, device="meta"))


def test_arrays_on_other_devices_are_refused(recorder: Callable[..., Any]) -> None:
    class Cuda:
        shape, dtype = (4,), "float32"

        def __dlpack_device__(self) -> tuple[int, ...]:
            return (2, 1)

        def __dlpack__(self, **rest: Any) -> None:
            raise BufferError("must not be asked")

    text = refused(recorder(buffer("a", "float32", (4,))), Cuda())
    assert "got one on cuda:1" in text and "hint: move it to the CPU" in text


def test_assertions_raise_with_their_message(assemble: Callable[..., Any], way: str) -> None:
    loaded = assemble(FAIL)
    params = [scalar("which", "int32")]
    function = Kernel("f", loaded.address("fail__packed"), params, loaded, ["n is odd", "no room"])
    function(0)
    with pytest.raises(KernelAssertionError, match="f: no room"):
        function(2)
    with pytest.raises(KernelAssertionError, match="assertion 9"):
        function(9)


def test_launch_takes_pointers(assemble: Callable[..., Any], way: str) -> None:
    loaded = assemble(FAIL)
    function: Any = Kernel(
        "f", loaded.address("fail__packed"), [scalar("which", "int32")], loaded, ["x"]
    )
    value = ctypes.c_int64(0)
    table: Any = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    assert function.launch(ctypes.addressof(table)) is None
    assert function.launch(table) is None
    value.value = 1
    with pytest.raises(KernelAssertionError, match="f: x"):
        function.launch(ctypes.addressof(table))
    for bad in ((), (1, 2), ("x",), (0,), (None,)):
        with pytest.raises(ArgumentError, match="launch"):
            function.launch(*bad)


def test_large_work_lets_other_threads_run(assemble: Callable[..., Any]) -> None:
    loaded = assemble(SLEEP)
    params = [buffer("a", "uint8", (1 << 20,))]
    function = Kernel("f", loaded.address("sleep__packed"), params, loaded)
    big = np.zeros(1 << 20, np.uint8)
    ticks = []
    thread = threading.Thread(target=function, args=(big,))
    start = time.perf_counter()
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter() - start)
        time.sleep(0.005)
    assert sum(tick < 0.09 for tick in ticks) >= 5


def test_kernels_are_freed_without_the_collector(assemble: Callable[..., Any]) -> None:
    class Keep:
        pass

    keep = Keep()
    gone = weakref.ref(keep)
    loaded = assemble(FAIL)
    function = Kernel("f", loaded.address("fail__packed"), [scalar("n", "int32")], (keep, loaded))
    alone = function.__call__
    gc.disable()
    try:
        del keep, function
        assert gone() is not None
        alone(0)  # the built-in alone keeps what it needs
        del alone
        assert gone() is None
    finally:
        gc.enable()


# Kernels in cycles, in a process whose C library overwrites memory that is freed: with 0x5a, which
# read as a method's flags promises a class behind the built-in function.
CYCLES = """
import gc, weakref
import tileloom.driver
from tileloom.runtime import Kernel

class Model:
    pass

kept = []
for count in range(300):
    model = Model()
    model.kernel = Kernel("k" * (count % 40), 4096, [], keep_alive=model)
    model.call = model.kernel.__call__
    assert type(model.call).__name__ == "builtin_function_or_method"
    if count % 3:
        kept.append(model)
    if count % 50 == 0:
        kept.clear()
        gc.collect()
gone = weakref.ref(model)
del model, kept
gc.collect()
assert gone() is None
print("collected")
"""


def test_kernels_in_garbage_cycles_are_freed() -> None:
    """The collector empties what is in a cycle one by one; each must stand the others' end."""
    shown = subprocess.run(
        [sys.executable, "-c", CYCLES],
        env={"PYTHONPATH": SOURCES, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "90"},
        capture_output=True,
        text=True,
    )
    assert (shown.returncode, shown.stdout) == (0, "collected\n"), shown.stderr


def test_calls_do_not_leak(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", (4,)), scalar("x", "int32"))
    a, wrong, out = np.zeros(4, np.float32), np.zeros(5, np.float32), np.zeros(3, np.int64)
    counted = [a, wrong, out, None]
    before = [sys.getrefcount(value) for value in counted]
    for _ in range(1000):
        function(a, 1000, out)
        with pytest.raises(ArgumentError):
            function(wrong, 1000, out)
    after = [sys.getrefcount(value) for value in counted]
    # Others hold None, and more or less of it from moment to moment.
    assert all(abs(now - then) < 500 for now, then in zip(after, before, strict=True))


def test_calls_from_many_threads(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", ("n",)))
    wrong = []

    def work(extent: int) -> None:
        a = np.zeros(extent, np.float32)
        seen = {tuple(run(function, a)) for _ in range(500)}
        if seen != {(a.ctypes.data,)}:
            wrong.append(extent)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 100, 20_000, 100_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_parameters(recorder: Callable[..., Any]) -> None:
    arrays = [np.zeros(n + 1, np.float32) for n in range(40)]
    function = recorder(*(buffer(f"a{n}", "float32", (n + 1,)) for n in range(40)))
    assert run(function, *arrays) == [array.ctypes.data for array in arrays]


def test_repr_shows_the_signature(recorder: Callable[..., Any]) -> None:
    function = recorder(buffer("a", "float32", ("n", 4)), scalar("x", "int32"))
    assert repr(function).startswith("<Kernel f(a: float32 array of shape (n, 4), x: int32 number")
    assert function.name == "f" and function.address
