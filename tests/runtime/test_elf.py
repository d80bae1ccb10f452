"""Our linker against LLVM's, and what it refuses."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
from itertools import pairwise
from typing import Any

import llvmlite.binding as llvm
import pytest

from tileloom.codegen import jit
from tileloom.runtime import elf
from tileloom.target import Target, target

DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
INTEGER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

# Constants, a jump table, writable data, zeroed data, near and far calls, far data.
PROGRAM = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 64
@counter = internal global i64 5
@zeros = internal global [100 x i64] zeroinitializer
@pointers = internal constant [2 x ptr] [ptr @helper, ptr @count]
@far_data = external global i64
declare double @cbrt(double)
declare double @llvm.exp.f64(double)
declare i64 @callback(i64)

define internal i64 @helper(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @count(i64 %x) {
  %old = load i64, ptr @counter
  %new = add i64 %old, %x
  store i64 %new, ptr @counter
  %z = load i64, ptr @zeros
  %sum = add i64 %new, %z
  ret i64 %sum
}
define i64 @look(i64 %i) {
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @through(i64 %i) {
  %p = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 %i
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 7)
  ret i64 %v
}
define double @root(double %x) {
  %c = call double @cbrt(double %x)
  %e = call double @llvm.exp.f64(double %c)
  ret double %e
}
define i64 @back(i64 %x) {
  %v = call i64 @callback(i64 %x)
  %d = load i64, ptr @far_data
  %s = add i64 %v, %d
  ret i64 %s
}
define i64 @choose(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d
                                i64 4, label %e ]
a:
  %ra = call i64 @callback(i64 100)
  ret i64 %ra
b:
  %rb = call i64 @look(i64 2)
  ret i64 %rb
c:
  %rc = call i64 @helper(i64 2)
  ret i64 %rc
d:
  %rd = call i64 @callback(i64 7)
  ret i64 %rd
e:
  %re = call i64 @through(i64 0)
  ret i64 %re
other:
  ret i64 -1
}
"""
FAR = ctypes.c_int64(1000)


@INTEGER  # type: ignore[untyped-decorator]
def callback(value: int) -> int:
    return value + 1


SYMBOLS: dict[str, Any] = {
    "callback": ctypes.cast(callback, ctypes.c_void_p).value,
    "far_data": ctypes.addressof(FAR),
}


@pytest.fixture(scope="module")
def program() -> bytes:
    return jit.compile_ir(PROGRAM, Target.host(), 1)


class LoadedByLlvm:
    """The same through LLVM's own linker, the oracle."""

    names = ("look", "count", "through", "root", "back", "choose")

    def __init__(self, data: bytes, symbols: dict[str, int]) -> None:
        jit.compile_ir("", Target.host())  # initialises LLVM
        self.linker = llvm.create_lljit_compiler()
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name, address in symbols.items():
            library.import_symbol(name, address)
        for name in self.names:
            library.export_symbol(name)
        self.tracker = library.link(self.linker, "program")

    def address(self, name: str) -> Any:
        return self.tracker[name]


@pytest.fixture(params=[elf.load_object, LoadedByLlvm], ids=["ours", "llvm"])
def loaded(request: pytest.FixtureRequest, program: bytes) -> Any:
    return request.param(program, SYMBOLS)


def test_linked_code_runs(loaded: Any) -> None:
    def call(name: str, value: int) -> Any:
        return INTEGER(loaded.address(name))(value)

    assert [call("look", i) for i in range(4)] == [10, 20, 30, 40]
    assert [call("count", i) for i in (1, 2)] == [6, 8]
    assert call("through", 0) == 21
    assert call("through", 1) == 15
    assert call("back", 41) == 1042
    assert [call("choose", i) for i in range(6)] == [101, 30, 6, 8, 21, -1]
    root = DOUBLE(loaded.address("root"))(27.0)
    assert root == pytest.approx(math.exp(3), rel=1e-15)
    assert {"look", "count", "choose"} <= set(loaded.names)


def test_objects_do_not_share_their_data(program: bytes) -> None:
    first, second = (elf.load_object(program, SYMBOLS) for _ in range(2))
    assert INTEGER(first.address("count"))(10) == 15
    assert INTEGER(second.address("count"))(0) == 5


def test_many_objects_come_and_go(program: bytes) -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return len(maps.readlines())

    elf.load_object(program, SYMBOLS)
    gc.collect()
    before = mappings()
    for _ in range(200):
        elf.load_object(program, SYMBOLS)
    assert mappings() < before + 20


