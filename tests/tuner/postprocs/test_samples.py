"""The steps and the programs of postprocessors next to those of TVM, on the same decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tileloom import Schedule
from tileloom.schedule import Trace
from tileloom.target import Target, target
from tileloom.tir import assert_structural_equal
from tileloom.tuner.context import TuneContext
from tileloom.tuner.postprocs.defaults import default_postprocs
from tuner.postprocs.samples import comparable, module, samples

CPU = target("cpu -mcpu=x86-64-v3")
GPU = replace(target("cuda -arch=sm_70"), shared_memory=48 << 10)

needs_samples = pytest.mark.skipif(not samples("llvm"), reason="shared/data/tvm is not there")


def postprocessed(sch: Schedule, kind: Any, machine: Target) -> list[bool]:
    sch.enter_postproc()
    context = TuneContext(sch.mod, machine)
    return [step.apply(sch, context) for step in default_postprocs(kind)]


@needs_samples
def test_cpu() -> None:
    for original, sample in samples("llvm"):
        steps, decisions = sample["trace_json"]
        end = next(i for i, step in enumerate(steps) if step[0] == "EnterPostproc")
        sch = Schedule(module(original))
        drawn = [decision for decision in decisions if decision[0] < end]
        Trace.apply_json_to_schedule([steps[:end], drawn], sch)
        assert all(postprocessed(sch, "llvm", CPU))
        assert sch.trace is not None
        assert sch.trace.as_json() == sample["trace_json"]
        assert_structural_equal(comparable(sch.mod), comparable(module(sample["scheduled"])))


@needs_samples
def test_gpu() -> None:
    for original, sample in samples("cuda"):
        lines = sample["trace_py"]
        end = lines.index("sch.enter_postproc()")
        sch = Schedule(module(original))
        exec("\n".join(lines[:end]), {"sch": sch})
        *steps, verified = postprocessed(sch, "cuda", GPU)
        assert all(steps)
        assert verified is sample["valid"]
        assert sch.trace is not None
        text = [line.replace("block_or_loop=b", "b") for line in sch.trace.as_python()]
        assert text == [line.replace("block_or_loop=b", "b") for line in lines]


@needs_samples
def test_memory_is_what_the_gpu_lacks() -> None:
    original, sample = samples("cuda")[0]
    lines = sample["trace_py"][: sample["trace_py"].index("sch.enter_postproc()")]
    sch = Schedule(module(original))
    exec("\n".join(lines), {"sch": sch})
    assert all(postprocessed(sch, "cuda", replace(GPU, shared_memory=1 << 20)))
