"""Tensor IR, in grammar order: functions of loops and blocks over buffers.

    module ::= IRModule({name: func})
    func   ::= PrimFunc(params, body, buffer_map, attrs)
    stmt   ::= For(loop_var, min, extent, kind, body)       kind: see FOR_KINDS
             | BlockRealize(iter_values, predicate, block)
             | BufferStore(buffer, value, indices) | SeqStmt(seq) | IfThenElse(condition, a, b)
             | LetStmt(var, value, body) | AttrStmt(node, key, value, body) | While(condition, body)
             | AssertStmt(condition, message, body) | Evaluate(value)
             | Allocate(buffer_var, ...) | AllocateConst(buffer_var, ...) | DeclBuffer(buffer, body)
    block  ::= Block(iter_vars, reads, writes, name_hint, body, init, alloc_buffers, match_buffers,
                     annotations)
    expr   ::= the expressions of `tileloom.expr` | BufferLoad(buffer, indices)

Statements are immutable and compare by identity (a schedule tells two equal loops apart by where
they stand); `tileloom.tir.structural` compares structure. A block says what it computes over which
iterations, what it reads and what it writes; loops around it only say when.
"""

from __future__ import annotations

from ..base import DType, Span, dtype
from ..base.errors import ShapeError
from ..base.late import TYPE_CHECKING, load
from ..base.record import Record, field
from ..expr import Expr, ExprLike, IntImm, IterVar, Range, Var, as_expr, const, free_vars_of
from ..expr.interning import intern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, final

    import numpy as np

    from .sparse import Axis, BufferDomain
else:

    def final(cls):
        return cls


SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = (
    "serial",
    "parallel",
    "vectorized",
    "unrolled",
    "thread_binding",
)
FOR_KINDS = (SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING)


class StorageScope(str):
    """The name of a kind of memory; `buffer.scope()`, as TVM has it, is `buffer.scope`."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


_SCOPES: dict[str, StorageScope] = {}


class Buffer(Record):
    """A multi-dimensional view of memory: element `i...` is `data[elem_offset + sum(i * stride)]`.

    Attributes:
        data: the pointer; two buffers over one pointer alias each other.
        dtype: element type (a vector type addresses whole vectors).
        shape: extents, outermost first.
        name: for people.
        strides: in elements; empty means compact row-major.
        elem_offset: in elements; None means 0.
        scope: storage: "global", "shared", "shared.dyn", "local", "warp", "wmma.*", ...
        data_alignment: promised alignment of `data`, in bytes.
        offset_factor: `elem_offset` is a multiple of it; 0 promises nothing.
        axis_separators: positions that split the axes into physical dimensions.
        buffer_type: "default" or "auto_broadcast".
    """

    data: Var
    dtype: DType
    shape: tuple[Expr, ...]
    name: str
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    scope: str = "global"
    data_alignment: int = 64
    offset_factor: int = 0
    axis_separators: tuple[int, ...] = ()
    buffer_type: str = "default"

    def __post_init__(self) -> None:
        scope = _SCOPES.get(self.scope) or _SCOPES.setdefault(self.scope, StorageScope(self.scope))
        object.__setattr__(self, "scope", scope)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None if an extent is symbolic."""
        if all(isinstance(extent, IntImm) for extent in self.shape):
            return tuple(extent.value for extent in self.shape)  # type: ignore[attr-defined]
        return None

    def same_as(self, other: object) -> bool:
        """Whether both are one buffer."""
        return self is other

    def __getitem__(self, indices: Any) -> Expr:
        """An element, as an expression."""
        parts = indices if isinstance(indices, tuple) else (indices,)
        return BufferLoad(self, [as_expr(i) for i in parts])

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}{list(self.shape)} in {self.scope})"


def check_extents(extents: Sequence[Expr], what: str) -> None:
    """Refuse extents that are negative numbers.

    >>> from tileloom.expr import const
    >>> check_extents([const(3), const(-1)], "A")
    Traceback (most recent call last):
    tileloom.base.errors.ShapeError: A has the negative extent -1
    """
    for extent in extents:
        if isinstance(extent, IntImm) and extent.value < 0:
            raise ShapeError(f"{what} has the negative extent {extent.value}")


def make_buffer(
    shape: Sequence[ExprLike],
    dtype_: str = "float32",
    name: str = "buffer",
    *,
    scope: str = "global",
    data: Var | None = None,
    **fields: Any,
) -> Buffer:
    """A buffer with a pointer of its own, unless `data` is given.

    >>> make_buffer((4, 8), "float32", "A")
    Buffer(A: float32[4, 8] in global)
    """
    kind = dtype(dtype_)
    if data is None:
        data = Var(name, "handle", (kind, scope))
    extents = tuple(as_expr(extent) for extent in shape)
    check_extents(extents, name)
    if "strides" in fields:
        fields["strides"] = tuple(as_expr(stride) for stride in fields["strides"])
    return Buffer(data, kind, extents, name, scope=scope, **fields)


