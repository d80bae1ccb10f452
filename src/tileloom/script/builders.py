"""The `T` namespace without its decorators: functions that make expressions and notes."""

from __future__ import annotations

import builtins

from .. import expr
from ..base.errors import DTypeError, UserError
from ..base.late import TYPE_CHECKING
from ..expr import (
    OPAQUE,
    ORDERED,
    REDUCE,
    SPATIAL,
    Broadcast,
    Call,
    Expr,
    ExprLike,
    IntImm,
    IterVar,
    Ramp,
    Range,
    Select,
    Shuffle,
    Var,
    as_expr,
    const,
    match_types,
    nodes,
)
from ..tir import PARALLEL, SERIAL, THREAD_BINDING, UNROLLED, VECTORIZED, Buffer, BufferLoad
from .atomics import ATOMIC_FUNCTIONS
from .intrinsics import DTYPE_FIRST, DTYPE_MAY_LEAD, intrinsic_names, is_intrinsic, result_type
from .lengths import length
from .notes import (
    AxisNote,
    BlockFact,
    BlockNote,
    BufferNote,
    EvaluateNote,
    ForNote,
    HandleKind,
    InitNote,
    Kind,
    MetaVar,
    ScopeNote,
    ThreadNote,
    as_dtype,
    as_region,
)
from .rare import comm_reducer, iter_var, llvm_lookup_intrinsic_id, target
from .sparse import SPARSE_FUNCTIONS
from .warps import WARP_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Annotations = Mapping[str, Any] | None
    Shape = Sequence[ExprLike] | ExprLike


# ---------------------------------------------------------------------------- buffers


def _buffer(how: str, source: Any, shape: Any, kind: Any, fields: dict[str, Any]) -> BufferNote:
    if shape is not None and not isinstance(shape, (tuple, list)):
        shape = (shape,)
    return BufferNote(how, {"shape": shape, "dtype": as_dtype(kind), **fields}, source)


def Buffer_(shape: Shape, dtype: Any = "float32", data: Var | None = None, **fields: Any) -> Any:
    """A buffer: as a parameter's annotation, or over a pointer that is there already."""
    return _buffer("Buffer", None, shape, dtype, {"data": data, **fields})


def match_buffer(
    param: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    data: Var | None = None,
    strides: Any = None,
    **fields: Any,
) -> Any:
    """The buffer of a `handle` parameter, or a new name for a region inside a block."""
    kind = "float32" if dtype is None else dtype
    if dtype is None and not isinstance(param, Var):
        kind = as_region(param).buffer.dtype
    fields = {"data": data, "strides": strides, **fields}
    return _buffer("match", param, shape, kind, fields)


def alloc_buffer(
    shape: Shape,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 64,
    **fields: Any,
) -> Any:
    """Memory for the length of the block around it."""
    fields = {"data": data, "strides": strides, "scope": scope, "align": align, **fields}
    if elem_offset is not None:
        fields["elem_offset"] = elem_offset
    return _buffer("alloc", None, shape, dtype, fields)


def decl_buffer(shape: Shape, dtype: Any = "float32", data: Any = None, **fields: Any) -> Any:
    """A buffer over a pointer that is there already; without a pointer, with memory of its own."""
    return _buffer("decl", None, shape, dtype, {"data": data, **fields})


# ---------------------------------------------------------------------------- loops


def _bounds(start: ExprLike, stop: ExprLike | None) -> Range:
    if stop is None:
        return Range.from_extent(start)
    low, _ = match_types(start, stop)
    return Range(low, length(start, stop))


def _loop(kind: str) -> Callable[..., ForNote]:
    def loop(
        start: ExprLike,
        stop: ExprLike | None = None,
        *,
        annotations: Annotations = None,
    ) -> ForNote:
        return ForNote(kind, (_bounds(start, stop),), None, dict(annotations or {}))

    loop.__name__ = kind
    return loop


serial = _loop(SERIAL)
parallel = _loop(PARALLEL)
vectorized = _loop(VECTORIZED)
unroll = _loop(UNROLLED)


