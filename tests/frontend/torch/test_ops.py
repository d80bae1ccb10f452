"""ATen operators one by one: what the handler makes, evaluated, against PyTorch itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tileloom.base.errors import UnsupportedError  # noqa: E402
from tileloom.frontend.torch.call import Call  # noqa: E402
from tileloom.frontend.torch.registry import lookup  # noqa: E402
from tileloom.frontend.torch.sizes import TracedSizes  # noqa: E402
from tileloom.graph.nodes import Graph, Tensor  # noqa: E402
from tileloom.graph.run import run  # noqa: E402

torch.manual_seed(3)
INF, NAN = math.inf, math.nan


def t(*values: Any, kind: Any = None) -> Any:
    return torch.tensor(values, dtype=kind)


def n(*shape: int) -> Any:
    return torch.randn(shape)


def i(*shape: int, low: int = -5, high: int = 6) -> Any:
    return torch.randint(low, high, shape)


def given(value: Any, inputs: dict[Tensor, Any]) -> Any:
    """The argument of a handler in place of PyTorch's."""
    if isinstance(value, torch.Tensor):
        tensor = Tensor(TracedSizes().type_of(value), f"x{len(inputs)}")
        inputs[tensor] = value
        return tensor
    if isinstance(value, (list, tuple)):
        return [given(item, inputs) for item in value]
    return value


