"""Grows the trees of the cost model's prior from records of `record_prior.py`.

    python tools/train_prior.py prior.db            # how well they rank kinds that they do not know
    python tools/train_prior.py prior.db --blend    # ... together with trees of what was measured
    python tools/train_prior.py prior.db --write    # trees from all kinds, into the package

Validation leaves one kind of program out at a time, grows trees from all others, and ranks the
candidates of that kind with them: all, or those that are left after some were measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prior_programs import PROGRAMS

import tileloom
from tileloom.records import open_records
from tileloom.tuner.cost_model import (
    XGBConfig,
    XGBModel,
    average_peak,
    pack_sum_gradient,
    rank_correlation,
    store_owners,
)
from tileloom.tuner.features.packing import unpack
from tileloom.tuner.prior import Trees

Floats = NDArray[np.float64]
PLACE = Path(tileloom.__file__).parent / "tuner" / "prior.npz"
DEPTH, TREES = 6, 80
#: So many sets of trees grow from a part of the programs each, and scores are their means: one set
#: ranks some kinds that it does not know the wrong way round.
SETS, PART = 6, 2 / 3
PARAMETERS = {
    "max_depth": DEPTH,
    "gamma": 1e-3,
    "min_child_weight": 1.0,
    "eta": 0.1,
    "subsample": 0.7,
    "colsample_bytree": 0.2,
    "nthread": 1,
    "verbosity": 0,
    "base_score": 0.0,
    "disable_default_eval_metric": 1,
}
_LEAST = 0.01  # label, so that the slowest still have some weight


@dataclass
class Measured:
    """The candidates of one program."""

    kind: str
    features: list[Floats] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def speeds(self) -> Floats:
        """1 for the fastest."""
        times = np.asarray(self.seconds)
        return np.asarray(times.min() / times, dtype=np.float64)


def measured(place: str) -> dict[str, Measured]:
    """What is on record, by program."""
    kinds = {name: kind for kind, programs in PROGRAMS.items() for name in programs}
    found: dict[str, Measured] = {}
    with open_records(place) as records:
        for record in records.all():
            features = unpack(record.extra.get("features"))
            if features is not None and len(features) and record.seconds:
                name = record.extra["program"]
                if name not in kinds:
                    continue  # it is no longer one of them
                program = found.setdefault(name, Measured(kinds[name]))
                program.features.append(features)
                # Not the median: what else runs on the machine only ever adds time.
                program.seconds.append(min(record.seconds))
    return found


def grown(programs: Sequence[Measured]) -> Trees:
    """Trees for the sums over stores, as those of `XGBModel`, but not as deep."""
    random = np.random.default_rng(0)
    sets = []
    for seed in range(SETS):
        chosen = random.permutation(len(programs))[: round(PART * len(programs))]
        sets.append(_grown([programs[k] for k in chosen], seed))
    return Trees(
        np.concatenate([trees.columns for trees in sets]),
        np.concatenate([trees.bounds for trees in sets]),
        (np.concatenate([trees.leaves for trees in sets]) / SETS).astype(np.float32),
    )


def _grown(programs: Sequence[Measured], seed: int) -> Trees:
    import xgboost

    features = [rows for program in programs for rows in program.features]
    labels = np.maximum(np.concatenate([program.speeds for program in programs]), _LEAST)
    ids = store_owners(features)
    data = xgboost.DMatrix(np.concatenate(features), label=labels[ids])

    def loss(scores: Any, _data: Any) -> tuple[Any, Any]:
        return pack_sum_gradient(np.asarray(scores), ids, labels)

    booster = xgboost.train({**PARAMETERS, "seed": seed}, data, TREES, obj=loss)
    return trees_of([json.loads(text) for text in booster.get_dump(dump_format="json")])


def trees_of(roots: Sequence[Any]) -> Trees:
    """Trees from XGBoost's JSON data."""
    nodes = 2**DEPTH - 1
    columns = np.zeros((len(roots), nodes), np.uint8)
    bounds = np.full((len(roots), nodes), np.inf, np.float32)
    leaves = np.zeros((len(roots), nodes + 1), np.float32)

    def place(tree: int, at: int, node: Any) -> None:
        if at >= nodes:
            leaves[tree, at - nodes] = node["leaf"]
        elif "leaf" in node:  # a branch that ends early: all rows go left
            place(tree, 2 * at + 1, node)
        else:
            columns[tree, at] = int(node["split"].removeprefix("f"))
            bounds[tree, at] = node["split_condition"]
            children = {child["nodeid"]: child for child in node["children"]}
            place(tree, 2 * at + 1, children[node["yes"]])
            place(tree, 2 * at + 2, children[node["no"]])

    for tree, root in enumerate(roots):
        place(tree, 0, root)
    return Trees(columns, bounds, leaves)


