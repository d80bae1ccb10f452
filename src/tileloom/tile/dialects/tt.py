"""Triton's operations: blocks of elements, pointers to them, products, reductions, functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.core import Operation
from ..ir.definitions import (
    ANY_RULE,
    BOOL_RULE,
    I32_RULE,
    OFF_RULE,
    STRING_RULE,
    UNIT_RULE,
    Effect,
    Trait,
    define,
    keyword_rule,
    same_type,
)
from ..ir.interning import Attribute
from ..ir.slots import AttributeRule
from ..ir.types import (
    I1,
    TensorType,
    Type,
    as_shaped,
    element_bits,
    is_pointer,
    pointee,
    with_element,
)
from .arith import PURE, UNIFORM

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter

CACHE = keyword_rule("none", "ca", "cg", "wb", "cs", "wt", "cv", first=1, default="none")
EVICT = keyword_rule("evict_normal", "evict_first", "evict_last", first=1, default="evict_normal")
SEMANTICS = keyword_rule("relaxed", "acquire", "release", "acq_rel", first=1)
SCOPE = keyword_rule("gpu", "cta", "sys", first=1)
PADDING = keyword_rule("pad_zero", "pad_nan", first=1)
ROUNDING = keyword_rule("rtz", "rtne")
PRECISION = keyword_rule("tf32", "tf32x3", "ieee")
AXIS = keyword_rule("x", "y", "z")
PROPAGATE_NAN = AttributeRule("enum", {"none": 0, "all": 0xFFFF})
ATOMIC = keyword_rule(
    *("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch"), first=1
)
NUMBER_FORMAT = keyword_rule("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")
ACCESS_CLAUSES = "oilist(`cacheModifier` `=` $cache | `evictionPolicy` `=` $evict)"
ARROW = "$src attr-dict `:` type($src) `->` type($result)"


# Places in the grid, ranges and constants.

for _name in ("get_program_id", "get_num_programs"):
    define(
        f"tt.{_name}",
        results="result",
        attributes={"axis": AXIS},
        traits=(Trait.PURE,),
        format="$axis attr-dict `:` type($result)",
    )


def _verify_range(op: Operation) -> None:
    type = op.results[0].type
    start, end = op.integer("start"), op.integer("end")
    if not isinstance(type, TensorType) or type.rank != 1:
        raise UserError("'tt.make_range' op return type must be a 1D tensor")
    if start >= end:
        raise UserError("'tt.make_range' op start must be less than end")
    if type.shape[0] != end - start:
        raise UserError(
            f"'tt.make_range' op number of elements in returned tensor, {type.shape[0]}, does not "
            f"match size of range [{start}, {end}), which is {end - start}"
        )


define(
    "tt.make_range",
    results="result",
    attributes={"start": I32_RULE, "end": I32_RULE},
    traits=(Trait.PURE,),
    format="attr-dict `:` type($result)",
    verify=_verify_range,
)


# Casts and shapes.


def _same_shape(op: Operation) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if getattr(source, "shape", None) != getattr(result, "shape", None):
        raise UserError(f"'{op.name}' op requires the same shape for all operands and results")


def _verify_bitcast(op: Operation) -> None:
    _same_shape(op)
    source, result = op.operands[0].type, op.results[0].type
    if is_pointer(source) != is_pointer(result):
        raise UserError("'tt.bitcast' op Cannot bitcast pointer to non-pointer type")
    old, new = element_bits(source), element_bits(result)
    if old != new:
        raise UserError(
            f"'tt.bitcast' op Cannot bitcast data-type of size {old} to data-type of size {new}"
        )


for _name in ("int_to_ptr", "ptr_to_int"):
    define(f"tt.{_name}", "src", "result", traits=PURE, format=ARROW, verify=_same_shape)
define("tt.bitcast", "src", "result", traits=PURE, format=ARROW, verify=_verify_bitcast)
define(
    "tt.fp_to_fp",
    "src",
    "result",
    attributes={"rounding": ROUNDING},
    traits=PURE,
    format="$src attr-dict (`,` `rounding` `=` $rounding^)? `:` type($src) `->` type($result)",
    verify=_same_shape,
)


def _verify_splat(op: Operation) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(result, TensorType) or result.element is not source:
        raise UserError(f"'tt.splat' op spreads a value of type {source} to {result}")


def _verify_expand(op: Operation) -> None:
    source, result = as_shaped(op.operands[0].type), as_shaped(op.results[0].type)
    axis = op.integer("axis")
    if not 0 <= axis <= source.rank:
        raise UserError(f"'tt.expand_dims' op axis {axis} is not a dimension of {result}")
    if result.shape != (*source.shape[:axis], 1, *source.shape[axis:]):
        raise UserError(f"'tt.expand_dims' op gives {result} for {source} at axis {axis}")


def _verify_broadcast(op: Operation) -> None:
    source, result = as_shaped(op.operands[0].type), as_shaped(op.results[0].type)
    if source.rank != result.rank:
        raise UserError("'tt.broadcast' op rank of source must be same as rank of result")
    for index, (old, new) in enumerate(zip(source.shape, result.shape, strict=True)):
        if old not in (1, new):
            raise UserError(
                f"'tt.broadcast' op Different dimensions at index {index} between source and "
                "result.  Broadcast requires the source dimension to be 1."
            )


def _verify_reshape(op: Operation) -> None:
    source, result = as_shaped(op.operands[0].type), as_shaped(op.results[0].type)
    if source.size != result.size:
        raise UserError(
            "'tt.reshape' op number of src and dst elements of reshape must be the same"
        )


def verify_trans(op: Operation) -> None:
    source, result = as_shaped(op.operands[0].type), as_shaped(op.results[0].type)
    order = op.attributes["order"].values  # type: ignore[attr-defined]
    if sorted(order) != list(range(source.rank)):
        raise UserError(f"'{op.name}' op order must be a permutation of [0, ..., rank-1]")
    if result.shape != tuple(source.shape[axis] for axis in order):
        raise UserError(f"'{op.name}' op gives {result} for {source}")


define("tt.splat", "src", "result", traits=(Trait.PURE,), format=ARROW, verify=_verify_splat)
define(
    "tt.unsplat",
    "src",
    "result",
    traits=(Trait.PURE,),
    format="$src attr-dict `:` type($src)",
    infer=lambda types, _attributes: (types[0].element,),  # type: ignore[attr-defined]
)
define(
    "tt.expand_dims",
    "src",
    "result",
    attributes={"axis": I32_RULE},
    traits=(Trait.PURE,),
    format=ARROW,
    verify=_verify_expand,
)
define(
    "tt.reshape",
    "src",
    "result",
    attributes={"allow_reorder": UNIT_RULE, "efficient_layout": UNIT_RULE},
    traits=(Trait.PURE,),
    format="$src (`allow_reorder` $allow_reorder^)? (`efficient_layout` $efficient_layout^)? "
    "attr-dict `:` type($src) `->` type($result)",
    verify=_verify_reshape,
)
define(
    "tt.broadcast",
    "src",
    "result",
    traits=(Trait.PURE, Trait.SAME_ENCODING),
    format=ARROW,
    verify=_verify_broadcast,
)
define(
    "tt.trans",
    "src",
    "result",
    attributes={"order": ANY_RULE},
    traits=(Trait.PURE,),
    format=ARROW,
    verify=verify_trans,
)
for _name in ("cat", "join"):
    define(
        f"tt.{_name}",
        "lhs rhs",
        "result",
        traits=(Trait.PURE, Trait.SAME_OPERANDS),
        format="$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)",
    )


def _parse_split(parser: Parser, draft: Draft) -> None:
    source = parser.value_name()
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    draft.values = [parser.resolve(source, parser.type())]
    parser.expect("->")
    draft.all_result_types = [parser.type()] * 2


def _show_split(writer: OpWriter, op: Operation) -> None:
    writer.item(writer.value(op.operands[0]))
    writer.item(writer.dictionary(op.attributes))
    types = [writer.type(value.type) for value in (op.operands[0], op.results[0])]
    writer.item(f": {types[0]} -> {types[1]}")


define(
    "tt.split",
    "src",
    "lhs rhs",
    traits=(Trait.PURE,),
    format=(_parse_split, _show_split),
)


# Elementwise functions.

for _name, _operands in (("precise_sqrt", "x"), ("precise_divf", "x y"), ("mulhiui", "x y")):
    define(
        f"tt.{_name}",
        _operands,
        "result",
        traits=UNIFORM,
        format=f"{' `,` '.join(f'${word}' for word in _operands.split())} attr-dict `:` type($x)",
        infer=same_type,
    )
define(
    "tt.clampf",
    "x min max",
    "result",
    attributes={"propagateNan": PROPAGATE_NAN},
    traits=UNIFORM,
    format="$x `,` $min `,` $max `,` `propagateNan` `=` $propagateNan attr-dict `:` type($result)",
)
define(
    "tt.extern_elementwise",
    "args*",
    "result",
    attributes={
        **dict.fromkeys(("libname", "libpath", "symbol"), STRING_RULE),
        "pure": BOOL_RULE,
    },
    traits=(Trait.ELEMENTWISE, Trait.SAME_ENCODING),
    effects=(Effect.OTHER,),
    format="$args attr-dict `:` functional-type(operands, results)",
)


def _verify_assembly(op: Operation) -> None:
    packed = op.integer("packed_element")
    for type in (value.type for value in (*op.operands, *op.results)):
        if isinstance(type, TensorType) and type.size % packed:
            raise UserError(
                f"'{op.name}' op number of input elements {type.size} must be a multiple of the "
                f"op's packed_element attribute, {packed}"
            )


define(
    "tt.elementwise_inline_asm",
    "args*",
    "result*",
    attributes={
        **dict.fromkeys(("asm_string", "constraints"), STRING_RULE),
        "pure": BOOL_RULE,
        "packed_element": I32_RULE,
    },
    traits=(Trait.ELEMENTWISE, Trait.SAME_ENCODING, Trait.SAME_SHAPE),
    effects=(Effect.OTHER,),
    verify=_verify_assembly,
    format="$asm_string attr-dict ($args^ `:` type($args))? `->` type($result)",
)


# Memory.


def _verify_addptr(op: Operation) -> None:
    pointer, offset = (operand.type for operand in op.operands)
    if not is_pointer(pointer):
        raise UserError(
            f"'tt.addptr' op operand #0 must be ptr or ranked tensor of ptr values, "
            f"but got '{pointer}'"
        )
    if getattr(pointer, "shape", None) != getattr(offset, "shape", None):
        raise UserError("'tt.addptr' op requires the same shape for all operands and results")
    if getattr(pointer, "encoding", None) is not getattr(offset, "encoding", None):
        raise UserError("'tt.addptr' op requires the same encoding for all operands and results")


define(
    "tt.addptr",
    "ptr offset",
    "result",
    traits=PURE,
    format="$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)",
    infer=same_type,
    verify=_verify_addptr,
)


def _loaded(types: Sequence[Type], _attributes: Mapping[str, Attribute]) -> Sequence[Type]:
    return (pointee(types[0]),)


def _expect_type(op: Operation, name: str, expected: Type) -> None:
    found = op.operand(name)
    if found is not None and found.type is not expected:
        raise UserError(
            f"'{op.name}' op operand '{name}' must be of type '{expected}', but has "
            f"type '{found.type}'"
        )


def _verify_access(op: Operation) -> None:
    pointer = op.operands[0].type
    if not is_pointer(pointer):
        raise UserError(
            f"'{op.name}' op operand #0 must be ptr or ranked tensor of ptr values or ptr, but got "
            f"'{pointer}'"
        )
    value = pointee(pointer)
    if op.name == "tt.load" and op.results[0].type is not value:
        raise UserError(f"'tt.load' op gives {op.results[0].type} through {pointer}")
    if not isinstance(value, TensorType) or isinstance(pointer, TensorType):
        _expect_type(op, "mask", with_element(value, I1))
    for name in {"other", "value"} & {slot.name for slot in op.definition.operands}:
        _expect_type(op, name, value)


define(
    "tt.load",
    "ptr mask? other?",
    "result",
    attributes={
        "cache": CACHE,
        "evict": EVICT,
        "padding": PADDING,
        "boundaryCheck": ANY_RULE,
        "isVolatile": OFF_RULE,
    },
    traits=(Trait.SAME_ENCODING, Trait.SAME_SHAPE),
    effects=(Effect.READ,),
    format=f"$ptr (`,` $mask^)? (`,` $other^)? {ACCESS_CLAUSES} attr-dict `:` type($ptr)",
    infer=_loaded,
    verify=_verify_access,
)
define(
    "tt.store",
    "ptr value mask?",
    attributes={"cache": CACHE, "evict": EVICT, "boundaryCheck": ANY_RULE},
    traits=(Trait.SAME_ENCODING, Trait.SAME_SHAPE),
    effects=(Effect.WRITE,),
    format=f"$ptr `,` $value (`,` $mask^)? {ACCESS_CLAUSES} attr-dict `:` type($ptr)",
    verify=_verify_access,
)
define(
    "tt.atomic_rmw",
    "ptr val mask?",
    "result",
    attributes={"atomic_rmw_op": ATOMIC, "sem": SEMANTICS, "scope": SCOPE},
    traits=(Trait.SAME_ENCODING, Trait.SAME_SHAPE),
    effects=(Effect.READ, Effect.WRITE),
    format="$atomic_rmw_op `,` $sem `,` $scope `,` $ptr `,` $val (`,` $mask^)? attr-dict `:` "
    "functional-type(operands, results)",
)
define(
    "tt.atomic_cas",
    "ptr cmp val",
    "result",
    attributes={"sem": SEMANTICS, "scope": SCOPE},
    traits=(Trait.SAME_ENCODING, Trait.SAME_SHAPE),
    effects=(Effect.READ, Effect.WRITE),
    format="$sem `,` $scope `,` $ptr `,` $cmp `,` $val attr-dict `:` "
    "functional-type(operands, results)",
)


# Products, reductions and scans.


def verify_dot(op: Operation) -> None:
    a, b, c = (as_shaped(operand.type) for operand in op.operands[:3])
    if a.shape[-1] != b.shape[-2] or c.shape[-2:] != (a.shape[-2], b.shape[-1]):
        raise UserError(f"'{op.name}' op of {a} and {b} does not give {c}")
    if op.results[0].type is not c:
        raise UserError(f"'{op.name}' op result type '{op.results[0].type}' is not that of c, {c}")
    if (a.encoding is None) != (b.encoding is None):
        raise UserError("mismatching encoding between A and B operands")


define(
    "tt.dot",
    "a b c",
    "d",
    attributes={"inputPrecision": PRECISION, "maxNumImpreciseAcc": I32_RULE},
    traits=(Trait.PURE,),
    format="$a `,` $b `,` $c (`,` `inputPrecision` `=` $inputPrecision^)? attr-dict `:` type($a) "
    "`*` type($b) `->` type($d)",
    verify=verify_dot,
)
define(
    "tt.dot_scaled",
    "lhs rhs c lhs_scale? rhs_scale?",
    "d",
    attributes={"lhs_type": NUMBER_FORMAT, "rhs_type": NUMBER_FORMAT},
    traits=(Trait.PURE,),
    format="$lhs (`scale` $lhs_scale^)? `,` $rhs (`scale` $rhs_scale^)? `,` $c `lhs` `=` $lhs_type "
    "`rhs` `=` $rhs_type attr-dict `:` type($lhs) (`,` type($lhs_scale)^)? `*` type($rhs) "
    "(`,` type($rhs_scale)^)? `->` type($d)",
)


def _verify_reduce(op: Operation) -> None:
    axis = op.integer("axis")
    for operand in op.operands:
        type = operand.type
        if not isinstance(type, TensorType) or not 0 <= axis < type.rank:
            raise UserError(f"'{op.name}' op axis {axis} is not a dimension of {type}")
    entry = op.regions[0].entry
    if entry is None or len(entry.arguments) != 2 * len(op.operands):
        raise UserError(
            f"'{op.name}' op expected nested combine region to take {2 * len(op.operands)} "
            "arguments"
        )


for _name in ("reduce", "scan"):
    define(
        f"tt.{_name}",
        "srcs*",
        "results*",
        regions="combine",
        attributes={"axis": I32_RULE, **({"reverse": BOOL_RULE} if _name == "scan" else {})},
        traits=(Trait.PURE, *([Trait.SAME_ENCODING, Trait.SAME_SHAPE] if _name == "scan" else [])),
        verify=_verify_reduce,
    )
    define(
        f"tt.{_name}.return",
        "values*",
        traits=(Trait.TERMINATOR, Trait.PURE),
        format="$values attr-dict `:` type($values)",
    )
define("tt.histogram", "src", "result", traits=(Trait.PURE,), format=ARROW)
define(
    "tt.gather",
    "src indices",
    "result",
    attributes={"axis": I32_RULE, "efficient_layout": UNIT_RULE},
    traits=(Trait.PURE,),
    format="$src `[` $indices `]` attr-dict `:` functional-type(operands, results)",
)


# Help for those who look for faults.

define(
    "tt.print",
    "args*",
    attributes={"prefix": STRING_RULE, "hex": BOOL_RULE, "isSigned": ANY_RULE},
    effects=(Effect.OTHER,),
    format="$prefix attr-dict (`:` $args^ `:` type($args))?",
)
define(
    "tt.assert",
    "condition",
    attributes={"message": STRING_RULE},
    effects=(Effect.OTHER,),
    format="$condition `,` $message attr-dict `:` type($condition)",
)
