"""Change the sources in small ways, one at a time, and see whether a test fails.

    python tools/mutate.py map                        which tests call which functions (Python 3.12)
    python tools/mutate.py run --seed 7 --count 200   draw sites over all rooms and try them
    python tools/mutate.py run --kinds guard --room schedule --count 50
    python tools/mutate.py report                     what was tried, the survivors last

A test suite is as good as the faults it finds. `map` runs the fast suite once and notes the
functions that each test calls; `run` changes one place in a copy of the tree and runs the tests
that call the function around it, the most special ones first, until one fails. What was tried is
kept in the folder `.mutation`, so that a run may be interrupted; `run` goes on where it was.
Survivors are either faults that no test would find, or changes that change nothing: a person tells
them apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from mutation_sites import KINDS, Site, sites_of

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / ".mutation"
PARTS = (
    "src",
    "tests",
    "benchmarks",
    "docs",
    "tools",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
#: Seconds of tests for one change, by what they took in the run that made the map.
BUDGET = 60.0
#: A change may make a test slower before that counts as found.
PATIENCE = 5.0


# ---------------------------------------------------------------------------- the map


@dataclass(frozen=True)
class Calls:
    """The tests that call a function, and how long each takes and how much it calls."""

    by_function: Mapping[tuple[str, int], Sequence[int]]
    by_file: Mapping[str, Sequence[int]]
    tests: Sequence[tuple[str, float, int]]

    @staticmethod
    def read(folder: Path) -> Calls:
        """What `map` wrote."""
        functions: dict[tuple[str, int], list[int]] = defaultdict(list)
        files: dict[str, set[int]] = defaultdict(set)
        tests: list[tuple[str, float, int]] = []
        for path in sorted(folder.glob("calls-*.json")):
            data = json.loads(path.read_text())
            names = [(str(file), int(line)) for file, line in data["functions"]]
            for test, (seconds, called) in data["tests"].items():
                number = len(tests)
                tests.append((test, seconds, len(called)))
                for k in called:
                    functions[names[k]].append(number)
                    files[names[k][0]].add(number)
        if not tests:
            sys.exit("there is no map yet: python tools/mutate.py map")
        return Calls(functions, {file: sorted(found) for file, found in files.items()}, tests)

    def of(self, site: Site) -> list[str]:
        """The tests for a site within the budget: those that call little else first."""
        name = site.file
        found = self.by_function.get((name, site.line)) if site.line else None
        numbers = (
            found if found is not None else self.by_file.get(name, ()) if not site.line else ()
        )
        chosen: list[str] = []
        left = BUDGET
        for number in sorted(numbers, key=lambda n: self.tests[n][1] * self.tests[n][2]):
            test, seconds, _ = self.tests[number]
            left -= seconds
            if left < 0:
                break
            chosen.append(test)
        return chosen


def make_map(pytest_args: Sequence[str]) -> None:
    """Run the suite and note who calls whom."""
    shutil.rmtree(STORE / "calls", ignore_errors=True)
    (STORE / "calls").mkdir(parents=True)
    env = {**os.environ, "TILELOOM_CALLS": str(STORE / "calls")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "trace_calls", *pytest_args]
    subprocess.run(command, cwd=ROOT, env=env, check=False)


# ---------------------------------------------------------------------------- running


def all_sites(rooms: Sequence[str], kinds: Sequence[str]) -> list[Site]:
    """Every site of the sources, or of some rooms and kinds."""
    source = ROOT / "src"
    found = (
        site
        for file in sorted((source / "tileloom").rglob("*.py"))
        for site in sites_of(source, file)
    )
    return [s for s in found if s.kind in kinds and (not rooms or s.room in rooms)]


def draw(sites: Sequence[Site], count: int, seed: int) -> list[Site]:
    """So many sites: some of every room, more of the larger ones; of all kinds alike."""
    chance = random.Random(seed)
    by_room: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        by_room[site.room].append(site)
    rooms = sorted(by_room)
    weights = [len(by_room[room]) ** 0.5 for room in rooms]
    chosen: dict[Site, None] = {}
    while len(chosen) < min(count, len(sites)):
        (room,) = chance.choices(rooms, weights)
        kinds = sorted({site.kind for site in by_room[room]})
        kind = chance.choice(kinds)
        chosen[chance.choice([site for site in by_room[room] if site.kind == kind])] = None
    return list(chosen)


def run(site: Site, tests: Sequence[str], tree: Path, limit: float) -> tuple[str, str]:
    """Try a change in a copy of the tree: ("killed" or "survived", by what)."""
    file = tree / "src" / site.file
    source = file.read_bytes()
    cache = tempfile.mkdtemp(prefix="cache-", dir=tree)
    env = {**os.environ, "TILELOOM_CACHE_DIR": cache, "PYTHONPATH": str(tree / "src")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        file.write_bytes(site.apply(source))
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return "killed", "it takes too long"
    finally:
        file.write_bytes(source)
        shutil.rmtree(cache, ignore_errors=True)
    if done.returncode == 0:
        return "survived", f"{len(tests)} tests"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "killed", lines[0][:200] if lines else f"exit status {done.returncode}"


def try_all(sites: Sequence[Site], calls: Calls, workers: int, results: Path) -> None:
    """Try sites, each worker in a tree of its own; results are added line by line."""
    known = {entry["key"] for entry in read_results(results)}
    trees: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory(prefix="tileloom-mutation-") as folder:
        for k in range(workers):
            tree = Path(folder) / str(k)
            for part in PARTS:
                copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
                (tree).mkdir(exist_ok=True)
                copy(ROOT / part, tree / part)
            trees.put(tree)

        def one(site: Site) -> dict[str, str]:
            tests = calls.of(site)
            if not tests:
                return entry_of(site, "survived", "no test calls this")
            tree = trees.get()
            try:
                seconds = {test: taken for test, taken, _ in calls.tests}
                limit = 60 + PATIENCE * sum(seconds[test] for test in tests)
                return entry_of(site, *run(site, tests, tree, limit))
            finally:
                trees.put(tree)

        left = [site for site in sites if site.key not in known]
        with ThreadPoolExecutor(workers) as pool, results.open("a") as out:
            for done, entry in enumerate(pool.map(one, left), 1):
                print(
                    f"{done}/{len(left)} {entry['what']}: {entry['site']} ({entry['by']})",
                    flush=True,
                )
                out.write(json.dumps(entry) + "\n")
                out.flush()


def entry_of(site: Site, what: str, by: str) -> dict[str, str]:
    """A line of the results."""
    return {"key": site.key, "room": site.room, "what": what, "by": by, "site": str(site)}


def read_results(path: Path) -> Iterator[dict[str, str]]:
    """The lines of the results."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def report(path: Path) -> None:
    """Counts by room, then the survivors."""
    entries = list(read_results(path))
    rooms = Counter(entry["room"] for entry in entries)
    killed = Counter(entry["room"] for entry in entries if entry["what"] == "killed")
    for room, count in sorted(rooms.items()):
        print(f"{room:12} {killed[room]:4} of {count:4} killed")
    print(f"{'all':12} {sum(killed.values()):4} of {len(entries):4} killed")
    for entry in entries:
        if entry["what"] != "killed":
            print(f"survived: {entry['site']} ({entry['by']})")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map", help="which tests call which functions; the rest is for pytest")
    running = commands.add_parser("run", help="try changes")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--count", type=int, default=200)
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--room", action="append", default=[])
    running.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    for command in (running, commands.add_parser("report", help="what was tried")):
        command.add_argument("--results", type=Path, default=STORE / "results.jsonl")
    options, rest = parser.parse_known_args()
    if rest and options.command != "map":
        parser.error(f"unknown arguments {rest}")
    if options.command == "map":
        make_map(rest or ["-n", "auto"])
    elif options.command == "run":
        sites = draw(all_sites(options.room, options.kinds), options.count, options.seed)
        try_all(sites, Calls.read(STORE / "calls"), options.workers, options.results)
    if options.command != "map":
        report(options.results)


if __name__ == "__main__":
    main()
