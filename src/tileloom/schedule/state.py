"""The program under a schedule, and the one operation that changes it: `replace`."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from ..base.errors import InternalError, UserError
from ..expr import const
from ..tir import (
    Block,
    BlockRealize,
    For,
    IfThenElse,
    IRModule,
    PrimFunc,
    SeqStmt,
    SparseIteration,
    Stmt,
    seq,
    stmt_children,
)
from .random import Random
from .sref import REFERABLE, Referable, StmtSRef

BlockMap = Mapping[Block, Block]
_TRUE = const(True)


class ScheduleState:
    """A module with references to all its loops, blocks and sparse iterations.

    Attributes:
        mod: the module as it is now.
        sref_of: the reference to each loop, block and iteration of it.
        memo: what analyses have found out about statements, which never change.
        random: the random numbers of sampling primitives.
        func_working_on: the function in which names of blocks are looked up, if it is settled.
        enable_check: False skips checks of what blocks start with, read and write, TVM's and our
            own: for steps that are checked before or after, as a search does.
        debug_mask: 1 checks the references after every step, 2 the memoised analyses.
    """

    def __init__(
        self, mod: IRModule, *, debug_mask: int = 0, enable_check: bool = True, seed: int = 1
    ) -> None:
        self.mod = mod.replace(
            functions={name: _with_root(func) for name, func in mod.functions.items()}
        )
        self.debug_mask = debug_mask
        self.enable_check = enable_check
        self.random = Random(seed)
        self.func_working_on: str | None = None
        self.memo: dict[Any, Any] = {}
        self.sref_of: dict[Stmt, StmtSRef] = {}
        for func in self.mod.functions.values():
            self._enter(_root_realize(func).block)

    def _enter(self, root: Block) -> None:
        for node, outer in fresh_nodes(root, {}):
            above = None if outer is None else self.sref_of[outer]
            self.sref_of[node] = StmtSRef(node, above)

    def copy(self) -> tuple[ScheduleState, dict[StmtSRef, StmtSRef]]:
        """A state that goes its own way from here, and its references for those of this one."""
        other = object.__new__(ScheduleState)
        other.__dict__.update(self.__dict__)
        other.random = self.random.copy()
        twins = {sref: StmtSRef(sref.stmt) for sref in self.sref_of.values()}
        for sref, twin in twins.items():
            twin.parent = None if sref.parent is None else twins[sref.parent]
        other.sref_of = {stmt: twins[sref] for stmt, sref in self.sref_of.items()}
        return other, twins

    # ------------------------------------------------------------------ looking

    def sref(self, stmt: Stmt) -> StmtSRef:
        """The reference to a loop or block of the present program."""
        found = self.sref_of.get(stmt)
        if found is None:
            raise InternalError(f"no reference to this {type(stmt).__name__}")
        return found

    def function_of(self, sref: StmtSRef) -> str:
        """The name of the function that holds a loop or block."""
        root = sref
        while root.parent is not None:
            root = root.parent
        for name, func in self.mod.functions.items():
            if _root_realize(func).block is root.stmt:
                return name
        raise InternalError(f"{sref!r} is in no function")

    def root(self, name: str) -> StmtSRef:
        """The root block of a function."""
        return self.sref(_root_realize(self.mod[name]).block)

    def realize(self, block: StmtSRef) -> BlockRealize:
        """The statement that runs a block."""
        if block.parent is None:
            return _root_realize(self.mod[self.function_of(block)])
        target = block.block
        stack = list(stmt_children(_known(block.parent)))
        while stack:
            node = stack.pop()
            if isinstance(node, BlockRealize):
                if node.block is target:
                    return node
            elif not isinstance(node, For):
                stack.extend(stmt_children(node))
        raise InternalError(f"{block!r} is not below its parent")

    # ------------------------------------------------------------------ changing

    def replace(self, src: StmtSRef, new: Stmt, block_map: BlockMap | None = None) -> None:
        """Put a statement where the loop or block of `src` stands.

        What stays is told by identity: a statement that is the very object it was keeps its
        references all the way down; a loop with the loop variable of an old one, and a block or a
        sparse iteration with the iteration variables of an old one, takes over its reference. The
        others of the old statement expire.

        Args:
            src: what to replace. A block is replaced by a block, others by any statement.
            new: the new statement, over the same variables.
            block_map: old blocks and the blocks that take over their references, where the
                iteration variables do not tell.
        """
        old = _known(src)
        if new is old:
            return
        if isinstance(old, Block) and not isinstance(new, Block):
            raise InternalError("a block can be replaced by a block only")
        parent = src.parent
        self._rewire(old, new, parent, block_map or {})
        if parent is None:
            self._replace_root(old, new)
        else:
            self._replace_in(parent, old, new)

    def replace_realize(
        self, block: StmtSRef, new: Stmt, block_map: BlockMap | None = None
    ) -> None:
        """Put a statement where a block is run: other values, another predicate, loops around it.

        Args:
            block: a block other than a root.
            new: holds the block, changed or not, if its reference is to stay.
            block_map: as in `replace`.
        """
        parent = block.parent
        if parent is None:
            raise InternalError("the root block of a function stays where it is")
        changed = _swap(_known(parent), self.realize(block), new)
        if changed is None:
            raise InternalError(f"{block!r} is not below its parent")
        self.replace(parent, changed, block_map)

    def _rewire(
        self, old: Referable, new: Stmt, parent: StmtSRef | None, block_map: BlockMap
    ) -> None:
        """Move the references below `old` to `new`."""
        fresh = list(fresh_nodes(new, self.sref_of))
        kept = {node for node, _ in fresh if node in self.sref_of}
        match = _Matcher(block_map)
        for node, _ in fresh_nodes(old, kept):
            if node not in kept:
                match.add(node, self.sref_of.pop(node))
        placed: dict[Stmt, StmtSRef] = {}
        for node, outer in fresh:
            sref = self.sref_of.get(node)
            if sref is None:
                sref = match.take(node) or StmtSRef(node)
                sref.stmt = node
                placed[node] = sref
            sref.parent = parent if outer is None else placed[outer]
        self.sref_of.update(placed)
        match.expire()

    def _replace_root(self, old: Stmt, new: Stmt) -> None:
        functions = dict(self.mod.functions)
        for name, func in functions.items():
            realize = _root_realize(func)
            if realize.block is old:
                functions[name] = func.replace(body=realize.replace(block=new))
                self.mod = self.mod.replace(functions=functions)
                return
        raise InternalError("the root block is in no function")

    def _replace_in(self, sref: StmtSRef | None, old: Stmt, new: Stmt) -> None:
        """Copy the path from `sref` to the function with `new` in place of `old` below it."""
        while sref is not None:
            stmt = _known(sref)
            copy = _swap(stmt, old, new)
            if not isinstance(copy, REFERABLE):
                raise InternalError(f"{sref!r} does not hold what is to be replaced")
            del self.sref_of[stmt]
            self.sref_of[copy] = sref
            sref.stmt = copy
            old, new = stmt, copy
            sref = sref.parent
        self._replace_root(old, new)

    def update_function(self, name: str, func: PrimFunc) -> None:
        """Change parameters, buffers or attributes of a function, but not its body."""
        if func.body is not self.mod[name].body:
            raise InternalError("update_function must not change the body; use replace")
        self.mod = self.mod.replace(functions={**self.mod.functions, name: func})

    # ------------------------------------------------------------------ checking

    def verify_references(self) -> None:
        """Derive all references anew and compare."""
        count = 0
        for func in self.mod.functions.values():
            for node, outer in fresh_nodes(_root_realize(func).block, {}):
                sref = self.sref_of.get(node)
                above = None if outer is None else self.sref_of.get(outer)
                if sref is None or sref.stmt is not node or sref.parent is not above:
                    raise InternalError(f"the reference {sref!r} to {node} is wrong")
                count += 1
        if count != len(self.sref_of):
            raise InternalError(f"{len(self.sref_of) - count} references to statements long gone")


class _Matcher:
    """The old references below a replaced statement, waiting for the statements to take them."""

    def __init__(self, block_map: BlockMap) -> None:
        self.loops: dict[Any, StmtSRef] = {}
        self.blocks: dict[Any, StmtSRef] = {}
        self.named = {new: old for old, new in block_map.items()}
        self.left: set[StmtSRef] = set()

    def add(self, stmt: Referable, sref: StmtSRef) -> None:
        self.left.add(sref)
        if isinstance(stmt, For):
            self.loops[stmt.loop_var] = sref
        else:
            self.blocks[stmt] = sref
            self.blocks.setdefault(_identity(stmt), sref)

    def take(self, stmt: Referable) -> StmtSRef | None:
        if isinstance(stmt, For):
            found = self.loops.get(stmt.loop_var)
        elif stmt in self.named:
            found = self.blocks.get(self.named[stmt])
        else:
            found = self.blocks.get(_identity(stmt))
            if found is not None and found.stmt in self.named.values():
                found = None  # its reference is promised to another block
        if found is None or found not in self.left:
            return None
        self.left.remove(found)
        return found

    def expire(self) -> None:
        for sref in self.left:
            sref.stmt = None
            sref.parent = None


def _identity(stmt: Block | SparseIteration) -> Any:
    """What tells a block from others; a block without iteration variables goes by its name.

    The variables of a sparse iteration change places.
    """
    if isinstance(stmt, Block):
        return tuple(axis.var for axis in stmt.iter_vars) or (stmt.name_hint,)
    return frozenset(part.var for part in stmt.sp_iter_vars) or stmt.name


def fresh_nodes(
    stmt: Stmt, known: Container[object]
) -> Iterator[tuple[Referable, Referable | None]]:
    """The places of a statement, each with the one around it, outer ones first.

    Those in `known` are listed, what is inside them is not. What starts a block or an iteration,
    its init, is part of it and has nothing to be scheduled.
    """
    stack: list[tuple[Stmt, Referable | None]] = [(stmt, None)]
    while stack:
        node, outer = stack.pop()
        if isinstance(node, REFERABLE):
            yield node, outer
            if node in known:
                continue
            outer = node
            stack.append((node.body, outer))
            continue
        stack.extend((child, outer) for child in reversed(stmt_children(node)))


def _swap(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt | None:
    """`stmt` with `new` for `old`, below it with no place of its own between them; None if not."""
    if isinstance(stmt, For):
        body = _swap_child(stmt.body, old, new)
        return None if body is None else copy_loop(stmt, body)
    if isinstance(stmt, (Block, SparseIteration)):
        body = _swap_child(stmt.body, old, new)
        return None if body is None else stmt.replace(body=body)
    if isinstance(stmt, BlockRealize):
        return stmt.replace(block=new) if stmt.block is old else None
    if isinstance(stmt, SeqStmt):
        for i, part in enumerate(stmt.seq):
            found = _swap_child(part, old, new)
            if found is not None:
                return seq(*stmt.seq[:i], found, *stmt.seq[i + 1 :])
        return None
    if isinstance(stmt, IfThenElse):
        then = _swap_child(stmt.then_case, old, new)
        if then is not None:
            return stmt.replace(then_case=then)
        other = None if stmt.else_case is None else _swap_child(stmt.else_case, old, new)
        return None if other is None else stmt.replace(else_case=other)
    if not stmt_children(stmt):
        return None
    body = _swap_child(stmt.body, old, new)  # type: ignore[attr-defined]
    return None if body is None else stmt.replace(body=body)


def _swap_child(child: Stmt, old: Stmt, new: Stmt) -> Stmt | None:
    if child is old:
        return new
    return None if isinstance(child, (For, SparseIteration)) else _swap(child, old, new)


def copy_loop(loop: For, body: Stmt) -> For:
    """The same loop over another body."""
    return For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
        span=loop.span,
    )


def _known(sref: StmtSRef) -> Referable:
    if sref.stmt is None:
        raise InternalError("the reference has expired")
    return sref.stmt


def _root_realize(func: PrimFunc) -> BlockRealize:
    body = func.body
    if not isinstance(body, BlockRealize):
        raise InternalError(f"the function {func.name!r} has no root block")
    return body


def _with_root(func: PrimFunc) -> PrimFunc:
    """The function with a block around everything, as scopes start at blocks."""
    if not isinstance(func, PrimFunc):
        raise UserError(f"cannot schedule {type(func).__name__}: only tensor IR functions")
    body = func.body
    if isinstance(body, BlockRealize) and not body.iter_values:
        return func
    root = Block((), (), (), "root", body)
    return func.replace(body=BlockRealize((), _TRUE, root))
