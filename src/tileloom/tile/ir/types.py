"""Types of tile IR, in MLIR's and Triton's textual syntax.

    type ::= i<N> | index | f16 | bf16 | f32 | f64 | f8E5M2 ...          scalars
           | !tt.ptr<type [, space]>                                      pointers
           | tensor<shape x type [, encoding]>                            tensors
           | !ttg.memdesc<shape x type, encoding, memory [, mutable]>     views of shared memory
           | !tt.tensordesc<tensor> | !ttg.async.token | none
           | (types) -> types                                             functions

Types are interned: two equal types are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError
from .interning import Attribute, Immutable
from .text import PLAIN

if TYPE_CHECKING:
    from .text import TextStyle


class Type(Immutable):
    """Any type."""

    def text(self, style: TextStyle) -> str:
        """The type in textual syntax."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text(PLAIN)


class IntegerType(Type):
    """`i32`: a signless integer of some bits, as in MLIR; `i1` is a truth value."""

    bits: int
    signedness: str  # "", "s" or "u": Triton's IR has signless integers only

    @classmethod
    def normalize(cls, bits: int, signedness: str = "") -> tuple[int, str]:
        return bits, signedness

    def check(self) -> None:
        if self.bits < 1:
            raise UserError(f"an integer type has at least one bit, not {self.bits}")

    def text(self, style: TextStyle) -> str:
        return f"{self.signedness}i{self.bits}"


class IndexType(Type):
    """`index`: an integer of the machine's address width."""

    bits = 64

    def text(self, style: TextStyle) -> str:
        return "index"


class NoneType(Type):
    """`none`: a value that says nothing."""

    def text(self, style: TextStyle) -> str:
        return "none"


# The floating-point formats, and their bits.
FLOATS = {
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "tf32": 19,
    "f8E5M2": 8,
    "f8E4M3FN": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
    "f8E4M3B11FNUZ": 8,
    "f8E4M3": 8,
    "f8E3M4": 8,
    "f8E8M0FNU": 8,
    "f4E2M1FN": 4,
}


class FloatType(Type):
    """`f32`: a floating-point format by its name in MLIR."""

    name: str

    def check(self) -> None:
        if self.name not in FLOATS:
            raise UserError(f"there is no floating-point type {self.name!r}")

    @property
    def bits(self) -> int:
        """The width of a value."""
        return FLOATS[self.name]

    def text(self, style: TextStyle) -> str:
        return self.name