def scores(trees: Trees, features: Sequence[Floats]) -> Floats:
    """Of candidates."""
    rows = trees.scores(np.concatenate(features))
    sums = np.bincount(store_owners(features), weights=rows, minlength=len(features))
    return np.asarray(sums, dtype=np.float64)


def validate(programs: dict[str, Measured]) -> None:
    """Print how well trees rank each program that grew from all other kinds."""
    print("| program | candidates | rank correlation | a-peak@8 | of a random order |")
    print("|---|---|---|---|---|")
    table = []
    random = np.random.default_rng(0)
    for kind in PROGRAMS:
        trees = grown([program for program in programs.values() if program.kind != kind])
        for name, program in programs.items():
            if program.kind == kind:
                found, speeds = scores(trees, program.features), program.speeds
                drawn = [average_peak(random.random(len(speeds)), speeds, 8) for _ in range(200)]
                figures = rank_correlation(found, speeds), average_peak(found, speeds, 8)
                table.append((*figures, float(np.mean(drawn))))
                row = " | ".join(f"{figure:.2f}" for figure in table[-1])
                print(f"| {name} | {len(speeds)} | {row} |")
    means = " | ".join(f"{mean:.2f}" for mean in np.mean(table, axis=0))
    print(f"| mean | | {means} |")


#: Values of `XGBConfig.prior` that are compared; with infinity there is nothing else.
SHARES = (math.inf, 128.0, 64.0, 32.0, 0.0)


def blend(programs: dict[str, Measured]) -> None:
    """Print how well the cost model ranks the rest of a program, some of which it has learnt."""
    found: dict[tuple[int, float], list[tuple[float, float]]] = {}
    random = np.random.default_rng(0)
    for kind in PROGRAMS:
        trees = grown([program for program in programs.values() if program.kind != kind])
        for program in programs.values():
            for count in (32, 64, 96) if program.kind == kind else ():
                order = random.permutation(len(program.seconds))
                if len(order) >= count + 32:
                    for share in SHARES:
                        model = XGBModel(
                            XGBConfig(prior=share, num_boost_round=200, threads=1), trees
                        )
                        figures = after(model, program, order[:count], order[count:])
                        found.setdefault((count, share), []).append(figures)
    print("| measured | share | programs | rank correlation | a-peak@8 |")
    print("|---|---|---|---|---|")
    for (count, share), table in sorted(found.items()):
        rank, peak = np.mean(table, axis=0)
        print(f"| {count} | {share:g} | {len(table)} | {rank:.3f} | {peak:.3f} |")


def after(
    model: XGBModel, program: Measured, known: NDArray[np.intp], rest: NDArray[np.intp]
) -> tuple[float, float]:
    """How well a model ranks the rest of a program, once it has learnt what is known."""
    if model.config.prior < math.inf:
        seconds = [program.seconds[k] for k in known]
        model.update("program", [program.features[k] for k in known], seconds)
    else:
        model = XGBModel(prior=model.prior)
    found = model.predict("program", [program.features[k] for k in rest])
    speeds = program.speeds[rest]
    return rank_correlation(found, speeds), average_peak(found, speeds / speeds.max(), 8)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", help="where they are kept, as `open_records` takes it")
    parser.add_argument("--write", action="store_true", help="grow trees from all, and keep them")
    parser.add_argument("--blend", action="store_true", help="validate shares of the prior")
    given = parser.parse_args(arguments)
    programs = measured(given.records)
    if given.blend:
        blend(programs)
        return
    if not given.write:
        validate(programs)
        return
    trees = grown(list(programs.values()))
    trees.save(PLACE)
    print(f"{PLACE}: {PLACE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
