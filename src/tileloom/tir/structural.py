"""Equality and hash of programs up to the names of what they bind.

Both walk the same table of fields, so that they agree by construction: equal programs have equal
hashes. Bound variables (parameters, loop and block variables, let variables, the pointers and
symbolic shapes of buffers) stand for each other if they are bound in the same place. Names, source
spans and `Buffer.offset_factor` do not count; annotations, attributes and the order of a block's
reads and writes do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..expr import (
    CommReducer,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    Range,
    Reduce,
    StringImm,
    Var,
    const,
)
from ..target import Target
from . import nodes, sparse

# How the variables in a field are taken: looked up; bound anew; bound where they are still unknown.
USE, BIND, OPEN = "use", "bind", "open"
Field = tuple[str, Callable[[Any], Any], str]


class StructureError(UserError):
    """Two programs that should be structurally equal are not."""


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, statements, functions, modules, buffers, ... are alike.

    With `map_free_vars`, variables that neither side binds may stand for each other too.

    >>> x, y = Var("x"), Var("y")
    >>> structural_equal(x + 1, y + 1), structural_equal(x + 1, y + 1, map_free_vars=True)
    (False, True)
    """
    return _Comparer(map_free_vars).same(a, b, USE)


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Does nothing if both are alike.

    Raises:
        StructureError: shows the first path where they differ and the text on both sides.
    """
    comparer = _Comparer(map_free_vars)
    if comparer.same(a, b, USE):
        return
    path, left, right = comparer.mismatch or ("", a, b)
    raise StructureError(
        f"not structurally equal, they differ first at <root>{path}\n"
        f"--- left\n{_text(left)}\n--- right\n{_text(right)}\n"
        f"=== whole left\n{_text(a)}\n=== whole right\n{_text(b)}"
    )


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash that structurally equal nodes share.

    It depends on nothing but the structure (so it is the same in each process) unless there are
    free variables, which count by identity when `map_free_vars` is not set.

    >>> x, y = Var("x"), Var("y")
    >>> structural_hash(x + 1, True) == structural_hash(y + 1, True) != structural_hash(y + 2, True)
    True
    """
    return _Hasher(map_free_vars).digest(node, USE) & 0xFFFF_FFFF_FFFF_FFFF


def register_structure(kind: type[Any], *fields: tuple[str, str]) -> None:
    """Say which fields of a node class count, in which order, and how their variables are taken.

    Rooms that add statements of their own call this once for each class.
    """
    _FIELDS[kind] = tuple((name, _getter(name), mode) for name, mode in fields)


def _getter(name: str) -> Callable[[Any], Any]:
    return lambda node: getattr(node, name)


def _elem_offset(buffer: nodes.Buffer) -> Expr | None:
    """Where a buffer starts; None for its pointer, which may be written as 0."""
    offset = buffer.elem_offset
    return None if isinstance(offset, IntImm) and offset.value == 0 else offset


def _uses(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, USE) for name in names)