class FunctionType(Type):
    """`(i32, f32) -> f32`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    @classmethod
    def normalize(cls, inputs: Sequence[Type], results: Sequence[Type]) -> tuple[Any, ...]:
        return tuple(inputs), tuple(results)

    def text(self, style: TextStyle) -> str:
        inputs = ", ".join(map(style.type, self.inputs))
        return f"({inputs}) -> {style.results(self.results)}"


class PointerType(Type):
    """`!tt.ptr<f32>`: a pointer to elements, or to a whole tensor; `space` 1 is global memory."""

    pointee: Type
    space: int

    @classmethod
    def normalize(cls, pointee: Type, space: int = 1) -> tuple[Type, int]:
        return pointee, space

    bits = 64

    def text(self, style: TextStyle) -> str:
        space = "" if self.space == 1 else f", {self.space}"
        return f"!tt.ptr<{style.type(self.pointee)}{space}>"


class ShapedType(Type):
    """A type with a shape: `shape`, `element` and `encoding`."""

    shape: tuple[int, ...]
    element: Type
    encoding: Attribute | None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    def dims(self, style: TextStyle) -> str:
        """`128x32xf32`; a dimension of -1 is dynamic."""
        sizes = "".join("?x" if extent < 0 else f"{extent}x" for extent in self.shape)
        return f"{sizes}{style.type(self.element)}"

    def with_element(self, element: Type) -> Any:
        """The same shape and encoding over other elements."""
        return self.replace(element=element)

    def with_encoding(self, encoding: Attribute | None) -> Any:
        """The same tensor in another layout."""
        return self.replace(encoding=encoding)


class TensorType(ShapedType):
    """`tensor<128x32xf32, #blocked>`: its elements are spread over threads by the encoding."""

    @classmethod
    def normalize(
        cls, shape: Sequence[int], element: Type, encoding: Attribute | None = None
    ) -> tuple[Any, ...]:
        return tuple(shape), element, encoding

    def text(self, style: TextStyle) -> str:
        encoding = "" if self.encoding is None else f", {style.attribute(self.encoding)}"
        return f"tensor<{self.dims(style)}{encoding}>"


class SharedMemory(Attribute):
    """`#ttg.shared_memory`."""

    alias = "smem"

    def text(self, style: TextStyle) -> str:
        return f"#{style.spelling.gpu}.shared_memory"


class MemDescType(ShapedType):
    """`!ttg.memdesc<2x128x32xf16, #shared, #ttg.shared_memory, mutable>`: a view of memory.

    `allocated` is the shape of the buffer that it is a view of, where that is another one.
    """

    memory: Attribute
    mutable: bool
    allocated: tuple[int, ...]

    @classmethod
    def normalize(
        cls,
        shape: Sequence[int],
        element: Type,
        encoding: Attribute,
        memory: Attribute | None = None,
        mutable: bool = False,
        allocated: Sequence[int] = (),
    ) -> tuple[Any, ...]:
        if memory is None:
            memory = SharedMemory()
        return tuple(shape), element, encoding, memory, mutable, tuple(allocated) or tuple(shape)

    def text(self, style: TextStyle) -> str:
        parts = [self.dims(style), style.attribute(self.encoding)]  # type: ignore[arg-type]
        if style.spelling.memory_spaces:
            parts.append(style.attribute(self.memory))
        if self.mutable:
            parts.append("mutable")
        if self.allocated != self.shape and style.spelling.allocated_shapes:
            parts.append("x".join(map(str, self.allocated)))
        return f"{style.spelling.memdesc}<{', '.join(parts)}>"


class AsyncTokenType(Type):
    """`!ttg.async.token`: stands for copies on their way."""

    def text(self, style: TextStyle) -> str:
        return f"!{style.spelling.gpu}.async.token"


class TensorDescType(Type):
    """`!tt.tensordesc<tensor<128x64xf16>>`: describes a tensor in global memory, by its blocks."""

    block: TensorType

    def text(self, style: TextStyle) -> str:
        return f"!tt.tensordesc<{style.type(self.block)}>"


class OpaqueType(Type):
    """A type of another dialect, kept as it is written: `!llvm.ptr`."""

    written: str

    def text(self, style: TextStyle) -> str:
        return self.written


I1, I8, I16, I32, I64 = (IntegerType(bits) for bits in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = (FloatType(name) for name in ("f16", "bf16", "f32", "f64"))
INDEX = IndexType()


def element_type(type: Type) -> Type:
    """The type of the elements of a tensor, or the type of a scalar itself.

    >>> str(element_type(TensorType((4,), F32))), str(element_type(I32))
    ('f32', 'i32')
    """
    return type.element if isinstance(type, ShapedType) else type


def with_element(type: Type, element: Type) -> Type:
    """The type with other elements: a tensor of the same shape and layout, or the scalar."""
    return type.with_element(element) if isinstance(type, ShapedType) else element


def as_shaped(type: Type) -> ShapedType:
    """The type as that of a tensor or of a view of memory.

    Raises:
        UserError: if it is another one.
    """
    if not isinstance(type, ShapedType):
        raise UserError(f"expected a tensor, but got '{type}'")
    return type


def as_tensor(type: Type) -> TensorType:
    """The type as that of a tensor.

    Raises:
        UserError: if it is another one.
    """
    if not isinstance(type, TensorType):
        raise UserError(f"expected a tensor, but got '{type}'")
    return type


def element_bits(type: Type) -> int:
    """The width of an element; a pointer has 64 bits.

    >>> element_bits(TensorType((4,), PointerType(F32))), element_bits(F16)
    (64, 16)
    """
    return element_type(type).bits  # type: ignore[attr-defined,no-any-return]


def is_integer(type: Type) -> bool:
    """Whether the type, or that of its elements, is an integer or an index."""
    return isinstance(element_type(type), IntegerType | IndexType)


def is_float(type: Type) -> bool:
    """Whether the type, or that of its elements, is a floating-point format."""
    return isinstance(element_type(type), FloatType)


def is_pointer(type: Type) -> bool:
    """Whether the type, or that of its elements, is a pointer."""
    return isinstance(element_type(type), PointerType)


def pointee(type: Type) -> Type:
    """What a load through this type gives: of a tensor of pointers, the tensor of elements.

    >>> str(pointee(TensorType((8,), PointerType(F32)))), str(pointee(PointerType(I32)))
    ('tensor<8xf32>', 'i32')
    """
    if isinstance(type, TensorType):
        return type.with_element(pointee(type.element))  # type: ignore[no-any-return]
    if not isinstance(type, PointerType):
        raise UserError(f"{type} is not a pointer, nor a tensor of pointers")
    return type.pointee


def pointer_to(type: Type, space: int = 1) -> Type:
    """The inverse of `pointee`, for tensors of pointers and scalars."""
    if isinstance(type, TensorType):
        return type.with_element(PointerType(type.element, space))  # type: ignore[no-any-return]
    return PointerType(type, space)
