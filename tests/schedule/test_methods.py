"""What type checkers and editors see of `Schedule`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tileloom.schedule.instruction import kinds
from type_checking import mypy_says

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "tileloom" / "schedule" / "methods.pyi"


def written() -> str:
    path = ROOT / "tools" / "schedule_methods.py"
    if not path.exists():
        pytest.skip("the tool is not part of this copy")
    spec = importlib.util.spec_from_file_location("schedule_methods", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.text()
    return text


def test_the_stub_is_fresh() -> None:
    assert STUB.read_text() == written(), "run python tools/schedule_methods.py"


def test_every_primitive_is_there() -> None:
    text = STUB.read_text()
    assert all(f"    def {name}(" in text for name in kinds())


PROGRAM = """
from tileloom.schedule import Schedule
from tileloom.schedule.rv import BlockRV, LoopRV

def steps(sch: Schedule) -> None:
    block: BlockRV = sch.get_block("B")
    outer, inner = sch.split(sch.get_loops(block)[0], [None, 8])
    sch.reorder(inner, outer)
    sch.vectorize(inner)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", ""),
        ("    sch.splitt(outer, [2, 4])", 'has no attribute "splitt"'),
        ("    sch.vectorize(block)", "incompatible type"),
        ("    sch.split(outer)", "Missing positional argument"),
        ("    loop: LoopRV = sch.get_block(1)", "incompatible type"),
    ],
)
def test_mypy_sees_mistakes(line: str, complaint: str, tmp_path: Path) -> None:
    done = mypy_says(f"{PROGRAM}{line}\n", tmp_path)
    assert (complaint in done.stdout) and (done.returncode != 0) == bool(complaint), done.stdout
