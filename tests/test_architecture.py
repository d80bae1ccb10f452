"""The plan of the house, checked against the sources: imports, walls, sizes, manners."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from source_trees import parse, statements

SOURCES = Path(__file__).resolve().parent.parent / "src" / "tileloom"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

# Which rooms each room may import; the rooms table of docs/architecture.md.
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "expr": {"base"},
    "target": {"base"},
    "tir": {"base", "expr", "target"},
    "script": {"base", "expr", "target", "tir"},
    "compute": {"base", "expr", "tir"},
    "schedule": {"base", "expr", "target", "tir", "script"},
    "graph": {"base", "expr", "target", "tir", "compute"},
    "records": {"base", "target", "tir"},
    "plan": {"base", "expr", "target", "tir", "schedule", "records"},
    "poly": {"base", "expr", "target", "tir", "schedule"},
    "sparse": {"base", "expr", "tir", "script", "schedule", "runtime"},
    "tile": {"base", "expr", "tir"},
    "lower": {"base", "expr", "target", "tir"},
    "codegen": {"base", "expr", "target", "tir"},
    "simt": {"base", "expr", "target", "tir", "lower"},
    "runtime": {"base", "target"},
    "tuner": {
        *("base", "expr", "target", "tir", "script", "schedule", "lower", "codegen", "runtime"),
        "records",
    },
}
# driver/ joins the rooms above; the doors stand on it.
ROOMS["driver"] = set(ROOMS)
ROOMS["frontend"] = {"base", "expr", "target", "graph", "sparse", "script", "runtime", "driver"}
ROOMS["numpy"] = {"base", "frontend"}
ROOMS["compat"] = set(ROOMS)
ROOMS["report"] = set(ROOMS)
ROOMS["cli"] = set(ROOMS)

# Third-party packages and where alone they may be imported: a folder, or one file of it.
WALLS: dict[str, tuple[str, ...]] = {
    "llvmlite": ("codegen/",),
    "islpy": ("poly/", "schedule/integer_sets.py"),
    "xgboost": ("tuner/",),
    "psycopg": ("records/",),
    "distributed": ("tuner/measure/executors.py",),
    "ray": ("tuner/measure/executors.py",),
    "cuda": ("runtime/",),
    "torch": ("frontend/torch.py", "frontend/torch/"),
    "sympy": ("frontend/torch/",),
    "onnx": ("frontend/onnx.py", "frontend/onnx/"),
    "scipy": ("frontend/sparse.py", "frontend/sparse/", "sparse/"),
    "rich": ("cli/", "report/"),
    "click": ("cli/",),
    "filecheck": ("tile/tools/filecheck.py",),
    "numpy": ("",),
    "ml_dtypes": ("",),
}
# Rooms, and rooms within rooms: others know what the door (`__init__`) lists, and nothing else.
CLOSED = (
    *("codegen", "compute", "driver", "report", "simt"),
    "schedule.verify",
    "lower.blocks",
    "lower.loops",
    "lower.vector",
    "lower.gpu",
    "codegen.nvptx",
)

# The command line checks and times against these peers when they are there.
PEERS = {"torch", "onnx", "onnxruntime"}
# Importing tileloom must not pull these in.
HEAVY = (
    *("llvmlite", "onnx", "onnxruntime", "torch", "islpy", "psycopg", "xgboost", "scipy"),
    *("rich", "click", "distributed", "ray", "filecheck"),
)
# Reading and printing a script must not pull these in: together they take several times as long.
NOT_FOR_SCRIPTS = (
    *("numpy", "ml_dtypes", "typing", "dataclasses", "inspect", "re", "importlib", "linecache"),
    *("ast", "collections", "contextlib", "enum", "functools"),
    *("tileloom.expr.simplifier", "tileloom.tir.analysis", "tileloom.base.settings"),
)


@dataclass(frozen=True)
class Import:
    """One imported name, made absolute: `tileloom.expr.nodes` or `numpy`."""

    target: str
    line: int
    inside_function: bool
    only_types: bool = False
    name: str = ""  # what is imported from the target, if not the target itself


@dataclass(frozen=True)
class Source:
    """One source file."""

    path: Path

    @property
    def relative(self) -> str:
        return self.path.relative_to(SOURCES).as_posix()

    @property
    def module(self) -> str:
        parts = ("tileloom", *self.path.relative_to(SOURCES).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        """The room's name; empty for the public face: files at the top."""
        parts = self.relative.split("/")
        return parts[0] if len(parts) > 1 else ""

    @property
    def tree(self) -> ast.Module:
        return parse(self.path)

    def imports(self) -> tuple[Import, ...]:
        """Every import of the file, those under `TYPE_CHECKING` and inside functions too."""
        return _imports_of(self)

    def find_imports(self, node: ast.AST, inside: bool, only_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, inside, only_types)
            elif isinstance(child, ast.ImportFrom):
                base = self._absolute(child)
                for alias in child.names:
                    name = f"{base}.{alias.name}"
                    is_module = name in modules() and alias.name not in listed(base)
                    of, what = (name, "") if is_module else (base, alias.name)
                    yield Import(of, child.lineno, inside, only_types, what)
            else:
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
                yield from self.find_imports(child, inside or is_function, only_types or types)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        package = self.module.split(".")
        if self.path.name != "__init__.py":
            package.pop()
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])


