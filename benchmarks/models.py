"""Networks under torch.compile against PyTorch: `python -m benchmarks.models`.

BERT-base and ResNet-50, whole and without their products (see model_parts). Needs torch, timm and
transformers. With `--results` it writes benchmarks/RESULTS-models.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import harness_cli
from .harness import Builder, Call, Skip, Workload

RESULTS = Path(__file__).parent / "RESULTS-models.md"

#: What is asked of the part without products: this many times as fast as each peer.
BARS = {"torch": 1.5, "inductor": 1.0}

#: Blocks that a peer frees are kept for its next call, for every peer alike.
KEEP_MEMORY = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184"


class Results:
    """Tensors that NumPy sees as one long array."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        flat = [tensor.detach().reshape(-1).numpy() for tensor in _leaves(self.tensors)]
        return np.concatenate(flat).astype(dtype or np.float64)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


# ---------------------------------------------------------------------------- the networks


def bert_base(batch: int, attention: str) -> tuple[Any, tuple[Any, ...]]:
    """BERT-base and 128 words for it."""
    torch = _torch()
    try:
        import transformers
    except ModuleNotFoundError:
        raise Skip("transformers is not installed") from None
    config = transformers.BertConfig(attn_implementation=attention, return_dict=False)
    words = torch.randint(0, config.vocab_size, (batch, 128))
    return transformers.BertModel(config), (words,)


def resnet50(batch: int, _attention: str) -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50 and images of 224 x 224 for it."""
    torch = _torch()
    try:
        import timm
    except ModuleNotFoundError:
        raise Skip("timm is not installed") from None
    return timm.create_model("resnet50", pretrained=False), (torch.randn(batch, 3, 224, 224),)


@cache
def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        raise Skip("torch is not installed") from None
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    # torchvision, which both packages load, may come without its compiled operators.
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch._tileloom_benchmark_library = library  # the declarations live as long as this object
    return torch


def _alive(model: Any) -> Any:
    """Statistics and scales as after training; some start as zeros."""
    torch = _torch()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif value.is_floating_point() and value.ndim == 1:
                value.copy_(float(name.endswith("weight")) + 0.1 * torch.randn_like(value))
    return model.eval()


class Network:
    """A network, made when it is first wanted.

    Args:
        make: from batch and kind of attention to a model and its inputs.
        whole: whether with products.
    """

    def __init__(self, make: Callable[..., Any], batch: int, whole: bool) -> None:
        self.make, self.batch, self.whole = make, batch, whole
        self.made: tuple[Any, list[Any]] | None = None

    def get(self) -> tuple[Any, list[Any]]:
        """The module and its inputs."""
        if self.made is None:
            _torch().manual_seed(0)
            # Attention in one operator would be a product as a whole.
            model, inputs = self.make(self.batch, "sdpa" if self.whole else "eager")
            model = _alive(model)
            if not self.whole:
                from .model_parts import without_products

                model, inputs = without_products(model, inputs)
            self.made = model, list(inputs)
        return self.made

    def inputs(self, _rng: Any) -> tuple[Any, ...]:
        """The inputs as arrays."""
        return tuple(tensor.numpy() for tensor in self.get()[1])

    def reference(self, *_: Any) -> Any:
        """Everything in float64."""
        import copy

        torch = _torch()
        model, inputs = self.get()
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        with torch.no_grad():
            return np.asarray(Results(copy.deepcopy(model).double()(*wide)))

    def eager(self) -> Builder:
        """PyTorch as it is."""
        return lambda *_: self._call(self.get()[0])

    def compiled(self, backend: str) -> Builder:
        """Under torch.compile."""

        def build(*_: Any) -> Call:
            import copy

            torch = _torch()
            model = copy.deepcopy(self.get()[0])
            return self._call(torch.compile(model, backend=_backend(backend)))

        return build

    def graphs(self) -> list[Any]:
        """Tileloom's graphs of the compiled parts."""
        import copy

        from tileloom.frontend.torch import tileloom, watching

        torch = _torch()
        model, inputs = self.get()
        torch.compiler.reset()  # else code that is compiled already is taken for the copy
        with watching() as found, torch.no_grad():
            torch.compile(copy.deepcopy(model), backend=tileloom)(*inputs)
        return found

    def _call(self, function: Any) -> Call:
        torch, inputs = _torch(), self.get()[1]

        def call() -> Results:
            with torch.no_grad():
                return Results(function(*inputs))

        return call


def _backend(name: str) -> Any:
    if name != "tileloom":
        return name
    from tileloom.frontend.torch import tileloom

    return tileloom


# ---------------------------------------------------------------------------- workloads


def networks() -> dict[str, Network]:
    """By name."""
    return {
        f"{name}_b{batch}{'' if whole else '_rest'}": Network(make, batch, whole)
        for name, make in (("bert_base", bert_base), ("resnet50", resnet50))
        for batch in (1, 8)
        for whole in (False, True)
    }


def workloads(_extra: Sequence[str] = ()) -> list[Workload]:
    """All of them."""
    return [workload(name, network) for name, network in networks().items()]


def workload(name: str, network: Network) -> Workload:
    """A network with its peers."""
    return Workload(
        name,
        network.inputs,
        network.reference,
        {
            "tileloom": network.compiled("tileloom"),
            "torch": network.eager(),
            "inductor": network.compiled("inductor"),
        },
        rtol=1e-3,
        atol=1e-3,
    )


def main() -> int:
    """The command line."""
    arguments = sys.argv[1:]
    if os.environ.get("GLIBC_TUNABLES") != KEEP_MEMORY:
        os.environ["GLIBC_TUNABLES"] = KEEP_MEMORY
        os.execve(sys.executable, sys.orig_argv, dict(os.environ))
    if "--results" not in arguments:
        return harness_cli.main(__doc__ or "", workloads, arguments)
    from . import model_results

    arguments.remove("--results")
    found = networks()
    rows = [workload(name, network) for name, network in found.items()]
    return model_results.write(RESULTS, found, rows, BARS, arguments)


if __name__ == "__main__":
    sys.exit(main())
