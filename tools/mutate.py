"""Change the sources in small ways, one at a time, and see whether a test fails.

    python tools/mutate.py map                        which tests call which functions (Python 3.12)
    python tools/mutate.py run --seed 7 --count 200   draw sites over all rooms and try them
    python tools/mutate.py run --kinds guard --room schedule --count 50
    python tools/mutate.py run --quick --file analysis/lanes --tests tests/lower    functions alone
    python tools/mutate.py run --again tests/expr     try the survivors with these tests
    python tools/mutate.py report                     what was tried, the survivors last

`TILELOOM_CASES=2` in front of `map` runs two cases of each test: it takes a fraction of the time.

A test suite is as good as the faults it finds. `map` runs the fast suite once and notes the
functions that each test calls; `run` changes one place and runs the tests that call the function
around it, the most special ones first, until one fails: first in children of one process, which
takes a second or so, then, where none failed, in a copy of the tree. What was tried is kept in the
folder `.mutation`, so that a run may be interrupted; `run` goes on where it was.
Survivors are either faults that no test would find, or changes that change nothing: a person tells
them apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from mutation_sites import KINDS, Site, sites_of

if TYPE_CHECKING:
    from mutation_forks import Batch

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
BUDGET = 40.0
#: Seconds of the first tests, most of which call little else.
FIRST = 4.0
#: A change may make a test slower before that counts as found.
PATIENCE = 5.0
#: Seconds for tests whose time is not known.
LONGEST = 400.0
#: Bytes that the tests of one change may take.
MEMORY = 8 << 30


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
        for path in sorted(folder.glob("calls-*.jsonl")):
            names: dict[int, tuple[str, int]] = {}
            for line in path.read_text().split("\n")[:-1]:
                test, seconds, called, new = json.loads(line)
                names |= {int(k): (str(file), int(at)) for k, (file, at) in new.items()}
                for name in map(names.__getitem__, called):
                    functions[name].append(len(tests))
                    files[name[0]].add(len(tests))
                tests.append((test, seconds, len(called)))
        if not tests:
            sys.exit("there is no map yet: python tools/mutate.py map")
        return Calls(functions, {file: sorted(found) for file, found in files.items()}, tests)

    def of(self, site: Site) -> list[tuple[list[str], float]]:
        """The tests for a site, in batches to run one after another until one fails.

        First a few that call little else, then tests of many files within the budget, those in
        the nearest folders first; last those of the file's own, all cases of the first, and some
        that call anything of the site's file: what is computed once and kept is seen in one test
        alone, whoever uses it. A batch goes with the seconds that it may take.
        """
        around = self.by_file.get(site.file, ())
        found = self.by_function.get((site.file, site.line), ()) if site.line else around
        first = self._within(sorted(found, key=self._cost), FIRST, 40)
        more = self._within(self._spread(set(found) - set(first), site.file), BUDGET)
        others = self._within(self._spread(set(around) - set(found), site.file), BUDGET / 4)
        cases = {name.split("[")[0]: None for name in self._names(first)}
        rest = [*own_tests(site), *cases, *self._names(others)]
        limits = [60 + PATIENCE * sum(self.tests[k][1] for k in batch) for batch in (first, more)]
        batches = zip([self._names(first), self._names(more), rest], [*limits, LONGEST])
        return [(batch, limit) for batch, limit in batches if batch]

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self.tests[number][0] for number in numbers]

    def _cost(self, number: int) -> float:
        return self.tests[number][1] * self.tests[number][2]

    def _spread(self, numbers: Iterable[int], source: str) -> Iterator[int]:
        """One test of each file of the nearest folder, the cheapest; then the next of each."""
        folders: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number in sorted(numbers, key=self._cost):
            file = self.tests[number][0].split("::")[0]
            folders[_distance(file, source)][file].append(number)
        for _, files in sorted(folders.items()):
            for row in zip_longest(*files.values()):
                yield from (number for number in row if number is not None)

    def _within(self, numbers: Iterable[int], budget: float, most: int = 5000) -> list[int]:
        chosen: list[int] = []
        for number in islice(numbers, most):
            budget -= self.tests[number][1]
            if budget < 0 and chosen:
                break
            chosen.append(number)
        return chosen


def _distance(test: str, source: str) -> int:
    """How many folders of the sources do not come back in the path of a test."""
    folders, there = Path(source).parts[1:-1], Path(test).parts[1:]
    same = (a == b for a, b in zip(folders, there, strict=False))
    return len(folders) - sum(takewhile(bool, same))


def own_tests(site: Site) -> list[str]:
    """The tests that mirror the site's file, or else its folder; and its own examples."""
    path = Path(site.file).relative_to("tileloom")
    mirrors = (Path("tests", p.parent, f"test_{p.stem}.py") for p in (path, *path.parents[:-1]))
    found = list(islice((m for m in mirrors if (ROOT / m).exists()), 1))
    examples = Path("src", site.file)
    found += [examples] if ">>>" in (ROOT / examples).read_text() else []
    return [str(file) for file in found]


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


