"""A run of the tuning loop in a process of its own, which tests kill.

`python tuner_process.py RECORDS EXECUTOR TRIALS` prints the name of each candidate once it is
recorded.
"""

from __future__ import annotations

import sys
from typing import Any

from tileloom import te
from tileloom.records import Record, RecordStore, open_records
from tileloom.target import Target
from tileloom.tir import IRModule
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import RandomModel
from tileloom.tuner.measure import Limits, Timing, executor_of
from tileloom.tuner.search import SearchConfig
from tileloom.tuner.tuner import MeasureOn, TuneConfig, TuningTask, tune_tasks

#: Few candidates, so that a round takes seconds.
FEW = SearchConfig(population_size=8, init_min_unmeasured=4, genetic_num_iters=1)
QUICK = Timing(samples=3, sample_seconds=1e-4, seconds=0.05)


def program() -> IRModule:
    """A small product of matrices."""
    k: Any
    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


def machine() -> Target:
    """This machine, as if it had two cores."""
    return Target.host().with_cores(2)


def run(store: RecordStore, executor: str, trials: int) -> None:
    """Tune the program, in batches of four."""
    task = TuningTask(TuneContext(program(), machine()))
    with executor_of(executor) as runner:
        limits = None if executor.startswith("local") else Limits()
        measure = MeasureOn(runner, QUICK, limits)
        config = TuneConfig(trials, batch=4, search=FEW)
        tune_tasks([task], measure, store, RandomModel(1), config)


def main(records: str, executor: str, trials: int) -> None:
    with open_records(records) as store:
        add = store.add

        def said(*added: Record) -> None:
            add(*added)
            for record in added:
                print(record.candidate, flush=True)

        store.add = said  # type: ignore[method-assign]
        run(store, executor, trials)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
