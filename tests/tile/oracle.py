"""Triton's own passes, on text: the oracle of tests of tile IR. It needs no GPU.

The wheel `triton==3.2.*` is looked for in the interpreter named by the environment variable
TILELOOM_TRITON_PYTHON, or in the present one. It runs in a server that forks for each request,
because a failed check in Triton's C++ ends the process.

    @needs_oracle
    def test_it() -> None:
        assert_isomorphic(ours, triton_passes(text, "ttgpuir.add_coalesce"))
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import pytest

from tileloom.tile import parse, show
from tileloom.tile.ir.core import Operation

VARIABLE = "TILELOOM_TRITON_PYTHON"

# Runs in the interpreter that has Triton; one request and one answer a line.
SERVER = r"""
import json, os, re, sys, tempfile
from triton._C.libtriton import ir, nvidia, passes

def strip(text):
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    return re.sub(r' loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)', "", text)

def argument(text):
    return int(text) if text.isdigit() else text.replace("-", ":")

def answer(text, steps):
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    manager = ir.pass_manager(context)
    manager.enable_debug()
    for step in steps:
        name, *arguments = step.split(":")
        group, function = name.split(".")
        place = passes if group != "nvidia" else nvidia.passes
        part = getattr(place, group) if group != "nvidia" else place.ttnvgpuir
        getattr(part, function)(manager, *map(argument, arguments))
    manager.run(module)
    return strip(str(module))

for line in sys.stdin:
    request = json.loads(line)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            try:
                os.environ["TRITON_LLVM_DEBUG_ONLY"] = request.get("debug", "")
                made = {"text": answer(request["text"], request["steps"])}
                log.seek(0)
                made["log"] = log.read().decode(errors="replace")
            except Exception as error:
                log.seek(0)
                made = {"error": str(error) + log.read().decode(errors="replace")}
        with os.fdopen(writing, "w") as out:
            out.write(json.dumps(made))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as source:
        made = source.read()
    os.waitpid(child, 0)
    print(made or json.dumps({"error": "Triton ended the process"}), flush=True)
"""


class OracleError(Exception):
    """Triton refused a module, or ended its process."""


@cache
def oracle_python() -> str | None:
    """The interpreter that has the wheel, or None."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    if find_spec("triton") is None:
        return None
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:  # another package of this name
        return None
    return sys.executable if version.startswith("3.2.") else None


needs_oracle = pytest.mark.skipif(oracle_python() is None, reason="needs triton 3.2")


@cache
def _server() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [oracle_python() or sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.kill)
    return process


def triton_passes(module: Operation | str, *steps: str) -> Operation:
    """A module after passes of Triton, given as it names them in Python: `common.add_cse`,
    `ttgpuir.add_pipeline:3` with an argument. The module itself stays as it is.

    Raises:
        OracleError: if Triton refuses the module, or its process ends.
    """
    given = parse(module) if isinstance(module, str) else module
    return parse(triton_text(show(given, spelling="3.2"), *steps))


def triton_text(text: str, *steps: str) -> str:
    """The text of a module in the spelling of 3.2 after passes of Triton."""
    return str(_request({"text": text, "steps": steps})["text"])


def triton_log(text: str, *steps: str, debug: str) -> str:
    """What passes of Triton log, on the text of a module in the spelling of 3.2."""
    return str(_request({"text": text, "steps": steps, "debug": debug})["log"])


def _request(request: dict[str, Any]) -> dict[str, Any]:
    process = _server()
    if process.stdin is None or process.stdout is None:
        raise OracleError("the server has no pipes")
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise OracleError("the server of Triton's passes ended")
    made: dict[str, Any] = json.loads(line)
    if "error" in made:
        raise OracleError(made["error"])
    return made
