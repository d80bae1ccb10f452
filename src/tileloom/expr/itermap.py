"""Detection of affine iteration maps: index expressions as splits of loop variables.

An index is *affine* when it is a sum of splits `var // lower % extent * scale` whose scales make it
run over a contiguous range. A list of indices is *surjective* when every combination of their
ranges is reached, and *bijective* when it is reached exactly once. Nothing is padded: where a
division leaves a remainder, the splits must still not depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from .analyzer import Analyzer
from .build import as_expr
from .itermap_check import check_mapping
from .itermap_nodes import IterMapResult, IterMark, IterSplitExpr, IterSumExpr
from .itermap_rewrite import IterMapRewriter, NotAffine
from .nodes import Cast, Expr, IntImm, Var, is_int
from .operators import ExprLike
from .reduction import Range

Level = str  # "bijective", "surjective" or "none"


def detect_iter_map(
    indices: Sequence[ExprLike],
    dom_map: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: Level = "surjective",
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """The indices as sums of splits of the variables in `dom_map`, where `predicate` holds.

    Args:
        check_level: "bijective", "surjective", or "none" for the decomposition alone.

    >>> i, j = Var("i"), Var("j"); domains = {i: Range(0, 8), j: Range(0, 4)}
    >>> bool(detect_iter_map([i * 4 + j], domains, check_level="bijective"))
    True
    >>> detect_iter_map([i, i + j], domains).errors
    ('the splits of i overlap: i is used as a whole more than once',)
    """
    exprs = [as_expr(index) for index in indices]
    analyzer = domain_analyzer(dom_map) if analyzer is None else _with_domains(analyzer, dom_map)
    first: tuple[str, ...] = ()
    for attempt in (exprs, [analyzer.simplify(expr) for expr in exprs]):
        result = _detect(attempt, dom_map, as_expr(predicate), check_level, analyzer)
        if result:
            return result
        first = first or result.errors
    return IterMapResult((), first)


def domain_analyzer(dom_map: Mapping[Var, Range]) -> Analyzer:
    """An analyzer that knows the domains."""
    return Analyzer(dom_map)


def _with_domains(analyzer: Analyzer, dom_map: Mapping[Var, Range]) -> Analyzer:
    inner = analyzer.copy()
    for var, domain in dom_map.items():
        inner.bind(var, domain)
    return inner


def _detect(
    exprs: Sequence[Expr],
    dom_map: Mapping[Var, Range],
    predicate: Expr,
    check_level: Level,
    analyzer: Analyzer,
) -> IterMapResult:
    rewriter = IterMapRewriter(dom_map, analyzer, check_level)
    try:
        rewriter.constrain(predicate)
        sums = tuple(rewriter.normalized(expr) for expr in exprs)
    except NotAffine as error:
        return IterMapResult((), (str(error),))
    if check_level != "none":
        errors = check_mapping(sums, rewriter, check_level)
        if errors:
            return IterMapResult((), tuple(errors))
    return IterMapResult(sums)


def normalize_iter_map_to_expr(
    value: IterSumExpr | IterSplitExpr | IterMark, analyzer: Analyzer | None = None
) -> Expr:
    """The expression that a sum, split or mark stands for.

    >>> i, j = Var("i"), Var("j"); domains = {i: Range(0, 8), j: Range(0, 4)}
    >>> normalize_iter_map_to_expr(detect_iter_map([(i * 4 + j) // 2], domains).indices[0])
    i * 2 + j // 2
    """
    analyzer = analyzer or Analyzer()
    match value:
        case IterMark(source, _):
            return (
                source if isinstance(source, Expr) else normalize_iter_map_to_expr(source, analyzer)
            )
        case IterSplitExpr():
            return analyzer.simplify(_split_expr(value, analyzer))
        case _:
            total = value.base
            for split in reversed(value.args):
                total = _split_expr(split, analyzer) + total
            return analyzer.simplify(total)


def _split_expr(split: IterSplitExpr, analyzer: Analyzer) -> Expr:
    mark = split.source
    source = normalize_iter_map_to_expr(mark, analyzer)
    end = analyzer.simplify(split.lower_factor * split.extent)
    if not analyzer.can_prove(end >= mark.extent):
        source = source % end
    if not is_int(split.lower_factor, 1):
        source = source // split.lower_factor
    return source * split.scale  # type: ignore[no-any-return]


def iter_map_simplify(
    indices: Sequence[ExprLike],
    dom_map: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: Level = "surjective",
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[Expr]:
    """The indices simplified through their affine view, which also sees what a predicate cuts off.

    Indices that are not affine are simplified one by one.
    """
    exprs = [as_expr(index) for index in indices]
    if not simplify_trivial_iterators:
        # A variable with a single value stays visible.
        known = Analyzer({v: d for v, d in dom_map.items() if not is_int(as_expr(d.extent), 1)})
        return [known.simplify(expr) for expr in exprs]
    known = domain_analyzer(dom_map) if analyzer is None else _with_domains(analyzer, dom_map)
    result = detect_iter_map(exprs, dom_map, predicate, check_level, analyzer)
    if not result:
        return [known.simplify(expr) for expr in exprs]
    return [normalize_iter_map_to_expr(total, known) for total in result.indices]


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[ExprLike], analyzer: Analyzer | None = None
) -> dict[Var, Expr]:
    """The variables in terms of the values of a bijective map.

    >>> i, j = Var("i"), Var("j"); k = Var("k")
    >>> found = detect_iter_map([i * 4 + j], {i: Range(0, 8), j: Range(0, 4)})
    >>> inverse_affine_iter_map(found.indices, [k])
    {i: k // 4, j: k % 4}
    """
    analyzer = analyzer or Analyzer()
    inputs: dict[int, Expr] = {}
    order: list[IterMark] = []
    for total, output in zip(iter_map, outputs, strict=True):
        _propagate(total, as_expr(output), inputs, order, analyzer)
    result: dict[Var, Expr] = {}
    for mark in _parents_first(order):
        value = analyzer.simplify(inputs[id(mark)])
        if isinstance(mark.source, Expr):
            _solve(mark.source, value, result, analyzer)
        else:
            _propagate(mark.source, value, inputs, [], analyzer)
    return dict(sorted(result.items(), key=lambda item: item[0].serial))


def _solve(source: Expr, value: Expr, result: dict[Var, Expr], analyzer: Analyzer) -> None:
    """`source` is a variable, or one minus the start of its range; either in a wider type."""
    wide = source if isinstance(source, Cast) else source.children[0] if source.children else None
    if isinstance(wide, Cast) and isinstance(wide.value, Var):
        narrow = analyzer.simplify(value - (source - wide)).astype(wide.value.dtype)
        result[wide.value] = narrow
        return
    (var,) = (v for v in _own_variables(source))
    result[var] = analyzer.simplify(value - (source - var))


def _own_variables(source: Expr) -> list[Var]:
    if isinstance(source, Var):
        return [source]
    return [child for child in source.children[:1] if isinstance(child, Var)]


def _split_values(total: IterSumExpr, rest: Expr, analyzer: Analyzer) -> list[Expr]:
    """The splits of a number; those of open bases one after another, so that they add up again."""
    args = total.args
    pairs = list(pairwise(args))
    if all(isinstance(split.scale, IntImm) for split in args) or not all(
        analyzer.can_prove_equal(upper.scale, lower.scale * lower.extent) for upper, lower in pairs
    ):
        return [
            (rest if is_int(split.scale, 1) else rest // split.scale) % split.extent
            if split is not args[0]
            else (rest if is_int(split.scale, 1) else rest // split.scale)
            for split in args
        ]
    values = []
    if args and not is_int(args[-1].scale, 1):
        rest = rest // args[-1].scale
    for split in reversed(args[1:]):
        values.append(rest % split.extent)
        rest = rest // split.extent
    return [rest, *reversed(values)]


def _propagate(
    total: IterSumExpr,
    output: Expr,
    inputs: dict[int, Expr],
    order: list[IterMark],
    analyzer: Analyzer,
) -> None:
    """Add what the value of a sum says about the marks in it."""
    values = _split_values(total, output - total.base, analyzer)
    for split, value in zip(total.args, values, strict=True):
        part = value * split.lower_factor
        mark = split.source
        known = inputs.get(id(mark))
        inputs[id(mark)] = part if known is None else known + part
        order.append(mark)


def _parents_first(roots: Sequence[IterMark]) -> list[IterMark]:
    """All marks, each after those whose sums it is in."""
    done: dict[int, IterMark] = {}

    def visit(mark: IterMark) -> None:
        if id(mark) in done:
            return
        if isinstance(mark.source, IterSumExpr):
            for split in mark.source.args:
                visit(split.source)
        done[id(mark)] = mark

    for root in roots:
        visit(root)
    return list(reversed(done.values()))


__all__ = [
    "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr", "detect_iter_map",
    "domain_analyzer", "inverse_affine_iter_map", "iter_map_simplify", "normalize_iter_map_to_expr",
]  # fmt: skip
