"""What changes of layout ask of an operation."""

from __future__ import annotations

from ..ir.core import Operation
from ..ir.definitions import Trait
from ..ir.rewriter import module_integer
from ..ir.types import PointerType, TensorType
from ..layouts.encodings import Encoding, NvidiaMmaEncoding
from ..layouts.properties import elements_per_thread

ACCESSES = ("tt.load", "tt.store")
ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
PRODUCTS = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot")
# Operations that make elements in any layout at no cost.
MADE_ANYWHERE = ("arith.constant", "tt.make_range", "tt.splat", "tt.histogram")
# Operations whose operands' layouts follow from that of their results, and the other way round.
INFERRED = (
    *("tt.reduce", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split"),
    *("ttg.convert_layout", "tt.broadcast"),
)


def module_of(op: Operation) -> Operation:
    """The module around an operation."""
    return list(op.ancestors())[-1]


def thread_count(op: Operation) -> int:
    """The number of threads that run the module around an operation."""
    module = module_of(op)
    warps = module_integer(module, "ttg.num-warps", 4)
    return warps * module_integer(module, "ttg.threads-per-warp", 32)


def is_expensive_access(op: Operation) -> bool:
    """Whether a load or store moves so much that it must not be done twice: that it keeps all
    threads busy, or goes by a pointer to a whole tensor."""
    pointer = op.operands[0].type
    if isinstance(pointer, PointerType):
        return isinstance(pointer.pointee, TensorType)
    if not isinstance(pointer, TensorType):
        return False
    return pointer.size >= thread_count(op) and pointer.size > 1


def keeps_layout(op: Operation) -> bool:
    """Whether all tensors that an operation takes and gives have one layout."""
    traits = op.definition.traits
    return Trait.ELEMENTWISE in traits or Trait.SAME_ENCODING in traits or Trait.SAME_TYPE in traits


def is_anchor(op: Operation) -> bool:
    """Whether the layout of an operation is to stay: others follow it."""
    if op.name in ACCESSES:
        return is_expensive_access(op)
    if op.name in (*PRODUCTS, *ATOMICS):
        return True
    return op.name == "tt.reshape" and "allow_reorder" in op.attributes


def can_repeat(op: Operation) -> bool:
    """Whether an operation may be done a second time in another layout."""
    if op.name in ACCESSES:
        return op.name == "tt.load" and not is_expensive_access(op)
    if op.name in (*PRODUCTS, *ATOMICS, "scf.while", "scf.condition"):
        return False
    return (
        op.definition.is_pure
        or op.name in ("scf.for", "scf.if", "scf.yield")
        or (op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise") and _is_pure(op))
    )


def _is_pure(op: Operation) -> bool:
    pure = op.attributes.get("pure")
    return pure is not None and bool(pure.value)  # type: ignore[attr-defined]


def folds_into_conversion(op: Operation, encoding: Encoding) -> bool:
    """Whether an operation followed by a conversion to a layout is one operation at no cost."""
    if op.name in MADE_ANYWHERE:
        return True
    if op.name == "ttg.convert_layout":
        return not isinstance(encoding, NvidiaMmaEncoding) or _source_encoding(op) is encoding
    if op.name in ("ttg.local_alloc", "ttg.local_load", "ttg.local_store"):
        return True
    if op.name == "tt.reshape" and "allow_reorder" in op.attributes:
        return "efficient_layout" not in op.attributes and _holds_as_many(op, encoding)
    if op.name == "tt.cat":
        return _holds_as_many(op, encoding)
    return False


def _source_encoding(op: Operation) -> object:
    return op.operands[0].type.encoding  # type: ignore[attr-defined]


def _holds_as_many(op: Operation, encoding: Encoding) -> bool:
    """Whether threads hold as many elements of the result in a layout as they do now."""
    type = op.results[0].type
    if not isinstance(type, TensorType):
        return False
    changed = type.with_encoding(encoding)
    return elements_per_thread(changed) == elements_per_thread(type)