_FIELDS: dict[type[Any], tuple[Field, ...]] = {}
# Within expressions a binder comes after what its variable stands for and before its body.
register_structure(Let, ("value", USE), ("var", BIND), ("body", USE))
register_structure(
    Reduce,
    *(("axis", BIND), ("combiner", USE)),
    *_uses("source", "init", "condition", "value_index"),
)
register_structure(CommReducer, ("lhs", BIND), ("rhs", BIND), *_uses("result", "identity"))
register_structure(Range, *_uses("min", "extent"))
register_structure(IterVar, ("dom", USE), ("var", BIND), *_uses("iter_type", "thread_tag"))
register_structure(
    nodes.Buffer,
    *(("data", OPEN), ("dtype", USE), ("shape", OPEN), ("strides", OPEN), ("elem_offset", OPEN)),
    *_uses("scope", "data_alignment", "axis_separators", "buffer_type"),
)
_FIELDS[nodes.Buffer] = tuple(
    (name, _elem_offset if name == "elem_offset" else getter, mode)
    for name, getter, mode in _FIELDS[nodes.Buffer]
)
register_structure(nodes.BufferRegion, *_uses("buffer", "region"))
register_structure(nodes.MatchBufferRegion, *_uses("buffer", "source"))
register_structure(
    nodes.For,
    *_uses("min", "extent"),
    ("loop_var", BIND),
    *_uses("kind", "thread_binding", "annotations", "body"),
)
register_structure(
    nodes.Block,
    ("iter_vars", BIND),
    *_uses("alloc_buffers", "match_buffers", "reads", "writes", "body", "init", "annotations"),
)
register_structure(nodes.BlockRealize, *_uses("iter_values", "predicate", "block"))
register_structure(nodes.BufferStore, *_uses("buffer", "indices", "value", "predicate"))
register_structure(nodes.SeqStmt, *_uses("seq"))
register_structure(nodes.IfThenElse, *_uses("condition", "then_case", "else_case"))
register_structure(nodes.LetStmt, ("value", USE), ("var", BIND), ("body", USE))
register_structure(nodes.AttrStmt, *_uses("attr_key", "node", "value", "body"))
register_structure(nodes.AssertStmt, *_uses("condition", "message", "body"))
register_structure(nodes.While, *_uses("condition", "body"))
register_structure(nodes.Evaluate, *_uses("value"))
register_structure(
    nodes.Allocate,
    *_uses("dtype", "extents", "condition"),
    ("buffer_var", BIND),
    *_uses("annotations", "body"),
)
register_structure(
    nodes.AllocateConst,
    *_uses("dtype", "extents", "data"),
    ("buffer_var", BIND),
    *_uses("annotations", "body"),
)
register_structure(nodes.DeclBuffer, *_uses("buffer", "body"))
register_structure(
    sparse.Axis,
    *(("parent", USE), ("length", USE), ("nnz", OPEN)),
    *_uses("nnz_cols", "indptr", "indices", "idtype", "sorted"),
)
register_structure(sparse.FusedAxis, *_uses("group", "index"))
register_structure(sparse.AttachedAxis, *_uses("base", "parent"))
register_structure(sparse.UnionAxis, *_uses("parts"))
register_structure(sparse.IntersectionAxis, *_uses("parts"))
register_structure(sparse.SpIterVar, ("axis", USE), ("var", BIND), ("is_reduction", USE))
register_structure(
    sparse.SparseBuffer,
    ("data", OPEN),
    *_uses("dtype", "axes", "scope", "extra_storage", "default_value"),
)
register_structure(sparse.BufferDomain, *_uses("buffer", "low", "high"))
register_structure(
    sparse.SparseIteration,
    ("sp_iter_vars", BIND),
    *_uses("name", "init", "body", "annotations"),
)
register_structure(nodes.IRModule, *_uses("functions", "attrs"))
_FIELDS[nodes.PrimFunc] = (
    ("params", _getter("params"), BIND),
    # In the order of the parameters: the map's own order means nothing.
    ("buffer_map", lambda f: tuple(f.buffer_map.get(p) for p in f.params), USE),
    ("sp_axes", _getter("sp_axes"), USE),
    ("buffer_domains", _getter("buffer_domains"), USE),
    ("ret_type", _getter("ret_type"), USE),
    ("body", _getter("body"), USE),
    ("attrs", _getter("attrs"), USE),
)


