"""Small decisions of the runtime: what the native entry reads, ranges of numbers, threads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from recorded import Compare
from tileloom.base import dtype
from tileloom.base.errors import (
    ArgumentError,
    InternalError,
    OutOfBoundsError,
)
from tileloom.base.settings import override
from tileloom.runtime import cache, entry, kernel, parallel
from tileloom.runtime.check import encode_scalar, integer_range
from tileloom.runtime.kernel import KernelAssertionError
from tileloom.runtime.params import ParamSpec, number_symbols, show_shape
from tileloom.target import machine

NATIVE = pytest.mark.skipif(not entry._layout_is_known(), reason="a layout that is not known")


# ---------------------------------------------------------------------------- the native entry


def array(name: str, kind: str, *shape: int | str, **others: object) -> ParamSpec:
    return ParamSpec(name, "buffer", dtype(kind), shape, **others)  # type: ignore[arg-type]


def number(name: str, kind: str, implicit: bool = False) -> ParamSpec:
    return ParamSpec(name, "scalar", dtype(kind), implicit=implicit)


PARAMETERS: dict[str, tuple[ParamSpec, ...]] = {
    "one array": (array("a", "float32", 4),),
    "written": (array("a", "int8", 4, 5, access="w"), array("b", "float64", access="rw")),
    "symbols": (array("a", "float32", "n", 3), array("b", "float32", "m", "n", "m")),
    "aligned": (array("a", "float32", 4, alignment=64),),
    "strided": (array("a", "float32", 4, 4, strides=(8, 1)), array("b", "int16", 2, strides=(0,))),
    "backwards": (array("a", "float32", 4, strides=(-1,)),),
    "symbolic strides": (array("a", "float32", 4, "n", strides=("n", 1)),),
    "numbers": tuple(
        number(kind, kind)
        for kind in ("float32", "float64", "float16", "bool", "int8", "uint8", "int32", "uint32",
                     "int64", "uint64", "int4")
    ),
    "implicit": (
        array("a", "float32", "n", "m", "k"), number("n", "int32", True),
        number("m", "int64", True), number("k", "int16", True),
    ),
    "ties": (number("n", "int64"), array("a", "float32", "n")),
}  # fmt: skip


@NATIVE
@pytest.mark.parametrize("name", PARAMETERS)
def test_descriptors(name: str, recorded: Compare) -> None:
    params = PARAMETERS[name]
    types = {id(param.dtype.numpy): f"type {param.dtype}" for param in params if param.is_buffer}
    text = entry.describe(77, params)
    words = [int.from_bytes(text[k : k + 8], "little", signed=True) for k in range(0, len(text), 8)]
    recorded(name, [", ".join(types.get(word, str(word)) for word in words)])


@NATIVE
def test_layouts_of_python_and_numpy_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert entry._layout_is_known()
    for module, name, value in [
        (entry.sys, "byteorder", "big"),
        (entry.ctypes, "sizeof", lambda _: 4),
        (entry.np, "ndarray", np.matrix),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert not entry._layout_is_known(), name


def test_symbols_are_numbered_in_order() -> None:
    assert number_symbols(PARAMETERS["symbols"]) == {"n": 0, "m": 1}
    assert number_symbols(PARAMETERS["symbolic strides"]) == {"n": 0}
    with pytest.raises(InternalError, match="no shape binds"):
        number_symbols((number("n", "int32", True),))
    assert number_symbols((number("n", "int32"),)) == {}
    assert [show_shape(s) for s in ((), (3,), ("n", 4))] == ["()", "(3,)", "(n, 4)"]
    for param in PARAMETERS["strided"] + PARAMETERS["numbers"]:
        assert ParamSpec.of(param.plain()) == param
    shown = [str(p) for p in (*PARAMETERS["one array"], number("x", "int8"))]
    assert shown == ["float32 array of shape (4,)", "int8 number"]


# ---------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [("bool", (0, 1)), ("uint8", (0, 255)), ("int8", (-128, 127)), ("int64", (-(2**63), 2**63 - 1)),
     ("uint64", (0, 2**64 - 1)), ("int4", (-8, 7)), ("handle", (0, 2**64 - 1))],
)  # fmt: skip
def test_ranges_of_integers(kind: str, bounds: tuple[int, int]) -> None:
    assert integer_range(dtype(kind)) == bounds


def test_only_integers_have_ranges() -> None:
    with pytest.raises(InternalError, match="not a type of integers"):
        integer_range(dtype("float32"))


@pytest.mark.parametrize(
    ("value", "kind", "bits"),
    [(-2, "int32", "feffffff"), (-1, "int8", "ff"), (200, "uint8", "c8"), (1, "bool", "01"),
     (1.0, "float32", "0000803f"), (1.0, "float64", "000000000000f03f"), (1.0, "float16", "003c"),
     (-1, "int64", "ffffffffffffffff"), (2**63, "uint64", "0000000000000080")],
)  # fmt: skip
def test_numbers_in_memory(value: float, kind: str, bits: str) -> None:
    encoded = encode_scalar(value, dtype(kind))
    assert len(encoded) == 8 and encoded.hex().startswith(bits)


# ---------------------------------------------------------------------------- failures


def test_assertions_are_numbered_from_one() -> None:
    numbers = (ctypes.c_int64 * 2)(7, 5)
    bounds = f"{kernel.BOUNDS} of a"
    stub = SimpleNamespace(
        name="f", messages=["first", bounds, "last"], fault=lambda _: ctypes.addressof(numbers)
    )
    for number_, words in [(1, "f: first"), (3, "f: last"), (0, "assertion 0"), (4, "assertion 4")]:
        with pytest.raises(KernelAssertionError, match=words):
            kernel._Door.fail(stub, number_)  # type: ignore[arg-type]
    with pytest.raises(OutOfBoundsError, match="f: "):
        kernel._Door.fail(stub, 2)  # type: ignore[arg-type]
    stub.fault = None
    with pytest.raises(KernelAssertionError):
        kernel._Door.fail(stub, 2)  # type: ignore[arg-type]
    stub.fault = lambda _: None
    with pytest.raises(KernelAssertionError):
        kernel._Door.fail(stub, 2)  # type: ignore[arg-type]


def test_launch_takes_one_pointer() -> None:
    seen: list[int] = []
    stub = SimpleNamespace(name="f", run=seen.append)
    table = (ctypes.c_void_p * 2)()
    kernel._Door.launch(stub, 4096)  # type: ignore[arg-type]
    kernel._Door.launch(stub, table)  # type: ignore[arg-type]
    assert seen == [4096, ctypes.addressof(table)]
    for wrong in ((), (1, 2), (0,), (-8,), ("a",)):
        with pytest.raises(ArgumentError, match=r"launch\(\)"):
            kernel._Door.launch(stub, *wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- the cache, threads


@pytest.mark.parametrize(("age", "touched"), [(0, False), (cache._TOUCH_SECONDS + 60, True)])
def test_old_entries_are_touched(tmp_path: Path, age: float, touched: bool) -> None:
    path = tmp_path / "entry"
    path.write_text("x")
    before = path.stat().st_mtime - age
    os.utime(path, (before, before))
    cache._note_use(path)
    assert (path.stat().st_mtime > before + 1) is touched
    cache._note_use(tmp_path / "missing")


@pytest.mark.parametrize(
    ("wanted", "forked", "library", "mode"),
    [("serial", False, "omp", "_SERIAL"), ("pool", False, "omp", "_POOL"),
     ("auto", False, "omp", "omp"), ("auto", False, None, "_POOL"), ("auto", True, "omp", "_POOL"),
     ("omp", False, None, "fresh"), ("omp", True, "omp", "_POOL"), ("omp", False, "omp", "omp")],
)  # fmt: skip
def test_how_threads_run(
    wanted: str, forked: bool, library: str | None, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = parallel._Runtime()
    runtime.state, runtime.forked = SimpleNamespace(mode=None, spins=None), forked
    used: list[str | None] = []
    monkeypatch.setattr(parallel, "_openmp", lambda: library)
    monkeypatch.setattr(parallel, "_fresh_openmp", lambda: "fresh")
    monkeypatch.setattr(runtime, "_use_openmp", used.append)
    for cores, spins in ((1, 0), (2, parallel._SPINS)):
        monkeypatch.setattr(machine, "usable_cores", lambda cores=cores: cores)
        with override(threading=wanted):
            runtime._choose()
        assert runtime.state.spins == spins
    found = next((name for name in used if name), None)
    assert found == mode if found else runtime.state.mode == getattr(parallel, mode)
