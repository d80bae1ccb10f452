"""Views, mutation and memory: what a user can see besides values."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tileloom.frontend.torch import report  # noqa: E402

from .helpers import assert_same, check, compiled, fresh  # noqa: E402


def image(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dynamic", [None, True])
def test_mutation_of_inputs_through_views(dynamic: bool | None) -> None:
    def function(x: Any, b: Any) -> Any:
        x.add_(1)
        part = x[1:]
        part.mul_(2)
        b[0] = 5
        x.t()[0].zero_()
        return x.t(), part.sum()

    given = (image(4, 3), torch.zeros(3))
    first, second = fresh(given), fresh(given)
    expected = function(*first)
    got = compiled(function, dynamic=dynamic)(*second)
    assert_same(got, expected)
    assert_same(second, first)
    assert got[0].untyped_storage().data_ptr() == second[0].untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "x",
    [
        image(3, 4, 5),
        image(5, 4, 3).permute(2, 1, 0),
        image(3, 4, 10)[..., ::2],
        image(4, 5).expand(3, 4, 5),
        image(200)[7:67].reshape(3, 4, 5),
    ],
    ids=["compact", "permuted", "gaps", "expanded", "offset"],
)
def test_strides_of_results_are_those_of_pytorch(x: Any) -> None:
    def function(x: Any) -> Any:
        y = (x * 2).permute(2, 0, 1)
        wide = x.mean((0, 2), keepdim=True).expand(3, 4, 5)
        return y, y[0], x.transpose(0, 1), y.contiguous(), (x + 1).expand(2, *x.shape), wide

    expected = function(x)
    assert_same(compiled(function)(x), expected)


def test_images_with_channels_last() -> None:
    layer = torch.nn.Conv2d(3, 4, 3).eval()
    x = image(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert_same(compiled(layer)(x), layer(x))


def test_parameters_are_passed_by_reference() -> None:
    layer = torch.nn.Linear(4, 3)
    run, x = compiled(layer), image(2, 4)
    with torch.no_grad():
        before = run(x)
        layer.weight.zero_()
        layer.bias.fill_(2)
        assert torch.equal(run(x), torch.full((2, 3), 2.0))
        assert not torch.equal(before, run(x))


def test_results_share_no_memory() -> None:
    run, x = compiled(lambda x: (x.clone(), x + 0, x.clone())), image(64, 64)
    first, second = run(x), run(x)
    assert len({t.data_ptr() for t in (*first, *second, x)}) == 7
    first[0].zero_()
    assert torch.equal(second[0], x)


def test_memory_outlives_and_returns() -> None:
    run, x = compiled(lambda x: x * 2), image(256, 256)
    kept = run(x)[3]
    gc.collect()
    for _ in range(4):
        run(x + 1)
    assert torch.equal(kept, x[3] * 2)


def test_inference_of_parameters_that_want_gradients() -> None:
    weight = image(3, 3).requires_grad_()
    run = compiled(lambda x: x @ weight + weight)
    with torch.no_grad():
        assert_same(run(image(2, 3, 3)), image(2, 3, 3) @ weight + weight)


def test_views_alone_compile_nothing() -> None:
    check(lambda x: (x.t()[1:], x.view(-1), x.split(2)), image(4, 5))
    assert not report().parts


def test_arguments_in_another_order_of_dimensions_are_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, x = compiled(lambda x, y: (x + 1, x @ y.mT, x.sum(0))), image(6, 4).t()
    y = image(3, 2, 6).permute(1, 0, 2)
    expected = (x + 1, x @ y.mT, x.sum(0))
    run(x, y)

    def copy(self: Any) -> None:
        raise RuntimeError("a copy was made")

    monkeypatch.setattr(torch.Tensor, "contiguous", copy)
    assert_same(run(x, y), expected)


def test_complex_numbers_are_left_to_pytorch() -> None:
    """A decomposition of logaddexp has complex literals that are not finite."""
    a, b = (torch.complex(image(2, 3), image(2, 3) + k) for k in (1, 2))
    a[0, 0], b[0, 1] = complex("inf"), complex("nan")
    expected = torch.logaddexp(a, b)
    torch.testing.assert_close(compiled(torch.logaddexp)(a, b), expected, equal_nan=True)
