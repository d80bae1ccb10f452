"""Measures candidates of programs of many kinds, which `train_prior.py` learns from.

    nice python tools/record_prior.py prior.db --count 200

draws candidates from the design spaces of `prior_programs.PROGRAMS`, some of each program at a
time, until each has so many on record; it may be interrupted and started again. Half of those after
the first are mutations of the fastest: what a search has to tell apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from math import inf

from prior_programs import modules

from tileloom.records import Record, RecordStore, open_records, target_key, workload_key
from tileloom.schedule.random import Random
from tileloom.target import Target
from tileloom.tir import IRModule
from tileloom.tuner.context import TuneContext
from tileloom.tuner.design_space import design_spaces
from tileloom.tuner.features import per_store_features
from tileloom.tuner.features.packing import pack
from tileloom.tuner.kinds import rule_kind
from tileloom.tuner.measure import Limits, LocalExecutor, MeasureTask, Timing, measure
from tileloom.tuner.mutators.defaults import default_mutators
from tileloom.tuner.postprocs.defaults import default_postprocs
from tileloom.tuner.proposals import Candidate, Proposer

ROUND = 20
#: Candidates of a program before the first mutations, and the fastest ones that are mutated.
FIRSTS, PARENTS = 60, 12
TIMING = Timing(samples=5, seconds=0.3, hopeless=1.5)
LIMITS = Limits(seconds=20.0)


def proposer(mod: IRModule, target: Target) -> Proposer:
    """Makes candidates of a program."""
    context, kind = TuneContext(mod, target), rule_kind(target)
    spaces = [sch.trace.as_json() for sch in design_spaces(context) if sch.trace is not None]
    mutators = [mutator for mutator, _ in default_mutators(kind)]

    def extract(mod: IRModule) -> object:
        return per_store_features(mod, target)

    return Proposer(context, spaces, default_postprocs(kind), mutators, extract)  # type: ignore[arg-type]


class Program:
    """A program of which candidates are measured."""

    def __init__(self, name: str, mod: IRModule, target: Target, records: RecordStore) -> None:
        self.name, self.mod, self.target, self.records = name, mod, target, records
        self.key, self.machine = workload_key(mod), target_key(target)
        self.known = records.all(self.key, self.machine)
        self.incumbent = min((record.latency for record in self.known), default=inf)
        self.proposer = proposer(mod, target)
        self._seeds = Random(len(self.known) * 1000 + 1)
        records.add_workload(self.key, mod.script())

    def drawn(self, count: int) -> Iterator[Candidate]:
        """Candidates, each once."""
        seen: set[int] = set()
        fastest = sorted((r for r in self.known if r.seconds), key=lambda r: min(r.seconds))
        for k in range(10 * count):
            if k % 2 and len(self.known) >= FIRSTS:
                parent = fastest[self._seeds.integer(0, min(PARENTS, len(fastest)))].trace
                mutator = self._seeds.integer(0, len(self.proposer.mutators))
                made = self.proposer.mutated(parent, mutator, self._seeds.fork_seed())
            else:
                made = self.proposer.sampled(self._seeds.fork_seed())
            if made is not None and made.key not in seen:
                checked = self.proposer.exact(made.trace)
                if checked is not None:
                    seen.add(made.key)
                    yield checked
                if len(seen) == count:
                    return

    def measure(self, candidates: Sequence[Candidate], executor: LocalExecutor) -> int:
        """Measure and keep; how many ran."""
        tasks = [
            MeasureTask(
                self.mod.script(),
                json.dumps(candidate.trace),
                str(self.target),
                incumbent=None if self.incumbent == inf else self.incumbent,
                timing=TIMING,
            )
            for candidate in candidates
        ]
        ran = 0
        for candidate, found in zip(candidates, measure(tasks, executor)):
            if found.status == "timeout":  # more likely of a machine that was held than its own
                continue
            extra = {"program": self.name, "features": pack(candidate.features)}
            self.known.append(
                Record(
                    self.key, self.machine, candidate.trace, found.seconds, found.error, extra=extra
                )
            )
            self.records.add(self.known[-1])
            self.incumbent = min(self.incumbent, found.median)
            ran += found.is_ok
        return ran


def main(arguments: Sequence[str] | None = None) -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", help="where they are kept, as `open_records` takes it")
    parser.add_argument("--count", type=int, default=200, help="candidates of each program")
    given = parser.parse_args(arguments)
    target = Target.host()
    with open_records(given.records) as records, LocalExecutor(1, LIMITS) as executor:
        programs = [Program(name, mod, target, records) for name, (_, mod) in modules().items()]
        while left := [p for p in programs if len(p.known) < given.count]:
            for program in left:
                candidates = list(program.drawn(ROUND))
                if not candidates:
                    raise SystemExit(f"{program.name} has no candidates")
                ran = program.measure(candidates, executor)
                best, count = program.incumbent, len(program.known)
                print(
                    f"{program.name}: {count} measured, {ran} of {len(candidates)} ran, {best:.2e}"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
