"""One vocabulary: no name in the sources has a retired word, and no class name has two meanings.

`docs/glossary.md` has the words that are used instead. A word is retired as a
name, and as part of one; in prose it may be plain English.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from source_trees import parse, statements

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "tileloom"
DOCS = ROOT / "docs"

# Words that no name may have as a part, and what to say instead.
RETIRED = {
    **dict.fromkeys(("formula", "formulas"), "compute rule, elementwise, size expression"),
    **dict.fromkeys(("turned", "turning"), "transposed"),
    **dict.fromkeys(("touch", "touched", "touches", "touching"), "access"),
    **dict.fromkeys(("meet", "meets", "met", "meeting", "meetings"), "conflict, hazard, barrier"),
    **dict.fromkeys(("crew", "crews"), "thread batch"),
    **dict.fromkeys(("strand", "strands"), "independent warp"),
    **dict.fromkeys(("cluster", "clusters"), "fusion group"),
    "beside": "horizontal fusion",
    **dict.fromkeys(("digit", "digits"), "split (of an iterator)"),
    **dict.fromkeys(("bag", "bags"), "multiset"),
    "prints": "fingerprints",
    "patience": "livelock detection",
}
# Whole names that are retired; their words are in use.
RETIRED_NAMES = {
    "Cell": "FusionGroup",
    "Cells": "FusionGroup",
    "Choices": "dispatch by shape",
    "Family": "PolymorphicExecutable",
    "Head": "parallel loop",
    "Print": "Fingerprint",
    "Recipe": "SerializedExecutable",
    "lacks_rows": "too little parallelism",
    "share_out": "parallelize, bind",
    "side_by_side": "horizontal fusion",
    "vector_choices": "vector_argmax",
    "vector_totals": "vector_accumulators",
}
# Where a retired word stays: paths from src/tileloom, words, and why.
ALLOWED: tuple[tuple[str, frozenset[str], str], ...] = (
    ("codegen/nvptx/hopper.py", frozenset({"cluster"}), "CUDA's clusters of blocks"),
    ("codegen/vmath/huge.py", frozenset({"digits"}), "digits of 2/pi"),
    ("target/description.py", frozenset({"digits"}), "the digits of `sm_90`"),
    ("graph/optimize/casts.py", frozenset({"digits"}), "the binary digits of a type's numbers"),
    ("compat/tvm/meta_schedule/", frozenset({"touch"}), "`touch_task` of TVM"),
    ("runtime/cache.py", frozenset({"touch"}), "as of `touch`, for the time of a file"),
)
# Names that several classes have, and why: to be renamed, or deleted, not to be added to. Those of
# `compat/` are other systems' names for ours; a private class (`_Name`) is known in one file alone.
SHARED_NAMES = {
    **dict.fromkeys(
        ("Backend", "Call", "Model"),
        "front ends have their own, and do not know each other",
    ),
    **dict.fromkeys(
        ("Frame", "Space"),
        "the verifier of schedules has a model of what the others are",
    ),
    **dict.fromkeys(
        ("Machine", "Operand", "Product"),
        "parts that know nothing of each other have their own",
    ),
    **dict.fromkeys(("Op", "Tensor"), "of tensor IR, and of graphs"),
    **dict.fromkeys(
        ("Block", "Operation", "TensorType", "Value"),
        "of MLIR's SSA form, whose names `tile` keeps",
    ),
    "Record": "in `base` what nodes are derived from, in `tune` what was measured, as in TVM",
}  # fmt: skip

NAMING = {
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg),
    *(ast.Name, ast.Attribute, ast.MatchAs, ast.MatchStar, ast.alias),
}


@cache
def trees() -> dict[str, ast.Module]:
    """The sources, by their paths from src/tileloom."""
    paths = sorted(SOURCES.rglob("*.py"))
    return {path.relative_to(SOURCES).as_posix(): parse(path) for path in paths}


@cache
def names(path: str) -> tuple[tuple[str, int], ...]:
    """What `defined` finds in a file of the sources, by its path from src/tileloom."""
    return tuple(defined(trees()[path]))


def defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a file gives to something, and the line."""
    for node in ast.walk(tree):
        if type(node) not in NAMING:
            continue  # most nodes
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case _:
                pass


