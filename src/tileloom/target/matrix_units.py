"""Matrix units of NVIDIA GPUs: the products that `mma.sync` takes, and who holds which element.

A warp holds a tile in the registers of its 32 threads. `Fragment` says where each element is, as in
the chapters "Matrix Fragments for mma" of the PTX ISA; code generation, the emulator, the tensor
intrinsics and the documentation all ask here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..base.errors import UnsupportedError

Role = Literal["a", "b", "c"]
LANES = 32


@dataclass(frozen=True)
class FragmentElement:
    """A type of elements as PTX names it, its type in tensor IR, and its bits in a register."""

    ptx: str
    dtype: str
    bits: int
    aliases: tuple[str, ...]


#: TVM's names of types in `ptx_mma` come first among the aliases.
ELEMENTS = (
    FragmentElement("f16", "float16", 16, ("fp16", "float16")),
    FragmentElement("bf16", "bfloat16", 16, ("bfloat16",)),
    FragmentElement("tf32", "float32", 32, ()),
    FragmentElement("f32", "float32", 32, ("fp32", "float32")),
    FragmentElement("f64", "float64", 64, ("fp64", "float64")),
    FragmentElement("s8", "int8", 8, ("int8",)),
    FragmentElement("u8", "uint8", 8, ("uint8",)),
    FragmentElement("s32", "int32", 32, ("int32",)),
    FragmentElement("e4m3", "float8_e4m3fn", 8, ("float8_e4m3fn", "e4m3_float8")),
    FragmentElement("e5m2", "float8_e5m2", 8, ("float8_e5m2", "e5m2_float8")),
)


def element(name: str) -> FragmentElement:
    """The type of elements with a name: PTX's, TVM's or our own.

    Raises:
        UnsupportedError: matrix units have no such elements.

    >>> element("fp16").ptx, element(".tf32").dtype, element("int8").bits
    ('f16', 'float32', 8)
    """
    bare = name.removeprefix(".")
    for found in ELEMENTS:
        if bare == found.ptx or bare in found.aliases:
            return found
    known = ", ".join(found.ptx for found in ELEMENTS)
    raise UnsupportedError(f"matrix units have no elements {name!r}", hint=f"they have {known}")


@dataclass(frozen=True)
class Fragment:
    """A tile as the threads of a warp hold it.

    Attributes:
        role: a factor by rows ("a"), a factor by columns ("b"), or an accumulator ("c").
        rows, columns: of the tile.
        bits: of an element.
    """

    role: Role
    rows: int
    columns: int
    bits: int

    @property
    def held(self) -> int:
        """How many elements a thread holds."""
        return self.rows * self.columns // LANES

    @property
    def packed(self) -> int:
        """How many elements share a register."""
        return max(1, 32 // self.bits)

    @property
    def registers(self) -> int:
        """How many registers a thread holds, of 32 bits (of 64 for float64)."""
        return self.held // self.packed

    def place(self, lane: int, index: int) -> tuple[int, int]:
        """The row and the column of an element that a thread holds.

        >>> MMA["m16n8k16", "f16", "f16", "f32"].a.place(lane=5, index=7)
        (9, 11)
        """
        group, member = divmod(lane, 4)
        if self.role == "c":
            pair, part = divmod(index, 2)
            column, band = divmod(pair, self.rows // 8)
            return group + 8 * band, 8 * column + 2 * member + part
        register, part = divmod(index, self.packed)
        depth = member * self.packed + part
        if self.role == "b":
            return depth + 4 * self.packed * register, group
        bands = self.rows // 8
        row = group + 8 * (register % bands)
        return row, depth + 4 * self.packed * (register // bands)

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """(lane, index, row, column) of every element."""
        for lane in range(LANES):
            for index in range(self.held):
                yield lane, index, *self.place(lane, index)


@dataclass(frozen=True)
class Product:
    """`D = A @ B + C` of m by n by k in one instruction.

    Attributes:
        a_type, b_type, c_type: PTX's names; D has the type of C.
        sm: the least compute capability.
        ptx: the least version of PTX, times 10.
    """

    m: int
    n: int
    k: int
    a_type: str
    b_type: str
    c_type: str
    sm: int
    ptx: int

    @property
    def shape(self) -> str:
        """`m16n8k16` and the like."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def a(self) -> Fragment:
        """The left factor, m by k."""
        return Fragment("a", self.m, self.k, element(self.a_type).bits)

    @property
    def b(self) -> Fragment:
        """The right factor, k by n."""
        return Fragment("b", self.k, self.n, element(self.b_type).bits)

    @property
    def c(self) -> Fragment:
        """The sum, m by n."""
        return Fragment("c", self.m, self.n, element(self.c_type).bits)

    @property
    def integers(self) -> bool:
        """Whether it is a product of integers."""
        return self.c_type == "s32"

    def instruction(self, saturate: bool = False) -> str:
        """PTX's name of the instruction.

        >>> MMA["m16n8k16", "bf16", "bf16", "f32"].instruction()
        'mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32'
        """
        tail = ".satfinite" if saturate else ""
        types = f"{self.c_type}.{self.a_type}.{self.b_type}.{self.c_type}"
        return f"mma.sync.aligned.{self.shape}.row.col{tail}.{types}"


