"""The arithmetic of sliding windows, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...base.errors import ShapeError
from ..op import Attrs


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial dimensions: each field has one value for each dimension.

    `pads` holds the amounts before, then those after.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(attrs: Attrs, kernel: Sequence[int]) -> Windows:
        """The windows that an op's attributes describe."""
        return Windows(tuple(kernel), attrs["strides"], attrs["pads"], attrs["dilations"])

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.kernel)

    @property
    def before(self) -> tuple[int, ...]:
        """Padding before."""
        return self.pads[: self.rank]

    @property
    def after(self) -> tuple[int, ...]:
        """Padding after."""
        return self.pads[self.rank :]

    def reach(self, k: int) -> int:
        """How far a window reaches along a dimension."""
        return (self.kernel[k] - 1) * self.dilations[k] + 1

    def check(self, rank: int) -> None:
        """Refuse fields of another length than the number of spatial dimensions."""
        wrong = {
            "kernel": len(self.kernel), "strides": len(self.strides),
            "dilations": len(self.dilations), "pads": len(self.pads) / 2,
        }  # fmt: skip
        for name, count in wrong.items():
            if count != rank:
                each = "two values" if name == "pads" else "one value"
                raise ShapeError(f"{name} needs {each} for each of {rank} spatial dimensions")
        if min((*self.kernel, *self.strides, *self.dilations), default=1) < 1:
            raise ShapeError(f"kernel, strides and dilations must be positive: {self}")
        if min(self.pads, default=0) < 0:
            raise ShapeError(f"negative padding {list(self.pads)}")

    def outputs(self, sizes: Sequence[int], ceil_mode: bool = False) -> tuple[int, ...]:
        """The extents of the result over these spatial extents."""
        result = []
        for k, size in enumerate(sizes):
            room = size + self.before[k] + self.after[k] - self.reach(k)
            if room < 0:
                raise ShapeError(
                    f"a window of {self.reach(k)} does not fit spatial dimension {k} of extent "
                    f"{size} padded by {self.before[k]} and {self.after[k]}"
                )
            stride = self.strides[k]
            count = (-(-room // stride) if ceil_mode else room // stride) + 1
            # The last window must start inside the tensor or its padding before.
            if ceil_mode and (count - 1) * stride >= size + self.before[k]:
                count -= 1
            result.append(count)
        return tuple(result)

    def ends(self, sizes: Sequence[int], outputs: Sequence[int]) -> tuple[int, ...]:
        """Padding after that lets every window be read (more than `after` with `ceil_mode`)."""
        return tuple(
            max(0, (outputs[k] - 1) * self.strides[k] + self.reach(k) - size - self.before[k])
            for k, size in enumerate(sizes)
        )


def spread(value: int | Sequence[int] | None, rank: int, default: int = 1) -> tuple[int, ...]:
    """One value for each spatial dimension.

    >>> spread(2, 3), spread(None, 2), spread((1, 2), 2)
    ((2, 2, 2), (1, 1), (1, 2))
    """
    if value is None:
        return (default,) * rank
    return (value,) * rank if isinstance(value, int) else tuple(int(v) for v in value)


def spread_pads(value: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Padding before and after: one amount for all, one for each dimension, or all of them."""
    pads = spread(value, 2 * rank, 0)
    return pads * 2 if len(pads) == rank else pads