def made(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The results of the operator `name`, and those of its handler, evaluated."""
    packet, overload = name.split(".")
    wanted = getattr(getattr(torch.ops.aten, packet), overload)(*args, **options)
    handler = lookup(f"aten.{name}")
    assert handler is not None, name
    inputs: dict[Tensor, Any] = {}
    call = Call(f"aten.{name}", args, wanted, TracedSizes())
    found = handler(call, *(given(arg, inputs) for arg in args),
                    **{k: given(v, inputs) for k, v in options.items()})  # fmt: skip
    outputs = list(found) if isinstance(found, (list, tuple)) else [found]
    arrays = run(Graph(list(inputs), outputs), [x.numpy() for x in inputs.values()])
    return list(wanted) if isinstance(wanted, (list, tuple)) else [wanted], arrays


X, Y, C = n(3, 4), n(3, 4), n(2, 3, 4)
SQUARE, VOLUME = n(2, 3, 7, 6), n(2, 3, 5, 6, 4)
INDEX = torch.tensor([[0, 2, -1], [1, 1, 0]])
SOME = torch.tensor([2, 0, 1])
B = X > 0

CASES: list[tuple[Any, ...]] = [
    # Scatter: along each axis, of fewer rows than there are, of scalars.
    ("scatter.src", X, 0, i(2, 4, low=0, high=3), n(3, 4)),
    ("scatter.src", X, 1, i(3, 2, low=0, high=4), n(3, 4)),
    ("scatter.src", X, -1, i(2, 3, low=0, high=4), n(2, 4)),
    ("scatter.src", X, -2, i(1, 3, low=0, high=3), n(2, 4)),
    ("scatter.src", C, 1, i(2, 2, 3, low=0, high=3), n(2, 3, 4)),
    ("scatter.src", t(1.0, 2.0, 3.0), 0, t(2, 0), t(9.0, 8.0)),
    ("scatter.src", t(1.0, 2.0, 3.0), 0, t(1, 1), t(9.0, INF)),
    ("scatter.src", torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(5.0)),
    ("scatter.src", B, 0, i(2, 4, low=0, high=3), n(3, 4) > 0),
    ("scatter.src", X, 0, torch.zeros((0, 4), dtype=torch.int64), n(3, 4)),
    ("scatter.value", X, 0, i(2, 4, low=0, high=3), 7.0),
    ("scatter.value", i(3, 4), 1, i(2, 4, low=0, high=4), 7),
    ("scatter.reduce", X, 0, i(2, 4, low=0, high=3), n(3, 4), {"reduce": "add"}),
    ("scatter.reduce", X, 1, i(2, 4, low=0, high=3), n(3, 4), {"reduce": "multiply"}),
    ("scatter_add.default", X, 0, i(2, 4, low=0, high=3), n(3, 4)),
    ("scatter_add.default", i(3, 4), 1, i(3, 4, low=0, high=4), i(3, 4)),
    *[("scatter_reduce.two", X, dim, i(2, 3, low=0, high=3), n(3, 4), rule, {"include_self": own})
      for dim in (0, 1) for own in (True, False)
      for rule in ("sum", "prod", "mean", "amax", "amin")],
    # Writes at places.
    ("index_put.default", X, [t(0, 2, -1)], n(3, 4)),
    ("index_put.default", X, [t(0, 2, 0)], n(3, 4)),
    ("index_put.default", X, [t(0, 2, 0)], n(3, 4), True),
    ("index_put.default", X, [None, t(3, -4)], n(3, 2)),
    ("index_put.default", X, [t(0, 2), t(3, -1)], n(2)),
    ("index_put.default", X, [t(0, 0), t(3, 3)], n(2), True),
    ("index_put.default", C, [None, t(0, 2), t(3, -1)], n(2, 2)),
    ("index_put.default", C, [t(0, 1), None, t(3, -1)], n(2, 3)),
    ("index_put.default", C, [t(0, 1)], torch.tensor(5.0)),
    ("index_put.default", C, [None, INDEX], n(2, 2, 3, 4), True),
    ("index_put.default", X, [B], torch.tensor(5.0)),
    ("index_put.default", X, [B], torch.tensor(5.0), True),
    ("index_put.default", X, [t(True, False, True)], torch.tensor([5.0])),
    ("index_put.default", X, [torch.zeros(0, dtype=torch.int64)], n(0, 4)),
    # Reading at places.
    ("gather.default", X, 0, i(2, 3, low=0, high=3)),
    ("gather.default", X, -1, i(2, 3, low=0, high=4)),
    ("gather.default", torch.tensor(1.5), 0, torch.tensor([0])),
    ("index_select.default", C, -1, t(3, 0)),
    ("index_select.default", torch.tensor(1.5), 0, t(0)),
    ("index.Tensor", X, [t(0, -1)]),
    ("index.Tensor", X, [None, INDEX]),
    ("index.Tensor", C, [t(0, 1), t(2, -1)]),
    ("index.Tensor", C, [None, t(0, 1), t(2, -1)]),
    ("index.Tensor", C, [t(0, 1), None, t(2, -1)]),
    ("index.Tensor", n(2, 3, 4, 5), [None, INDEX, t(2, -1, 0)]),
    ("index.Tensor", n(2, 3, 4, 5), [None, None, t(1), t(2, -1, 0)]),
    ("embedding.default", X, INDEX.abs()),
    # Written views.
    *[("slice_scatter.default", n(3, 7), n(*shape), dim, start, end, step)
      for shape, dim, start, end, step in [
          ((3, 2), 1, 2, 4, 1), ((3, 7), 1, None, None, 1), ((1, 7), 0, -1, None, 1),
          ((3, 3), -1, 1, 7, 2), ((3, 2), 1, 0, 6, 3), ((3, 1), 1, 5, 7, 3), ((3, 2), 1, -3, -1, 1),
          ((3, 0), 1, 5, 2, 1), ((3, 7), 1, -99, 99, 1)]],
    ("select_scatter.default", X, n(4), 0, -1),
    ("select_scatter.default", X, n(3), 1, 2),
    ("select_scatter.default", X, n(3), -1, 0),
    # Views.
    ("transpose.int", C, 0, -1), ("t.default", X), ("t.default", n(3)), ("permute.default", C,
                                                                        [2, 0, 1]),
    ("slice.Tensor", X, 1, 1, 3), ("slice.Tensor", X, -1, -3, None, 2), ("slice.Tensor", X),
    ("select.int", C, 1, -1), ("select.int", C, -1, 2),
    ("split.Tensor", n(7, 2), 3), ("split.Tensor", n(2, 7), 3, -1),
    ("split_with_sizes.default", n(2, 7), [1, 0, 6], 1),
    *[("diagonal.default", n(3, 5, 4), offset, a, b)
      for offset in (-3, -1, 0, 2, 4, 9, -9) for a, b in ((0, 1), (1, 0), (-1, 0), (1, 2))],
    ("as_strided.default", n(12), [3, 2], [4, 1], 1), ("as_strided.default", n(12), [4, 3], [1, 4]),
    ("as_strided.default", n(12), [2, 3], [3, 1], 6), ("as_strided.default", n(5), [3, 3], [1, 1]),
    ("as_strided.default", n(12), [0, 3], [3, 1]), ("as_strided.default", n(3), [2, 3], [0, 1]),
    ("as_strided.default", n(12)[4:10], [2, 2], [3, 1], 5), ("as_strided.default", n(4), [1], [1]),
    # Resampling by sizes, and by scales that are not what the sizes make.
    *[(f"{name}.default", n(1, 2, 5, 7, 3)[(slice(None), slice(None), *[0] * (3 - rank))],
       [3 * size // 2 for size in (5, 7, 3)[3 - rank :]], *given)
      for name, rank in [(f"{kind}{rank}d", rank) for rank in (1, 2, 3)
                         for kind in ("upsample_nearest", "_upsample_nearest_exact")]
      for given in ((), (1.6,) * rank, (None,) * rank)],
    *[(f"upsample_{name}.default", n(1, 2, 5, 7, 3)[(slice(None), slice(None), *[0] * (3 - rank))],
       [3 * size // 2 for size in (5, 7, 3)[3 - rank :]], align, *given)
      for rank, name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d"))
      for align in (False, True) for given in ((), (1.6,) * rank, (None,) * rank)],
    ("cat.default", [X, torch.zeros(0), Y], 0), ("cat.default", [X, i(3, 2)], -1),
    ("cat.default", [torch.zeros(0)]), ("stack.default", [X, Y], -1),
    ("repeat.default", X, [2, 1, 3]), ("repeat.default", X, [0, 2]),
    ("flip.default", C, [0, -1]), ("flip.default", C, []), ("flip.default", torch.tensor(1.0), []),
    ("roll.default", X, [1]), ("roll.default", X, [-1, 2], [0, 1]), ("roll.default", n(0, 3), [1]),
    ("constant_pad_nd.default", C, [1, 2, 0, 3], 5.0), ("constant_pad_nd.default", B, [1, 0], True),
    ("constant_pad_nd.default", i(2, 3), [0, -1, 1, 1], 7), ("constant_pad_nd.default", X, []),
    ("tril.default", X, -1), ("triu.default", X, 2), ("unfold.default", n(3, 9), 1, 4, 2),
    ("unfold.default", n(5, 3), -2, 2, 3), ("unfold.default", torch.tensor(2.0), 0, 1, 1),
    # Reductions.
    *[(f"{name}", C, dims, keep) for name in ("sum.dim_IntList", "mean.dim", "amax.default",
                                              "amin.default")
      for dims in ([], [0], [-1, 0], [1]) for keep in (False, True)],
    ("sum.default", i(2, 3)), ("sum.default", B), ("prod.default", i(2, 3)), ("mean.default", X),
    ("sum.dim_IntList", torch.tensor(2.0), [0]), ("prod.dim_int", C, -2, True),
    ("any.default", B), ("any.dim", B, 0), ("any.dims", B, [-1], True), ("any.dims", B, []),
    ("all.default", i(2, 3)), ("all.dim", B, -1, True), ("all.dims", B, [0, 1]),
    ("all.dims", B, []),
    *[("var.correction", C, dims, {"correction": correction, "keepdim": keep})
      for dims in (None, [0], [1, -1]) for correction in (None, 0, 1, 2.5) for keep in (False,
                                                                                       True)],
    ("var.correction", n(1, 3), [0]), ("var_mean.correction", C, [1], {"keepdim": True}),
    ("var_mean.correction", C, [0, 2], {"correction": 0}),
    ("argmax.default", X), ("argmax.default", C, 1, True), ("argmin.default", C, -1),
    ("argmax.default", torch.tensor(1.0)),
    ("max.dim", C, -1), ("min.dim", C, 0, True), ("max.dim", torch.tensor(1.0), 0),
    # Running.
    ("cumsum.default", X, 1), ("cumsum.default", i(3, 4), -2), ("cumprod.default", X, 0),
    ("cumsum.default", torch.tensor(1.0), 0), ("logcumsumexp.default", C, 1),
    ("logcumsumexp.default", n(0, 3), 1),
    ("cummax.default", t([1.0, 3.0, 3.0, -INF], [NAN, 1.0, 9.0, 2.0]), 1),
    ("cummin.default", t([INF, INF, 3.0, 3.0], [2.0, NAN, 1.0, 2.0]), -1),
    ("cummax.default", C, 0), ("cummin.default", C, 1), ("cummax.default", torch.tensor(1.0), 0),
    ("bucketize.Tensor", n(3, 2), t(-1.0, 0.0, 0.5)),
    ("bucketize.Tensor", t(0, 2, 5), t(0, 2, 2, 4), {"right": True}),
    ("searchsorted.Tensor", t(-1.0, 0.0, 0.5), n(3, 2), {"out_int32": True}),
    ("searchsorted.Tensor", t([0, 2, 4], [1, 1, 3]), t([0, 2, 9], [1, 0, 2]), {"side": "right"}),
    # Pooling.
    *[("max_pool2d_with_indices.default", SQUARE, *about)
      for about in [([2, 3],), ([3, 2], [2, 1], [1, 1]), ([2], [1], [0], [2]),
                    ([3, 3], [2, 3], [1, 0], [1, 2], True)]],
    ("max_pool2d_with_indices.default", SQUARE[0], [2, 2]),
    ("max_pool3d_with_indices.default", VOLUME, [2, 3, 1], [2, 1, 2], [1, 1, 0]),
    *[("avg_pool2d.default", SQUARE, *about)
      for about in [([2, 3],), ([3, 2], [2, 1], [1, 1]), ([3, 2], [2, 1], [1, 1], False, False),
                    ([3, 3], [2, 3], [1, 0], True), ([2, 2], [2], [0], False, True, 3)]],
    ("avg_pool2d.default", SQUARE[1], [2, 2], [1]),
    ("avg_pool3d.default", VOLUME, [2, 3, 1], [2, 1, 2], [1, 1, 0]),
    *[("_adaptive_avg_pool2d.default", SQUARE, sizes) for sizes in ([7, 3], [2, 6], [3, 4],
                                                                   [1, 1], [9, 8])],
    ("_adaptive_avg_pool3d.default", VOLUME, [2, 4, 3]),
    ("adaptive_max_pool2d.default", SQUARE, [7, 2]), ("adaptive_max_pool3d.default", VOLUME,
                                                      [5, 2, 4]),
    # Products.
    ("addmm.default", n(3, 5), X, n(4, 5), {"beta": 0.5, "alpha": 2.0}),
    ("addmm.default", n(5), X, n(4, 5)), ("addmm.default", n(5), X, n(4, 5), {"beta": 0}),
    ("baddbmm.default", n(2, 3, 5), C, n(2, 4, 5), {"beta": 2}),
    ("addbmm.default", n(3, 5), C, n(2, 4, 5), {"beta": 0.5, "alpha": -1}),
    ("addbmm.default", n(3, 5), C, n(2, 4, 5), {"beta": 0}),
    ("_trilinear.default", n(3, 4), n(3, 4), n(3, 4), [], [], [], [1]),
    ("_trilinear.default", n(3, 4), n(2, 4), n(3, 2), [1], [0], [2], [2]),
    *[("_cdist_forward.default", C, n(2, 5, 4), p, None) for p in (1.0, 2.0, INF)],
    ("convolution.default", SQUARE, n(4, 3, 3, 2), n(4), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    ("convolution.default", SQUARE, n(6, 1, 2, 2), None, [1], [1], [2], False, [0], 3),
    ("convolution.default", SQUARE, n(3, 2, 3, 2), n(2), [2, 1], [1, 0], [1, 1], True, [1, 0], 1),
    # Counting up.
    ("arange.start_step", 0, 10, 3), ("arange.start_step", 5, -4, -2),
    ("arange.start_step", 0.5, 3.0, 0.25), ("arange.default", 5), ("arange.start", 2, 6),
    # Special functions.
    *[(name, t(-7.5, -2.0, -1.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 7.5, 30.0, 1e5, INF, -INF, NAN))
      for name in ("lgamma.default", "erfc.default")],
    ("digamma.default", t(-7.5, -2.0, -1.5, -0.25, 0.0, -0.0, 0.25, 0.5, 1.0, 2.0, 30.0, 1e5, NAN)),
    ("polygamma.default", 0, t(0.25, 1.0, 9.0)),
    ("special_erfcx.default", t(-3.0, -0.5, 0.0, 0.5, 2.0, 9.0, 100.0)),
    ("erfinv.default", t(-1.0, -0.999, -0.5, 0.0, 0.3, 0.99, 1.0, 1.5, NAN)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c[0]}" for k, c in enumerate(CASES)])
def test_agrees_with_pytorch(case: tuple[Any, ...]) -> None:
    name, *args = case
    options = args.pop() if isinstance(args[-1], dict) else {}
    if lookup(f"aten.{name}") is None:
        pytest.skip("made of others")
    wanted, found = made(name, tuple(args), options)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        expected = theirs.numpy()
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)


BIG = torch.zeros(600)
REFUSED: list[tuple[Any, ...]] = [
    ("writes of many", "scatter.src", torch.zeros(600), 0, torch.zeros(600, dtype=torch.int64),
     n(600)),
    ("writes of many", "index_put.default", torch.zeros(600), [torch.zeros(600,
     dtype=torch.int64)], n(600)),
    ("several values through masks", "index_put.default", X, [B], n(int(B.sum()))),
    ("several values through masks", "index_put.default", X, [None, t(True, False, True, False)],
     torch.tensor(1.0)),
    ("scatter_reduce by mean of int64", "scatter_reduce.two", i(3), 0, t(0, 1), i(3), "mean"),
    ("scatter_reduce by amax of int64", "scatter_reduce.two", i(3), 0, t(0, 1), i(3), "amax"),
    ("indexing by masks", "index.Tensor", X, [B]),
    ("not compact", "as_strided.default", n(3, 4).t(), [2], [1]),
    ("outside the tensor", "as_strided.default", n(12)[4:8], [2], [1], 0),
    ("outside the tensor", "as_strided.default", n(12)[4:8], [3], [2], 4),
    ("outside the tensor", "as_strided.default", n(12)[4:8], [2, 5], [-0, 2], 3),
    ("places of bools", "max.dim", B, 0),
    ("running extremes of integers", "cummax.default", i(3, 4), 0),
    ("long rows", "logcumsumexp.default", torch.zeros(513), 0),
    ("several sizes", "adaptive_max_pool2d.default", SQUARE, [3, 4]),
    ("distances in the 3.0-norm", "_cdist_forward.default", X, Y, 3.0, None),
    ("convolutions of nothing", "convolution.default", SQUARE[:0], n(4, 3, 3, 2), None, [1], [0],
     [1], False, [0], 1),
    ("special functions in float64", "lgamma.default", X.double()),
    ("polygamma of order 1", "polygamma.default", 1, X),
    ("searching long rows", "bucketize.Tensor", n(3), torch.zeros(513)),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=[f"{c[1]}-{c[0]}" for c in REFUSED])
def test_what_is_left_to_pytorch(case: tuple[Any, ...]) -> None:
    words, name, *args = case
    with pytest.raises(UnsupportedError, match=words):
        made(name, tuple(args), {})


def test_the_longest_that_is_not_left() -> None:
    """512 elements of rows; 512 writers of 512 places."""
    wanted, found = made("logcumsumexp.default", (n(512), 0), {})
    np.testing.assert_allclose(found[0], wanted[0].numpy(), rtol=1e-5, atol=1e-5)
    index = torch.randperm(512)
    wanted, found = made("scatter.src", (n(512), 0, index, n(512)), {})
    np.testing.assert_array_equal(found[0], wanted[0].numpy())
