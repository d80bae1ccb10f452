"""Encodings: how the elements of a tensor are spread over registers, lanes and warps.

    encoding ::= blocked      elements in rectangles: registers, then lanes, then warps
               | slice        a blocked (or other) layout with one dimension taken away
               | nvidia_mma   the accumulators of tensor cores
               | dot_op       an operand of tensor cores
               | linear       any layout, by its bases over GF(2)
               | shared       the order of elements in shared memory, swizzled against conflicts

Encodings are attributes: immutable and interned. `CTA` fields say how a cluster of thread blocks
shares a tensor; one block has ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError
from ..ir.interning import Attribute
from ..ir.parse_attributes import ATTRIBUTES, AttributeParser
from ..ir.types import SharedMemory

if TYPE_CHECKING:
    from ..ir.text import TextStyle

Ints = tuple[int, ...]


class Encoding(Attribute):
    """Any layout."""


class DistributedEncoding(Encoding):
    """A layout over threads."""


class CTALayout(Attribute):
    """How thread blocks of a cluster share a tensor.

    Fields:
        per_cga: blocks of the cluster along each dimension.
        split: the parts into which each dimension is cut; others have the same elements.
        order: dimensions, fastest first.
    """

    per_cga: Ints
    split: Ints
    order: Ints

    @classmethod
    def normalize(
        cls, per_cga: Sequence[int], split: Sequence[int], order: Sequence[int]
    ) -> tuple[Any, ...]:
        if all(n == 1 for n in (*per_cga, *split)):
            order = range(len(order) - 1, -1, -1)  # of one block, any order is the same
        return tuple(per_cga), tuple(split), tuple(order)

    def text(self, style: TextStyle) -> str:
        return self.parameters()

    @classmethod
    def one(cls, rank: int) -> CTALayout:
        """A cluster of one block."""
        return cls((1,) * rank, (1,) * rank, tuple(range(rank - 1, -1, -1)))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.order)

    @property
    def is_default(self) -> bool:
        """Whether text leaves it out."""
        return self is CTALayout.one(self.rank)

    def parameters(self) -> str:
        """The parameters in the text of an encoding."""
        return (
            f"CTAsPerCGA = {ints(self.per_cga)}, CTASplitNum = {ints(self.split)}, "
            f"CTAOrder = {ints(self.order)}"
        )


def ints(values: Sequence[int]) -> str:
    """`[1, 2]`."""
    return f"[{', '.join(map(str, values))}]"


def _cta(values: dict[str, Any], rank: int) -> CTALayout:
    default = CTALayout.one(rank)
    bases = values.pop("CGALayout", None)
    if bases is not None:
        return _cta_of_bases(bases, default)
    return CTALayout(
        values.pop("CTAsPerCGA", default.per_cga),
        values.pop("CTASplitNum", default.split),
        values.pop("CTAOrder", default.order),
    )


def _cta_of_bases(bases: Sequence[Ints], default: CTALayout) -> CTALayout:
    """The layout that later versions write by its bases over GF(2): where each bit of a block's
    number moves. Blocks of a cluster that have the same elements are not said so here."""
    counts = [1] * default.rank
    order: list[int] = []
    for basis in bases:
        moved = [axis for axis, step in enumerate(basis) if step]
        if len(moved) != 1 or len(basis) != default.rank or basis[moved[0]] != counts[moved[0]]:
            raise UserError(f"a CGALayout with the basis {ints(basis)} is not supported")
        counts[moved[0]] *= 2
        order += [axis for axis in moved if axis not in order]
    order += [axis for axis in default.order if axis not in order]
    return CTALayout(tuple(counts), tuple(counts), tuple(order))


class BlockedEncoding(DistributedEncoding):
    """`#ttg.blocked`: rectangles of `size_per_thread` elements for a thread, of threads for a
    warp and of warps for a block, repeated over the tensor; `order` has the fastest dimension
    first."""

    size_per_thread: Ints
    threads_per_warp: Ints
    warps_per_cta: Ints
    order: Ints
    cta: CTALayout
    alias = "blocked"

    @classmethod
    def normalize(
        cls,
        size_per_thread: Sequence[int],
        threads_per_warp: Sequence[int],
        warps_per_cta: Sequence[int],
        order: Sequence[int],
        cta: CTALayout | None = None,
    ) -> tuple[Any, ...]:
        cta = CTALayout.one(len(order)) if cta is None else cta
        return (*map(tuple, (size_per_thread, threads_per_warp, warps_per_cta, order)), cta)

    def check(self) -> None:
        fields = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta)
        rank = len(self.order)
        if any(len(field) != rank for field in fields) or self.cta.rank != rank:
            raise UserError("the lists of a blocked layout have different lengths")
        if sorted(self.order) != list(range(rank)):
            raise UserError(f"order {ints(self.order)} is not a permutation of the dimensions")
        if any(n < 1 or n & (n - 1) for field in fields for n in field):
            raise UserError("the sizes of a blocked layout are powers of two")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.order)

    def text(self, style: TextStyle) -> str:
        cta = "" if self.cta.is_default else f", {self.cta.parameters()}"
        return (
            f"#{style.spelling.gpu}.blocked<{{sizePerThread = {ints(self.size_per_thread)}, "
            f"threadsPerWarp = {ints(self.threads_per_warp)}, "
            f"warpsPerCTA = {ints(self.warps_per_cta)}, order = {ints(self.order)}{cta}}}>"
        )


class SliceEncoding(DistributedEncoding):
    """`#ttg.slice`: the parent's layout of a tensor with dimension `dim` more, squeezed."""

    dim: int
    parent: DistributedEncoding

    def check(self) -> None:
        if not isinstance(self.parent, DistributedEncoding):
            raise UserError("the parent of a slice is a layout over threads")

    def text(self, style: TextStyle) -> str:
        parent = style.attribute(self.parent)
        return f"#{style.spelling.gpu}.slice<{{dim = {self.dim}, parent = {parent}}}>"


