"""A function run by PyTorch and through the backend, and the two results compared."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_leaves  # noqa: E402

from tileloom.frontend.torch import report, tileloom  # noqa: E402


def compiled(function: Any, **options: Any) -> Any:
    """The function through the backend, with a clean report."""
    torch._dynamo.reset()
    report().clear()
    return torch.compile(function, backend=tileloom, fullgraph=True, **options)


def fresh(values: tuple[Any, ...]) -> list[Any]:
    """Copies with the same strides, of tensors."""
    return [
        v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v
        for v in values
    ]


def assert_same(got: Any, expected: Any, tolerance: float = 1e-5, strides: bool = True) -> None:
    """Equal structure, values and, unless a dimension has extent 0 or 1, strides."""
    found, wanted = tree_leaves(got), tree_leaves(expected)
    assert len(found) == len(wanted)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance, equal_nan=True,
            msg=lambda text, k=k, a=a, b=b: f"result {k}: {text}\n{a}\n{b}",
        )  # fmt: skip
        if strides and isinstance(a, torch.Tensor) and not {0, 1} & set(a.shape):
            assert a.stride() == b.stride(), f"strides of result {k}"


def check(function: Any, *args: Any, left: int | None = 0, **options: Any) -> None:
    """The backend gives what PyTorch does, and leaves so many operators to it."""
    expected = function(*fresh(args))
    assert_same(compiled(function, **options)(*fresh(args)), expected)
    assert report().graphs
    assert left is None or report().fallbacks.total() == left, str(report())


def check_gradients(function: Any, *args: Any, left: int = 0, tolerance: float = 2e-5) -> None:
    """The same for the gradients of a weighted sum of the (first) result."""
    results = []
    for run in (function, compiled(function)):
        given = [v.requires_grad_() if v.is_floating_point() else v for v in fresh(args)]
        out = run(*given)
        weight = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape).cos()
        (out * weight).sum().backward()
        results.append([out, *[v.grad for v in given if v.requires_grad]])
    assert_same(results[1], results[0], tolerance, strides=False)
    assert report().fallbacks.total() == left, str(report())