def run(site: Site, batches: Sequence[tuple[Sequence[str], float]], tree: Path) -> tuple[str, str]:
    """Try a change in a copy of the tree: ("killed" or "survived", by what).

    A batch is tests and the seconds that they may take.
    """
    file = tree / "src" / site.file
    source = file.read_bytes()
    try:
        file.write_bytes(site.apply(source))
        for tests, limit in batches:
            fault = test(tests, tree, limit)
            if fault:
                return "killed", fault
    finally:
        file.write_bytes(source)
    return "survived", f"{sum(len(tests) for tests, _ in batches)} tests"


def test(tests: Sequence[str], tree: Path, limit: float) -> str:
    """What fails first, empty where nothing does."""
    cache = tempfile.mkdtemp(prefix="cache-", dir=tree)
    env = {**os.environ, "TILELOOM_CACHE_DIR": cache, "PYTHONPATH": str(tree / "src")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    (tree / "tests.txt").write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", *options, "@tests.txt"]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "it takes too long"
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    if process.returncode == 0:
        return ""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:200] if lines else f"exit status {process.returncode}"


def try_all(
    sites: Sequence[Site],
    batches: Callable[[Site], Sequence[tuple[Sequence[str], float]]],
    workers: int,
    results: Path,
) -> None:
    """Try sites, each worker in a tree of its own; results are added line by line."""
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
            tests = batches(site)
            if not tests:
                return entry_of(site, "survived", "no test calls this")
            tree = trees.get()
            try:
                return entry_of(site, *run(site, tests, tree))
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(workers) as pool, results.open("a") as out:
            for done, ready in enumerate(as_completed(pool.submit(one, s) for s in sites), 1):
                entry = ready.result()
                print(
                    f"{done}/{len(sites)} {entry['what']}: {entry['site']} ({entry['by']})",
                    flush=True,
                )
                out.write(json.dumps(entry) + "\n")
                out.flush()


def entry_of(site: Site, what: str, by: str) -> dict[str, str]:
    """A line of the results."""
    return {"name": site.name, "room": site.room, "what": what, "by": by, "site": str(site)}


def read_results(path: Path) -> Iterator[dict[str, str]]:
    """The last result of each site."""
    if path.exists():
        entries = map(json.loads, path.read_text().splitlines())
        yield from {entry["name"]: entry for entry in entries}.values()


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


def run_all(options: argparse.Namespace) -> None:
    """Draw sites and try those that were not tried yet; or try the survivors with other tests."""
    everything = all_sites(options.room, options.kinds)
    if options.file:
        everything = [s for s in everything if any(text in s.file for text in options.file)]
    entries = list(read_results(options.results))
    if options.again:
        again = {entry["name"] for entry in entries if entry["what"] == "survived"}
        sites = [site for site in everything if site.name in again and options.only in str(site)]
        batch = (options.again, LONGEST)
        try_all(sites, lambda site: [batch], options.workers, options.results)
        return
    calls = Calls.read(STORE / "calls")
    known = {entry["name"] for entry in entries}
    drawn = draw(everything, options.count, options.seed)

    left = [site for site in drawn if site.name not in known]
    inside = [site for site in left if site.function]
    try_forks(inside, calls.of, options)
    if options.quick:
        return
    known = {e["name"] for e in read_results(options.results) if e["what"] == "killed"}
    left = [site for site in left if site.name not in known]
    try_all(left, calls.of, options.workers, options.results)


def try_forks(
    sites: Sequence[Site],
    batches: Callable[[Site], Sequence[Batch]],
    options: argparse.Namespace,
) -> None:
    """Try sites in children of one process."""

    def done(site: Site, killer: str | None) -> None:
        if killer is None:
            return
        entry = entry_of(site, "killed" if killer else "survived", killer or "in a child")
        print(f"{entry['what']}: {entry['site']} ({entry['by']})", file=sys.stderr, flush=True)
        with options.results.open("a") as out:
            out.write(json.dumps(entry) + "\n")

    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    from mutation_forks import Forks  # which imports the sources that are changed

    forks = Forks(ROOT / "src", sites, batches, done, workers=options.workers, memory=MEMORY)
    forks.run(options.tests)


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
    running.add_argument(
        "--again", nargs="+", default=[], metavar="TEST", help="try the survivors with these tests"
    )
    running.add_argument(
        "--only", default="", metavar="TEXT", help="of the survivors, those described so"
    )
    running.add_argument(
        "--quick", action="store_true", help="functions only, in children of one process"
    )
    running.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="of children: collect only these"
    )
    running.add_argument(
        "--file", action="append", default=[], metavar="TEXT", help="sites of files named so"
    )
    running.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    for command in (running, commands.add_parser("report", help="what was tried")):
        command.add_argument("--results", type=Path, default=STORE / "results.jsonl")
    options, rest = parser.parse_known_args()
    if rest and options.command != "map":
        parser.error(f"unknown arguments {rest}")
    if options.command == "map":
        make_map(rest or ["-n", "auto"])
    elif options.command == "run":
        run_all(options)
    if options.command != "map":
        report(options.results)


if __name__ == "__main__":
    main()