class NvidiaMmaEncoding(DistributedEncoding):
    """`#ttg.nvidia_mma`: accumulators of `mma.sync` (version 2) or `wgmma` (version 3).

    `instr_shape` is [16, 8] of version 2, [16, n, k] of version 3.
    """

    version: int
    minor: int
    warps_per_cta: Ints
    cta: CTALayout
    instr_shape: Ints
    alias = "mma"

    @classmethod
    def normalize(
        cls,
        version: int,
        minor: int,
        warps_per_cta: Sequence[int],
        cta: CTALayout | None = None,
        instr_shape: Sequence[int] = (16, 8),
    ) -> tuple[Any, ...]:
        cta = CTALayout.one(len(warps_per_cta)) if cta is None else cta
        return version, minor, tuple(warps_per_cta), cta, tuple(instr_shape)

    def check(self) -> None:
        if self.version not in (1, 2, 3):
            raise UserError(f"there is no mma layout of version {self.version}")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.warps_per_cta)

    def text(self, style: TextStyle) -> str:
        cta = "" if self.cta.is_default else f"{self.cta.parameters()}, "
        return (
            f"#{style.spelling.gpu}.nvidia_mma<{{versionMajor = {self.version}, "
            f"versionMinor = {self.minor}, warpsPerCTA = {ints(self.warps_per_cta)}, {cta}"
            f"instrShape = {ints(self.instr_shape)}}}>"
        )


class DotOperandEncoding(DistributedEncoding):
    """`#ttg.dot_op`: operand `op_idx` (0 or 1) of a product whose result has layout `parent`;
    `k_width` is the number of neighbouring elements along K in a register's lanes."""

    op_idx: int
    parent: DistributedEncoding
    k_width: int

    @classmethod
    def normalize(cls, op_idx: int, parent: Any, k_width: int = 0) -> tuple[Any, ...]:
        return op_idx, parent, k_width

    def check(self) -> None:
        if self.op_idx not in (0, 1):
            raise UserError(f"opIdx is 0 or 1, not {self.op_idx}")
        match self.parent:
            case NvidiaMmaEncoding(version=3) if self.op_idx:
                raise UserError("opIdx is 0 with a parent of version 3")
            case NvidiaMmaEncoding(version=2 | 3) if not self.k_width:
                raise UserError("kWidth is needed with a parent of version 2 or 3")
            case BlockedEncoding() if self.k_width:
                raise UserError("there is no kWidth with a blocked parent")
            case DistributedEncoding():
                return
        raise UserError("the parent of a dot operand is a layout over threads")

    def text(self, style: TextStyle) -> str:
        width = f", kWidth = {self.k_width}" if self.k_width else ""
        return (
            f"#{style.spelling.gpu}.dot_op<{{opIdx = {self.op_idx}, "
            f"parent = {style.attribute(self.parent)}{width}}}>"
        )


