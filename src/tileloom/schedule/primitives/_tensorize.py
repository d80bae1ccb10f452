"""Finding the description of a tensor intrinsic in a block, and copies of its implementation."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import UserError
from ...expr import (
    REDUCE,
    Add,
    Analyzer,
    BinaryOp,
    Call,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Mul,
    Ramp,
    Range,
    StringImm,
    Var,
    binary,
    const,
    free_vars,
    is_index,
    match_types,
    post_order,
    rewrite,
    substitute,
)
from ...tir import (
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    pre_order,
)
from ..analysis.tree import is_one


class Mismatch(UserError):
    """Why a block is not what an intrinsic computes; caught by tensorize."""


class Match:
    """One comparison of a block with a description.

    Attributes:
        buffers: for each buffer of the description, that of the program.
        bases: for each buffer of the description, where its first element is in the program's.
    """

    def __init__(self, desc: PrimFunc) -> None:
        self.params = set(desc.buffers)
        self.buffers: dict[Buffer, Buffer] = {}
        self.bases: dict[Buffer, tuple[Expr, ...]] = {}
        self.values: dict[Var, Expr] = {}
        self.inner: set[Var] = set()
        self.allocated: set[Buffer] = set()  # inside of the block, or of the description
        self.known = Analyzer()

    def root(self, block: Block, desc: Block) -> None:
        """Compare a block's body with that of the description's root."""
        self._allocated(block, desc)
        if desc.init is not None:
            self._begins(block, desc.init)
        self.stmt(block.body, desc.body)
        for buffer in self.params:
            if buffer not in self.buffers:
                raise Mismatch(f"the description never uses its buffer {buffer.name!r}")
        written = {self.buffers[buffer] for buffer in self.params & _stored(desc.body)}
        mapped = [self.buffers[buffer] for buffer in self.params]
        for buffer in written:
            if mapped.count(buffer) > 1:
                raise Mismatch(f"{buffer.name!r} stands for several buffers and is written")

    def _begins(self, block: Block, init: Stmt) -> None:
        """Compare where sums begin, which must be each time that the block runs."""
        again = [
            a for a in block.iter_vars if a.iter_type == REDUCE and not is_one(a.domain.extent)
        ]
        if block.init is None or again:
            raise Mismatch("the description has an init, the block only adds to what there is")
        self.stmt(block.init, init)

    # ------------------------------------------------------------------ statements

    def stmt(self, ours: Stmt, theirs: Stmt) -> None:
        """Compare a statement of the program with one of the description."""
        match ours, theirs:
            case For(), For():
                self._loop(ours, theirs)
            case BlockRealize(), BlockRealize():
                self._realize(ours, theirs)
            case BufferStore(), BufferStore():
                self._access(ours.buffer, ours.indices, theirs.buffer, theirs.indices)
                self._need(ours.predicate is None and theirs.predicate is None, ours, theirs)
                self._need(self.same(ours.value, theirs.value), ours, theirs)
            case SeqStmt(), SeqStmt():
                self._need(len(ours.seq) == len(theirs.seq), ours, theirs)
                for a, b in zip(ours.seq, theirs.seq, strict=True):
                    self.stmt(a, b)
            case IfThenElse(), IfThenElse():
                self._need(self.same(ours.condition, theirs.condition), ours, theirs)
                self._optional(ours.then_case, theirs.then_case, ours, theirs)
                self._optional(ours.else_case, theirs.else_case, ours, theirs)
            case LetStmt(), LetStmt():
                self._need(self.same(ours.value, theirs.value), ours, theirs)
                self.values[theirs.var] = ours.var
                self.inner.add(ours.var)
                self.stmt(ours.body, theirs.body)
            case Evaluate(), Evaluate():
                self._need(self.same(ours.value, theirs.value), ours, theirs)
            case _:
                self._need(False, ours, theirs)

    def _optional(self, a: Stmt | None, b: Stmt | None, ours: Stmt, theirs: Stmt) -> None:
        self._need((a is None) == (b is None), ours, theirs)
        if a is not None and b is not None:
            self.stmt(a, b)

    def _need(self, holds: bool, ours: Stmt, theirs: Stmt) -> None:
        if not holds:
            raise Mismatch(f"where the program has\n{_brief(ours)}\nit has\n{_brief(theirs)}")

    def _loop(self, ours: For, theirs: For) -> None:
        tags = [
            None if loop.thread_binding is None else loop.thread_binding.thread_tag
            for loop in (ours, theirs)
        ]
        same = ours.kind == theirs.kind and tags[0] == tags[1]
        same = same and self.same_index(ours.min, theirs.min)
        same = same and self.same_index(ours.extent, theirs.extent)
        self._need(same, ours, theirs)
        self._bind(ours.loop_var, theirs.loop_var, ours.domain)
        self.stmt(ours.body, theirs.body)

    def _bind(self, ours: Var, theirs: Var, domain: Range) -> None:
        self.values[theirs] = ours.astype(theirs.dtype)
        self.inner.add(ours)
        self.known.bind(ours, domain)

    def _realize(self, ours: BlockRealize, theirs: BlockRealize) -> None:
        a, b = ours.block, theirs.block
        self._need(len(a.iter_vars) == len(b.iter_vars), ours, theirs)
        same = self.same(ours.predicate, theirs.predicate)
        for x, y in zip(ours.iter_values, theirs.iter_values, strict=True):
            same = same and self.same_index(x, y)
        for axis, wanted in zip(a.iter_vars, b.iter_vars, strict=True):
            same = same and axis.iter_type == wanted.iter_type
            same = same and self.same_index(axis.domain.min, wanted.domain.min)
            same = same and self.same_index(axis.domain.extent, wanted.domain.extent)
        self._need(same and not a.match_buffers and not b.match_buffers, ours, theirs)
        for axis, wanted in zip(a.iter_vars, b.iter_vars, strict=True):
            self._bind(axis.var, wanted.var, axis.domain)
        self._allocated(a, b)
        self._optional(a.init, b.init, ours, theirs)
        self.stmt(a.body, b.body)

    def _allocated(self, ours: Block, theirs: Block) -> None:
        self._need(len(ours.alloc_buffers) == len(theirs.alloc_buffers), ours, theirs)
        for a, b in zip(ours.alloc_buffers, theirs.alloc_buffers, strict=True):
            same = a.dtype is b.dtype and a.scope == b.scope and a.ndim == b.ndim
            same = same and all(self.same_index(x, y) for x, y in zip(a.shape, b.shape))
            self._need(same, ours, theirs)
            self.buffers[b] = a
            self.allocated |= {a, b}

    # ------------------------------------------------------------------ expressions

    def _in_our_terms(self, theirs: Expr) -> Expr:
        """An index of the description with the program's variables and allocated buffers."""

        def rule(node: Expr) -> Expr | None:
            if not isinstance(node, BufferLoad) or node.buffer in self.params:
                return None
            ours = self.buffers.get(node.buffer)
            if ours is None:
                return None
            return BufferLoad(ours, [self._in_our_terms(i) for i in node.indices], node.predicate)

        return rewrite(substitute(theirs, self.values), rule)

    def same_index(self, ours: Expr, theirs: Expr) -> bool:
        """Whether two bounds or positions are equal, whatever integer types they have."""
        wanted = self._in_our_terms(theirs)
        ours = ours.astype(wanted.dtype)
        return ours is wanted or self.known.can_prove_equal(ours, wanted)

    def same(self, ours: Expr, theirs: Expr) -> bool:
        """Whether an expression of the program is one of the description."""
        plain = is_index(theirs.dtype) or theirs.dtype.is_bool
        if plain and not any(isinstance(node, (BufferLoad, Call)) for node in post_order(theirs)):
            wanted = substitute(theirs, self.values)
            return ours is wanted or (
                ours.dtype is wanted.dtype and self.known.can_prove_equal(ours, wanted)
            )
        if type(ours) is not type(theirs) or ours.dtype is not theirs.dtype:
            return False
        match ours, theirs:
            case (IntImm(), _) | (FloatImm(), _) | (StringImm(), _):
                return ours is theirs
            case Var(), Var():
                return self.values.get(theirs, theirs) is ours
            case BufferLoad(), BufferLoad():
                if ours.predicate is not None or theirs.predicate is not None:
                    return False
                self._access(ours.buffer, ours.indices, theirs.buffer, theirs.indices)
                return True
            case Call(), Call():
                if ours.op != theirs.op:
                    return False
        if isinstance(ours, (Add, Mul)):
            return self._either_way(ours.children, theirs.children)
        mine, its = ours.children, theirs.children
        return len(mine) == len(its) and all(self.same(a, b) for a, b in zip(mine, its))

    def _either_way(self, ours: Sequence[Expr], theirs: Sequence[Expr]) -> bool:
        """Compare the operands of a sum or product, which may stand in either order."""
        buffers, bases = dict(self.buffers), dict(self.bases)
        fault = None
        try:
            if all(map(self.same, ours, theirs)):
                return True
        except Mismatch as error:
            fault = error
        self.buffers, self.bases = buffers, bases
        try:
            found = all(map(self.same, reversed(ours), theirs))
        except Mismatch as error:
            raise fault or error from None
        if fault is not None and not found:
            raise fault  # it says more than that they differ
        return found

    def _access(
        self, ours: Buffer, indices: Sequence[Expr], theirs: Buffer, wanted: Sequence[Expr]
    ) -> None:
        """An element of the program's buffer stands for one of the description's."""
        known = self.buffers.get(theirs)
        if known is None:
            self._enter(ours, theirs)
        elif known is not ours:
            raise Mismatch(f"{theirs.name!r} stands for {known.name!r} and for {ours.name!r}")
        lead = len(indices) - len(wanted)
        base = self.bases.get(theirs)
        if base is None and theirs in self.params:
            base = self.bases[theirs] = self._base(theirs, indices, wanted)
        for k, index in enumerate(indices):
            want = const(0, index.dtype)
            if k >= lead:
                want = self._in_our_terms(wanted[k - lead])
            if base is not None:
                want = base[k] + want
            if not self.known.can_prove_equal(index, want):
                raise Mismatch(
                    f"the index {index} of {ours.name!r} is not {want}, as {theirs.name!r} needs it"
                )

    def _enter(self, ours: Buffer, theirs: Buffer) -> None:
        if theirs not in self.params:
            raise Mismatch(f"{ours.name!r} is not {theirs.name!r}")
        if ours.dtype is not theirs.dtype:
            raise Mismatch(f"{ours.name!r} has {ours.dtype}, {theirs.name!r} has {theirs.dtype}")
        if ours.scope != theirs.scope:
            raise Mismatch(
                f"{ours.name!r} is in {ours.scope!r} memory, {theirs.name!r} in {theirs.scope!r}"
            )
        if ours.ndim < theirs.ndim:
            raise Mismatch(
                f"{ours.name!r} has {ours.ndim} dimensions, {theirs.name!r} has {theirs.ndim}"
            )
        self.buffers[theirs] = ours

    def _base(
        self, theirs: Buffer, indices: Sequence[Expr], wanted: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        lead = len(indices) - len(wanted)
        base = list(indices[:lead])
        for index, want in zip(indices[lead:], wanted, strict=True):
            base.append(self.known.simplify(index - self._in_our_terms(want)))
        for part in base:
            loaded = {n.buffer for n in post_order(part) if isinstance(n, BufferLoad)}
            if free_vars(part) & self.inner or loaded & self.allocated:
                shown = ", ".join(map(str, indices))
                raise Mismatch(f"[{shown}] are not the indices that {theirs.name!r} needs")
        return tuple(base)


def _stored(stmt: Stmt) -> set[Buffer]:
    return {node.buffer for node in pre_order(stmt) if isinstance(node, BufferStore)}


def _brief(stmt: Stmt) -> str:
    lines = str(stmt).strip().splitlines()
    return "\n".join(f"    {line}" for line in lines[:8] + (["..."] if len(lines) > 8 else []))


# ---------------------------------------------------------------------------- copies


class Renewed(StmtRewriter):
    """A copy of a function with variables and buffers of its own.

    Args:
        kind: the type that indices of int32 take.
    """

    def __init__(self, kind: str = "int32") -> None:
        self.kind = kind
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def func(self, func: PrimFunc) -> PrimFunc:
        """The copy."""
        params = tuple(Var(p.name, p.dtype) for p in func.params)
        buffers = {
            new: self.buffer(func.buffer_map[old])
            for old, new in zip(func.params, params, strict=True)
        }
        return func.replace(params=params, body=self.visit(func.body), buffer_map=buffers)

    def var(self, var: Var) -> Var:
        """A new variable for one that is defined here."""
        kind = self.kind if str(var.dtype) == "int32" else var.dtype
        if var.dtype.is_handle:
            new = Var(var.name, var.dtype, var.pointee)
        else:
            new = Var(var.name, kind)
        return self.vars.setdefault(var, new)

    def buffer(self, buffer: Buffer) -> Buffer:
        """A new buffer; the variables in its shape, strides and offset are defined by it."""
        found = self.buffers.get(buffer)
        if found is None:
            offset = buffer.elem_offset
            for part in (*buffer.shape, *buffer.strides, *(() if offset is None else (offset,))):
                for var in free_vars(part):
                    self.var(var)
            found = self.buffers[buffer] = buffer.replace(
                data=self.var(buffer.data),
                shape=tuple(map(self.index, buffer.shape)),
                strides=tuple(map(self.index, buffer.strides)),
                elem_offset=None if offset is None else self.index(offset),
            )
        return found

    def index(self, expr: Expr) -> Expr:
        """An expression where an index stands: numbers take the type of indices too."""
        new = self.visit_expr(expr)
        return new.astype(self.kind) if str(new.dtype) == "int32" else new

    def visit_expr(self, expr: Expr) -> Expr:
        match expr:
            case Var():
                return self.vars.get(expr, expr)
            case BufferLoad():
                predicate = None if expr.predicate is None else self.visit_expr(expr.predicate)
                indices = [self.index(i) for i in expr.indices]
                return BufferLoad(self.buffers.get(expr.buffer, expr.buffer), indices, predicate)
            case Ramp(base, stride, lanes):
                return Ramp(*match_types(self.visit_expr(base), self.visit_expr(stride)), lanes)
        children = [self.visit_expr(child) for child in expr.children]
        if all(a is b for a, b in zip(children, expr.children, strict=True)):
            return expr
        if isinstance(expr, (BinaryOp, CompareOp)):
            return binary(type(expr), *match_types(*children))
        return expr.with_children(children)

    def visit_range(self, part: Range) -> Range:
        return Range(self.index(part.min), self.index(part.extent))

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        parts = tuple(self.visit_range(part) for part in region.region)
        return BufferRegion(self.buffers.get(region.buffer, region.buffer), parts)

    def visit_iter_var(self, axis: IterVar) -> IterVar:
        dom = None if axis.dom is None else self.visit_range(axis.dom)
        return IterVar(dom, self.var(axis.var), axis.iter_type, axis.thread_tag)

    def visit_For(self, stmt: For) -> Stmt:
        low, extent = self.index(stmt.min), self.index(stmt.extent)
        thread = stmt.thread_binding
        if thread is not None:
            thread = self.visit_iter_var(thread)
        var = self.var(stmt.loop_var)
        return stmt.replace(
            loop_var=var, min=low, extent=extent, thread_binding=thread, body=self.visit(stmt.body)
        )

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        values = tuple(self.index(value) for value in stmt.iter_values)
        predicate = self.visit_expr(stmt.predicate)
        return BlockRealize(values, predicate, self.block(stmt.block), span=stmt.span)

    def block(self, block: Block) -> Block:
        """The copy of a block."""
        axes = tuple(self.visit_iter_var(axis) for axis in block.iter_vars)
        allocated = tuple(self.buffer(buffer) for buffer in block.alloc_buffers)
        matches = tuple(
            MatchBufferRegion(self.buffer(m.buffer), self.visit_region(m.source))
            for m in block.match_buffers
        )
        return block.replace(
            iter_vars=axes,
            alloc_buffers=allocated,
            match_buffers=matches,
            reads=tuple(map(self.visit_region, block.reads)),
            writes=tuple(map(self.visit_region, block.writes)),
            init=None if block.init is None else self.visit(block.init),
            body=self.visit(block.body),
        )

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        buffer = self.buffers.get(stmt.buffer, stmt.buffer)
        value = self.visit_expr(stmt.value)
        if value.dtype is not stmt.value.dtype:
            value = value.astype(stmt.value.dtype)
        predicate = None if stmt.predicate is None else self.visit_expr(stmt.predicate)
        indices = tuple(self.index(i) for i in stmt.indices)
        return BufferStore(buffer, value, indices, predicate, span=stmt.span)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        value = self.visit_expr(stmt.value)
        var = self.var(stmt.var)
        if value.dtype is not var.dtype:
            value = value.astype(var.dtype)
        return stmt.replace(var=var, value=value, body=self.visit(stmt.body))

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        node = stmt.node
        if isinstance(node, IterVar):
            node = self.visit_iter_var(node)
        elif isinstance(node, Var):
            node = self.vars.get(node, node)
        value = self.visit_expr(stmt.value)
        return stmt.replace(node=node, value=value, body=self.visit(stmt.body))

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        return stmt.replace(buffer=self.buffer(stmt.buffer), body=self.visit(stmt.body))
