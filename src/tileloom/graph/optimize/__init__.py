"""Simplifications of a graph: folding, sharing, dropping, and rules in classes of safety.

By default only what never changes a result is done. `docs/graph.md` lists the rules.
"""

from __future__ import annotations

from time import perf_counter

from ...base.settings import settings
from ..nodes import Graph
from .folding import constant_node
from .keys import freeze
from .options import Options, check_names, parse_options
from .pipeline import NAMES, PIPELINE, RULES
from .report import OptimizeReport, PassRecord
from .rewriter import rewrite
from .rule import index_of

__all__ = [
    "PIPELINE", "RULES", "OptimizeReport", "Options", "PassRecord", "constant_node", "freeze",
    "optimize", "parse_options",
]  # fmt: skip


def optimize(
    graph: Graph, options: Options | str | None = None, report: OptimizeReport | None = None
) -> Graph:
    """The graph simplified: constants folded, equal nodes shared, the rules that are on applied.

    What nobody needs is left out.

    Args:
        options: a class of safety and names of rules and families with + or - in front, as in
            "finite-only,-sub-self,+log-of-exp"; the setting TILELOOM_OPTIMIZE unless told.
        report: receives what was done.

    Raises:
        UserError: for a name in the options that no rule has.

    >>> import numpy as np
    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import Tensor, tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> two = ops.add(ops.constant(np.float32(1)), ops.constant(np.float32(1)))
    >>> [node.op.name for node in optimize(Graph([x], [ops.mul(x, two)])).nodes]
    ['constant', 'mul']
    >>> log = Graph([x], [ops.log(ops.exp(x))])
    >>> len(optimize(log).nodes), len(optimize(log, "reassociating").nodes)
    (2, 0)
    """
    if not isinstance(options, Options):
        options = parse_options(settings().optimize if options is None else options)
    if options.names:
        check_names(options, NAMES)
    start = perf_counter()
    record = None
    if report is not None:
        record = PassRecord("simplify", 0.0, len(graph.nodes), 0)
        report.passes.append(record)
    result = rewrite(
        graph, index_of(RULES, options), record,
        share=options.allows_family("share"), fold=options.allows_family("fold"),
    )  # fmt: skip
    if record is not None:
        record.seconds, record.after = perf_counter() - start, len(result.nodes)
    return result