def range_(
    start: ExprLike,
    stop: ExprLike | None = None,
    step: ExprLike = 1,
    *,
    annotations: Annotations = None,
) -> ForNote:
    """Python's `range` in a script: a serial loop."""
    if not isinstance(step, int | IntImm) or int(step) != 1:
        raise UserError("a loop has no step", hint="multiply the loop variable instead")
    return ForNote(SERIAL, (_bounds(start, stop),), None, dict(annotations or {}))


def thread_binding(
    start: ExprLike,
    stop: ExprLike | None = None,
    thread: str | None = None,
    *,
    annotations: Annotations = None,
) -> ForNote:
    """A loop over the threads named by a tag such as "blockIdx.x"."""
    if isinstance(stop, str) and thread is None:
        start, stop, thread = start, None, stop
    if thread is None:
        raise UserError("thread_binding needs a thread tag", hint='thread="threadIdx.x"')
    return ForNote(THREAD_BINDING, (_bounds(start, stop),), thread, dict(annotations or {}))


def grid(*extents: ExprLike) -> ForNote:
    """Nested serial loops from zero."""
    return ForNote(
        SERIAL, tuple(_bounds(*e) if isinstance(e, tuple) else _bounds(e, None) for e in extents)
    )


# ---------------------------------------------------------------------------- blocks


def block(name: str = "", no_realize: bool = False) -> BlockNote:
    """A block: its iteration variables, what it reads and writes, and its body."""
    if no_realize:
        raise UserError("a block on its own, without values of its axes, cannot be read back")
    return BlockNote(name)


def init() -> InitNote:
    """What runs where all reduction variables stand at their start."""
    return InitNote()


class _Axis:
    """`T.axis`: the iteration variables of a block."""

    @staticmethod
    def _make(iter_type: int, dom: Any, value: ExprLike) -> AxisNote:
        domain = _bounds(*dom) if isinstance(dom, (tuple, list)) else dom
        if isinstance(domain, ForNote):
            domain = domain.ranges[0]
        if not isinstance(domain, Range):
            domain = Range.from_extent(domain)
        extent, bound = match_types(domain.extent, value)
        low = domain.min
        if isinstance(low, IntImm):
            low = const(low.value, extent.dtype)
        return AxisNote(iter_type, Range(low, extent), bound)

    def spatial(self, dom: Any, value: ExprLike) -> Any:
        """An axis whose instances are independent."""
        return self._make(SPATIAL, dom, value)

    def reduce(self, dom: Any, value: ExprLike) -> Any:
        """An axis that is combined over."""
        return self._make(REDUCE, dom, value)

    def scan(self, dom: Any, value: ExprLike) -> Any:
        """An axis that must run in order."""
        return self._make(ORDERED, dom, value)

    def opaque(self, dom: Any, value: ExprLike) -> Any:
        """An axis of which nothing is promised."""
        return self._make(OPAQUE, dom, value)

    S, R = spatial, reduce

    def remap(self, kinds: str, bindings: Sequence[Any]) -> list[Any]:
        """One axis for each letter, over the whole range of the loop bound to it."""
        if len(kinds) != len(bindings):
            raise UserError(f"{len(kinds)} kinds ({kinds!r}) for {len(bindings)} loop variables")
        return [AxisNote(_remap_kind(k), None, as_expr(v)) for k, v in zip(kinds, bindings)]


def _remap_kind(letter: str) -> int:
    if letter not in "SR":
        raise UserError(f"unknown axis kind {letter!r}", hint='"S" is spatial, "R" is reduce')
    return SPATIAL if letter == "S" else REDUCE


axis = _Axis()


def reads(*regions: Any) -> BlockFact:
    """The regions that a block reads."""
    return BlockFact("reads", _regions(regions))


def writes(*regions: Any) -> BlockFact:
    """The regions that a block writes."""
    return BlockFact("writes", _regions(regions))


def _regions(regions: Sequence[Any]) -> tuple[Any, ...]:
    flat = regions[0] if len(regions) == 1 and isinstance(regions[0], (list, tuple)) else regions
    return tuple(map(as_region, flat))