def _products() -> Iterator[Product]:
    for total in ("f16", "f32"):
        yield Product(16, 8, 8, "f16", "f16", total, 75, 65)
        yield Product(16, 8, 16, "f16", "f16", total, 80, 70)
    for k in (8, 16):
        yield Product(16, 8, k, "bf16", "bf16", "f32", 80, 70)
    for k in (4, 8):
        yield Product(16, 8, k, "tf32", "tf32", "f32", 80, 70)
    for left in ("s8", "u8"):
        for right in ("s8", "u8"):
            yield Product(8, 8, 16, left, right, "s32", 75, 65)
            yield Product(16, 8, 16, left, right, "s32", 80, 70)
            yield Product(16, 8, 32, left, right, "s32", 80, 70)
    for left in ("e4m3", "e5m2"):
        for right in ("e4m3", "e5m2"):
            yield Product(16, 8, 32, left, right, "f32", 89, 84)
    yield Product(8, 8, 4, "f64", "f64", "f64", 80, 70)
    for k in (4, 8, 16):
        yield Product(16, 8, k, "f64", "f64", "f64", 90, 78)


#: By shape and PTX's names of the types of A, B and C.
MMA: dict[tuple[str, str, str, str], Product] = {
    (p.shape, p.a_type, p.b_type, p.c_type): p for p in _products()
}


@dataclass(frozen=True)
class GroupProduct:
    """`D = A @ B + C` of 64 by n by k that four warps make together, 16 rows each (`wgmma`).

    Attributes:
        a_type, b_type, c_type: PTX's names.
    """

    n: int
    k: int
    a_type: str
    b_type: str
    c_type: str

    @property
    def shape(self) -> str:
        """`m64n128k16` and the like."""
        return f"m64n{self.n}k{self.k}"

    @property
    def bits(self) -> int:
        """Of an element of A and B."""
        return element(self.a_type).bits

    @property
    def a(self) -> Fragment:
        """What a warp holds of A, if A is in registers."""
        return Fragment("a", 16, self.k, self.bits)

    @property
    def c(self) -> Fragment:
        """What a warp holds of the sum."""
        return Fragment("c", 16, self.n, element(self.c_type).bits)

    @property
    def integers(self) -> bool:
        """Whether it is a product of integers."""
        return self.c_type == "s32"

    @property
    def may_transpose(self) -> bool:
        """Whether factors in shared memory may lie the other way round."""
        return self.bits == 16

    @property
    def instruction(self) -> str:
        """PTX's name of the instruction."""
        types = f"{self.c_type}.{self.a_type}.{self.b_type}"
        return f"wgmma.mma_async.sync.aligned.{self.shape}.{types}"


_GROUP_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32}
_GROUP_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",),
               "u8": ("s32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}  # fmt: skip
_ALIKE = ({"s8", "u8"}, {"e4m3", "e5m2"})  # may be multiplied with each other


@cache
def find_wgmma(shape: str, a: str, b: str, c: str) -> GroupProduct:
    """The product of four warps that has a shape, on elements of these types, by any names.

    Raises:
        UnsupportedError: no instruction makes it.

    >>> find_wgmma("m64n128k16", "bf16", "bf16", "fp32").instruction
    'wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16'
    """
    left, right, total = (element(name).ptx for name in (a, b, c))
    paired = left == right or any({left, right} <= alike for alike in _ALIKE)
    if not paired or total not in _GROUP_SUMS.get(left, ()):
        raise UnsupportedError(f"no wgmma multiplies {left} and {right} into {total}")
    depth = _GROUP_DEPTH[left]
    for n in range(8, 257, 8):
        if total == "s32" and n > 32 and n % 16:
            continue
        if shape == f"m64n{n}k{depth}":
            return GroupProduct(n, depth, left, right, total)
    hint = f"there is m64n8k{depth} to m64n256k{depth}, by eights"
    raise UnsupportedError(f"no wgmma is {shape} on {left} and {right}", hint=hint)


@cache
def find_mma(shape: str, a: str, b: str, c: str) -> Product:
    """The product of a shape on elements of these types, by any of their names.

    Raises:
        UnsupportedError: no instruction makes it.

    >>> find_mma("m16n8k8", "fp16", "fp16", "fp32").sm
    75
    """
    kinds = tuple(element(name).ptx for name in (a, b, c))
    found = MMA.get((shape, *kinds))  # type: ignore[arg-type]
    if found is None:
        near = [p.shape for p in MMA.values() if (p.a_type, p.b_type, p.c_type) == kinds]
        hint = f"there are {', '.join(near)}" if near else "there is none on such elements"
        raise UnsupportedError(f"no mma is {shape} on {'.'.join(kinds)}", hint=hint)
    return found


def table() -> str:
    """What `mma.sync` and `wgmma` multiply, as a table of Markdown."""
    rows = ["| instruction | shapes | A and B | C and D | from |", "|---|---|---|---|---|"]
    shapes: dict[tuple[str, str, int], list[str]] = {}
    for p in MMA.values():
        shapes.setdefault((f"{p.a_type} × {p.b_type}", p.c_type, p.sm), []).append(p.shape)
    for (kinds, total, sm), found in shapes.items():
        rows.append(f"| `mma.sync` | {', '.join(found)} | {kinds} | {total} | sm_{sm} |")
    for kind, depth in _GROUP_DEPTH.items():
        alike = next((sorted(group) for group in _ALIKE if kind in group), [kind])
        others = " or ".join(alike)
        rows.append(
            f"| `wgmma` | m64n8k{depth} to m64n256k{depth} | {kind} × {others} | "
            f"{', '.join(_GROUP_SUMS[kind])} | sm_90a |"
        )
    return "\n".join(rows)