def test_finalisers_in_one_cycle_with_code_may_call_it(program: bytes) -> None:
    """The collector runs them in any order, all of them before it frees anything."""
    found = []

    class Owner:
        def __init__(self, code: elf.LoadedObject) -> None:
            self.code, self.me = code, self

        def __del__(self) -> None:
            found.append(INTEGER(self.code.address("look"))(2))

    Owner(elf.load_object(program, SYMBOLS))
    gc.collect()
    assert found == [30]


def test_an_object_without_anything() -> None:
    assert not elf.load_object(jit.compile_ir("", Target.host()), {}).names


def test_an_unknown_symbol_is_named() -> None:
    text = "declare void @no_such_thing()\ndefine void @f() {\n call void @no_such_thing()\n"
    program = jit.compile_ir(text + " ret void\n}", Target.host())
    with pytest.raises(elf.LinkError, match="no_such_thing"):
        elf.load_object(program)
    with pytest.raises(elf.InternalError, match="does not define g"):
        elf.load_object(program, {"no_such_thing": 1}).address("g")


def test_broken_files_are_refused(program: bytes) -> None:
    for broken in [b"", b"\x7fELF", program[:100], program[: len(program) // 2], b"x" * 500]:
        with pytest.raises(elf.LinkError):
            elf.load_object(broken, SYMBOLS)
    foreign = program[:18] + struct.pack("<H", 8) + program[20:]
    with pytest.raises(elf.LinkError, match="machine 8"):
        elf.load_object(foreign, SYMBOLS)


def test_thread_local_variables_are_refused() -> None:
    text = "@v = thread_local global i32 0\ndefine ptr @f() {\n ret ptr @v\n}"
    with pytest.raises(elf.LinkError, match="thread-local"):
        elf.load_object(jit.compile_ir(text, Target.host()))


def decode_arm_page(word: int, place: int) -> int:
    """The page that an ADRP instruction at `place` gives."""
    distance = (word >> 29 & 3) | (word >> 5 & 0x7FFFF) << 2
    distance -= (distance >> 20) << 21
    return (place & ~0xFFF) + (distance << 12)


def test_aarch64_objects_are_linked() -> None:
    """The code cannot run here, but what it refers to can be read off its instructions."""
    program = jit.compile_ir(PROGRAM, target("cpu -mtriple=aarch64-linux-gnu"), 1)
    far = {"callback": 0x123456789ABC, "far_data": 0x23456789ABC0}
    loaded = elf.load_object(program, far)

    def words(name: str, count: int) -> list[tuple[int, int]]:
        place = loaded.address(name)
        code = (ctypes.c_uint32 * count).from_address(place)
        return [(place + 4 * n, word) for n, word in enumerate(code)]

    def addresses_in(name: str, count: int) -> list[int]:
        """What pairs of ADRP and ADD in a function point at."""
        found = []
        code = words(name, count)
        for (place, word), (_, following) in pairwise(code):
            if word & 0x9F000000 == 0x90000000 and following & 0xFFC00000 == 0x91000000:
                found.append(decode_arm_page(word, place) + (following >> 10 & 0xFFF))
        return found

    [table] = addresses_in("look", 3)
    assert (ctypes.c_int64 * 4).from_address(table)[:] == [10, 20, 30, 40]
    [pointers] = addresses_in("through", 5)
    helper, count = (ctypes.c_uint64 * 2).from_address(pointers)
    assert count == loaded.address("count")
    calls = [(p, w) for p, w in words("back", 8) if w & 0xFC000000 == 0x94000000]
    [(place, word)] = calls
    distance = (word & 0x03FFFFFF) - ((word & 0x02000000) << 1)
    stub = place + 4 * distance
    assert ctypes.c_uint64.from_address(stub + 8).value == far["callback"]
    # Far data: ADRP and LDR through the table of addresses.
    code = words("back", 12)
    slots = [
        decode_arm_page(word, place) + ((following >> 10 & 0xFFF) << 3)
        for (place, word), (_, following) in pairwise(code)
        if word & 0x9F000000 == 0x90000000 and following & 0xFFC00000 == 0xF9400000
    ]
    assert [ctypes.c_uint64.from_address(slot).value for slot in slots] == [far["far_data"]]
    assert helper % 4 == 0
