"""Both pages of a trace that is made by hand, to the letter."""

from __future__ import annotations

from collections import Counter

from tileloom.graph.optimize import PassRecord
from tileloom.report import to_html, to_text
from tileloom.report.trace import ProgramTrace, TracedKernel, TraceStage
from tileloom.target import Target

TYPE, TARGET = "float32[4]", Target.host()


def trace(**parts: object) -> ProgramTrace:
    return ProgramTrace("net", TARGET, **parts)  # type: ignore[arg-type]


STAGES = [
    TraceStage("imported", "as it came", ("%0 = exp(x)", "%1 = neg(%0)"), "2 nodes", 0.25),
    TraceStage("optimized", "", ("%3 = exp(x)",), "1 node", 0.0015, ("a note",)),
    TraceStage("laid out", "", ("%4 = exp(x)",), "1 node", 0.0),
]
PASS = PassRecord("algebra", 0.0015, 2, 1, Counter({"neg-of-neg": 3}), Counter({"fold": 1}))
KERNELS = [
    TracedKernel("k0_exp", 2, ("exp", "neg"), (TYPE,), (TYPE, TYPE), nbytes=1500),
    TracedKernel("sort", 1, ("sort",), (TYPE,), (TYPE,), host=True),
    TracedKernel("zero", 1, ()),
]
HOST = [TracedKernel("sort<1>", 3, ("sort",), (TYPE, "a"), (TYPE,), host=True, nbytes=2_000_000)]


def test_text() -> None:
    found = trace(stages=STAGES, passes=[PASS], kernels=KERNELS, refusals=["far", "near", "far"])
    head = str(TARGET)
    assert to_text(found).split("\n") == [
        f"net for {head}",
        "", "imported: as it came (250.0 ms)", "  2 nodes",
        "", "optimized (1.5 ms)", "  1 node", "  | a note",
        "      3 x neg-of-neg", "      1 x fold held back: its parts have other readers",
        "", "laid out (0.0 ms)", "  1 node",
        "", "kernels: 3, called 4 times, moving 3 kB",
        "  k0_exp x2, moving 1.5 kB", "      exp neg", f"      {TYPE} -> {TYPE}, {TYPE}",
        "  sort (on the host)", "      sort", f"      {TYPE} -> {TYPE}",
        "  zero",
        "", "not fused: 3 pairs of kernels", "  far  x2", "  near",
    ]  # fmt: skip


def test_changes() -> None:
    text = to_text(trace(stages=STAGES), changes=True)
    assert text.endswith(
        "optimized (1.5 ms)\n  1 node\n  | a note\n   %3 = exp(x)\n - %1 = neg(%0)\n"
        "\nlaid out (0.0 ms)\n  1 node\n   ... 1 lines as before"
    )


def test_many_refusals_are_counted() -> None:
    forty = [f"reason {k}" for k in range(40)]
    assert to_text(trace(refusals=forty)).endswith("  reason 38\n  reason 39")
    more = to_text(trace(refusals=[*forty, "x", "y"]))
    assert more.endswith("  reason 39\n  ... and 2 more kinds")


def test_a_page_of_nothing() -> None:
    assert to_text(trace()) == f"net for {TARGET}"
    page = to_html(trace())
    assert page.count("<h2>") == 1 and "<h2>Stages</h2>\n</body>" in page


def test_stages_of_a_page() -> None:
    page = to_html(trace(stages=STAGES, passes=[PASS]))
    first, second, third = page.split("<details><summary><b>")[1:]
    assert first.startswith('imported</b> as it came <span class="dim">2 nodes; 250.0 ms</span>')
    assert "changes since" not in first and "%1 = neg(%0)" in first
    assert "optimized</b>" in second and "<pre>a note</pre><details open>" in second
    assert '<span class="same">%3 = exp(x)</span><span class="gone">%1 = neg(%0)</span>' in second
    assert "changes since optimized" in third and '<p class="dim">none</p>' in third
    assert (
        "<tr><th>rule</th><th>times</th><th></th></tr>"
        "<tr><td>neg-of-neg</td><td>3</td><td></td></tr>"
        "<tr><td>fold</td><td>1</td><td>held back: its parts have other readers</td></tr>"
        "<tr><td>algebra</td><td>2 → 1</td><td>nodes in 1.5 ms</td></tr></table>"
    ) in third


def test_kernels_of_a_page() -> None:
    page = to_html(trace(kernels=HOST, refusals=["far", "near", "far"]))
    assert (
        "<h2>Kernels: 1, called 3 times, moving 6 MB</h2>"
        "<details><summary><code>sort&lt;1&gt;</code> ×3 "
        '<span class="dim">on the host; sort, moving 2 MB</span></summary>'
        f"<p><code>{TYPE}, a → {TYPE}</code></p></details>"
    ) in page
    assert (
        "<h2>Not fused: 3 pairs of kernels</h2><details open><summary>reasons</summary>"
        "<table><tr><th>times</th><th>reason</th></tr>"
        "<tr><td>2</td><td>far</td></tr><tr><td>1</td><td>near</td></tr></table></details>"
    ) in page
    once = to_html(trace(kernels=[TracedKernel("a", 1, ("b",), host=True)]))
    assert '<code>a</code> <span class="dim">on the host; b</span>' in once
