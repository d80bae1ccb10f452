"""Operations of Triton's GPU dialect: changes of layout, shared memory, asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.attributes import DenseArrayAttr
from ..ir.core import Operation
from ..ir.definitions import ANY_RULE, I32_RULE, OFF_RULE, Effect, Trait, define
from ..ir.format import compile_format
from ..ir.slots import slots
from ..ir.types import I32, AsyncTokenType, MemDescType, TensorType, as_shaped
from .tt import ACCESS_CLAUSES, CACHE, EVICT, NUMBER_FORMAT, verify_trans

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def _token(*_: object) -> tuple[AsyncTokenType]:
    return (AsyncTokenType(),)


def _verify_same_elements(op: Operation) -> None:
    source, result = as_shaped(op.operands[0].type), as_shaped(op.results[0].type)
    if source.shape != result.shape or source.element is not result.element:
        raise UserError(
            f"'{op.name}' op requires the same shape and element type, but has {source} and "
            f"{result}"
        )


define(
    "ttg.convert_layout",
    "src",
    "result",
    traits=(Trait.PURE, Trait.SAME_SHAPE),
    format="$src attr-dict `:` type($src) `->` type($result)",
    verify=_verify_same_elements,
)


# Shared memory.


def _verify_alloc(op: Operation) -> None:
    result = op.results[0].type
    if not isinstance(result, MemDescType):
        raise UserError(f"'ttg.local_alloc' op gives a memdesc, not {result}")
    source = op.operand("src")
    if source is None:
        if not result.mutable:
            raise UserError(
                "'ttg.local_alloc' op uninitialized alloc must have a mutable memdesc type"
            )
    elif not isinstance(source.type, TensorType) or source.type.shape != result.shape:
        raise UserError(f"'ttg.local_alloc' op of {source.type} does not give {result}")


define(
    "ttg.local_alloc",
    "src?",
    "result",
    effects=(Effect.ALLOCATE, Effect.WRITE_SHARED),
    format="$src attr-dict `:` functional-type(operands, results)",
    verify=_verify_alloc,
)
define(
    "ttg.local_dealloc",
    "src",
    effects=(Effect.FREE,),
    format="$src attr-dict `:` type($src)",
)
define(
    "ttg.memdesc_subview",
    "src offsets*",
    "result",
    traits=(Trait.PURE,),
    format="$src `[` $offsets `]` attr-dict `:` type($src) `->` type($result)",
)


def _parse_subslice(parser: Parser, draft: Draft) -> None:
    source = parser.value_name()
    parser.expect("[")
    offsets = []
    while not parser.accept("]"):
        offsets.append(parser.integer())
        parser.accept(",")
    draft.attributes["offsets"] = DenseArrayAttr(I32, offsets)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    draft.values = [parser.resolve(source, parser.type())]
    parser.expect("->")
    draft.all_result_types = [parser.type()]


def _show_subslice(writer: OpWriter, op: Operation) -> None:
    offsets = op.attributes["offsets"].values  # type: ignore[attr-defined]
    writer.item(f"{writer.value(op.operands[0])}[{', '.join(map(str, offsets))}]")
    writer.item(writer.dictionary({k: v for k, v in op.attributes.items() if k != "offsets"}))
    types = [writer.type(value.type) for value in (op.operands[0], op.results[0])]
    writer.item(f": {types[0]} -> {types[1]}")


# Later versions have two operations in the place of `memdesc_subview`.
define(
    "ttg.memdesc_subslice",
    "src",
    "result",
    attributes={"offsets": ANY_RULE},
    traits=(Trait.PURE,),
    format=(_parse_subslice, _show_subslice),
)
define(
    "ttg.memdesc_index",
    "src index",
    "result",
    traits=(Trait.PURE,),
    format="$src `[` $index `]` attr-dict `:` type($src) `->` type($result)",
)
for _name in ("memdesc_reshape", "memdesc_reinterpret"):
    define(
        f"ttg.{_name}",
        "src",
        "result",
        traits=(Trait.PURE,),
        format="$src attr-dict `:` type($src) `->` type($result)",
    )
define(
    "ttg.memdesc_trans",
    "src",
    "result",
    attributes={"order": ANY_RULE},
    traits=(Trait.PURE,),
    format="$src attr-dict `:` type($src) `->` type($result)",
    verify=verify_trans,
)
define(
    "ttg.local_load",
    "src token?",
    "result",
    effects=(Effect.READ_SHARED,),
    format="$src (`token` $token^)? attr-dict `:` type($src) `->` type($result)",
    verify=_verify_same_elements,
)


def _verify_store(op: Operation) -> None:
    source, target = as_shaped(op.operands[0].type), op.operands[1].type
    if not isinstance(target, MemDescType) or not target.mutable:
        raise UserError("'ttg.local_store' op Cannot store into immutable memory")
    if source.shape != target.shape:
        raise UserError(f"'ttg.local_store' op of {source} to {target}")


define(
    "ttg.local_store",
    "src dst",
    effects=(Effect.WRITE_SHARED,),
    format="$src `,` $dst attr-dict `:` type($src) `->` type($dst)",
    verify=_verify_store,
)


# Asynchronous copies.

define(
    "ttg.async_copy_global_to_local",
    "src result mask? other?",
    "token",
    attributes={"cache": CACHE, "evict": EVICT, "isVolatile": OFF_RULE},
    effects=(Effect.READ, Effect.WRITE_SHARED),
    format=f"$src `,` $result (`mask` $mask^)? (`other` $other^)? {ACCESS_CLAUSES} attr-dict `:` "
    "type($src) `->` bare($result, !ttg.memdesc)",
    infer=_token,
)


# Later versions write `tokens` before tokens, where `ttg.async_commit_group %a = ...` began.
_COMMIT = compile_format("(`tokens`)? $tokens attr-dict", slots("tokens*"), (), (), {})


def _show_commit(writer: OpWriter, op: Operation) -> None:
    if op.operands and writer.style.spelling.gpu == "ttg":
        writer.literal("tokens")
    _COMMIT.show(writer, op)


define(
    "ttg.async_commit_group",
    "tokens*",
    "token",
    effects=(Effect.OTHER,),
    format=(_COMMIT.parse, _show_commit),
    infer=_token,
)
define(
    "ttg.async_wait",
    "tokens*",
    "token",
    attributes={"num": I32_RULE},
    effects=(Effect.OTHER,),
    format="$tokens attr-dict",
    infer=_token,
)


# Others.

define(
    "ttg.global_scratch_alloc",
    results="result",
    attributes={"nbytes": I32_RULE, "alignment": I32_RULE},
    effects=(Effect.ALLOCATE,),
    format="attr-dict `:` type($result)",
)
for _name in ("upcast_mxfp", "fp4_to_fp"):
    define(
        f"ttg.{_name}",
        "src scale?",
        "result",
        attributes={"fp_type": NUMBER_FORMAT},
        traits=(Trait.PURE,),
        format="$src (`,` $scale^)? (`fp_type` `=` $fp_type^)? attr-dict `:` type($src) "
        "(`,` type($scale)^)? `->` type($result)",
    )
