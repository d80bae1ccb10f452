"""Kernels without reductions: every output element by itself."""

from __future__ import annotations

from collections.abc import Mapping

from ... import compute as te
from ...expr import Expr
from ...tir import PARALLEL, SERIAL, Buffer, BufferStore, Stmt, seq
from .cluster import Cluster
from .frame import Frame
from .nest import guarded, parallel_nest, vector_loop


def formula_kernel(
    cluster: Cluster, buffers: Mapping[te.Tensor, Buffer], lanes: int, parallel: bool
) -> Stmt:
    """All stages of a cluster that reduces nothing, in one loop nest."""

    def element(at: list[Expr]) -> Stmt:
        frame = Frame(cluster.spatial, at, buffers)
        stores = []
        for member in cluster.members:
            where = frame.position(member.axes, member.stage.extents)
            for tensor, part in zip(member.tensors, member.body, strict=True):
                stores.append(BufferStore(buffers[tensor], frame.formula(part), (where,)))
        return seq(*stores)

    if not cluster.spatial:
        return element([])
    *outer, inner = cluster.spatial
    alone = all(axis.extent == 1 for axis in outer)

    def row(at: list[Expr]) -> Stmt:
        kind = PARALLEL if alone and parallel else SERIAL
        return vector_loop(
            inner.extent,
            lanes,
            lambda i, valid: guarded(valid, element([*at, i])),
            overlap=True,
            kind=kind,
        )

    return parallel_nest(outer, row, parallel and not alone)