class LinearEncoding(DistributedEncoding):
    """`#ttg.linear`: a layout by its bases over GF(2): where each bit of the register, the lane,
    the warp and the block moves in the tensor."""

    register: tuple[Ints, ...]
    lane: tuple[Ints, ...]
    warp: tuple[Ints, ...]
    block: tuple[Ints, ...]
    alias = "linear"

    def check(self) -> None:
        bases = [basis for field in self.fields for basis in getattr(self, field)]
        if len({len(basis) for basis in bases}) > 1:
            raise UserError("the bases of a linear layout have different lengths")

    def text(self, style: TextStyle) -> str:
        parts = (
            f"{field} = [{', '.join(map(ints, getattr(self, field)))}]" for field in self.fields
        )
        return f"#{style.spelling.gpu}.linear<{{{', '.join(parts)}}}>"


class ForeignEncoding(DistributedEncoding):
    """A layout of other hardware or other versions, such as `#ttg.amd_mfma`: kept as it is
    written; nothing is known of how it spreads elements."""

    name: str
    parameters: str  # in their brackets
    alias = "mma"

    def text(self, style: TextStyle) -> str:
        return f"#{style.spelling.gpu}.{self.name}{self.parameters}"


class ForeignSharedEncoding(Encoding):
    """An order in shared memory of other hardware or later versions, kept as it is written."""

    name: str
    parameters: str  # in their brackets
    alias = "shared"

    def text(self, style: TextStyle) -> str:
        return f"#{style.spelling.gpu}.{self.name}{self.parameters}"


class SharedEncoding(Encoding):
    """`#ttg.swizzled_shared` (`#triton_gpu.shared`): rows of shared memory whose groups of `vec`
    elements are exchanged by the row, `(row / per_phase) mod max_phase`, against conflicts of
    banks. With `leading_offset` it is the order that `wgmma` reads (`#ttg.nvmma_shared`)."""

    vec: int
    per_phase: int
    max_phase: int
    order: Ints
    cta: CTALayout
    leading_offset: bool
    alias = "shared"

    @classmethod
    def normalize(
        cls,
        vec: int,
        per_phase: int,
        max_phase: int,
        order: Sequence[int],
        cta: CTALayout | None = None,
        leading_offset: bool = False,
    ) -> tuple[Any, ...]:
        cta = CTALayout.one(len(order)) if cta is None else cta
        return vec, per_phase, max_phase, tuple(order), cta, bool(leading_offset)

    def check(self) -> None:
        if min(self.vec, self.per_phase, self.max_phase) < 1:
            raise UserError("vec, perPhase and maxPhase are at least 1")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.order)

    def text(self, style: TextStyle) -> str:
        cta = "" if self.cta.is_default else f", {self.cta.parameters()}"
        old = style.spelling.gpu == "triton_gpu"
        if self.leading_offset and not old:
            return self.hopper_text(style, cta)
        offset = f", hasLeadingOffset = {str(self.leading_offset).lower()}" if old else ""
        return (
            f"#{style.spelling.gpu}.{'shared' if old else 'swizzled_shared'}<{{vec = {self.vec}, "
            f"perPhase = {self.per_phase}, maxPhase = {self.max_phase}, "
            f"order = {ints(self.order)}{cta}{offset}}}>"
        )

    def hopper_text(self, style: TextStyle, cta: str) -> str:
        """The text of a layout that `wgmma` reads."""
        transposed = str(self.order[0] == 0).lower()
        return (
            f"#{style.spelling.gpu}.nvmma_shared<{{swizzlingByteWidth = {self.swizzle_bytes}, "
            f"transposed = {transposed}, elementBitWidth = {128 // self.vec}{cta}}}>"
        )

    @property
    def swizzle_bytes(self) -> int:
        """The width in bytes of a row of a layout that `wgmma` reads: 32, 64, 128, or 0."""
        return {(4, 2): 32, (2, 4): 64, (1, 8): 128}.get((self.per_phase, self.max_phase), 0)