@cache
def words(name: str) -> frozenset[str]:
    """The words of a name.

    >>> sorted(words("_find_FusionGroups2")), sorted(words("HTTPServer"))
    (['find', 'fusion', 'groups2'], ['http', 'server'])
    """
    apart = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3_\2\4", name)
    return frozenset(word.lower() for word in apart.split("_") if word)


def complaints(path: str, defined: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The names of a file, and of its folder and the file itself, that have retired words."""
    for name, line in (*((part, 0) for part in Path(path).with_suffix("").parts), *defined):
        better = RETIRED_NAMES.get(name)
        for word in words(name) & RETIRED.keys():
            allowed = any(path.startswith(place) and word in some for place, some, _ in ALLOWED)
            better = better or (None if allowed else RETIRED[word])
        if better is not None:
            yield f"{path}:{line}: {name}; say {better}"


def classes(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files in which there is a public class of a name."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for node in statements(trees()[path]):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return found


def own_classes() -> dict[str, list[str]]:
    return classes(path for path in trees() if not path.startswith("compat/"))


def test_no_name_has_a_retired_word() -> None:
    found = [text for path in trees() for text in complaints(path, names(path))]
    assert not found, "\n" + "\n".join(sorted(set(found)))


@pytest.mark.parametrize(
    ("place", "some", "reason"), ALLOWED, ids=[place for place, _, _ in ALLOWED]
)
def test_no_exception_is_idle(place: str, some: frozenset[str], reason: str) -> None:
    """What is allowed is still there: the list only shrinks."""
    assert reason
    there = {
        word
        for path in trees()
        if path.startswith(place)
        for name, _ in names(path)
        for word in words(name)
    }
    idle = some - there if some != RETIRED.keys() or not there & some else frozenset()
    assert not idle, f"take {sorted(idle)} at {place} off the list"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def formula(x): ...", "formula"),
        ("def f(turned_left): ...", "turned_left"),
        ("class SharedTouch: ...", "SharedTouch"),
        ("self.meetings = 1", "meetings"),
        ("for crew in batches: ...", "crew"),
        ("match x:\n    case [Node() as strand]: ...", "strand"),
        ("from a import b as bags", "bags"),
        ("class Family: ...", "Family"),
        ("share_out = 1", "share_out"),
    ],
)
def test_a_retired_word_is_seen(text: str, name: str) -> None:
    (found,) = complaints("base/new.py", defined(ast.parse(text)))
    assert found.split(": ", 1)[1].startswith(f"{name}; say ")


def test_files_are_named_too() -> None:
    assert list(complaints("lower/thread_meetings.py", ()))
    assert not list(complaints("codegen/nvptx/hopper.py", [("set_cluster", 1)]))
    assert list(complaints("codegen/emitter.py", [("set_cluster", 1)]))


def test_a_class_name_has_one_meaning() -> None:
    several = {name: paths for name, paths in own_classes().items() if len(paths) > 1}
    new = {name: paths for name, paths in several.items() if name not in SHARED_NAMES}
    assert not new, "\n" + "\n".join(f"{name}: {', '.join(paths)}" for name, paths in new.items())
    idle = SHARED_NAMES.keys() - several.keys()
    assert not idle, f"these names are used once: {sorted(idle)}"


# ---------------------------------------------------------------------------- the pages


def test_the_glossary_says_where_things_are() -> None:
    text = (DOCS / "glossary.md").read_text()
    places = re.findall(r"`([a-z_]+/[\w/.]*)`", text)
    assert len(places) > 60
    gone = [place for place in places if not (SOURCES / place).exists() and place[:6] != "tests/"]
    assert not gone


def test_no_term_of_the_glossary_is_retired() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(terms) > 60
    found = {word for term in terms for word in re.findall(r"\w+", term.lower())}
    assert found & RETIRED.keys() == {"cluster"}  # of CUDA


def test_the_index_has_every_page_once() -> None:
    text = (DOCS / "README.md").read_text()
    linked = re.findall(r"\]\(([\w-]+\.md)\)", text)
    assert sorted(linked) == sorted(
        page.name for page in DOCS.glob("*.md") if page.stem != "README"
    )
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
        "Guide", "GPUs", "Internals", "Reference",
    ]  # fmt: skip
