"""Parts that run elsewhere than on the CPU: by the emulator, and on a GPU that a driver fakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tileloom.base.errors import UnsupportedError  # noqa: E402
from tileloom.base.settings import override  # noqa: E402
from tileloom.frontend.torch import report, tileloom  # noqa: E402

EMULATOR = {"target": "cuda -arch=sm_80", "device": "emulator"}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    report().clear()
    yield
    torch._dynamo.reset()


def model() -> Any:
    layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    return torch.nn.Sequential(*layers)


def test_a_model_on_the_emulator() -> None:
    net, x = model(), torch.randn(5, 8)
    compiled = torch.compile(net, backend=tileloom, options=EMULATOR, dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    assert report().parts == 1 and not report().fallbacks


def test_many_sizes_on_the_emulator() -> None:
    net = model()
    compiled = torch.compile(net, backend=tileloom, options=EMULATOR, dynamic=True)
    with torch.no_grad():
        for batch in (5, 2, 31):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    assert report().graphs == 1


def test_training_on_the_emulator() -> None:
    net, x = model(), torch.randn(5, 8)
    compiled = torch.compile(net, backend=tileloom, options=EMULATOR, dynamic=False)
    found = torch.autograd.grad(compiled(x).square().sum(), list(net.parameters()))
    wanted = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_weights_are_not_prepared_for_another_device() -> None:
    net, x = model().eval(), torch.randn(5, 8)
    options = {**EMULATOR, "freeze": True}
    compiled = torch.compile(net, backend=tileloom, options=options, dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)


def test_a_device_that_there_is_not() -> None:
    compiled = torch.compile(torch.sin, backend=tileloom, options={"device": "tpu"})
    with pytest.raises(Exception, match="no device 'tpu'") as caught:
        compiled(torch.ones(3))
    found: Any = caught.value
    causes = [found, found.__cause__, getattr(found, "inner_exception", None)]
    assert any(isinstance(each, UnsupportedError) for each in causes)


# ---------------------------------------------------------------------------- tensors on a GPU


class Tensor:
    """A tensor of PyTorch on a GPU as far as parts look at it; this PyTorch may have no CUDA."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def detach(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return self

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def to(self, device: Any) -> Tensor:
        assert device == torch.device("cuda:0")
        return self


def traced(function: Any, *shapes: Any) -> Any:
    """A function of tensors on a GPU as `torch.compile` hands it over; no GPU is needed."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        given = [torch.empty(shape, device="cuda") for shape in shapes]
        return make_fx(function, tracing_mode="fake")(*given)


def test_parts_of_tensors_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They take the tensors where they are, and leave their results there."""
    pytest.importorskip("cuda.bindings.driver")
    from runtime.cuda import fake_library
    from runtime.cuda.fake_driver import FakeDriver
    from runtime.cuda.test_graphs import taught
    from tileloom.frontend.torch.assemble import assemble
    from tileloom.frontend.torch.place import place_of, settle
    from tileloom.runtime import cuda

    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver, or no C compiler for the fake one")
    module = traced(lambda x, y: (torch.softmax(x + y, 1), x * 2), (3, 40), (40,))
    settle(module.graph)
    assert place_of(module.graph).device == "cuda:0"
    cuda.reset()
    driver = FakeDriver()
    with override(cache_dir=tmp_path), fake_library.plugged(driver):
        taught(driver, monkeypatch)
        joined = assemble(module)
        (part,) = {n.target for n in joined.graph.nodes if hasattr(n.target, "graph")}
        monkeypatch.setattr(torch, "from_dlpack", Tensor)
        x, y = (np.random.default_rng(0).standard_normal(s).astype("f4") for s in ((3, 40), 40))
        before = len(driver.launched)
        soft, twice = part(*(Tensor(cuda.asarray(a)) for a in (x, y)))
        assert len(driver.launched) > before
        e = np.exp(x + y)
        np.testing.assert_allclose(soft.array.numpy(), e / e.sum(1, keepdims=True), 1e-5)
        np.testing.assert_array_equal(twice.array.numpy(), x * 2)
        assert not driver.problems
        del soft, twice, part, joined
    cuda.reset()


def test_what_is_on_the_cpu_stays_with_pytorch() -> None:
    """Beside tensors on a GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from tileloom.frontend.torch.parts import FxPartition
    from tileloom.frontend.torch.place import settle
    from tileloom.frontend.torch.sizes import TracedSizes

    with FakeTensorMode():
        x, y = torch.empty(3, device="cuda"), torch.empty(3)
        module = make_fx(lambda x, y: (x.exp(), y.sin()), tracing_mode="fake")(x, y)
    settle(module.graph)
    partition = FxPartition(module.graph, TracedSizes())
    assert set(partition.compiled) == {"aten.exp.default"}
    assert [name for name, _ in partition.left] == ["aten.sin.default"]
