"""How many instructions of each kind code has before LLVM optimises it, for many graphs.

Results stay right where a pass or an emitter does more than it must, so other tests do not see it.
After a change that is meant, `pytest tests/driver/test_instruction_counts.py --rewrite` writes
`test_instruction_counts.txt` anew; its difference says which kernels have other code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from graph.planned_graphs import CASES, CPU, GPU, ON_GPUS, PRODUCTS, WIDE, graph_of
from plan.shapes import PROGRAMS
from recorded import Compare
from sampling import sampled
from tileloom.driver import plan_graph
from tileloom.driver.functions import llvm_ir
from tileloom.plan import schedule_cpu
from tileloom.runtime import parallel
from tileloom.target import Target

_FUNCTION = re.compile(r"^define .*?@\"?([\w.]+)\"?\(")
_INSTRUCTION = re.compile(
    r"^  (?:[%\w.\"]+ = )?(?:tail )?(?P<op>[a-z]+)(?: (?:fast|contract|nsw|nuw|inbounds))*"
    r"(?: (?P<type><\d+ x \w+>|\w+))?(?:.*?@\"?(?P<callee>[\w.]+))?"
)
#: What says nothing: where blocks end and begin, and addresses.
_LEFT_OUT = {"alloca", "br", "ret", "phi", "getelementptr", "inttoptr", "ptrtoint", "unreachable"}
_FAMILIES = {
    "arithmetic": "add sub mul sdiv udiv srem urem shl ashr lshr fadd fsub fmul fdiv frem fneg",
    "logic": "and or xor icmp fcmp select freeze",
    "convert": "sext zext trunc fptrunc fpext fptosi fptoui sitofp uitofp bitcast addrspacecast",
    "shuffle": "shufflevector insertelement extractelement insertvalue extractvalue",
}
_ENTRIES = ("__packed", ".run")
_FAMILY = {op: family for family, ops in _FAMILIES.items() for op in ops.split()}


@pytest.fixture(autouse=True)
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cores there are."""
    monkeypatch.setattr(parallel, "get_num_threads", lambda: 64)


def counts(text: str) -> Iterator[str]:
    """A line for each function that is no entry: what it has, and how often."""
    name, found = "", Counter[str]()
    for line in text.splitlines():
        head = _FUNCTION.match(line)
        if head:
            name = head[1]
        elif line.startswith("}"):
            if found and not name.startswith("main_") and not name.endswith(_ENTRIES):
                yield f"{name}: " + ", ".join(f"{k} {n}" for k, n in sorted(found.items()))
            found = Counter()
        else:
            instruction = _INSTRUCTION.match(line)
            if instruction is not None and instruction["op"] not in _LEFT_OUT:
                found[_kind(instruction)] += 1


def _kind(instruction: re.Match[str]) -> str:
    op, type_ = instruction["op"], (instruction["type"] or "").strip("<>").replace(" ", "")
    if op == "call":
        callee = instruction["callee"] or "asm"
        return callee.removeprefix("llvm.").removeprefix("tileloom_")
    family = _FAMILY.get(op, op)
    return family if family in ("logic", "convert", "shuffle") else f"{family} {type_}"


def check(name: str, target: Target, recorded: Compare, title: str) -> None:
    program = plan_graph(graph_of(name), target)
    text = llvm_ir(program.module, target, program.entries)
    recorded(f"{name}: {title}", list(counts(text)))


@pytest.mark.parametrize("name", CASES)
def test_code_for_a_cpu(name: str, recorded: Compare) -> None:
    check(name, CPU, recorded, "cpu")


@pytest.mark.parametrize("name", sampled(PRODUCTS, 2))
def test_products_in_wide_vectors(name: str, recorded: Compare) -> None:
    check(name, WIDE, recorded, "wide")


@pytest.mark.gpu
@pytest.mark.parametrize("name", sampled(ON_GPUS, 3))
def test_code_for_a_gpu(name: str, recorded: Compare) -> None:
    check(name, GPU, recorded, "gpu")


@pytest.mark.parametrize("name", PROGRAMS)
def test_code_of_groups(name: str, recorded: Compare) -> None:
    sch = schedule_cpu(PROGRAMS[name].function(PROGRAMS[name].small), CPU)
    recorded(f"group {name}", list(counts(llvm_ir(sch.mod, CPU))))
