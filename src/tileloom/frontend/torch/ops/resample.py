"""Resampling of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import aten


def _scales(x: Tensor, sizes: Sequence[int], given: Sequence[float | None]) -> list[float]:
    """The scales asked for, or what the sizes give."""
    rank = len(sizes)
    inner = x.shape[-rank:]
    known = zip(sizes, inner, given, strict=True)
    return [1.0, 1.0, *(s if s is not None and s > 0 else n / m for n, m, s in known)]


def _nearest(nearest: str, coordinates: str) -> Callable[..., Tensor]:
    def resample(call: Call, x: Tensor, sizes: Sequence[int], *scales: float | None) -> Tensor:
        given = scales or (None,) * len(sizes)
        return ops.resize(
            x, call.shape, "nearest", coordinates, nearest=nearest, scales=_scales(x, sizes, given)
        )

    return resample


def _linear(
    call: Call, x: Tensor, sizes: Sequence[int], align_corners: bool, *scales: float | None
) -> Tensor:
    mode = "align_corners" if align_corners else "half_pixel"
    wanted = None if align_corners else _scales(x, sizes, scales or (None,) * len(sizes))
    return ops.resize(x, call.shape, "linear", mode, scales=wanted)


for _rank in (1, 2, 3):
    aten(f"upsample_nearest{_rank}d.default")(_nearest("floor", "asymmetric"))
    _exact = _nearest("round_prefer_ceil", "half_pixel")
    aten(f"_upsample_nearest_exact{_rank}d.default")(_exact)
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    aten(f"upsample_{_name}.default")(_linear)
