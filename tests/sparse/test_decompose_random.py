"""Random programs over random parts: what decomposition accepts computes what the whole does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from sparse_rules import (
    bsr_rule,
    csc_rule,
    dcsr_rule,
    dia_rule,
    ell_rule,
    padded_rule,
    renamed,
    with_parts,
)
from tileloom.base.errors import UnsupportedError
from tileloom.sparse.decompose import format_decompose
from tileloom.sparse.format_rule import FormatRewriteRule
from tileloom.sparse.rule_arrays import convert_by_rule
from tileloom.sparse.run import run

HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, d: T.handle, e: T.handle, indptr: T.handle,
         indices: T.handle, m: T.int32, n: T.int32, feat: T.int32, nnz: T.int32):
    T.func_attr({"global_symbol": "main", "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, K], "float32")
    D = T.match_sparse_buffer(d, [I, J], "float32")
    E = T.match_sparse_buffer(e, [J_detach], "float32")
"""
PLACES = ("C[i, k]", "C[i, k]", "C[i, 0]", "D[i, j]", "E[j]", "C[i, 1]")
LEAVES = ("A[i, j]", "A[i, j]", "B[j, k]", "1.0", "0.0", "A[j, i]", "D[i, j]")


class Draw:
    """Random text."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def one(self, things: Any) -> Any:
        return things[self.random.integers(len(things))]

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def expr(self, depth: int, extra: tuple[str, ...] = ()) -> str:
        if depth == 0 or self.chance(0.3):
            return str(self.one(LEAVES[: 5 + 2 * self.chance(0.2)] + extra))
        a, b = self.expr(depth - 1, extra), self.expr(depth - 1, extra)
        found = self.one(
            (
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * {b})",
                f"({a} * {b})",
                f"T.max({a}, {b})",
                f"T.min({a}, {b})",
                f"T.if_then_else({a} < {b}, {a}, {b})",
            )
        )
        return str(found)

    def store(self, place: str) -> str:
        if self.chance(0.1):
            return f"{place} = {self.expr(2, (place,))}"
        if self.chance(0.1):
            return f"{place} = {self.expr(2)}"
        operation = self.one(("{} + {}", "{} + {}", "{} - {}", "T.max({}, {})", "{} * {}"))
        value = self.expr(2) if self.chance(0.4) else f"{self.expr(1)} * A[i, j]"
        return f"{place} = {operation.format(place, value)}"

    def program(self) -> str:
        axes, kinds, names = self.one(
            (("I, J, K", "SRS", "i, j, k"), ("K, I, J", "SSR", "k, i, j"))
        )
        places = [self.one(PLACES) for _ in range(self.one((1, 1, 2)))]
        lines = [f'    with T.sp_iter([{axes}], "{kinds}", "go") as [{names}]:']
        started = [place for place in places if "j" not in place and self.chance(0.7)]
        if started:
            lines.append("        with T.init():")
            lines += [f"            {place} = {self.one((0.0, 2.0))}" for place in started]
        for place in places:
            indent = "        "
            if self.chance(0.15):
                lines.append(f"{indent}if {self.expr(1)} < {self.expr(1)}:")
                indent += "    "
            lines.append(indent + self.store(place))
        return HEAD + "\n".join(lines) + "\n"

    def rules(self, m: int) -> list[FormatRewriteRule]:
        makers = (
            lambda name: bsr_rule(2, name),
            lambda name: bsr_rule(1, name),
            csc_rule,
            csc_rule,
            dcsr_rule,
            lambda name: ell_rule(8, name),
        )
        if self.chance(0.1):
            return [self.one((dia_rule(m), padded_rule(2)))]
        rules = [self.one(makers)(f"r{k}") for k in range(self.one((1, 2, 2, 3)))]
        return list(map(of_both, rules)) if self.chance(0.4) else rules


def of_both(rule: FormatRewriteRule) -> FormatRewriteRule:
    """The rule for D as well as A."""
    text = str(rule.new_format_desc).replace("main(", "main(d: T.handle, ")
    (line,) = [line for line in text.splitlines() if line.startswith("    A = ")]
    other = line.replace("A = ", "D = ").replace("(a,", "(d,")
    return FormatRewriteRule(
        rule.name,
        renamed(text.replace(line, f"{line}\n{other}")),
        ["A", "D"],
        rule.axes_before_rewrite,
        rule.axes_after_rewrite,
        rule.axis_map,
        rule.idx_map,
        rule.inv_idx_map,
    )


def attempt(seed: int) -> str:
    """What comes of a program: how it is refused, or that it is right."""
    draw = Draw(seed)
    func = renamed(draw.program())
    m, n, feat = int(draw.random.integers(1, 6)), int(draw.random.integers(2, 7)), 2
    rows, columns = np.nonzero(draw.random.random((m, n)) < draw.random.random())
    rules = draw.rules(m)
    try:
        made = format_decompose(func, rules, include_format_rewrite_blks=False)
    except UnsupportedError as refusal:
        return refusal.message.split(":")[1][:20]

    def numbers(*shape: int) -> Any:
        return draw.random.integers(-2, 3, shape).astype("float32")

    a = numbers(len(rows))
    arguments: dict[str, Any] = {"a": a, "b": numbers(n, feat), "c": numbers(m, feat)}
    arguments |= {"d": numbers(len(rows)), "e": numbers(n), "m": m, "n": n, "feat": feat}
    arguments["indptr"] = np.searchsorted(rows, np.arange(m + 1)).astype("int32")
    arguments |= {"indices": columns.astype("int32"), "nnz": len(rows)}
    owner = draw.random.integers(0, len(rules), len(rows))
    parts = {}
    for number, rule in enumerate(rules):
        which = owner == number
        values = {name: arguments[name.lower()][which] for name in rule.buffers_to_rewrite}
        parts[rule.name] = convert_by_rule(
            rule, [rows[which], columns[which]], values, shape=(m, n)
        )
    whole = {name: np.copy(value) if name in "cde" else value for name, value in arguments.items()}
    run(func, *with_parts(func, whole, {}))
    named = {name: part.arguments for name, part in parts.items()}
    run(made, *with_parts(made, arguments, named))
    for number, rule in enumerate(rules):
        if "D" in rule.buffers_to_rewrite:  # the elements are where the parts are
            part = parts[rule.name]
            arguments["d"][owner == number] = part.slots.scatter(part.arguments["d"])
    for name in "cde":
        np.testing.assert_array_equal(arguments[name], whole[name], err_msg=f"seed {seed}")
    return "right"


def test_what_is_accepted_is_right() -> None:
    found = Counter(map(attempt, range(250)))
    assert found["right"] > 80, found
    assert len(found) > 5, found


@pytest.mark.slow
def test_what_is_accepted_is_right_of_many() -> None:
    assert Counter(map(attempt, range(1000, 11000)))["right"] > 2000
