"""Wrong arguments of compiled kernels: each named, none an internal error, none a crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from gpu_suite import has_gpu
from tileloom import numpy as tnp
from tileloom import te
from tileloom.base.errors import ArgumentError
from tileloom.expr import Var
from tileloom.runtime import Kernel


@pytest.fixture(scope="module")
def scale() -> Any:
    """B = 2 A, over 4 x 6 singles."""
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="B")
    return tl.build(te.create_prim_func([A, B]))


class OnGpu:
    """What a CUDA tensor looks like from outside."""

    shape = (4, 6)

    def __dlpack_device__(self) -> tuple[int, ...]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> None:
        raise AssertionError("a device is asked for before memory is")


class WithCudaInterface:
    """Another library's array on a GPU, which speaks only CUDA's own protocol."""

    __cuda_array_interface__ = {  # noqa: RUF012
        "shape": (4, 6), "typestr": "<f4", "data": (4096, False), "version": 3,
    }  # fmt: skip


def arrays() -> tuple[np.ndarray[Any, Any], ...]:
    return np.ones((4, 6), np.float32), np.zeros((4, 6), np.float32)


def readonly(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


A, B = arrays()
WRONG = {
    "too few": ((A,), "takes 2 arguments (A, B), got 1"),
    "too many": ((A, B, B), "takes 2 arguments"),
    "type": ((A.astype("float64"), B), "float64"),
    "type of output": ((A, B.astype("int32")), "argument 2 (B)"),
    "byte order": ((A.astype(">f4"), B), "argument 1 (A)"),
    "shape": ((A[:3].copy(), B), "(3, 6)"),
    "rank": ((A.reshape(-1), B), "(24,)"),
    "swapped": ((A.T.copy(), B), "(6, 4)"),
    "strides of input": ((np.ones((6, 4), np.float32).T, B), "argument 1 (A)"),
    "strides of output": ((A, np.zeros((4, 12), np.float32)[:, ::2]), "argument 2 (B)"),
    "read-only output": ((A, readonly(np.zeros((4, 6), np.float32))), "read-only"),
    "same array twice": ((A, A), "argument 2 (B)"),
    "overlap": ((lambda m: (m[:4], m[2:6]))(np.zeros((6, 6), np.float32)), "argument 2 (B)"),
    "number": ((A, 3.0), "argument 2 (B)"),
    "none": ((None, B), "argument 1 (A)"),
    "list": (([[1.0] * 6] * 4, B), "argument 1 (A)"),
    "string": (("array", B), "argument 1 (A)"),
    "objects": ((np.full((4, 6), None), B), "argument 1 (A)"),
    "gpu": ((OnGpu(), B), "cuda"),
    "gpu output": ((A, OnGpu()), "cuda"),
    "cuda interface": ((WithCudaInterface(), B), "argument 1 (A)"),
    "unaligned": (
        (np.frombuffer(bytes(97), np.uint8)[1:].view(np.float32).reshape(4, 6), B),
        "multiple of 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_named(scale: Kernel, what: str) -> None:
    given, words = WRONG[what]
    with pytest.raises(ArgumentError) as raised:
        scale(*given)
    assert words in str(raised.value)


def test_a_wrong_call_does_not_spoil_the_next(scale: Kernel) -> None:
    a, b = arrays()
    with pytest.raises(ArgumentError):
        scale(a, a)
    scale(a, b)
    assert (b == 2).all()


def test_tensors_that_cannot_be_used(scale: Kernel) -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(x) for x in arrays())
    scale(a, b)
    assert bool((b == 2).all())
    with pytest.raises(ArgumentError, match="argument 1"):
        scale(a.to(torch.bfloat16), b)
    scale(a.clone().requires_grad_(), b)  # read, not differentiated
    with pytest.raises(ArgumentError, match="meta"):
        scale(torch.empty(4, 6, device="meta"), b)
    with pytest.raises(ArgumentError, match="argument 1"):
        scale(a.to_sparse(), b)


def test_one_symbol_has_one_value() -> None:
    n = Var("n", "int32")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    add = tl.build(te.create_prim_func([A, B, C]))
    three, four = np.ones(3, np.float32), np.ones(4, np.float32)
    add(three, three, three.copy())
    with pytest.raises(ArgumentError, match=r"n is 4 here, but 3"):
        add(three, four, four.copy())


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3)])
def test_arrays_of_nothing_work(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    for function in (lambda x: x * 2 + 1, lambda x: tnp.sum(x), lambda x: tnp.softmax(x)):
        tl.jit(function)(x)
    A = te.placeholder(shape, name="A")
    kernel = tl.build(te.create_prim_func([A, te.compute(shape, lambda *i: A[i] + 1.0, name="B")]))
    kernel(x, x.copy())


def test_arguments_of_jitted_functions_on_other_devices() -> None:
    with pytest.raises(ArgumentError, match="cuda"):
        tl.jit(lambda x: x + 1)(OnGpu())
    with pytest.raises(ArgumentError, match="cuda"):
        tl.jit(lambda x, y: x + y)(A, OnGpu())


def test_targets_that_cannot_run_here() -> None:
    f = te.placeholder((4,), name="A")
    function = te.create_prim_func([f, te.compute((4,), lambda i: f[i], name="B")])
    other = "aarch64" if tl.Target.host().arch == "x86_64" else "x86_64"
    with pytest.raises(tl.UserError, match="cannot run"):
        tl.build(function, f"cpu -mtriple={other}-linux-gnu")
    if not has_gpu():
        with pytest.raises(tl.UserError, match=r"emulator|extra|cuda-bindings"):
            tl.build(function, "cuda")
    unknown = ("toaster", "cpu -mcpu=potato", "cpu -mattr=+flight", "cpu -warp=9", 3, "")
    for target in unknown:
        with pytest.raises(tl.UserError):
            tl.build(function, target)
    with pytest.raises(tl.UserError, match="'potato'"):
        tl.assembly(function, f"cpu -mtriple={other}-linux-gnu -mcpu=potato")