# Text in.


def _reader(name: str) -> Callable[[Callable[[dict[str, Any]], Encoding]], Any]:
    """Registers the reader of an encoding, from the parameters in its text."""

    def register(make: Callable[[dict[str, Any]], Encoding]) -> Any:
        def read(parser: AttributeParser) -> Attribute:
            start = parser.start
            values = parser.parameters()
            try:
                made = make(values)
            except KeyError as error:
                raise parser.error(f"missing parameter {error.args[0]}", start, start + 1) from None
            if values:
                raise parser.error(f"unknown parameter {next(iter(values))}", start, start + 1)
            return made

        ATTRIBUTES[name] = read
        return make

    return register


@_reader("ttg.blocked")
def _read_blocked(values: dict[str, Any]) -> Encoding:
    names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    fields = [values.pop(name) for name in names]
    return BlockedEncoding(*fields, _cta(values, len(fields[3])))


@_reader("ttg.slice")
def _read_slice(values: dict[str, Any]) -> Encoding:
    return SliceEncoding(values.pop("dim", 0), values.pop("parent"))


@_reader("ttg.nvidia_mma")
def _read_mma(values: dict[str, Any]) -> Encoding:
    warps = values.pop("warpsPerCTA")
    return NvidiaMmaEncoding(
        values.pop("versionMajor", 0),
        values.pop("versionMinor", 0),
        warps,
        _cta(values, len(warps)),
        values.pop("instrShape", (16, 8)),
    )


@_reader("ttg.dot_op")
def _read_dot_operand(values: dict[str, Any]) -> Encoding:
    return DotOperandEncoding(values.pop("opIdx", 0), values.pop("parent"), values.pop("kWidth", 0))


@_reader("ttg.linear")
def _read_linear(values: dict[str, Any]) -> Encoding:
    return LinearEncoding(*(values.pop(name, ()) for name in ("register", "lane", "warp", "block")))


def _read_shared(values: dict[str, Any]) -> Encoding:
    order = values.pop("order", (0,))
    return SharedEncoding(
        values.pop("vec"),
        values.pop("perPhase"),
        values.pop("maxPhase"),
        order,
        _cta(values, len(order)),
        values.pop("hasLeadingOffset", False),
    )


_reader("ttg.shared")(_read_shared)
_reader("ttg.swizzled_shared")(_read_shared)


@_reader("ttg.nvmma_shared")
def _read_hopper_shared(values: dict[str, Any]) -> Encoding:
    width = values.pop("swizzlingByteWidth")
    bits = values.pop("elementBitWidth")
    order = (0, 1) if values.pop("transposed", False) else (1, 0)
    values.pop("rank", None)
    phases = {32: (4, 2), 64: (2, 4), 128: (1, 8)}.get(width, (1, 1))
    return SharedEncoding(128 // bits, *phases, order, _cta(values, 2), True)


def _foreign(name: str, made: type[Encoding]) -> Callable[[AttributeParser], Attribute]:
    def read(parser: AttributeParser) -> Attribute:
        return made(name, parser.brackets())

    return read


for _name in ("amd_mfma", "amd_wmma"):
    ATTRIBUTES[f"ttg.{_name}"] = _foreign(_name, ForeignEncoding)
for _name in ("shared_linear", "padded_shared", "amd_rotating_shared"):
    ATTRIBUTES[f"ttg.{_name}"] = _foreign(_name, ForeignSharedEncoding)


def _read_memory(_parser: AttributeParser) -> Attribute:
    return SharedMemory()


ATTRIBUTES["ttg.shared_memory"] = _read_memory