@cache
def _imports_of(source: Source) -> tuple[Import, ...]:
    return tuple(source.find_imports(source.tree, False, False))


@cache
def sources() -> tuple[Source, ...]:
    return tuple(Source(path) for path in sorted(SOURCES.rglob("*.py")))


@cache
def modules() -> dict[str, Source]:
    return {source.module: source for source in sources()}


@cache
def listed(module: str) -> frozenset[str]:
    """What the door of a closed room says others may use: its `__all__`."""
    closed = module.removeprefix("tileloom.") in CLOSED and module in modules()
    for node in modules()[module].tree.body if closed else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def test_there_is_something_to_check() -> None:
    assert {"tileloom", "tileloom.base"} <= modules().keys()


def test_rooms_table_is_a_dag() -> None:
    order = list(TopologicalSorter(ROOMS).static_order())
    assert set(order) == set(ROOMS)


def room_complaints(source: Source) -> Iterator[str]:
    if source.room == "":
        return  # the public face may open every door
    allowed = ROOMS.get(source.room)
    if allowed is None:
        yield f"room {source.room!r} is not in the rooms table"
        return
    for found in source.imports():
        if not found.target.startswith("tileloom"):
            continue
        target = modules().get(found.target)
        if target is None:
            yield f"line {found.line}: imports {found.target}, which does not exist"
        elif target.room == "" and target.module != "tileloom":
            yield f"line {found.line}: imports the public face {found.target} from within"
        elif target.module == "tileloom" and source.room not in ("cli", "report", "compat"):
            yield f"line {found.line}: imports the root package from within"
        elif target.room not in {source.room, "", *allowed}:
            yield f"line {found.line}: {source.room} must not import {target.room}"


def closed_complaints(source: Source) -> Iterator[str]:
    """Imports of what lies within a closed room, or that its door does not list."""
    for closed in (f"tileloom.{room}" for room in CLOSED):
        if f"{source.module}.".startswith(f"{closed}."):
            continue
        for found in source.imports():
            if found.target.startswith(f"{closed}."):
                yield f"line {found.line}: imports {found.target}; the door is {closed}"
            elif found.target == closed and found.name and found.name not in listed(closed):
                yield f"line {found.line}: {closed} does not list {found.name}"


def wall_complaints(source: Source) -> Iterator[str]:
    for found in source.imports():
        package = found.target.split(".")[0]
        if package in sys.stdlib_module_names or package in ("tileloom", "__future__"):
            continue
        if source.room in ("cli", "report") and package in PEERS and found.inside_function:
            continue
        places = WALLS.get(package)
        if places is None:
            yield f"line {found.line}: third-party package {package!r} is not in the table of walls"
        elif not any(source.relative.startswith(place) for place in places):
            yield f"line {found.line}: {package} belongs into {', '.join(places)} alone"


def door_complaints(source: Source) -> Iterator[str]:
    """Imports inside functions are for doors and for packages that may be missing or slow.

    One more case: a node prints itself, and its printer (`show`) stands above it in the room.
    """
    printer = f"tileloom.{source.room}.show"
    doors = ("", "driver", "cli")
    is_door = source.room in doors or source.path.name == "__init__.py"
    for found in source.imports():
        package = found.target.split(".")[0]
        free = package in {*HEAVY, "cuda"} or found.target == printer
        if found.inside_function and not is_door and not free:
            yield f"line {found.line}: import of {found.target} inside a function"


def manner_complaints(source: Source) -> Iterator[str]:
    for node in statements(source.tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                yield f"line {node.lineno}: star import"
            case ast.ExceptHandler(type=None):
                yield f"line {node.lineno}: bare except"
            case ast.Assert():
                yield f"line {node.lineno}: assert; raise UserError or InternalError instead"
            case _:
                pass


#: Rooms that may tell kinds of devices apart: what targets are, and the interface to devices.
KNOW_KINDS = ("target", "driver")


def kind_complaints(source: Source) -> Iterator[str]:
    """Branches on the kind of a target: others have a table of what each kind does."""
    for node in ast.walk(source.tree) if source.room not in KNOW_KINDS else ():
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        constants = {n.value for s in sides for n in ast.walk(s) if isinstance(n, ast.Constant)}
        asks = any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides)
        if asks and constants & {"cpu", "cuda"}:
            yield f"line {node.lineno}: a branch on the kind of a device"


