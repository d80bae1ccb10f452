"""AxisInfo against Triton's on random programs: where Triton's claim is true, ours says as much."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tile.axis_programs import Array, Generator
from tile.oracle import needs_oracle, triton_log
from tileloom.tile import show
from tileloom.tile.analysis.axis_info import ModuleAxisInfo
from tileloom.tile.analysis.axis_lattice import AxisInfo
from tileloom.tile.dialects.functions import set_argument_attribute
from tileloom.tile.ir.attributes import IntegerAttr
from tileloom.tile.ir.core import Block, Operation, Region, Value
from tileloom.tile.ir.definitions import definition_of
from tileloom.tile.ir.rewriter import OpBuilder
from tileloom.tile.ir.types import I8, I32, PointerType, TensorType

STEPS = ("ttir.add_convert_to_ttgpuir:cuda-80:4:32:1", "ttgpuir.add_coalesce")
CLAIM = re.compile(
    r"axis info of pointer: contiguity = \[(.*?)\], divisibility = \[(.*?)\], "
    r"constancy = \[(.*?)\]"
)
Claim = tuple[list[int], list[int], list[int]]


def addressed(seed: int) -> tuple[Operation, list[tuple[Value, Array]]]:
    """A program that stores to an address for each of its tensors, from a base that everything
    divides; and the addresses."""
    program = Generator(seed, pointers=False, narrow=False)
    program.grow(8)
    function = program.function
    set_argument_attribute(function, 3, "tt.divisibility", IntegerAttr(1 << 30))
    base = function.body.arguments[3]
    build = OpBuilder(function.body)
    made = []
    for value, arrays in list(program.execution.seen.items()):
        if not isinstance(value.type, TensorType) or value.type.element is not I32:
            continue
        bases = build("tt.splat", base, type=value.type.with_element(PointerType(I8)))
        address = build("tt.addptr", bases, value)
        stored = build.constant(0, value.type.with_element(I8))
        build.create("tt.store", (address, stored), (), groups=(1, 1, 0))
        made.append((address, arrays[0]))
    build.create("tt.return")
    module = Operation(definition_of("builtin.module"), regions=[Region([Block()])])
    module.body.append(function)
    return module, made


def is_true(claim: Claim, array: Array, d: int) -> bool:
    """Whether a claim holds along a dimension."""
    contiguity, divisor, constancy = (part[d] for part in claim)
    x = np.moveaxis(array, d, 0)
    index, steps = np.arange(1, x.shape[0]), x[1:] - x[:-1]
    return bool(
        (steps[index % contiguity != 0] == 1).all()
        and (steps[index % constancy != 0] == 0).all()
        and not (x[::contiguity] & (divisor - 1)).any()
    )


def compare(seed: int, counts: Counter[str]) -> list[str]:
    """Counts how our claims relate to those of Triton; those that say less are given."""
    module, made = addressed(seed)
    axis_info = ModuleAxisInfo(module)
    log = triton_log(show(module, spelling="3.2"), *STEPS, debug="tritongpu-coalesce")
    claims = [tuple([int(n) for n in part.split(",")] for part in m) for m in CLAIM.findall(log)]
    if len(claims) != len(made):
        return [f"{len(claims)} claims of Triton about {len(made)} addresses"]
    worse = []
    for (address, array), claim in zip(made, claims, strict=True):
        info = axis_info.of(address)
        for d in range(info.rank):
            kind = relation(info, claim, array, d)  # type: ignore[arg-type]
            counts[kind] += 1
            if kind == "less":
                op = address.defining_op.operands[1].defining_op  # type: ignore[union-attr]
                worse.append(f"{op} along {d}\nours {info}\nTriton {claim}\n{array}")
    return worse


def relation(info: AxisInfo, claim: Claim, array: Array, d: int) -> str:
    """How a claim of ours along a dimension relates to one of Triton."""
    ours = info.contiguity[d], min(info.divisibility[d], 1 << 30), info.constancy[d]
    theirs = tuple(part[d] for part in claim)
    if ours == theirs:
        return "same"
    if not is_true(claim, array, d):
        return "Triton's is false"
    less = any(a < b for a, b in zip(ours, theirs, strict=True))
    return "less" if less else "more"


@needs_oracle
@pytest.mark.parametrize(
    ("first", "count"), [(0, 20), pytest.param(1000, 2000, marks=pytest.mark.slow)]
)
def test_as_precise_as_triton(first: int, count: int) -> None:
    counts: Counter[str] = Counter()
    worse = [text for seed in range(first, first + count) for text in compare(seed, counts)]
    assert counts["less"] < 0.03 * counts.total(), f"{counts}\n" + "\n".join(worse)
