"""Programs built and run by scripts for TVM, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from gpu_suite import has_gpu
from tileloom.compat.tvm import NDArray, te
from tileloom.compat.tvm.runtime import Device
from tileloom.compat.tvm.script import ir as I
from tileloom.compat.tvm.script import tir as T

RNG = np.random.default_rng(3)


@I.ir_module
class Module:
    @T.prim_func
    def add(
        A: T.Buffer((7, 3), "float32"), B: T.Buffer((7, 3), "float32"),
        C: T.Buffer((7, 3), "float32"),
    ) -> None:  # fmt: skip
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(7, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vi, vj]

    @T.prim_func
    def fill(A: T.Buffer((5,), "int32"), value: T.int32) -> None:
        for i in T.parallel(5):
            with T.block("A"):
                vi = T.axis.spatial(5, i)
                A[vi] = value + vi


def arrays(dev: Device) -> tuple[NDArray, ...]:
    a, b = (RNG.random((7, 3)).astype("float32") for _ in range(2))
    return tvm.nd.array(a, dev), tvm.nd.array(b, dev), tvm.nd.empty((7, 3), "float32", dev)


@pytest.mark.parametrize("make", [tvm.build, tvm.compile, tvm.driver.build, tvm.tir.build])
def test_build_and_call(make: Callable[..., Any]) -> None:
    dev = tvm.device("llvm", 0)
    lib = make(Module, target=tvm.target.Target("llvm"))
    a, b, c = arrays(dev)
    lib["add"](a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    out = tvm.nd.empty((5,), "int32")
    lib.get_function("fill")(out, 40)
    np.testing.assert_array_equal(out.asnumpy(), np.arange(5) + 40)
    with pytest.raises(AttributeError):
        lib["sub"]


def test_a_single_function_is_the_entry() -> None:
    lib = tvm.build(Module["add"], target="llvm")
    a, b, c = arrays(tvm.cpu())
    lib(a, b, c)
    tvm.testing.assert_allclose(c, a.numpy() + b.numpy())
    lib[lib.entry_name](a, a, c)
    tvm.testing.assert_allclose(c, a.numpy() * 2)
    assert lib.entry_func.name == "add"
    named = tvm.build(Module["add"], target="llvm", name="other")
    assert named.implements_function("other")


def test_tensors_are_built_too() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[5 - i] * 3.0, name="B")
    lib = tvm.build([a, b], target="llvm", name="turn")
    x, y = tvm.nd.array(np.arange(6, dtype="float32")), tvm.nd.empty((6,))
    lib["turn"](x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(6)[::-1] * 3)
    loops = tvm.lower([a, b], name="turn")
    assert "turn" in loops
    assert "main" in tvm.lower([a, b])
    unnamed = tvm.build([a, b])
    unnamed["main"](x, z := tvm.nd.empty((6,)))
    np.testing.assert_array_equal(z.numpy(), y.numpy())
    for wrong in (3, [a, 3], "text"):
        with pytest.raises(tvm.TVMError, match=f"cannot build {type(wrong).__name__}: pass an"):
            tvm.build(wrong)


def test_time_evaluator_and_source() -> None:
    lib = tvm.compile(Module["add"], target="llvm")
    timer = lib.time_evaluator(lib.entry_name, tvm.cpu(0), number=2, repeat=3)
    result = timer(*arrays(tvm.cpu(0)))
    assert len(result.results) == 3
    assert result.min <= result.median <= result.max
    assert result.mean > 0
    assert "define" in lib.get_source("ll")
    assert "ret" in lib.get_source("asm")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "bool", "float16"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5)])
def test_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    source = (RNG.random(shape) * 100).astype(dtype)
    array = tvm.nd.array(source, tvm.cpu(0))
    assert array.device == tvm.nd.empty(shape, dtype).device == tvm.cpu(0)
    given = np.array(source)  # an array also where it has no dimensions
    for same in (tvm.nd.numpyasarray(given), tvm.nd.from_dlpack(given)):
        assert same.device == tvm.cpu(0) and same.dtype == dtype
        np.testing.assert_array_equal(same.numpy(), source)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.device == tvm.cpu(0)
    np.testing.assert_array_equal(array.numpy(), source)
    other = tvm.nd.empty(shape, dtype)
    array.copyto(other)
    np.testing.assert_array_equal(np.asarray(other), source)
    np.testing.assert_array_equal(array.copyto(tvm.cpu()).numpy(), source)
    assert isinstance(array, tvm.nd.NDArray)


def test_arrays_are_copies() -> None:
    source = np.arange(4.0)
    array = tvm.nd.array(source)
    source[0] = 9
    assert array.numpy()[0] == 0
    array.numpy()[1] = 9
    assert array.numpy()[1] == 1
    array[:] = np.full(4, 5.0)
    assert array.numpy().tolist() == [5] * 4
    with pytest.raises(ValueError):
        array.copyfrom(np.zeros(3))


def test_wrong_arguments_are_tvm_errors() -> None:
    lib = tvm.build(Module["add"], target="llvm")
    a, b, _ = arrays(tvm.cpu())
    with pytest.raises(tvm.TVMError, match="C"):
        lib(a, b, tvm.nd.empty((7, 4)))
    with pytest.raises(tvm.TVMError):
        lib(a, b)
    with pytest.raises(tvm.TVMError):
        lib(a, b, tvm.nd.empty((7, 3), "float64"))


@pytest.mark.skipif(has_gpu(), reason="there is one")
def test_what_needs_a_gpu_says_so() -> None:
    dev = tvm.cuda(0)
    assert not dev.exist
    lib = tvm.build(Module["add"], target="cuda")
    with pytest.raises(tvm.TVMError, match=r"no CUDA driver|finds no GPU"):
        lib(*arrays(dev))
    assert str(tvm.device("cuda:1")) == "cuda(1)"
    with pytest.raises(ValueError):
        tvm.device("abacus")


def test_targets() -> None:
    target = tvm.target.Target("llvm -mcpu=skylake-avx512 -num-cores=4 -mattr=+avx512f,+fma")
    assert target.kind.name == "llvm"
    assert target.keys == ["cpu"]
    assert target.attrs["num-cores"] == 4
    assert target.num_cores == 4
    assert target.mcpu == "skylake-avx512"
    assert list(target.mattr) == ["+avx512f", "+fma"]
    assert tvm.target.Target(str(target)) == target
    assert tvm.target.Target(target.export()) == target
    gpu: Any = tvm.target.Target("nvidia/geforce-rtx-3080", host="llvm")
    assert gpu.arch == "sm_86"
    assert gpu.thread_warp_size == 32
    assert gpu.host.kind.name == "llvm"
    assert tvm.target.Target({"kind": "cuda", "arch": "sm_80"}).max_threads_per_block == 1024
    with pytest.raises(ValueError):
        tvm.target.Target("nvidia/no-such-gpu")
    cloud: Any = tvm.target.Target({"tag": "aws/cpu/c5.24xlarge"})
    assert (cloud.kind.name, cloud.mcpu, cloud.num_cores) == ("llvm", "cascadelake", 48)
    assert tvm.target.Target("aws/cpu/c5.xlarge").tileloom.cores == 2


def test_target_scopes() -> None:
    assert tvm.target.Target.current() is None
    with tvm.target.Target("llvm -num-cores 2") as outer:
        with tvm.target.Target("llvm"):
            assert tvm.target.Target.current() != outer
        assert tvm.target.Target.current() is outer
        a, b, c = arrays(tvm.cpu())
        tvm.build(Module["add"])(a, b, c)
        tvm.testing.assert_allclose(c, a.numpy() + b.numpy())
    with pytest.raises(ValueError):
        tvm.target.Target.current(allow_none=False)