def where(predicate: ExprLike) -> BlockFact:
    """The instances of the block that run."""
    return BlockFact("where", as_expr(predicate))


def block_attr(attrs: Mapping[str, Any]) -> BlockFact:
    """Annotations of a block."""
    return BlockFact("block_attr", dict(attrs))


def func_attr(attrs: Mapping[str, Any]) -> BlockFact:
    """Attributes of a function."""
    return BlockFact("func_attr", dict(attrs))


# ---------------------------------------------------------------------------- scopes


def allocate(
    extents: Sequence[ExprLike],
    dtype: Any,
    scope: str = "global",
    condition: ExprLike = True,
    annotations: Annotations = None,
) -> Any:
    """A pointer to memory for the rest of the scope."""
    return ScopeNote("allocate", {
        "dtype": as_dtype(dtype), "extents": tuple(map(as_expr, extents)), "scope": scope,
        "condition": as_expr(condition), "annotations": dict(annotations or {}),
    })  # fmt: skip


def allocate_const(
    data: Any, dtype: Any, extents: Sequence[ExprLike], annotations: Annotations = None
) -> Any:
    """A pointer to constant data."""
    return ScopeNote("allocate_const", {
        "data": data, "dtype": as_dtype(dtype), "extents": tuple(map(as_expr, extents)),
        "annotations": dict(annotations or {}),
    })  # fmt: skip


def LetStmt(value: ExprLike, type_annotation: Any = None, *, var: Any = None) -> Any:
    """`with T.LetStmt(value) as x:` lets `x` stand for the value."""
    return ScopeNote("let", {"value": value, "type": type_annotation, "var": var})


def let(var: Any, value: Any = None) -> Any:
    """`with T.let(x, value):`, or `x = T.let(value)`."""
    return LetStmt(var) if value is None else LetStmt(value, var=var)


bind = LetStmt


def attr(node: Any, attr_key: str, value: ExprLike) -> Any:
    """A fact or request attached to the rest of the scope."""
    if isinstance(node, bool | int | float):
        node = const(node)
    if isinstance(node, IterVar) and node.dom is None:  # how many threads there are says its range
        node = IterVar(Range.from_extent(value), node.var, node.iter_type, node.thread_tag)
    return ScopeNote("attr", {"node": node, "key": attr_key, "value": as_expr(value)})


def Assert(condition: ExprLike, message: str) -> Any:
    """What must hold for the suite to run."""
    return ScopeNote("assert", {"condition": as_expr(condition), "message": str(message)})


def launch_thread(thread: Any, extent: ExprLike) -> Any:
    """Threads: by tag, or the variable of an `env_thread`."""
    return ScopeNote("launch", {"thread": thread, "extent": as_expr(extent)})


def env_thread(thread_tag: str, dtype: Any = "int32") -> Any:
    """The variable of a thread that several launches share."""
    return ThreadNote(thread_tag, as_dtype(dtype))


def evaluate(value: ExprLike) -> EvaluateNote:
    """An expression evaluated for its effect."""
    return EvaluateNote(as_expr(value))


def meta_var(value: Any) -> Any:
    """A value for the script to compute with, not a statement."""
    return MetaVar(value)


# ---------------------------------------------------------------------------- expressions


def Cast(dtype: Any, value: ExprLike) -> Expr:
    """A conversion, as a node."""
    return nodes.Cast(as_dtype(dtype), as_expr(value))


def cast(value: ExprLike, dtype: Any) -> Expr:
    """A conversion, folded for constants."""
    return as_expr(value).astype(as_dtype(dtype))


