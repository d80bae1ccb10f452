"""Buffers of shared memory: views, lifetimes, places, barriers."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from tile.oracle import needs_oracle, triton_passes
from tile.shared_programs import (
    HEAD,
    ProgramOptions,
    ProgramRun,
    barriers_of,
    overwritten,
    race,
    some_program,
    tensor,
    view,
)
from tileloom.base.errors import UserError
from tileloom.tile import parse, run_passes, verify
from tileloom.tile.analysis.allocation import OFFSET, ModuleAllocation, allocation_lines
from tileloom.tile.analysis.liveness import live_ranges
from tileloom.tile.analysis.packing import PackedBuffer, pack
from tileloom.tile.analysis.scratch import scratch_size
from tileloom.tile.ir.attributes import integer_value
from tileloom.tile.ir.core import Operation

ALLOC = f"ttg.local_alloc %x : ({tensor(16)}) -> {view(16)}"
LOAD = f"ttg.local_load {{}} : {view(16)} -> {tensor(16)}"
CONVERT = f"ttg.convert_layout %x : {tensor(16)} -> {tensor(16, '#k')}"
BOTH = f"{view(16)}, {view(16)}"
COPIED = f"{view(16)[:-1]}, mutable>"


def module_of(*lines: str) -> Operation:
    """A module with one function of some operations."""
    arguments = f"%x: {tensor(16)}, %p: tensor<16x16x!tt.ptr<f16>, #l>, %c: i1, %n: i32"
    body = "\n".join(lines)
    module = parse(f"{HEAD}tt.func public @main({arguments}) {{\n{body}\ntt.return\n}}\n}}")
    verify(module)
    return module


def synced(*lines: str) -> list[str]:
    """The names of operations after barriers were put in, without modules and terminators."""
    module = module_of(*lines)
    run_passes(module, ["allocate-shared-memory,test-tritongpu-membar"], check=True)
    names = [op.name.partition(".")[2] for op in module.walk()]
    return [name for name in names if name not in ("module", "func", "return", "yield")]


SWAP = (
    f"%a = {ALLOC}",
    f"%b = {ALLOC}",
    f"%r:2 = scf.for %i = %n to %n step %n iter_args(%u = %a, %v = %b) -> ({BOTH}) : i32 {{",
    f"%y = {LOAD.format('%u')}",
    f"%d = {ALLOC}",
    f"scf.yield %v, %u : {BOTH}",
    "}",
)


def test_views_that_a_loop_exchanges(capsys: pytest.CaptureFixture[str]) -> None:
    choice = (
        f"%z = scf.if %c -> ({view(16)}) {{",
        f"scf.yield %a : {view(16)}",
        "} else {",
        f"scf.yield %b : {view(16)}",
        "}",
    )
    run_passes(module_of(*SWAP, *choice), ["test-print-alias"])
    assert capsys.readouterr().err.split("\n") == [
        *("main", "%0 -> %0", "%1 -> %1", "%arg5 -> %0", "%arg6 -> %1"),
        *("%2#0 -> %0,%1", "%2#1 -> %0,%1", "%5 -> %5", "%3 -> %0,%1", ""),
    ]


def test_what_a_loop_carries_lives_through_it() -> None:
    module = module_of(*SWAP, f"%e = {ALLOC}", f"%w = {LOAD.format('%r#0')}")
    ranges = list(live_ranges(next(iter(module.body))).values())
    names = [[op.name for op in live] for live in ranges]
    assert names[0].count("ttg.local_alloc") == 4  # all others are made while it lives
    assert names[2] == ["ttg.local_alloc"]  # nothing uses what the loop makes


def test_places_are_used_again() -> None:
    module = module_of(
        f"%a = {ALLOC}", f"%y = {LOAD.format('%a')}", f"%b = {ALLOC}", f"%z = {CONVERT}"
    )
    assert list(allocation_lines(module)) == [
        *("main", "offset = 0, size = 512", "offset = 0, size = 512"),
        *("scratch offset = 0, size = 640", "size = 640"),
    ]


def test_offsets_are_written() -> None:
    module = module_of(f"%a = {ALLOC}", f"%b = {ALLOC}", f"%y = {LOAD.format('%a')}")
    run_passes(module, ["allocate-shared-memory"])
    offsets = [op.attributes.get(OFFSET) for op in module.walk() if OFFSET in op.attributes]
    assert [integer_value(each) for each in offsets] == [0, 1024]
    assert module.integer("ttg.shared") == 1536


CALLS = f"""{HEAD}
tt.func private @inner(%x: {tensor(16)}) {{
  %y = {CONVERT}
  tt.return
}}
tt.func public @main(%x: {tensor(16)}) {{
  %a = {ALLOC}
  tt.call @inner(%x) : ({tensor(16)}) -> ()
  %y = {LOAD.format("%a")}
  tt.return
}}
}}"""


def test_a_call_has_a_place_for_the_function() -> None:
    lines = list(allocation_lines(parse(CALLS)))
    assert lines[:3] == ["inner", "scratch offset = 0, size = 640", "size = 640"]
    assert sorted(lines[4:-1])[1].endswith("size = 640")
    assert lines[-1] == "size = 1152"


def test_recursion_is_refused() -> None:
    with pytest.raises(UserError, match="calls itself"):
        ModuleAllocation(
            parse(
                CALLS.replace(
                    "%y = ttg.conv", "tt.call @main(%x) : (" + tensor(16) + ") -> ()\n%y = ttg.conv"
                )
            )
        )


def test_packing_is_as_good_as_any_order() -> None:
    for seed in range(40):
        random = Random(seed)
        sizes = [random.choice((8, 128, 512, 640, 2048)) for _ in range(5)]
        wanted = []
        for size in sizes:
            start, length = random.randrange(8), random.randrange(1, 5)
            aligned = 1024 if size > 256 else 16
            wanted.append(PackedBuffer(size, aligned, ((1 << length) - 1) << start))
        offsets, total = pack(wanted)
        for i, one in enumerate(wanted):
            assert offsets[i] % one.alignment == 0
            for j, other in enumerate(wanted[:i]):
                apart = offsets[i] >= offsets[j] + other.size or offsets[j] >= offsets[i] + one.size
                assert apart or not one.live & other.live
        assert total == min(_first_fit(order) for order in permutations(wanted))


def _first_fit(order: tuple[PackedBuffer, ...]) -> int:
    placed: list[tuple[int, PackedBuffer]] = []
    for buffer in order:
        offset = 0
        while any(
            buffer.live & other.live and offset < at + other.size and at < offset + buffer.size
            for at, other in placed
        ):
            offset += buffer.alignment
        placed.append((offset, buffer))
    return max(offset + buffer.size for offset, buffer in placed)


def test_barriers_between_writes_and_reads() -> None:
    lines = (f"%a = {ALLOC}", f"%y = {LOAD.format('%a')}", f"%z = {LOAD.format('%a')}")
    assert synced(*lines) == ["local_alloc", "barrier", "local_load", "local_load"]
    assert synced(*lines, f"%b = {ALLOC}")[4:] == ["barrier", "local_alloc"]


def test_what_operations_do_themselves_needs_no_barrier() -> None:
    lines = (f"%a = {ALLOC}", f"%y = {CONVERT}", f"%z = {LOAD.format('%a')}")
    assert synced(*lines) == ["local_alloc", "convert_layout", "local_load"]
    assert synced(lines[1], lines[1].replace("%y", "%w")) == [
        *("convert_layout", "barrier", "convert_layout")
    ]


def test_a_barrier_in_one_branch_is_not_enough() -> None:
    branch = ("scf.if %c {", f"%y = {LOAD.format('%a')}", "}")
    found = synced(f"%a = {ALLOC}", *branch, f"%z = {LOAD.format('%a')}")
    assert found == ["local_alloc", "if", "barrier", "local_load", "barrier", "local_load"]


def test_a_race_around_a_loop() -> None:
    found = synced(
        f"%a = ttg.local_alloc : () -> {COPIED}",
        "scf.for %i = %n to %n step %n : i32 {",
        f"%y = ttg.local_load %a : {COPIED} -> {tensor(16)}",
        "gpu.barrier",
        f"ttg.local_store %x, %a : {tensor(16)} -> {COPIED}",
        "}",
    )
    assert found == ["local_alloc", "for", "barrier", "local_load", "barrier", "local_store"]


def test_copies_are_synchronized_after_the_wait() -> None:
    def copies(buffer: str, *between: str) -> list[str]:
        return synced(
            f"%a = ttg.local_alloc : () -> {COPIED}",
            f"%b = ttg.local_alloc %x : ({tensor(16)}) -> {COPIED}",
            f"%t = ttg.async_copy_global_to_local %p, %a : tensor<16x16x!tt.ptr<f16>, #l> -> "
            f"{COPIED}",
            "%g = ttg.async_commit_group %t",
            *between,
            "%w = ttg.async_wait %g {num = 0 : i32}",
            f"%y = ttg.local_load {buffer} : {COPIED} -> {tensor(16)}",
            f"%z = ttg.local_load %b : {COPIED} -> {tensor(16)}",
        )

    assert copies("%a")[-4:] == ["async_wait", "barrier", "local_load", "local_load"]
    # A barrier before the wait does not order the copies, only what else was written.
    assert copies("%a", "gpu.barrier")[-4:-2] == ["async_wait", "barrier"]
    assert copies("%b", "gpu.barrier")[-3:] == ["async_wait", "local_load", "local_load"]


def test_parts_of_a_buffer_that_are_known_to_differ() -> None:
    several = f"!ttg.memdesc<2x{view(16).removeprefix('!ttg.memdesc<')[:-1]}, mutable>"
    part = f"ttg.memdesc_index %a[%{{}}] : {several} -> {COPIED}"

    def of(index: str) -> list[str]:
        return synced(
            "%c0 = arith.constant 0 : i32",
            "%c1 = arith.constant 1 : i32",
            f"%a = ttg.local_alloc : () -> {several}",
            f"%u = {part.format('c0')}",
            f"%v = {part.format(index)}",
            f"ttg.local_store %x, %u : {tensor(16)} -> {COPIED}",
            f"%y = ttg.local_load %v : {COPIED} -> {tensor(16)}",
        )

    assert [of(index).count("barrier") for index in ("c0", "c1", "n")] == [1, 0, 1]


# Random programs.


def check_program(seed: int, paths: int) -> tuple[int, int]:
    """Nothing is overwritten and nothing races; the number of barriers, and of those that were
    seen to be needed."""
    branched = seed % 4 == 3
    module = parse(some_program(seed, branched=branched))
    verify(module)
    run_passes(module, ["allocate-shared-memory,test-tritongpu-membar"], check=True)
    sizes = {op: scratch_size(op) for op in module.walk()}
    barriers = set(barriers_of(module))
    needed: set[Operation] = set()
    for path in range(paths):
        run = ProgramRun(module, Random(path), sizes)
        assert overwritten(run) is None
        assert race(run) is None
        needed.update(each for each in barriers - needed if race(run, each) is not None)
    return len(barriers), len(needed)


def test_random_programs() -> None:
    for seed in range(24):
        check_program(seed, 4)


def test_barriers_along_a_straight_line_are_all_needed() -> None:
    options = ProgramOptions(structured=False, calls=False, length=12)
    for seed in range(16):
        module = parse(some_program(seed, options))
        run_passes(module, ["allocate-shared-memory,test-tritongpu-membar"])
        sizes = {op: scratch_size(op) for op in module.walk()}
        run = ProgramRun(module, Random(0), sizes)
        assert race(run) is None
        assert all(race(run, barrier) is not None for barrier in barriers_of(module))


@pytest.mark.slow
def test_many_random_programs() -> None:
    found = [check_program(seed, 12) for seed in range(100, 1100)]
    barriers, needed = (sum(column) for column in zip(*found, strict=True))
    assert needed > 0.97 * barriers


def compare_with_triton(seed: int) -> None:
    """The memory of a program is no larger than Triton's, or else Triton's overwrites what is
    live: it takes what nested loops carry for dead."""
    options = ProgramOptions(length=6 + seed % 20)
    module = parse(some_program(seed, options, branched=seed % 5 == 4))
    theirs = triton_passes(module, "ttgpuir.add_allocate_shared_memory")
    run_passes(module, ["allocate-shared-memory"])
    if module.integer("ttg.shared") > theirs.integer("ttg.shared"):
        sizes = {op: scratch_size(op) for op in theirs.walk()}
        runs = (ProgramRun(theirs, Random(path), sizes) for path in range(300))
        assert any(overwritten(run) is not None for run in runs), seed


@needs_oracle
def test_memory_is_no_larger_than_triton_needs() -> None:
    for seed in range(8):
        compare_with_triton(seed)


@needs_oracle
@pytest.mark.slow
def test_memory_is_no_larger_than_triton_needs_for_many() -> None:
    for seed in range(100, 1100):
        compare_with_triton(seed)
