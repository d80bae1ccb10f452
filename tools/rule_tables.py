"""The families and rules as Markdown, for the documentation."""

from __future__ import annotations

from tileloom.graph.optimize.pipeline import PIPELINE
from tileloom.graph.optimize.rule import KINDS, Rule

_BEGIN, _END = "<!-- rules: generated -->", "<!-- rules: end -->"


def rule_tables() -> str:
    """A table of the rules of each family."""
    parts = []
    for family in PIPELINE:
        parts.append(f"### `{family.name}`\n\n{family.about[0].upper()}{family.about[1:]}.")
        if family.rules:
            parts.append(_table(family.rules))
    return "\n\n".join(parts)


def _table(rules: tuple[Rule, ...]) -> str:
    lines = ["| id | no. | rule | floats | ints | bools | note |", "|---|---|---|---|---|---|---|"]
    for rule in rules:
        classes = " | ".join(rule.safety.get(kind, "-") for kind in KINDS)
        note = rule.note if rule.default else f"{rule.note}; off unless named"
        lines.append(f"| `{rule.id}` | {rule.source or ''} | `{rule.text}` | {classes} | {note} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """A page whose generated part is what the code says now.

    >>> with_tables(f"# Rules\\n{_BEGIN}\\nold\\n{_END}\\n").count("log-of-exp")
    1
    """
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{rule_tables()}\n{_END}{after}"