class BufferLoad(Expr):
    """An element of a buffer, or a vector of elements when the last index is a vector.

    `predicate` is a vector of bools: lanes where it is false are not read.
    """

    __slots__ = ("buffer", "indices", "predicate")
    __match_args__ = ("buffer", "indices", "predicate")
    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None

    def __new__(
        cls, buffer: Buffer, indices: Sequence[Expr], predicate: Expr | None = None
    ) -> BufferLoad:
        parts = tuple(indices)
        lanes = parts[-1].dtype.lanes if parts else 1
        kind = buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)
        key = (id(buffer), id(predicate), *map(id, parts))
        return intern(cls, key, (buffer, parts, predicate), kind)  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices if self.predicate is None else (*self.indices, self.predicate)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        n = len(self.indices)
        return BufferLoad(self.buffer, children[:n], children[n] if len(children) > n else None)


class BufferRegion(Record):
    """A box of a buffer: one range for each dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    @staticmethod
    def full(buffer: Buffer) -> BufferRegion:
        """The whole buffer."""
        return BufferRegion(buffer, tuple(Range.from_extent(extent) for extent in buffer.shape))

    @staticmethod
    def point(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
        """One element."""
        return BufferRegion(buffer, tuple(Range(i, const(1, i.dtype)) for i in indices))


class MatchBufferRegion(Record):
    """A buffer that is another name for a region of `source` inside a block."""

    buffer: Buffer
    source: BufferRegion


# ---------------------------------------------------------------------------- statements


class Scripted(Record):
    """What has a text as a script."""

    def __str__(self) -> str:
        return text_of(self)  # type: ignore[arg-type]

    def script(self, **_looks: Any) -> str:
        """The TVMScript text. Options for its looks, as TVM has them, are accepted."""
        return text_of(self)  # type: ignore[arg-type]

    def show(self, *_style: Any, **_looks: Any) -> None:
        """Print the TVMScript text."""
        print(self.script())

    def same_as(self, other: object) -> bool:
        """Whether both are one object."""
        return self is other


class Stmt(Scripted):
    """Any statement. `span` is where it was written, if it was."""

    span: Span | None = field(default=None, kw_only=True)


class For(Stmt):
    """A loop over [min, min + extent)."""

    loop_var: Var
    min: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def domain(self) -> Range:
        """What the loop variable runs over."""
        return Range(self.min, self.extent)

    @property
    def static_extent(self) -> int | None:
        """The extent as an integer, or None if it is symbolic."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


class Block(Stmt):
    """A computation over iteration variables with declared reads and writes.

    `init` runs where every reduction variable stands at the start of its domain, before `body`.
    """

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)


class BlockRealize(Stmt):
    """A block run for these values of its iteration variables, where the predicate holds."""

    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: Block

    @property
    def bindings(self) -> dict[Var, Expr]:
        """The value of each iteration variable."""
        return dict(zip((axis.var for axis in self.block.iter_vars), self.iter_values, strict=True))

    def loops_of(self, kind: int, others: bool = False) -> frozenset[Var]:
        """The variables in the values of the iteration variables of a kind, or of all `others`."""
        pairs = zip(self.block.iter_vars, self.iter_values, strict=True)
        return free_vars_of(value for axis, value in pairs if (axis.iter_type == kind) != others)


class BufferStore(Stmt):
    """buffer[indices] = value."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None


class SeqStmt(Stmt):
    """Statements one after another; build it with `seq`, which flattens."""

    seq: tuple[Stmt, ...]

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)

    def __bool__(self) -> bool:
        return True


class IfThenElse(Stmt):
    """A branch."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None


class LetStmt(Stmt):
    """`body` with `var` standing for `value`, which is evaluated once."""

    var: Var
    value: Expr
    body: Stmt


class AttrStmt(Stmt):
    """`body` with a fact or request attached, such as ("thread_extent", iter_var, extent)."""

    node: Any
    attr_key: str
    value: Expr
    body: Stmt


class AssertStmt(Stmt):
    """`body`, where the condition must hold; the kernel refuses to run otherwise."""

    condition: Expr
    message: str
    body: Stmt


class While(Stmt):
    """A loop as long as the condition holds."""

    condition: Expr
    body: Stmt


class Evaluate(Stmt):
    """An expression evaluated for its effect."""

    value: Expr