def size_complaints(source: Source) -> Iterator[str]:
    lines = len(source.path.read_text().splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{lines} lines in the file (at most {MAX_FILE_LINES})"
    for node in statements(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = function_lines(node)
            if size > MAX_FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {size} lines"


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        first = node.body[0]
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


@pytest.mark.parametrize(
    "check",
    [
        room_complaints,
        closed_complaints,
        wall_complaints,
        door_complaints,
        kind_complaints,
        manner_complaints,
        size_complaints,
    ],
    ids=lambda check: check.__name__.removesuffix("_complaints"),
)
def test_sources_keep_the_plan(check: Any) -> None:
    found = [f"{source.relative}: {text}" for source in sources() for text in check(source)]
    assert not found, "\n" + "\n".join(found)


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {
        source.module: {
            found.target
            for found in source.imports()
            if found.target in modules()
            and found.target != source.module
            # Deferred imports and the root's namespace are not part of the loading order.
            and not found.inside_function
            and not found.only_types
            and found.target != "tileloom"
        }
        for source in sources()
        if source.room != "cli"  # subcommands and their group know of each other
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("circular import: " + " -> ".join(error.args[1]))


@pytest.mark.parametrize("name", ["base", "codegen", "expr", "target", "tir"])
def test_what_a_room_loads_late_is_what_type_checkers_see(name: str) -> None:
    """`room(...)` in a door says at run time what the imports under `TYPE_CHECKING` say."""
    door = import_module(f"tileloom.{name}")
    seen = {}
    for block in statements(modules()[door.__name__].tree):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for found in block.body:
                assert isinstance(found, ast.ImportFrom)
                seen.update({alias.name: found.module or "" for alias in found.names})
    assert seen == door._homes
    assert seen.keys() <= set(door.__all__)
    assert set(door.__all__) <= set(dir(door))


def loaded_by(statements: str, names: Iterable[str]) -> str:
    """Which of these modules the statements load into a fresh interpreter."""
    script = (
        f"import sys; old = set(sys.modules); {statements}; "
        f"print(*[m for m in {names!r} if m in sys.modules.keys() - old])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(SOURCES.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_import_is_light() -> None:
    assert loaded_by("import tileloom", HEAVY) == ""


def test_reading_and_printing_a_script_is_light() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4,))):\n  for i in range(4):\n    A[i] = A[i] + 1.0\n"
    statements = f"from tileloom.script import parse; str(parse({text!r}))"
    assert loaded_by(statements, NOT_FOR_SCRIPTS) == ""


@pytest.mark.parametrize(
    ("check", "text", "complaint"),
    [
        (room_complaints, "from ..tir import nodes", "must not import tir"),
        (room_complaints, "import tileloom.codegen", "must not import codegen"),
        (room_complaints, "from .. import driver", "must not import driver"),
        (closed_complaints, "from ..schedule.verify.report import Report", "the door is"),
        (closed_complaints, "from ..schedule.verify import Report", "does not list Report"),
        (closed_complaints, "import tileloom.schedule.verify.report", "the door is"),
        (wall_complaints, "import llvmlite.binding as llvm", "belongs into codegen/"),
        (wall_complaints, "def f():\n    import torch", "belongs into frontend/"),
        (wall_complaints, "import requests", "not in the table"),
        (door_complaints, "def f():\n    from .dtype import dtype", "inside a function"),
        (kind_complaints, "x = 1 if target.kind == 'cuda' else 2", "kind of a device"),
        (kind_complaints, "if target.kind not in ('cpu',):\n    pass", "kind of a device"),
        (manner_complaints, "from x import *", "star import"),
        (manner_complaints, "try:\n    pass\nexcept:\n    pass", "bare except"),
        (manner_complaints, "assert True", "assert"),
        (size_complaints, "x = 1\n" * 601, "601 lines"),
        (size_complaints, "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
    ],
)
def test_a_breach_is_seen(
    check: Any, text: Any, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check finds its own kind of breach in a file planted into `base`."""
    monkeypatch.setattr(f"{__name__}.SOURCES", tmp_path)
    planted = {}
    for name in ("__init__", "driver/__init__", "tir/__init__", "tir/nodes", "codegen/__init__"):
        planted[name] = ""
    planted |= {"schedule/__init__": "", "schedule/verify/report": ""}
    planted["schedule/verify/__init__"] = "from .report import Report"
    for name, content in {**planted, "base/dtype": "", "base/planted": text}.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    clear_caches()
    try:
        found = list(check(Source(tmp_path / "base" / "planted.py")))
    finally:
        monkeypatch.undo()
        clear_caches()
    assert any(complaint in text for text in found), found


def clear_caches() -> None:
    for cached in (sources, modules, listed):
        cached.cache_clear()