def _fields(kind: type[Any]) -> tuple[Field, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        if not issubclass(kind, Expr):
            raise UnsupportedError(f"no structural comparison for {kind.__name__}")
        register_structure(kind, *_uses(*kind.__match_args__))
        found = _FIELDS[kind]
    return found


_LEAVES = (IntImm, FloatImm, StringImm)


def _normal(value: Any) -> Any:
    """Numbers and strings as Python has them in annotations, as the constants they mean."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return const(value)
    if isinstance(value, str):
        return StringImm(value)
    return tuple(value) if isinstance(value, list) else value


def _label(key: Any) -> str:
    return key.name if isinstance(key, Var) else repr(key)


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


class _Comparer:
    """One comparison: which variables stand for which, and where the first difference is."""

    def __init__(self, map_free_vars: bool) -> None:
        self.free = OPEN if map_free_vars else USE
        self.forth: dict[Var, Var] = {}
        self.back: dict[Var, Var] = {}
        self.equal_pairs: set[tuple[int, int]] = set()  # under the present binding
        self.path: list[str] = []
        self.mismatch: tuple[str, Any, Any] | None = None

    def same(self, a: Any, b: Any, mode: str) -> bool:
        if a is b and (a is None or isinstance(a, (str, int))):
            return True
        a, b = _normal(a), _normal(b)
        if self._same(a, b, mode):
            return True
        if self.mismatch is None:
            self.mismatch = ("".join(self.path), a, b)
        return False

    def _same(self, a: Any, b: Any, mode: str) -> bool:
        if type(a) is not type(b):
            return False
        if a is None or isinstance(a, _LEAVES):
            return a is b
        if isinstance(a, Var):
            return self.same_var(a, b, mode)
        if isinstance(a, tuple):
            return len(a) == len(b) and self.all_same(
                (f"[{i}]", x, y, mode) for i, (x, y) in enumerate(zip(a, b))
            )
        if isinstance(a, Mapping):
            keys = sorted(a, key=_label)
            return keys == sorted(b, key=_label) and self.all_same(
                (f"[{_label(k)}]", a[k], b[k], mode) for k in keys
            )
        if isinstance(a, np.ndarray):
            return _array_token(a) == _array_token(b)
        if isinstance(a, Target):
            return str(a) == str(b)
        return self.same_node(a, b, mode)

    def all_same(self, items: Any) -> bool:
        for label, x, y, mode in items:
            self.path.append(label)
            if not self.same(x, y, mode):
                return False
            self.path.pop()
        return True

    def same_node(self, a: Any, b: Any, mode: str) -> bool:
        pair = (id(a), id(b))
        if pair in self.equal_pairs:
            return True
        inner = OPEN if mode == OPEN else USE
        equal = self.all_same(
            (f".{name}", get(a), get(b), inner if field == USE else field)
            for name, get, field in _fields(type(a))
        )
        if equal and isinstance(a, (Expr, nodes.Buffer)):
            self.equal_pairs.add(pair)
        return equal

    def same_var(self, a: Var, b: Var, mode: str) -> bool:
        if a.dtype is not b.dtype or a.pointee != b.pointee:
            return False
        known = a in self.forth or b in self.back
        if mode == BIND or (not known and (mode == OPEN or self.free == OPEN)):
            self.bind(a, b)
            return True
        if known:
            return self.forth.get(a) is b and self.back.get(b) is a
        return a is b

    def bind(self, a: Var, b: Var) -> None:
        if self.forth.get(a, b) is not b or self.back.get(b, a) is not a:
            self.equal_pairs.clear()
        self.forth[a] = b
        self.back[b] = a


@cache
def _string_token(text: str) -> int:
    """A number for a string that is the same in each process, unlike `hash`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _array_token(data: np.ndarray[Any, Any]) -> int:
    head = f"{data.dtype}{data.shape}".encode()
    digest = hashlib.blake2b(head + data.tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class _Hasher:
    """One hash: variables become numbers in the order in which they are bound.

    Expressions are shared, so their hashes are kept; what an expression binds gets a number from
    its contents, which does not depend on how often the expression has been seen before.
    """

    def __init__(self, map_free_vars: bool) -> None:
        self.free = OPEN if map_free_vars else USE
        self.numbers: dict[Var, int] = {}
        self.seen: set[Var] = set()
        self.known: dict[int, int] = {}
        self.count = 0

    def digest(self, value: Any, mode: str, context: int | None = None) -> int:
        value = _normal(value)
        if value is None:
            return 0
        if isinstance(value, IntImm):
            return hash((1, _string_token(value.dtype), value.value < 0, abs(value.value)))
        if isinstance(value, FloatImm):
            return hash((2, _string_token(value.dtype), _string_token(value.value.hex())))
        if isinstance(value, StringImm):
            return _string_token(value.value)
        if isinstance(value, Var):
            return self.digest_var(value, mode, context)
        if isinstance(value, tuple):
            return self.digest_all(value, mode, context)
        if isinstance(value, Mapping):
            keys = sorted(value, key=_label)
            parts = ((_string_token(_label(k)), self.digest(value[k], mode)) for k in keys)
            return hash((4, *parts))
        if isinstance(value, np.ndarray):
            return _array_token(value)
        if isinstance(value, Target):
            return _string_token(str(value))
        return self.digest_node(value, mode, context)

    def digest_all(self, items: Sequence[Any], mode: str, context: int | None) -> int:
        result = hash((3, len(items)))
        for index, item in enumerate(items):
            inner = None if context is None else hash((context, index))
            result = hash((result, self.digest(item, mode, inner)))
        return result

    def digest_node(self, node: Any, mode: str, context: int | None) -> int:
        known = self.known.get(id(node))
        if known is not None:
            return known
        in_expr = context is not None or isinstance(node, (Expr, CommReducer))
        inner = OPEN if mode == OPEN else USE
        result = _string_token(type(node).__name__)
        if context is not None and isinstance(node, (IterVar, CommReducer)):
            result = hash((result, context))  # parts of one expression, never kept by themselves
        for _, get, field in _fields(type(node)):
            part = self.digest(
                get(node), inner if field == USE else field, result if in_expr else None
            )
            result = hash((result, part))
        if isinstance(node, (Expr, nodes.Buffer)):
            self.known[id(node)] = result
        return result

    def digest_var(self, var: Var, mode: str, context: int | None) -> int:
        if mode == BIND:
            self.count += 1
            self.bind(var, self.count if context is None else hash((5, context)))
        elif var not in self.numbers and (mode == OPEN or self.free == OPEN):
            self.count += 1
            self.bind(var, self.count)
        self.seen.add(var)
        number = self.numbers.get(var)
        if number is None:
            return hash((6, id(var)))
        pointee = 0 if var.pointee is None else hash(tuple(map(_string_token, var.pointee)))
        kind = _string_token(type(var).__name__)
        return hash((7, number, _string_token(var.dtype), kind, pointee))

    def bind(self, var: Var, number: int) -> None:
        if var in self.seen and self.numbers.get(var) != number:
            self.known.clear()
        self.numbers[var] = number