class Allocate(Stmt):
    """Memory for the time of `body` (flat stage); the scope is that of the pointer."""

    buffer_var: Var
    dtype: DType
    extents: tuple[Expr, ...]
    condition: Expr
    body: Stmt
    annotations: Mapping[str, Any] = field(default_factory=dict)


class AllocateConst(Stmt):
    """Constant data under a pointer."""

    buffer_var: Var
    dtype: DType
    extents: tuple[Expr, ...]
    data: np.ndarray[Any, Any]
    body: Stmt
    annotations: Mapping[str, Any] = field(default_factory=dict)


class DeclBuffer(Stmt):
    """A buffer over a pointer that is already there."""

    buffer: Buffer
    body: Stmt


# ---------------------------------------------------------------------------- functions


@final
class PrimFunc(Scripted):
    """A function over buffers and scalars.

    `params` are variables; a `handle` parameter is a buffer's argument when `buffer_map` has it.
    Known attributes: "global_symbol" (its name), "tir.noalias" (no two buffers overlap), "target".
    `sp_axes` are the axes of its sparse buffers, `buffer_domains` what is known of the values of
    integer buffers (`tir.sparse`).
    """

    params: tuple[Var, ...]
    body: Stmt
    buffer_map: Mapping[Var, Buffer] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    ret_type: DType = dtype("void")
    sp_axes: tuple[Axis, ...] = ()
    buffer_domains: tuple[BufferDomain, ...] = ()
    span: Span | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        """Its "global_symbol", or "main"."""
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of the parameters, in order."""
        return tuple(self.buffer_map[p] for p in self.params if p in self.buffer_map)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """The same function with one attribute set, or with those of a mapping."""
        changes = {key: value} if isinstance(key, str) else key
        return self.replace(attrs={**self.attrs, **changes})

    def without_attr(self, key: str) -> PrimFunc:
        """The same function without one attribute."""
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != key})

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same function with another body."""
        return self.replace(body=body)

    def specialize(self, values: Mapping[Any, Any]) -> PrimFunc:
        """The function for given sizes, scalars and buffers: `tir.specialize(self, values)`."""
        above: Any = load("tileloom.tir.specialize")
        return above.specialize(self, values)  # type: ignore[no-any-return]


class IRModule(Scripted):
    """Functions by name."""

    functions: Mapping[str, PrimFunc]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PrimFunc:
        return self.functions[name]


def text_of(node: Stmt | PrimFunc | IRModule) -> str:
    """TVMScript text. The printer is a room above this one, looked up only when it is asked for."""
    script: Any = load("tileloom.script")
    return str(script.show(node))


def first_line(node: object) -> str:
    """The first line of a node's text, with dots where there are more."""
    first, *rest = str(node).strip().splitlines() or [""]
    return f"{first} ..." if rest else first


# ---------------------------------------------------------------------------- building


def under_loops(loops: Sequence[For], body: Stmt) -> Stmt:
    """`body` under loops like these, the first one outermost."""
    for loop in reversed(loops):
        body = loop.replace(body=body)
    return body


def under_names(names: Sequence[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """`body` with variables for values, of which each may use those before it."""
    for var, value in reversed(names):
        body = LetStmt(var, value, body)
    return body


def stores(
    buffers: Sequence[Buffer], values: Sequence[Expr], places: Sequence[Sequence[Expr]]
) -> Stmt:
    """Stores of values into buffers, each at its own indices, one after the other."""
    each = zip(buffers, values, places, strict=True)
    return seq(*(BufferStore(buffer, value, tuple(place)) for buffer, value, place in each))


def stores_at_once(
    buffers: Sequence[Buffer],
    values: Sequence[Expr],
    places: Sequence[Sequence[Expr]],
    name: str | None = None,
) -> Stmt:
    """Stores of values that may read what the other stores write."""
    if len(buffers) == 1:
        return stores(buffers, values, places)
    names = [
        Var(name or f"v_{b.name.replace('.', '_')}", v.dtype)
        for b, v in zip(buffers, values, strict=True)
    ]
    return under_names(list(zip(names, values, strict=True)), stores(buffers, names, places))


def loop_nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """Loops of which each holds nothing but the next, and what the last of them holds."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def parts_of(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of a row, or just the statement."""
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def seq(*stmts: Stmt | None) -> Stmt:
    """Statements in a row, flattened; None is left out, nothing at all is `Evaluate(0)`."""
    parts: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, SeqStmt):
            parts.extend(stmt.seq)
        elif stmt is not None and not is_no_op(stmt):
            parts.append(stmt)
    if not parts:
        return Evaluate(const(0))
    return parts[0] if len(parts) == 1 else SeqStmt(tuple(parts))


def is_no_op(stmt: Stmt) -> bool:
    """Whether the statement evaluates a constant, which does nothing."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)
