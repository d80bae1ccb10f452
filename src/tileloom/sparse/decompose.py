"""Format decomposition: a program over a tensor as one over parts of it, each in its own format.

Source: SparseTIR (Ye et al., ASPLOS 2023), DecomposeFormat. What is added here: the parts together
do what the whole did. Results are started once, by an iteration before the parts; what parts
could do wrong is refused; and `check_partition` tells of arrays whether they are parts of a matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..base.errors import UnsupportedError, UserError
from ..expr import Var
from ..tir import (
    COORDINATES,
    Buffer,
    BufferLoad,
    BufferStore,
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    buffer_accesses,
    collect,
    collect_exprs,
    first_line,
    is_no_op,
    renewed,
    seq,
    sparse_level,
    substitute_stmt,
)
from .applied_rule import AppliedRule, apply_rule
from .format_rule import FormatRewriteRule, axis_names
from .functions import Program, map_functions, root_parts, with_root
from .part_checks import PartContext, check_part, covers_once
from .part_iteration import PartPlaces, copy_places, part_iteration
from .preprocess import PREPROCESS, is_preprocess
from .starts import INITIALIZED_BY, with_parents


def format_decompose(
    mod: Program, rules: Sequence[FormatRewriteRule], include_format_rewrite_blks: bool = True
) -> Program:
    """The program over the parts of tensors that the rules describe.

    Parameters, axes and buffers of each rule come after those of the program, with the suffix
    `_<rule>`. For each rewritten buffer an iteration `rewrite_<buffer>_<rule>`, annotated
    `preprocess`, copies the elements of the part; `convert_by_rule` makes the arrays, values
    included, without it. An iteration that accesses a rewritten buffer is replaced by one for each
    part, `<iteration>_<rule>`, and all others stay.

    The parts must hold each element once (`check_partition`). Where parts add to the results of an
    iteration with an init, an iteration `<iteration>_init` before them does that for all, and they
    are annotated `{"initialized_by": "<iteration>_init"}`: their own is not run, unless the
    function has the attribute `horizontal_fuse`. Where an iteration writes to a rewritten buffer,
    each part has its elements, and the old buffer is not written.

    `rewrite_...` finds an element by its coordinates, so it is right for padding only where these
    are not those of an element. What `convert_by_rule` makes is right always.

    Args:
        mod: a function, or a module of functions, at level 2.
        rules: the parts. Those of one buffer are about the same buffers and axes.
        include_format_rewrite_blks: whether to make the iterations that copy.

    Raises:
        ArgumentError: the program has no such axis or buffer.
        UnsupportedError: the program is at another level, or parts would not do what the whole
            does; says why.
        UserError: two rules, or a rule and the program, have one name; `inv_idx_map` is not the
            inverse of `idx_map`.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def sums(a: T.handle, b: T.handle, indptr: T.handle, indices: T.handle, m: T.int32,
    ...          n: T.int32, nnz: T.int32):
    ...     T.func_attr({"global_symbol": "main", "sparse_tir_level": 2})
    ...     I = T.dense_fixed(m)
    ...     J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    ...     A = T.match_sparse_buffer(a, [I, J], "float32")
    ...     B = T.match_sparse_buffer(b, [I], "float32")
    ...     with T.sp_iter([I, J], "SR", "sums") as [i, j]:
    ...         with T.init():
    ...             B[i] = 0.0
    ...         B[i] = B[i] + A[i, j]
    >>> @T.prim_func
    ... def ell(a: T.handle, indptr_i: T.handle, indices_i: T.handle, indices_j: T.handle,
    ...         m: T.int32, n: T.int32, num_rows: T.int32):
    ...     T.func_attr({"sparse_tir_level": 2})
    ...     O = T.dense_fixed(1)
    ...     I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i))
    ...     J = T.sparse_fixed(I, (n, 4), indices_j)
    ...     A = T.match_sparse_buffer(a, [O, I, J], "float32")
    ...     T.evaluate(0)
    >>> rule = FormatRewriteRule(
    ...     "4", ell, ["A"], ["I", "J"], ["O", "I", "J"], {"I": ["O", "I"], "J": ["J"]},
    ...     lambda i, j: (0, i, j), lambda o, i, j: (i, j),
    ... )
    >>> print(format_decompose(sums, [rule], include_format_rewrite_blks=False))
    # from tileloom.script import tir as T
    <BLANKLINE>
    @T.prim_func
    def main(...):
        ...
        with T.sp_iter([I], "S", "sums_init") as [i]:
            B[i] = T.float32(0.0)
        with T.sp_iter([O_4, I_4, J_4], "SSR", "sums_4") as [o_4, i_4, j_4]:
            T.sp_iter_attr({"initialized_by": "sums_init"})
            with T.init():
                B[i_4] = T.float32(0.0)
            B[i_4] = B[i_4] + A_4[o_4, i_4, j_4]
    """
    if not rules:
        raise UserError("a decomposition has at least one rule")
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{names.count(name)} rules have the name {name!r}")
    return map_functions(mod, lambda func: _decomposed(func, rules, include_format_rewrite_blks))


def _decomposed(func: PrimFunc, rules: Sequence[FormatRewriteRule], with_copies: bool) -> PrimFunc:
    if sparse_level(func) != COORDINATES:
        raise UnsupportedError(
            f"function {func.name!r} is at level {sparse_level(func)}; formats are decomposed at "
            f"level {COORDINATES}, before it is lowered"
        )
    applied = [apply_rule(func, rule) for rule in rules]
    parts = [rule.part for rule in applied]
    buffer_map = {param: buffer for part in parts for param, buffer in part.buffer_map.items()}
    made = func.replace(
        params=(*func.params, *(param for part in parts for param in part.params)),
        buffer_map={**func.buffer_map, **buffer_map},
        sp_axes=(*func.sp_axes, *(axis for part in parts for axis in part.axes.values())),
        buffer_domains=(*func.buffer_domains, *(d for part in parts for d in part.domains)),
    )
    stmts, allocated = root_parts(func)
    copies = [copy for rule in applied for copy in _copies(rule)] if with_copies else []
    computed = [new for stmt in stmts for new in _in_parts(stmt, applied, stmts)]
    made = with_root(made, seq(*copies, *computed), allocated)
    _check_unique(made)
    return made.with_attr("composable", 1) if len(rules) > 1 else made


def _check_unique(func: PrimFunc) -> None:
    """Refuse two things of one name."""
    iterations = [stmt for stmt in root_parts(func)[0] if isinstance(stmt, SparseIteration)]
    for what, names in (
        ("parameters", [param.name for param in func.params]),
        ("axes", axis_names(func)),
        ("buffers", [buffer.name for buffer in func.buffers]),
        ("iterations", [stmt.name for stmt in iterations]),
    ):
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"two {what} would have the name {name!r}", hint="rename the rule")


# ---------------------------------------------------------------------------- copies


def _copies(rule: AppliedRule) -> list[SparseIteration]:
    """The iterations that fill the part from the whole."""
    return [_copy(rule, old, new) for old, new in rule.buffers.items()]


def _copy(rule: AppliedRule, old: SparseBuffer, new: SparseBuffer) -> SparseIteration:
    """The elements of a buffer from those of the old one at the same coordinates."""
    if old.default is not new.default:
        raise UserError(
            f"padding of {new.name!r} is {new.default}, but elements that {old.name!r} lacks are "
            f"{old.default}, so that a copy does not have the values of the part",
            hint="include_format_rewrite_blks=False, and values by convert_by_rule",
        )
    items = tuple(SpIterVar(Var(axis.name.lower(), axis.idtype), axis) for axis in new.axes)
    places = copy_places(rule, old, items)
    value = BufferLoad(old, [places.coordinates[axis.name] for axis in old.axes])
    store = BufferStore(new, value, tuple(item.var for item in items))
    return SparseIteration(items, f"rewrite_{new.name}", store, None, {PREPROCESS: True})


# ---------------------------------------------------------------------------- iterations


def _in_parts(stmt: Stmt, rules: Sequence[AppliedRule], program: Iterable[Stmt]) -> list[Stmt]:
    """A statement, or what replaces it if it accesses a rewritten buffer."""
    accessed = {buffer for buffer, _ in buffer_accesses(stmt)}
    about = [rule for rule in rules if not accessed.isdisjoint(rule.buffers)]
    if not about or is_no_op(stmt) or is_preprocess(stmt):
        return [stmt]
    if not isinstance(stmt, SparseIteration):
        raise UnsupportedError(
            f"only iterations run over parts; {first_line(stmt)!r} accesses what "
            f"rule {about[0].name!r} rewrites"
        )
    _check_agreement(stmt, about, accessed)
    others = [other for other in program if other is not stmt and not is_preprocess(other)]
    context = PartContext(stmt, len(about), {buffer for other in others for buffer in _read(other)})
    made = [part_iteration(rule, stmt.replace(body=renewed(stmt.body))) for rule in about]
    for part in made:
        check_part(part, context)
    parts = [part.stmt for part in made]
    start = _start(stmt, about, made[0].places)
    if start is None:
        return list(parts)
    marked = {INITIALIZED_BY: start.name}
    return [start, *(part.replace(annotations={**part.annotations, **marked}) for part in parts)]


def _check_agreement(
    stmt: SparseIteration, rules: Sequence[AppliedRule], accessed: set[Buffer]
) -> None:
    """Refuse rules of which each would rewrite something else of one iteration."""
    first = rules[0]
    for rule in rules[1:]:
        for what, mine, theirs in (
            ("buffers", accessed & first.buffers.keys(), accessed & rule.buffers.keys()),
            ("axes", set(first.axes.values()), set(rule.axes.values())),
        ):
            if mine != theirs:
                raise UnsupportedError(
                    f"rules {first.name!r} and {rule.name!r} rewrite other {what} of iteration "
                    f"{stmt.name!r}; its parts must be parts of one thing",
                    hint="decompose twice, once for each",
                )


def _read(stmt: Stmt) -> set[Buffer]:
    """The buffers that a statement reads."""
    return {load.buffer for load in collect_exprs(stmt, BufferLoad)}


def _start(
    stmt: SparseIteration, rules: Sequence[AppliedRule], places: PartPlaces
) -> SparseIteration | None:
    """The iteration that does the init for all parts; None if parts may do it themselves."""
    if stmt.init is None or INITIALIZED_BY in stmt.annotations:
        return None
    stored = {store.buffer for store in collect(stmt.init, BufferStore)}
    rewritten = stored & rules[0].buffers.keys()
    if rewritten and rewritten != stored:
        names = ", ".join(sorted(buffer.name for buffer in rewritten))
        raise UnsupportedError(
            f"the init of iteration {stmt.name!r} is for {names}, of which each part has its own "
            "elements, and for others, which all parts share",
            hint="write them in two iterations",
        )
    if rewritten:
        return None
    spatial = [item for item in stmt.sp_iter_vars if not item.is_reduction]
    replaced = [name for name, axis in rules[0].axes.items() if axis in {i.axis for i in spatial}]
    if len(rules) == 1 and covers_once(rules[0], places, replaced):
        return None
    items = with_parents(stmt, spatial)
    fresh = {item.var: item.var.with_name(item.var.name) for item in items}
    own = tuple(item.replace(var=fresh[item.var], is_reduction=False) for item in items)
    body = substitute_stmt(renewed(stmt.init), dict(fresh))
    return SparseIteration(own, f"{stmt.name}_init", body, None, span=stmt.span)
