"""Products on tensor cores: `mma.sync` from Turing on, `wgmma` on Hopper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.slices import forward_operations, related_operations
from ..conversions.properties import module_of
from ..ir.attributes import StringAttr
from ..ir.core import Operation, Value
from ..ir.definitions import Trait
from ..ir.rewriter import OpBuilder, module_integer
from ..ir.types import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    FloatType,
    MemDescType,
    TensorType,
    Type,
    as_tensor,
    element_bits,
)
from ..layouts.encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    NvidiaMmaEncoding,
)
from ..layouts.properties import cta_layout, order_of
from ..layouts.shared import shared_for_wgmma
from .registry import tile_pass

# The widths of a `wgmma`; of int8, the multiples of 32 and some smaller ones.
WGMMA_WIDTHS = tuple(range(256, 0, -8))
WGMMA_INTEGER_WIDTHS = (224, 208, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 24, 16, 8)


@tile_pass("tritongpu-accelerate-matmul")
def accelerate_matmul(module: Operation) -> None:
    """Gives products that tensor cores can do the layouts of tensor cores.

    The module's attribute `ttg.target` says the compute capability. Products of float32 go to
    tensor cores where they allow TF32. What the instructions do not take (float8 before Ada, and
    operands of another width than the result in scalar products) is widened first.
    """
    capability = compute_capability(module)
    for op in [op for op in module.walk() if op.name == "tt.dot"]:
        version = mma_version(op, capability)
        if version:
            _to_tensor_cores(op, version, capability)
    for op in [op for op in module.walk() if op.name == "tt.dot"]:
        _widen_operands(op, capability)


def compute_capability(module: Operation) -> int:
    """The compute capability that the module is for, 80 if it does not say."""
    target = module.attributes.get("ttg.target")
    if isinstance(target, StringAttr) and target.value.startswith("cuda:"):
        return int(target.value.removeprefix("cuda:"))
    return 80


def mma_version(op: Operation, capability: int) -> int:
    """The version of the instructions that can do a product: 3, 2, or 0 for none."""
    result = as_tensor(op.results[0].type)
    if capability < 75 or not isinstance(result.encoding, BlockedEncoding):
        return 0
    if 90 <= capability < 100 and _fits_warp_group(op):
        return 3
    return 2 if _has_tensor_core_types(op) else 0


def is_float8(type: Type) -> bool:
    """Whether a type is one of the formats of 8 bits."""
    return isinstance(type, FloatType) and type.bits == 8


def _elements(op: Operation) -> tuple[Type, Type, Type]:
    a, b, d = (as_tensor(v.type).element for v in (*op.operands[:2], op.results[0]))
    return a, b, d


def _has_tensor_core_types(op: Operation) -> bool:
    a, b, _ = _elements(op)
    if a is F32 and b is F32:
        return op.enum("inputPrecision") in (None, "tf32")
    return all(each in (F16, BF16, I8) or is_float8(each) for each in (a, b))


def _fits_warp_group(op: Operation) -> bool:
    a, b, d = _elements(op)
    result, left = as_tensor(op.results[0].type), as_tensor(op.operands[0].type)
    warps = module_integer(module_of(op), "ttg.num-warps", 4)
    if result.rank != 2 or warps % 4 or not _has_tensor_core_types(op):
        return False
    m, n = result.shape
    if m % 64 or n % 8 or left.shape[1] < 256 // element_bits(a):
        return False
    if is_float8(a) and d is F32:
        limit = op.attributes.get("maxNumImpreciseAcc")
        if limit is not None and limit.value < 32:  # type: ignore[attr-defined]
            return False
    return a is b and (d in (F16, F32) or not isinstance(d, FloatType)) and a is not F64


# Warps and instructions.


@dataclass(frozen=True)
class Product:
    """A product and the part of it that a thread block does."""

    op: Operation
    shape: tuple[int, ...]
    warps: int


def instruction_shape(product: Product, version: int) -> tuple[int, ...]:
    """The shape of an instruction: 16 by 8, or of a warp group 16 by n by k."""
    a, _, _ = _elements(product.op)
    if version == 2:
        return (*(1,) * (len(product.shape) - 2), 16, 8)
    rows, columns = product.shape
    row_warps = max(rows // 16, 1)
    column_warps = max(product.warps // row_warps, 1)
    widest = max(columns // column_warps, 8)
    widths = WGMMA_INTEGER_WIDTHS if a is I8 else WGMMA_WIDTHS
    width = next(n for n in widths if columns % n == 0 and n <= widest)
    return 16, width, 256 // element_bits(a)


def warps_of(product: Product, version: int, instruction: Sequence[int]) -> tuple[int, ...]:
    """The warps of a block along the rows and columns of a product."""
    if version == 3:
        return _warp_groups(product, instruction)
    return _independent_warps(product)


def _warp_groups(product: Product, instruction: Sequence[int]) -> tuple[int, int]:
    users = forward_operations(product.op.results)
    if any(user.name in ("tt.dot", "ttng.warp_group_dot") for user in users):
        return product.warps, 1
    rows, columns = 4, 1
    while rows * columns < product.warps:
        if product.shape[0] > instruction[0] * rows:
            rows *= 2
        else:
            columns *= 2
    return rows, columns


def _independent_warps(product: Product) -> tuple[int, ...]:
    op, shape, warps = product.op, product.shape, product.warps
    if len(shape) == 3:
        return warps, 1, 1
    region = op.block_of().region

    def in_region(other: Operation) -> bool:
        return other.block_of().region is region and other.name != "tt.trans"

    chained = False
    for other in related_operations(op, in_region):
        if other is op or other.name != "tt.dot":
            continue
        encoding = as_tensor(other.results[0].type).encoding
        if isinstance(encoding, NvidiaMmaEncoding) and encoding.rank == len(shape):
            return encoding.warps_per_cta
        chained = True
    if chained:
        return (warps, 1) if shape[0] >= shape[1] else (1, warps)
    return _balanced_warps(shape, warps)


def _balanced_warps(shape: Sequence[int], warps: int) -> tuple[int, int]:
    """Warps so that each has about as many rows as columns, in units of 16."""
    rows, columns = 1, 1
    while rows * columns < warps:
        is_tall = shape[0] // 16 // rows >= shape[1] // 16 // columns
        if is_tall and rows < shape[0] // 16:
            rows *= 2
        else:
            columns *= 2
    return rows, columns


# Rewriting.


def _to_tensor_cores(op: Operation, version: int, capability: int) -> None:
    result = as_tensor(op.results[0].type)
    cta = cta_layout(result.encoding)
    shape = tuple(n // min(n, s) for n, s in zip(result.shape, cta.split, strict=True))
    product = Product(op, shape, module_integer(module_of(op), "ttg.num-warps", 4))
    instruction = instruction_shape(product, version)
    warps = warps_of(product, version, instruction)
    encoding = NvidiaMmaEncoding(version, int(capability == 75), warps, cta, instruction)
    build = OpBuilder(before=op)
    if version == 3:
        left, right = (_in_shared_memory(op, index, cta) for index in (0, 1))
        name, groups = "ttng.warp_group_dot", [1, 1, 1, 0]
    else:
        bits = min(original_bits(operand) for operand in op.operands[:2])
        left, right = (
            _as_operand(op.operands[index], index, encoding, 32 // bits, build) for index in (0, 1)
        )
        name, groups = "tt.dot", []
    type = result.with_encoding(encoding)
    accumulator = build.convert(op.operands[2], type)
    made = build.create(
        name,
        (left, right, accumulator),
        (type,),
        op.attributes,
        groups=groups or None,
    )
    op.results[0].replace_uses(build.convert(made.result, result))
    sources = [operand.defining_op for operand in op.operands]
    op.erase()
    for source in sources:  # conversions to operands of scalar products
        if source is not None and source.name == "ttg.convert_layout" and source.is_unused:
            source.erase()


def _as_operand(
    value: Value, index: int, encoding: Encoding, width: int, build: OpBuilder
) -> Value:
    type = as_tensor(value.type)
    return build.convert(value, type.with_encoding(DotOperandEncoding(index, encoding, width)))


def _in_shared_memory(op: Operation, index: int, cta: CTALayout) -> Value:
    """An operand in shared memory, as `wgmma` reads it."""
    value = op.operands[index]
    source = value.defining_op
    if source is not None and source.name == "ttg.convert_layout":
        value = source.operands[0]
    type = as_tensor(value.type)
    bits = element_bits(type)
    order: Sequence[int] = order_of(type.encoding)
    if bits != 16:
        order = (0, 1) if index == 1 else (1, 0)
    own_cta = cta_layout(type.encoding)
    layout = shared_for_wgmma(type.shape, order, bits, own_cta if own_cta is not cta else cta)
    build = OpBuilder().after_value(value)
    memory = MemDescType(type.shape, type.element, layout)
    return build.create("ttg.local_alloc", (value,), (memory,)).result


def original_bits(value: Value) -> int:
    """The width of an operand before it was widened: back through operations of one operand that
    keep its shape, to the first of another width."""
    bits = element_bits(value.type)
    op = value.defining_op
    while op is not None and len(op.operands) == 1:
        keeps = Trait.ELEMENTWISE in op.definition.traits or op.name == "ttg.convert_layout"
        if not keeps and op.name not in ("tt.trans", "tt.reshape"):
            break
        source = op.operands[0]
        if not isinstance(source.type, TensorType):
            break
        if element_bits(source.type) != bits:
            return min(bits, element_bits(source.type))
        op = source.defining_op
    return bits


def _widen_operands(op: Operation, capability: int) -> None:
    """Widens operands that the instructions of a product do not take."""
    a, _, d = _elements(op)
    encoding = as_tensor(op.results[0].type).encoding
    if isinstance(encoding, NvidiaMmaEncoding):
        native = capability == 89 or encoding.version == 3
        if not is_float8(a) or native:
            return
        wanted: Type = F16
    else:
        if a is d or not isinstance(d, FloatType):
            return
        wanted = d
    build = OpBuilder(before=op)
    for index in (0, 1):
        operand = op.operands[index]
        type = as_tensor(operand.type).with_element(wanted)
        op.set_operand(index, build("tt.fp_to_fp", operand, type=type))
