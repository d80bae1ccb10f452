"""Files of models for the command line (ONNX, AKG), and the arrays that they are fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

import tileloom

from ..base.errors import ArgumentError, UserError

if TYPE_CHECKING:
    from ..frontend import akg, onnx
    from ..graph.nodes import Graph

Arrays = dict[str, Any]
Model: TypeAlias = "onnx.Model | akg.Model"
Info: TypeAlias = "onnx.ValueInfo | akg.TensorInfo"
#: How files of AKG graphs end; other models are ONNX.
_AKG = (".info", ".json")


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what a model is fed."""
    options = [
        click.option(
            "--input", "inputs", multiple=True, metavar="NAME=FILE.npy|random",
            help="What to feed to an input; random numbers unless told.",
        ),
        click.option(
            "--dim", "dims", multiple=True, metavar="NAME=N",
            help="The extent of a symbolic dimension; 1 unless told.",
        ),
        click.option("--seed", default=0, show_default=True, help="Of the random numbers."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def is_akg(path: str) -> bool:
    """Whether a file is an AKG graph, by its name."""
    return path.endswith(_AKG)


def is_model(path: str) -> bool:
    """Whether a file is a model rather than a script, by its name."""
    return path.endswith((".onnx", *_AKG))


def load(path: str, dims: Mapping[str, int]) -> Model:
    """The model in a file, specialised to these dimensions where they are known."""
    model: Model
    if not is_akg(path):
        model = tileloom.onnx.load(path, shapes=dims or None, dynamic=False)
    elif dims:
        raise ArgumentError("an AKG graph has no symbolic dimensions", hint="leave --dim out")
    else:
        model = tileloom.akg.load(path)
    return model


def graph_of(model: Model, feeds: Arrays) -> Graph:
    """The graph of a model for these inputs."""
    found: Any = model.graph
    result: Graph = found(feeds) if callable(found) else found
    return result


def call(model: Model, arrays: Arrays) -> list[Any]:
    """Run a model; inputs that it gives new values are copied first."""
    written = {info.name for info in model.get_inputs() if getattr(info, "written", False)}
    feeds = {name: array.copy() if name in written else array for name, array in arrays.items()}
    return model.run(None, feeds)


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """`["batch=4"]` as a dictionary.

    >>> parse_dims(["batch=4", "tokens=16"])
    {'batch': 4, 'tokens': 16}
    """
    found = {}
    for name, value in map(_pair, texts):
        if not (value.isascii() and value.isdigit()):
            raise ArgumentError(f"--dim {name}={value}: {value!r} is no extent")
        found[name] = int(value)
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ArgumentError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def make_inputs(
    infos: Sequence[Info], given: Sequence[str], dims: Mapping[str, int], seed: int
) -> Arrays:
    """An array for each input: from a file, or random."""
    rng = np.random.default_rng(seed)
    sources = dict(map(_pair, given))
    unknown = sources.keys() - {info.name for info in infos}
    if unknown:
        names = ", ".join(repr(info.name) for info in infos)
        raise ArgumentError(f"the model has no input {min(unknown)!r}", hint=f"it has {names}")
    return {
        info.name: random_array(info, dims, rng)
        if sources.get(info.name, "random") == "random"
        else read_array(sources[info.name])
        for info in infos
    }


def read_array(path: str) -> Any:
    """The array in an .npy file."""
    try:
        return np.load(Path(path), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} holds no array: {error}", hint="use numpy.save") from None


def random_array(info: Info, dims: Mapping[str, int], rng: np.random.Generator) -> Any:
    """Numbers of a normal distribution; zeros and ones for integers, which may be indices."""
    if not info.is_tensor or info.shape is None or info.dtype == np.dtype(object):
        raise ArgumentError(
            f"random numbers cannot be made for input {info.name!r} of type {info.type}",
            hint=f"pass --input {info.name}=FILE.npy",
        )
    shape = [dims.get(d, 1) if isinstance(d, str) else 1 if d is None else d for d in info.shape]
    if info.dtype.kind in "biu":
        return rng.integers(0, 2, shape).astype(info.dtype)
    return rng.standard_normal(shape).astype(info.dtype)