def Select_(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values; both may be evaluated."""
    return Select(as_expr(condition), *match_types(true_value, false_value))


def Ramp_(base: ExprLike, stride: ExprLike, lanes: ExprLike) -> Expr:
    """A vector of values at equal distances."""
    return Ramp(*match_types(base, stride), int(lanes))


def Broadcast_(value: ExprLike, lanes: ExprLike) -> Expr:
    """A vector of copies."""
    return Broadcast(as_expr(value), int(lanes))


def Shuffle_(vectors: Sequence[ExprLike], indices: Sequence[ExprLike]) -> Expr:
    """Elements of vectors by position."""
    return Shuffle([as_expr(v) for v in vectors], [int(i) for i in indices])


def Not(a: ExprLike) -> Expr:
    """The negation, as a node."""
    return nodes.Not(as_expr(a))


def Call_(dtype: Any, op: str, *args: ExprLike) -> Expr:
    """A call of any operation by its full name."""
    return Call(as_dtype(dtype), op, [as_expr(arg) for arg in args])


def IntImm_(dtype: Any, value: int) -> Expr:
    """An integer constant of any type."""
    return IntImm(as_dtype(dtype), value)


def FloatImm_(dtype: Any, value: Any) -> Expr:
    """A floating-point constant."""
    return nodes.FloatImm(as_dtype(dtype), float(value))


def _node(kind: type[nodes.BinaryOp]) -> Callable[[ExprLike, ExprLike], Expr]:
    def build(a: ExprLike, b: ExprLike) -> Expr:
        return kind(*match_types(a, b))

    build.__name__ = kind.__name__
    return build


def if_then_else(
    condition: ExprLike, true_value: ExprLike, false_value: ExprLike, dtype: str | None = None
) -> Expr:
    """One of two values; the other is not evaluated. The type follows from them."""
    if isinstance(condition, bool):
        return as_expr(true_value if condition else false_value)
    test, (yes, no) = as_expr(condition), match_types(true_value, false_value)
    if not test.dtype.is_bool:
        raise DTypeError(f"a condition must be bool, got {test.dtype}: {test}")
    return Call(yes.dtype, "tir.if_then_else", (test, yes, no))


def ret(value: ExprLike) -> Expr:
    """The function's result."""
    return Call("int32", "tir.ret", (as_expr(value),))


def tvm_access_ptr(ptype: ExprLike, *args: ExprLike, dtype: Any = "handle") -> Expr:
    """A pointer into a buffer: element type, pointer, offset, extent, rights (1 read, 2 write)."""
    return Call(as_dtype(dtype), "tir.tvm_access_ptr", [as_expr(a) for a in (ptype, *args)])


def type_annotation(dtype: Any) -> Expr:
    """A type as an argument of an intrinsic."""
    return Call(as_dtype(dtype), "tir.type_annotation", ())


def access_ptr(
    buffer: Buffer,
    access_mask: Any,
    ptr_type: Any = "handle",
    content_lanes: int = 1,
    offset: ExprLike = 0,
    extent: ExprLike | None = None,
) -> Expr:
    """`A.access_ptr("r")`: the pointer of a buffer as intrinsics take it."""
    mask = access_mask
    if isinstance(mask, str):
        mask = builtins.sum({"r": 1, "w": 2}.get(letter, 0) for letter in set(mask))
    start = as_expr(0 if buffer.elem_offset is None else buffer.elem_offset) + offset
    if extent is None:
        extent = const(1)
        for size in buffer.shape:
            extent = extent * size
        extent = as_expr(extent) - offset
    kind = buffer.dtype.with_lanes(content_lanes) if content_lanes > 1 else buffer.dtype
    pointer = type_annotation(kind)
    return tvm_access_ptr(pointer, buffer.data, start, extent, mask, dtype=ptr_type)


# ---------------------------------------------------------------------------- intrinsics

_SPECIAL_NAMES = {"pow": "power"}


def intrinsic(name: str) -> Callable[..., Expr]:
    """`T.name`: the call exactly as written, with Python numbers converted and types matched."""
    function = getattr(expr.intrin, _SPECIAL_NAMES.get(name, name), None)

    def build(*args: Any, dtype: Any = None) -> Expr:
        if name in DTYPE_MAY_LEAD and dtype is None and args and isinstance(args[0], str):
            dtype, *args = args  # type: ignore[assignment]
        if name in DTYPE_FIRST and dtype is None:
            if not args:
                raise UserError(f"T.{name} takes its result type first")
            dtype, *rest = args
            return Call(as_dtype(dtype), f"tir.{name}", [as_expr(a) for a in rest])
        if dtype is not None:
            return Call(as_dtype(dtype), f"tir.{name}", [as_expr(a) for a in args])
        exact = builtins.all(isinstance(a, Expr) for a in args)
        if function is not None:
            built: Expr = function(*args)
            folded = isinstance(built, IntImm | nodes.FloatImm) and built not in args
            if not (exact and folded):
                return built
        values = [as_expr(a) for a in args]
        return Call(result_type(name, values), f"tir.{name}", values)

    build.__name__ = name
    return build


# ---------------------------------------------------------------------------- the namespace

_KINDS = [
    "bool", "int4", "int8", "int16", "int32", "int64", "uint1", "uint4", "uint8", "uint16",
    "uint32", "uint64", "float16", "float32", "float64", "bfloat16", "float8_e4m3fn",
    "float8_e5m2", "void",
]  # fmt: skip
_NODES = [
    "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT",
    "LE", "GT", "GE", "And", "Or",
]  # fmt: skip
_FOLDING = [
    "min", "max", "abs", "all", "any", "truncdiv", "truncmod", "floordiv", "floormod",
    "ceildiv", "min_value", "max_value", "infinity", "nan", "power", "round",
]  # fmt: skip
handle = HandleKind("handle")
_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    match_buffer, alloc_buffer, decl_buffer, serial, parallel, thread_binding, grid, block, init,
    reads, writes, where, block_attr, func_attr, allocate, allocate_const, LetStmt, let, bind, attr,
    Assert, launch_thread, env_thread, evaluate, meta_var, Cast, cast, Not, if_then_else, ret,
    tvm_access_ptr, type_annotation, target, comm_reducer, iter_var, llvm_lookup_intrinsic_id,
)  # fmt: skip
_NAMES: dict[str, Any] = {
    **{function.__name__: function for function in _FUNCTIONS},
    "Buffer": Buffer_,
    "buffer_decl": Buffer_,
    "serial": serial,
    "parallel": parallel,
    "vectorized": vectorized,
    "unroll": unroll,
    "bind": bind,
    "axis": axis,
    "handle": handle,
    "Ptr": handle,
    "Select": Select_,
    "Ramp": Ramp_,
    "ramp": Ramp_,
    "Broadcast": Broadcast_,
    "broadcast": Broadcast_,
    "Shuffle": Shuffle_,
    "Call": Call_,
    "call_intrin": Call_,
    "IntImm": IntImm_,
    "FloatImm": FloatImm_,
    "StringImm": nodes.StringImm,
    "Var": nodes.Var,
    "SizeVar": nodes.SizeVar,
    "boolean": Kind("bool"),
    "ptr": handle,
    "BufferLoad": lambda buffer, indices: BufferLoad(buffer, [as_expr(i) for i in indices]),
    "Range": lambda low, high: _bounds(low, high),
    "let": let,
    **ATOMIC_FUNCTIONS,
    **WARP_FUNCTIONS,
    **SPARSE_FUNCTIONS,
}


def lookup(name: str) -> Any:
    """What `T.name` is.

    Raises:
        AttributeError: for a name that means nothing.
    """
    found = _NAMES.get(name)
    if found is None:
        found = _NAMES[name] = _find(name)
    return found


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that may be told the type of its result, which it has anyway."""

    def build(*args: Any, dtype: Any = None) -> Any:
        result = function(*args)
        if dtype is not None and result.dtype.element is not as_dtype(dtype).element:
            raise DTypeError(f"the result is {result.dtype}, not {dtype}")
        return result

    build.__name__, build.__doc__ = function.__name__, function.__doc__
    return build


def _find(name: str) -> Any:
    if name in _FOLDING:
        return _typed(getattr(expr.intrin, name))
    if name in _NODES:
        return _node(getattr(nodes, name))
    if name not in _KINDS and is_intrinsic(name):
        return intrinsic(name)
    try:
        return Kind(name)
    except DTypeError:
        raise AttributeError(f"T has no {name!r}") from None


def names() -> list[str]:
    """All names of the namespace."""
    found = {*_NAMES, *intrinsic_names(), *_KINDS, *_NODES, *_FOLDING}
    return sorted({*found, "prim_func", "macro", "Let"})
