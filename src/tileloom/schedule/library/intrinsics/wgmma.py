"""Products of four warps: `wgmma` on tiles of 64 rows, both operands in shared memory.

An operand stands in shared memory in cores of 8 by 16 bytes, each 128 bytes in one piece, with the
depth along the 16 bytes or, for 16-bit elements, across them; how far apart cores are is free. The
sums are in memory of scope "warp" of 128 rows, one for each thread.

A product waits for the one before, then for all threads of the block, so that what threads have
put into shared memory is there to multiply, and then goes on by itself. What follows may overwrite
the tiles of the product before, but not its own. `wgmma_finish_*` waits for the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ._text import Pair, pair
from .mma import FACTORS

ROWS, THREADS, CORE = 64, 128, 8
STEP_BYTES = 128  # of the depth that an intrinsic takes, in four instructions
COLUMNS = (8, 16, 32, 64, 128, 256)
_INSTRUCTION_BYTES = 32
_KINDS = {
    "f16": "f16", "bf16": "bf16", "tf32": "tf32", "i8": "s8", "u8": "u8", "e4m3": "e4m3",
    "e5m2": "e5m2",
}  # fmt: skip
_TOTALS = {"f16": "float16", "f32": "float32", "i32": "int32"}
_SUMS = {
    "f16": ("f32",), "bf16": ("f32",), "tf32": ("f32",), "i8": ("i32",), "u8": ("i32",),
    "e4m3": ("f32",), "e5m2": ("f32",),
}  # fmt: skip


#: `wgmma_64xn_to_128_layout(vi, vj)` as text.
_PLACE = "32 * (vi // 16) + 4 * (vi % 8) + vj % 8 // 2, 4 * (vj // 8) + vi % 16 // 8 * 2 + vj % 2"


def wgmma_64xn_to_128_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """The thread that holds an element of the sum, and the number among what it holds.

    >>> wgmma_64xn_to_128_layout(25, 10)
    (37, 6)
    """
    return 32 * (i // 16) + 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + i % 16 // 8 * 2 + j % 2


def name_of(name: str, total: str, columns: int, transposed: tuple[bool, bool]) -> str:
    """What the intrinsic is called."""
    suffix = "".join(
        f"_{side}_transposed" * turn for side, turn in zip("ab", transposed, strict=True)
    )
    return f"wgmma_{ROWS}x{columns}_{name}{name}{total}{suffix}"


def core_of(name: str) -> int:
    """How many elements 16 bytes have."""
    return 128 // FACTORS[name].bits


def depth_of(name: str) -> int:
    """How deep an intrinsic multiplies."""
    return STEP_BYTES * 8 // FACTORS[name].bits


@dataclass(frozen=True)
class _Form:
    """What descriptions and implementations are written from."""

    name: str
    total: str
    columns: int
    transposed: tuple[bool, bool]

    @property
    def held(self) -> int:
        """How many sums a thread has."""
        return ROWS * self.columns // THREADS

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The operands in cores: those along the depth, those across it, rows and places of one."""
        core, depth = core_of(self.name), depth_of(self.name)
        return [
            (depth // CORE, size // core, CORE, core)
            if turn
            else (depth // core, size // CORE, CORE, core)
            for size, turn in zip((ROWS, self.columns), self.transposed, strict=True)
        ]

    @property
    def places(self) -> list[str]:
        """Where elements (vi, vk) and (vj, vk) of the operands are."""
        core = core_of(self.name)
        return [
            f"vk // {CORE}, {v} // {core}, vk % {CORE}, {v} % {core}"
            if turn
            else f"vk // {core}, {v} // {CORE}, {v} % {CORE}, vk % {core}"
            for v, turn in zip(("vi", "vj"), self.transposed, strict=True)
        ]

    def head(self, strides: bool) -> str:
        """The buffers and the block around what is done."""
        kind, wide = FACTORS[self.name].dtype, _TOTALS[self.total]
        lines = []
        for letter, shape in zip("AB", self.shapes, strict=True):
            low = letter.lower()
            rest = f", strides=[{low}0, {low}1, {core_of(self.name)}, 1]" if strides else ""
            lines.append(
                f'{letter} = T.match_buffer({low}, {shape}, "{kind}", align=64, offset_factor=1, '
                f'scope="shared.dyn"{rest})'
            )
        lines.append(
            f'C = T.match_buffer(c, ({THREADS}, {self.held}), "{wide}", align=64, '
            f'offset_factor={self.held}, scope="warp")'
        )
        a, b = (", ".join(f"0:{size}" for size in shape) for shape in self.shapes)
        sums = f"C[0:{THREADS}, 0:{self.held}]"
        lines.append('with T.block("root"):')
        lines += [f"    T.reads({sums}, A[{a}], B[{b}])", f"    T.writes({sums})"]
        return "\n    ".join(lines)


def product(name: str, total: str, columns: int, transposed: tuple[bool, bool]) -> Pair:
    """`C += A @ B.T` of 64 rows, as many columns, and 128 bytes of depth."""
    form = _Form(name, total, columns, transposed)
    kind, wide = FACTORS[name].dtype, _TOTALS[total]
    cast = "{}" if kind == wide else f'T.cast({{}}, "{wide}")'
    a, b = (cast.format(f"{x}[{at}]") for x, at in zip("AB", form.places, strict=True))
    sums = f"C[{_PLACE}]"
    desc = f"""
    {form.head(strides=False)}
        for i, j, k in T.grid({ROWS}, {columns}, {depth_of(name)}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads({sums}, A[{form.places[0]}], B[{form.places[1]}])
                T.writes({sums})
                {sums} = {sums} + {a} * {b}"""
    calls = "\n".join(_call(form, number) for number in range(4))
    impl = f"""
    a0 = T.int32()
    a1 = T.int32()
    b0 = T.int32()
    b1 = T.int32()
    {form.head(strides=True)}
        for tx in T.thread_binding({THREADS}, thread="threadIdx.x"):
            T.evaluate(T.ptx_wgmma_wait_group(0))
            T.evaluate(T.ptx_fence_proxy_async())
            T.evaluate(T.tvm_storage_sync("shared"))
            T.evaluate(T.ptx_wgmma_fence())
{calls}
            T.evaluate(T.ptx_wgmma_commit_group())"""
    return pair("abc", desc, impl)


def finish(total: str, columns: int) -> Pair:
    """Sums once the last product is complete."""
    held, wide = ROWS * columns // THREADS, _TOTALS[total]
    buffers = "\n    ".join(
        f'{x} = T.match_buffer({x.lower()}, ({THREADS}, {held}), "{wide}", align=64, '
        f'offset_factor={held}, scope="warp")'
        for x in "CD"
    )
    whole = f"0:{THREADS}, 0:{held}"
    head = f"""
    {buffers}
    with T.block("root"):
        T.reads(C[{whole}])
        T.writes(D[{whole}])"""
    desc = f"""{head}
        for i, j in T.grid({ROWS}, {columns}):
            with T.block("finish"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C[{_PLACE}])
                T.writes(D[{_PLACE}])
                D[{_PLACE}] = C[{_PLACE}]"""
    impl = f"""{head}
        for tx in T.thread_binding({THREADS}, thread="threadIdx.x"):
            T.evaluate(T.ptx_wgmma_wait_group(0))
            for k in T.unroll({held}):
                D[tx, k] = C[tx, k]"""
    return pair("cd", desc, impl)


def _call(form: _Form, number: int) -> str:
    """The product of one of four parts of the depth."""
    size = FACTORS[form.name].bits // 8
    cores = _INSTRUCTION_BYTES // (CORE * size), _INSTRUCTION_BYTES // 16  # along the depth
    descriptors = [
        f'T.ptx_wgmma_descriptor({x}.access_ptr("r", offset={number * cores[not turn]} * '
        f"{x.lower()}0), {x.lower()}0 * {size}, {x.lower()}1 * {size}, 0)"
        for x, turn in zip("AB", form.transposed, strict=True)
    ]
    shape = f"m{ROWS}n{form.columns}k{_INSTRUCTION_BYTES // size}"
    kind = _KINDS[form.name]
    suffix = "".join(f", {int(turn)}" for turn in form.transposed) if any(form.transposed) else ""
    return f"""\
            T.evaluate(T.ptx_wgmma(
                "{shape}", "{kind}", "{kind}", "{_TOTALS[form.total]}",
                {descriptors[0]}, 0,
                {descriptors[1]},
                C.data, C.elem_offset + tx * {form.held}, T.bool(True){suffix}
            ))"""


def _definitions() -> Iterator[tuple[str, Callable[[], Pair]]]:
    for total in ("f32", "i32"):
        for columns in COLUMNS:
            yield f"wgmma_finish_{ROWS}x{columns}_{total}", partial(finish, total, columns)
    for name, totals in _SUMS.items():
        sides = (False, True) if FACTORS[name].bits == 16 else (False,)
        for total in totals:
            for columns in COLUMNS:
                for transposed in ((a, b) for a in sides for b in sides):
                    yield (
                        name_of(name, total, columns, transposed),
                        partial(product, name, total, columns, transposed),
                    )


DEFINITIONS: dict[str, Callable[[], Pair]] = dict(_definitions())
