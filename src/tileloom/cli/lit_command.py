"""`tileloom lit`: files of MLIR text whose comments say how they are tested."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from ..tile.tools.lit import FEATURES, find_tests, run_test


@click.command("lit")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("-D", "--feature", "features", multiple=True, help="A feature that REQUIRES may ask.")
@click.option("-q", "--quiet", is_flag=True, help="Only what fails.")
def command(paths: Sequence[str], features: Sequence[str], quiet: bool) -> None:
    """Run tests: files with comments such as `// RUN: triton-opt %s -cse | FileCheck %s`.

    triton-opt is `tileloom opt`; FileCheck comes with `pip install "tileloom[lit]"`. Of a folder,
    all .mlir, .ttir and .ttgir files with a RUN line are run.
    """
    counts: Counter[str] = Counter()
    for path in find_tests(map(Path, paths)):
        result = run_test(path, {*FEATURES, *features})
        counts[result.code] += 1
        if not (quiet and result.is_good):
            click.echo(f"{result.code}: {path} ({result.seconds:.2f} s)")
        if not result.is_good:
            click.echo("  " + result.output.rstrip().replace("\n", "\n  "))
        if not result.is_good:
            counts["bad"] += 1
    bad = counts.pop("bad", 0)
    click.echo(", ".join(f"{count} {code}" for code, count in counts.items()) or "no tests")
    if bad:
        sys.exit(1)
