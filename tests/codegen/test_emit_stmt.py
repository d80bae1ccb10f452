"""Where memory of a function's own comes from, and how loops are counted: LLVM's text."""

from __future__ import annotations

import re

import pytest

from codegen.test_instructions import read
from tileloom.base.errors import UnsupportedError
from tileloom.codegen.module import emit_module
from tileloom.tir import IRModule

#: Bytes of one array on the stack, and of all those of a function.
ONE, ALL = 1 << 18, 1 << 20


def text(lines: str) -> str:
    whole = emit_module(IRModule({"main": read(lines)})).ir_text
    return whole.split('@"main"(', 1)[1].split("\n}", 1)[0]


def allocation(k: int, extents: str, kind: str) -> str:
    return (
        f'd{k} = T.allocate([{extents}], "{kind}", "global"); '
        f'S{k} = T.decl_buffer(({extents},), "{kind}", data=d{k}); '
    )


@pytest.mark.parametrize(
    ("extents", "kind", "size"),
    [
        ("65536", "float32", ONE),
        ("65537", "float32", ONE + 4),
        ("256, 256", "float32", ONE),
        ("256, 257", "float32", 256 * 257 * 4),
        ("16384", "float32x4", ONE),
        ("16385", "float32x4", ONE + 16),
        ("262144", "bool", ONE),
        ("262145", "bool", ONE + 1),
        ("131072", "bfloat16", ONE),
        ("131073", "bfloat16", ONE + 2),
        ("3", "float64", 24),
        ("5", "int8x8", 40),
    ],
)
def test_small_arrays_are_on_the_stack(extents: str, kind: str, size: int) -> None:
    found = text(allocation(0, extents, kind) + "A[0] = 1.0")
    if size <= ONE:
        assert re.search(r"alloca \[\d+ x .*\], align 64", found)
        assert "aligned_alloc" not in found and "free" not in found
        return
    assert not re.search(r"alloca \[", found)
    assert found.count("aligned_alloc") == 1 and found.count('@"free"') == 1


def test_an_array_of_no_elements_has_a_place() -> None:
    assert re.search(r"alloca \[1 x float\], align 64", text(allocation(0, "0", "float32")
                                                             + "A[0] = 1.0"))  # fmt: skip


def test_all_arrays_together_leave_the_stack_room() -> None:
    count = ALL // ONE
    for more in (0, 1, 2):
        lines = "".join(allocation(k, "65536", "float32") for k in range(count + more))
        found = text(lines + "A[0] = 1.0")
        assert len(re.findall(r"alloca \[65536 x float\]", found)) == count
        assert found.count('@"aligned_alloc"') == more
        # Each at the end, and where there is no memory for a later one.
        assert found.count('@"free"') == more * (more + 1) // 2


@pytest.mark.parametrize(("kind", "size"), [("float32", 4), ("float32x4", 16), ("bool", 1)])
def test_bytes_from_the_heap_are_whole_lines(kind: str, size: int) -> None:
    """Sizes are multiples of 64, and never 0: the bytes and 127, rounded down."""
    found = text(allocation(0, "n", kind) + "A[0] = 1.0")
    assert re.search(rf"mul i64 {size}, ", found)
    assert re.search(r"add i64 %\S+, 127\n.* and i64 %\S+, -64\n", found)
    assert re.search(r'call ptr @"aligned_alloc"\(i64 64, i64', found)
    found = text(allocation(0, "n, 3", kind) + "A[0] = 1.0")
    assert re.search(rf"mul i64 {size}, .*\n.* mul i64 %\S+, 3\n", found)


def test_memory_is_freed_where_a_function_ends_early() -> None:
    lines = allocation(0, "n", "float32") + allocation(1, "n", "int32")
    found = text(lines + 'assert n < 3, "small"; A[0] = 1.0')
    # At the end both, where there is no second one the first, where the assertion fails both.
    assert found.count('@"free"') == 2 + 1 + 2
    taken = re.findall(r'(%"\S+") = call ptr @"aligned_alloc"', found)
    freed = re.findall(r'call void @"free"\(ptr (%"\S+")\)', found)
    first, second = taken
    assert sorted(freed) == sorted([first, second, first, second, first])
    for block in re.split(r"\n\S+:\n", found):
        here = re.findall(r'@"free"\(ptr (%"\S+")\)', block)
        assert here in ([], [first], [second], [second, first]), "the newest first"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("for i in range(8): A[i] = 1.0", ["add nuw nsw i64 {}, 1", "icmp slt i64 {}, 8"]),
        ("for i in range(2, 8): A[i] = 1.0", ["add nsw i64 2, 6", "add nsw i64 {}, 1"]),
        ("for i in range(n): A[i] = 1.0", ["add nuw nsw i64 {}, 1", "icmp slt i64 {}, {}"]),
    ],
)
def test_loops_are_counted_in_64_bits(lines: str, wanted: list[str]) -> None:
    found = re.sub(r'%"[^"]*"', "{}", text(lines)).replace("nsw nuw", "nuw nsw")
    assert all(line in re.sub(r" +", " ", found) for line in wanted)


def test_a_loop_of_no_steps_is_nothing() -> None:
    assert "store float" not in text("for i in range(0): A[i] = 1.0")
    assert "phi" not in text("for i in range(0): A[i] = 1.0")
    assert "store float" in text("for i in range(1): A[i] = 1.0")


def test_messages_are_numbered() -> None:
    module = emit_module(IRModule({"main": read('assert n < 3, "a"; assert n > 0, "b"')}))
    found = module.ir_text.split('@"main"(', 1)[1].split("\n}", 1)[0]
    assert re.findall(r"ret i32 (\d+)", found) == ["2", "1"]


def test_results_of_functions_without_a_result() -> None:
    """A number is the status of a call; what is computed has nowhere to go."""
    assert "ret i32" in text("T.evaluate(T.ret(0)); A[0] = 1.0")
    with pytest.raises(UnsupportedError, match="does not say so"):
        text("T.evaluate(T.ret(n))")
