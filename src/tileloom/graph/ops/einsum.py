"""Einstein summation, expanded to transposes, sums and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.errors import ShapeError, UserError
from ..nodes import Tensor
from . import reduce
from .binary import mul
from .common import builder, product
from .composite import build, define_composite
from .matmul import matmul
from .rearrange import diagonal
from .shape import reshape, transpose


@dataclass(frozen=True, slots=True)
class EinsumTerm:
    """A tensor whose axes have labels."""

    value: Tensor
    labels: str


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result; `...` becomes capital Greek letters.

    >>> parse("ij,jk", [2, 2])
    (['ij', 'jk'], 'ik')
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UserError(f"{equation!r} names {len(terms)} operands, got {len(ranks)}")
    spans = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, span, rank in zip(terms, spans, ranks, strict=True):
        letters = term.replace("...", "")
        if span < 0 or (span > 0 and "..." not in term) or not (letters.isalpha() or not letters):
            raise ShapeError(f"{term!r} in {equation!r} does not fit {rank} dimensions")
    dots = "".join(chr(0x391 + k) for k in range(max(spans, default=0)))
    inputs = [
        term.replace("...", dots[len(dots) - span :] if span else "")
        for term, span in zip(terms, spans, strict=True)
    ]
    if arrow:
        return inputs, right.replace("...", dots)
    every = "".join(inputs)
    once = sorted(c for c in set(every) if every.count(c) == 1 and c not in dots)
    return inputs, dots + "".join(once)


def _without_repeats(term: EinsumTerm) -> EinsumTerm:
    """The diagonal of axes that share a label."""
    value, labels = term.value, term.labels
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if value.shape[first] != value.shape[second]:
                raise ShapeError(f"label {label!r} stands for two extents of {value.type}")
            value = diagonal(value, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return EinsumTerm(value, labels)


def _sum_out(term: EinsumTerm, keep: str) -> EinsumTerm:
    axes = [k for k, label in enumerate(term.labels) if label not in keep]
    if not axes:
        return term
    return EinsumTerm(reduce.sum(term.value, axes), "".join(c for c in term.labels if c in keep))


def _arrange(term: EinsumTerm, labels: str, shape: Sequence[int]) -> Tensor:
    order = [term.labels.index(label) for label in labels]
    return reshape(transpose(term.value, order), shape)


def _pair(a: EinsumTerm, b: EinsumTerm, keep: str) -> EinsumTerm:
    """The product of two terms, summed over the labels that nobody needs any more."""
    a, b = _sum_out(a, b.labels + keep), _sum_out(b, a.labels + keep)
    size = dict(zip(a.labels, a.value.shape, strict=True))
    for label, extent in zip(b.labels, b.value.shape, strict=True):
        known = size.setdefault(label, extent)
        if 1 in (known, extent) and known != extent:
            return _pair(*_without_units(a, b, label), keep)
        if known != extent:
            raise ShapeError(f"label {label!r} stands for extents {known} and {extent}")
    both = [label for label in a.labels if label in b.labels]
    batch = "".join(label for label in both if label in keep)
    inner = "".join(label for label in both if label not in keep)
    rows = "".join(label for label in a.labels if label not in b.labels)
    columns = "".join(label for label in b.labels if label not in a.labels)

    def extents(labels: str) -> list[int]:
        return [size[label] for label in labels]

    if not inner and not (rows and columns):
        # Nothing to sum over: a product element by element.
        wide = batch + rows + columns
        at = [[size[c] if c in t.labels else 1 for c in wide] for t in (a, b)]
        left = _arrange(a, "".join(c for c in wide if c in a.labels), at[0])
        right = _arrange(b, "".join(c for c in wide if c in b.labels), at[1])
        return EinsumTerm(mul(left, right), wide)
    m, k, n = (product(extents(labels)) for labels in (rows, inner, columns))
    left = _arrange(a, batch + rows + inner, [*extents(batch), m, k])
    right = _arrange(b, batch + inner + columns, [*extents(batch), k, n])
    result = reshape(matmul(left, right), extents(batch + rows + columns))
    return EinsumTerm(result, batch + rows + columns)


def _without_units(a: EinsumTerm, b: EinsumTerm, label: str) -> tuple[EinsumTerm, EinsumTerm]:
    """Both terms, where the one with extent 1 along the label loses it (it is broadcast)."""

    def drop(term: EinsumTerm) -> EinsumTerm:
        axis = term.labels.index(label)
        if term.value.shape[axis] != 1:
            return term
        shape = [*term.value.shape[:axis], *term.value.shape[axis + 1 :]]
        return EinsumTerm(reshape(term.value, shape), term.labels.replace(label, ""))

    return drop(a), drop(b)


def _einsum(*tensors: Tensor, equation: str) -> Tensor:
    inputs, output = parse(equation, [tensor.ndim for tensor in tensors])
    known = set("".join(inputs))
    if set(output) - known or len(set(output)) != len(output):
        raise UserError(f"the result of {equation!r} must name labels of its operands, each once")
    terms = [
        _without_repeats(EinsumTerm(t, labels)) for t, labels in zip(tensors, inputs, strict=True)
    ]
    current = terms[0]
    for position, term in enumerate(terms[1:], 1):
        later = "".join(other.labels for other in terms[position + 1 :])
        current = _pair(current, term, output + later)
    current = _sum_out(current, output)
    return transpose(current.value, [current.labels.index(label) for label in output])


define_composite("einsum", _einsum, lambda *arrays, equation: np.einsum(equation, *arrays))


@builder
def einsum(equation: str, *tensors: Tensor) -> Tensor:
    """The sum of products that an equation such as "bij,bjk->bik" describes."""
    if not tensors:
        raise UserError("needs at least one operand")
    return build("einsum", *tensors, equation=equation)
