"""What a rule adds to a program: parameters, axes and buffers under names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..base.record import Record
from ..expr import Expr, IndexMap, Var, free_vars, substitute
from ..tir import Axis, Buffer, BufferDomain, SparseBuffer, buffer_exprs
from .format_rule import FormatRewriteRule, sparse_buffers

AnyBuffer = TypeVar("AnyBuffer", bound=Buffer)


class FormatPart(Record):
    """The description of a rule with the rule's suffix at all names.

    Attributes:
        rule: the rule.
        params: the description's parameters, in order.
        buffer_map: the buffers of these.
        axes: the axes by the names that they have in the description, in order.
        buffers: the rewritten buffers by the names that they have in the description.
        domains: what is known of values.
        idx_map: of the rule, over the new parameters if it uses those of the description.
        inv_idx_map: likewise.
    """

    rule: FormatRewriteRule
    params: tuple[Var, ...]
    buffer_map: Mapping[Var, Buffer]
    axes: Mapping[str, Axis]
    buffers: Mapping[str, SparseBuffer]
    domains: tuple[BufferDomain, ...]
    idx_map: IndexMap
    inv_idx_map: IndexMap

    def axes_of(self, old: str) -> list[Axis]:
        """The axes in place of an old one."""
        return [self.axes[name] for name in self.rule.axis_map[old]]

    @property
    def mapped(self) -> list[Axis]:
        """The axes in the order of the coordinates of `inv_idx_map`."""
        return [self.axes[name] for name in self.rule.axes_after_rewrite]


def format_part(rule: FormatRewriteRule) -> FormatPart:
    """The description of a rule under names of its own."""
    func = rule.new_format_desc
    renamed = _Suffixed(rule.suffix, func.sp_axes, func.params)
    buffer_map = {
        renamed.var(param): renamed.buffer(buffer) for param, buffer in func.buffer_map.items()
    }
    buffers = sparse_buffers(func)
    domains = [
        BufferDomain(renamed.buffer(d.buffer), renamed.expr(d.low), renamed.expr(d.high))
        for d in func.buffer_domains
    ]
    return FormatPart(
        rule,
        tuple(map(renamed.var, func.params)),
        buffer_map,
        {axis.name: renamed.axis(axis) for axis in func.sp_axes},
        {name: renamed.buffer(buffers[name]) for name in rule.buffers_to_rewrite},
        tuple(domains),
        renamed.map(rule.idx_map),
        renamed.map(rule.inv_idx_map),
    )


class _Suffixed:
    """Variables, axes and buffers with a suffix at their names."""

    def __init__(self, suffix: str, axes: Iterable[Axis], params: Sequence[Var]) -> None:
        self.suffix = suffix
        self.vars: dict[Var, Expr] = {}
        self.axes: dict[Axis, Axis] = {}
        self.buffers: dict[Buffer, Any] = {}
        for axis in axes:  # a count that an axis brings about is named after the axis
            nnz = axis.nnz
            if isinstance(nnz, Var) and nnz not in params and nnz.name == f"{axis.name}_nnz":
                self.vars[nnz] = nnz.with_name(f"{axis.name}{suffix}_nnz")

    def var(self, var: Var) -> Var:
        found = self.vars.get(var)
        if not isinstance(found, Var):
            found = self.vars[var] = var.with_name(f"{var.name}{self.suffix}")
        return found

    def expr(self, expr: Expr) -> Expr:
        for var in free_vars(expr):
            self.var(var)
        return substitute(expr, self.vars)

    def axis(self, axis: Axis) -> Axis:
        found = self.axes.get(axis)
        if found is None:
            found = self.axes[axis] = axis.replace(
                name=f"{axis.name}{self.suffix}",
                length=self.expr(axis.length),
                nnz=self.expr(axis.nnz),
                parent=None if axis.parent is None else self.axis(axis.parent),
                nnz_cols=None if axis.nnz_cols is None else self.expr(axis.nnz_cols),
                indptr=None if axis.indptr is None else self.var(axis.indptr),
                indices=None if axis.indices is None else self.var(axis.indices),
            )
        return found

    def buffer(self, buffer: AnyBuffer) -> AnyBuffer:
        found: AnyBuffer | None = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = self._made(buffer)
        return found

    def _made(self, buffer: AnyBuffer) -> AnyBuffer:
        for expr in buffer_exprs(buffer):
            self.expr(expr)
        offset = buffer.elem_offset
        made = buffer.replace(
            data=self.var(buffer.data),
            name=f"{buffer.name}{self.suffix}",
            shape=tuple(map(self.expr, buffer.shape)),
            strides=tuple(map(self.expr, buffer.strides)),
            elem_offset=None if offset is None else self.expr(offset),
        )
        if not isinstance(made, SparseBuffer):
            return made
        extra, default = made.extra_storage, made.default_value
        return made.replace(
            axes=tuple(map(self.axis, made.axes)),
            extra_storage=None if extra is None else self.expr(extra),
            default_value=None if default is None else self.expr(default),
        )

    def map(self, given: IndexMap) -> IndexMap:
        """A map over the new names of the variables of the description that it uses."""
        finals = [substitute(final, self.vars) for final in given.final_indices]
        return IndexMap(given.initial_indices, finals)
