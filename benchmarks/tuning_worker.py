"""The process of one system in `benchmarks.tuning`: it tunes, checks and times when it is told to.

Commands are lines of JSON on the standard input, answers such lines on what was the standard
output; whatever else is printed goes to the standard error. The process knows nothing of the other
system, which may need another Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import harness
from .tuning_programs import PROGRAMS, Language, Program

_WARM_SECONDS = 0.03
_LINE = 64  # bytes
_TVM_BATCH = 64  # candidates of a round, its default
_TVM_BUILD_SECONDS = 90.0


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Loaded:
    """A kernel with its arguments.

    Attributes:
        call: calls it.
        result: what it has written last.
    """

    call: harness.Call
    result: Callable[[], Array]


class System(Protocol):
    """A tuner, with what it compiles to."""

    def tune(self, program: Program, folder: Path, trials: int, seed: int) -> dict[str, Any]:
        """Tune a program, and keep in the folder what `load` needs; facts about it."""

    def load(self, program: Program, folder: Path, arrays: list[Array]) -> Loaded:
        """The best kernel, on arrays, the last of which is for its result."""


class Tileloom:
    """`tileloom.tune`."""

    def tune(self, program: Program, folder: Path, trials: int, seed: int) -> dict[str, Any]:
        """See `System`."""
        import tileloom

        seconds: list[float] = []
        found = tileloom.tune(
            self.func(program),
            trials=trials,
            records=folder / "records.db",
            seed=seed,
            workers=self._workers(),
            on_round=lambda tasks, chosen, spent: seconds.append(tasks[chosen].seconds),
        )
        (folder / "trace.json").write_text(json.dumps(found.trace))
        return {"claimed": found.seconds, "trials": found.trials, "rounds": seconds}

    def load(self, program: Program, folder: Path, arrays: list[Array]) -> Loaded:
        """See `System`."""
        import tileloom
        from tileloom.schedule import Schedule, Trace

        sch = Schedule(self.func(program))
        steps = json.loads((folder / "trace.json").read_text())
        Trace.from_json(steps).apply_to_schedule(sch, remove_postproc=False)
        (folder / "scheduled.py").write_text(sch.mod.script())
        kernel = tileloom.build(sch.mod["main"])
        return Loaded(lambda: kernel(*arrays), lambda: arrays[-1])

    def func(self, program: Program) -> Any:
        """The function of a program."""
        from tileloom import te
        from tileloom.expr import intrin

        language = Language(te, intrin.exp, intrin.rsqrt, intrin.if_then_else, intrin.all)
        return program.make(language)

    def _workers(self) -> int:
        return len(os.sched_getaffinity(0))


class TVM:
    """TVM's MetaSchedule, with its defaults."""

    def tune(self, program: Program, folder: Path, trials: int, seed: int) -> dict[str, Any]:
        """See `System`."""
        import tvm
        from tvm.s_tir import meta_schedule as ms

        func, target = self.func(program), self._target()
        # Its builders, new ones for each batch, begin by loading the intrinsics of all machines:
        # on a slow one that alone takes half of the 30 seconds that a candidate has by default.
        builder = ms.builder.LocalBuilder(timeout_sec=_TVM_BUILD_SECONDS)
        records = ms.tune_tir(
            func,
            target,
            str(folder),
            max_trials_global=trials,
            num_trials_per_iter=_TVM_BATCH,
            builder=builder,
            seed=seed,
        )
        sch = ms.tir_integration.compile_tir(records, func, target)
        (folder / "scheduled.py").write_text(sch.mod.script())
        (folder / "trace.py").write_text(str(sch.trace))
        tvm.compile(sch.mod, target).export_library(str(folder / "kernel.so"))
        every = records.get_all_tuning_records()
        best = min(float(np.median([float(s) for s in r.run_secs or [1e10]])) for r in every)
        return {"claimed": best, "trials": len(every)}

    def load(self, program: Program, folder: Path, arrays: list[Array]) -> Loaded:
        """See `System`."""
        import tvm

        module = tvm.runtime.load_module(str(folder / "kernel.so"))
        tensors = [tvm.runtime.tensor(array) for array in arrays]
        kernel = module["main"]
        return Loaded(lambda: kernel(*tensors), lambda: tensors[-1].numpy())

    def func(self, program: Program) -> Any:
        """The function of a program."""
        from tvm import te, tirx

        language = Language(te, te.exp, te.rsqrt, tirx.if_then_else, tirx.all)
        return program.make(language).with_attr("global_symbol", "main")

    def _target(self) -> Any:
        import tvm

        cpu, cores = tvm.target.codegen.llvm_get_system_cpu(), len(os.sched_getaffinity(0))
        return tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})


SYSTEMS: dict[str, type[System]] = {"tileloom": Tileloom, "tvm": TVM}


def aligned(array: Array) -> Array:
    """A copy that starts where a line of the cache does, as all copies in TVM do."""
    memory = np.empty(array.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    copy: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Worker:
    """What the process knows: a system, and the kernel that is to be timed."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.call: harness.Call | None = None

    def tune(self, program: str, folder: str, trials: int, seed: int) -> dict[str, Any]:
        """Tune a program; how long that took, and what the system says of it."""
        begun = time.perf_counter()
        facts = self.system.tune(PROGRAMS[program], Path(folder), trials, seed)
        return {"wall": time.perf_counter() - begun, **facts}

    def load(self, program: str, folder: str, seed: int) -> dict[str, Any]:
        """Load what was found, and compare its result with what it should be."""
        one = PROGRAMS[program]
        inputs = one.inputs(seed)
        expected = np.asarray(one.reference(*(x.astype(np.float64) for x in inputs)))
        arrays = [aligned(x) for x in (*inputs, np.zeros(expected.shape, np.float32))]
        loaded = self.system.load(one, Path(folder), arrays)
        loaded.call()
        error, complaint = harness.compare(loaded.result(), expected, 1e-4, one.atol)
        self.call = loaded.call
        return {"error": error, "complaint": complaint}

    def clock(self, seconds: float) -> dict[str, Any]:
        """Seconds of a call, of as many as take so long; how busy others were meanwhile.

        On one thread the CPU's own time is what counts, which others cannot take.
        """
        if self.call is None:
            raise RuntimeError("nothing is loaded")
        now = time.perf_counter if len(os.sched_getaffinity(0)) > 1 else time.process_time
        count, used = 0, harness.Usage()
        harness.warm_up(self.call, _WARM_SECONDS)
        begun = used.begin()
        start = now()
        while (taken := now() - start) < seconds:
            self.call()
            count += 1
        used.end(begun)
        # Threads of a pool that still spin would steal a core from who comes next.
        harness.wait_until_idle()
        return {"seconds": taken / count, "foreign": used.foreign}


def serve(system: System) -> None:
    """Answer commands until there are none any more."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        worker = Worker(system)
        for line in sys.stdin:
            command, arguments = json.loads(line)
            try:
                answer = getattr(worker, command)(**arguments)
            except Exception as error:  # of any kind: a system's own failure is a finding
                answer = {"failed": f"{type(error).__name__}: {error}"[:2000]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(SYSTEMS[sys.argv[1]]())
