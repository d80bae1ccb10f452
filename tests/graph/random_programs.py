"""Random NumPy-style functions of arrays with unknown extents.

A step is taken if NumPy accepts it for some probing sizes: different primes and even numbers, for
which extents that are equal are so always, and the smallest there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import tileloom as tl
from graph.in_numpy import NUMPY
from graph.program_of_steps import Program, Step, in_doubles, probes, some_array

#: The least and the largest size of a dimension.
BOUNDS = [(1, 4096), (1, 4096), (1, (1 << 31) - 1), (1, 64), (2, 1 << 20), (16, 2000), (65, 4096),
          (0, 4096), (0, 100)]  # fmt: skip
#: Elements of a value for the probing sizes.
MOST = 60_000
KINDS = {"float32": 6, "float64": 2, "int32": 2, "float16": 1}
FLOATS = ["tanh", "sigmoid", "sin", "erf", "exp", "expm1", "square", "gelu", "sqrt", "log1p"]
REDUCTIONS = {"f": ["mean", "max", "min", "sum", "var", "logsumexp", "std"],
              "b": ["any", "all", "count_nonzero"], "i": ["sum", "max", "min"]}  # fmt: skip
EXACT = ["negative", "abs", "relu"]
#: How often each kind of step is taken.
STEPS = {"unary": 4, "exact": 2, "scalar": 2, "binary": 6, "reduce": 5, "arg": 1, "norm": 2,
         "reshape": 3, "transpose": 2, "slice": 4, "concat": 2, "product": 3, "gather": 2,
         "extent": 1, "where": 2, "rearrange": 2, "extra": 1}  # fmt: skip
WHOLE = ("exact", "scalar", "binary", "reduce", "arg", "reshape", "transpose", "slice", "concat",
         "product", "gather", "extent", "where", "rearrange")  # fmt: skip


@dataclass
class Known:
    """A value while a program is made: for each of the probing sizes, and whether it is exact."""

    place: int
    probes: list[np.ndarray]
    exact: bool

    @property
    def ndim(self) -> int:
        return self.probes[0].ndim

    @property
    def kind(self) -> str:
        return self.probes[0].dtype.kind

    def number(self, axis: int) -> int | None:
        """An extent if it is always the same."""
        found = {p.shape[axis] for p in self.probes}
        return found.pop() if len(found) == 1 else None


class Maker:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rng = np.random.default_rng(seed)
        kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
        count = self.random.choice([1, 2, 2, 3])
        bounds = [self.random.choice(BOUNDS) for _ in range(count)]
        dims = [tl.Dim(f"n{k}", low, high) for k, (low, high) in enumerate(bounds)]
        self.program = Program(kind, dims, [])
        for _ in range(self.random.choice([1, 2, 2, 3])):
            rank = self.random.choice([1, 2, 2, 2, 3])
            extents: list[Any] = [*dims, *dims, self.random.choice([1, 3, 8, 24])]
            self.program.inputs.append(tuple(self.random.choices(extents, k=rank)))
        if not any(isinstance(n, tl.Dim) for shape in self.program.inputs for n in shape):
            self.program.inputs[0] = (*self.program.inputs[0][1:], dims[0])
        self.cuts_front = self.random.random() < 0.5
        small = [tuple(min(d.max, max(d.min, n)) for d in dims) for n in (0, 2)]
        self.probes = [*probes(count), *small]
        made = [self.program.arrays(p, self.rng) for p in self.probes]
        self.known = [Known(k, in_doubles(a), True) for k, a in enumerate(zip(*made, strict=True))]

    def make(self, steps: int) -> Program:
        tries = 0
        while len(self.program.steps) < steps and tries < 20 * steps:
            tries += 1
            names = WHOLE if self.program.kind.startswith("int") else tuple(STEPS)
            name = self.random.choices(names, [STEPS[n] for n in names])[0]
            getattr(self, f"make_{name}")(self.pick())
        made = [v.place for v in self.known[len(self.program.inputs) :]] or [0]
        count = self.random.randint(0, 2)
        self.program.outputs = [made[-1], *self.random.choices(made, k=count)]
        return self.program

    def pick(self) -> Known:
        recent = self.random.random() < 0.7
        return self.random.choice(self.known[-3:] if recent else self.known)

    def add(self, text: str, step: Step, exact: bool = False) -> None:
        """Take a step if it is one for all the probing sizes, and not too large."""
        results = []
        for k in range(len(self.probes)):
            values = [known.probes[k] for known in self.known]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    made = np.asarray(step(NUMPY, values))
            except (ValueError, IndexError, RuntimeWarning):
                return
            if (k < 2 and made.size > MOST) or made.ndim > 4 or not np.isfinite(made).all():
                return
            if made.size and made.dtype.kind == "f" and np.abs(made).max() > 1000:
                return
            results.append(made)
        self.program.steps.append(step)
        self.program.texts.append(text)
        self.known.append(Known(len(self.known), results, exact))

    def axis(self, x: Known) -> int:
        return self.random.randrange(-x.ndim, x.ndim) if x.ndim else 0

    # ------------------------------------------------------------------ elementwise

    def make_unary(self, x: Known) -> None:
        if x.kind != "f":
            return self.make_exact(x)
        k, name = x.place, self.random.choice(FLOATS)
        if name in ("exp", "expm1", "square"):
            self.add(f"{name}(tanh(v{k}))", lambda xp, v: getattr(xp, name)(xp.tanh(v[k])))
        elif name in ("sqrt", "log1p"):
            self.add(f"{name}(abs(v{k}) + 0.25)", lambda xp, v: getattr(xp, name)(abs(v[k]) + 0.25))
        else:
            self.add(f"{name}(v{k})", lambda xp, v: getattr(xp, name)(v[k]))

    def make_exact(self, x: Known) -> None:
        k, name = x.place, self.random.choice(EXACT)
        if x.kind != "b":
            self.add(f"{name}(v{k})", lambda xp, v: getattr(xp, name)(v[k]), x.exact)

    def make_scalar(self, x: Known) -> None:
        k = x.place
        number = self.random.choice([0.5, -1.25, 2.0] if x.kind == "f" else [3, -2, 7])
        name = self.random.choice(["add", "subtract", "multiply", "maximum", "minimum"])
        if x.kind == "b":
            return
        self.add(f"{name}(v{k}, {number})", lambda xp, v: getattr(xp, name)(v[k], number))

    def make_binary(self, x: Known) -> None:
        y = self.random.choice(self.known)
        if x.kind != y.kind or x.kind == "b":
            return
        a, b = self.random.sample([x.place, y.place], 2)
        name = self.random.choice(["add", "subtract", "multiply", "maximum", "minimum"])
        exact = name[0] == "m" and name != "multiply" and x.exact and y.exact
        if self.random.random() < 0.3 and x.ndim:  # one more dimension
            axis = self.axis(x)
            self.add(
                f"{name}(expand_dims(v{a}, axis={axis}), v{b})",
                lambda xp, v: getattr(xp, name)(xp.expand_dims(v[a], axis=axis), v[b]),
                exact,
            )
        else:
            self.add(f"{name}(v{a}, v{b})", lambda xp, v: getattr(xp, name)(v[a], v[b]), exact)

    def make_where(self, x: Known) -> None:
        """Conditions are exact: rounding does not decide."""
        exact = [v for v in self.known if v.exact and v.kind != "b"]
        test, y = self.random.choice(exact), self.random.choice(self.known)
        if x.kind != y.kind:
            return
        a, b, c = test.place, x.place, y.place
        self.add(
            f"where(v{a} > 0, v{b}, v{c})",
            lambda xp, v: xp.where(v[a] > 0, v[b], v[c]),
            x.exact and y.exact,
        )

    def make_extent(self, x: Known) -> None:
        if not x.ndim or x.kind == "b":
            return
        k, axis = x.place, self.axis(x)
        if x.kind == "f":
            self.add(
                f"v{k} / (v{k}.shape[{axis}] + 1)", lambda xp, v: v[k] / (v[k].shape[axis] + 1)
            )
        else:
            self.add(f"v{k} - v{k}.shape[{axis}]", lambda xp, v: v[k] - v[k].shape[axis], x.exact)

    # ------------------------------------------------------------------ over axes

    def make_reduce(self, x: Known) -> None:
        if not x.ndim:
            return
        k, axes = x.place, self.random.sample(range(x.ndim), self.random.randint(1, x.ndim))
        axis: Any = None if self.random.random() < 0.15 else tuple(axes)
        keep = self.random.random() < 0.5
        name = self.random.choice(REDUCTIONS[x.kind])
        scale = 1.0 / 64 if name == "sum" and x.kind == "f" else 1

        def step(xp: Any, v: list[Any]) -> Any:
            y = getattr(xp, name)(v[k] * scale if scale != 1 else v[k], axis=axis, keepdims=keep)
            return xp.sqrt(y + 0.01) if name == "std" else y

        text = f"{name}(v{k}, axis={axis}, keepdims={keep})"
        self.add(text, step, x.kind != "f" or (name in ("max", "min") and x.exact))

    def make_arg(self, x: Known) -> None:
        """The first of the largest elements; and elements taken by such indices."""
        if not x.ndim or not x.exact or x.kind == "b":
            return
        k, name = x.place, self.random.choice(["argmax", "argmin"])
        axis = None if self.random.random() < 0.2 else self.axis(x)
        keep = self.random.random() < 0.5
        self.add(
            f"{name}(v{k}, axis={axis}, keepdims={keep})",
            lambda xp, v: getattr(xp, name)(v[k], axis=axis, keepdims=keep),
            True,
        )

    def make_norm(self, x: Known) -> None:
        if not x.ndim or x.kind != "f":
            return
        k, axis = x.place, self.axis(x)
        name = self.random.choice(["softmax", "log_softmax", "layer_norm", "rms_norm"])
        options = {"eps": 0.05} if name.endswith("norm") else {}
        self.add(
            f"{name}(v{k}, axis={axis}, **{options})",
            lambda xp, v: getattr(xp, name)(v[k], axis=axis, **options),
        )

    def make_product(self, x: Known) -> None:
        k, kind = x.place, self.program.kind
        if not x.ndim or x.kind != kind[0]:
            return
        extent = x.number(-1)
        if extent and self.random.random() < 0.6:
            columns = self.random.choice([1, 5, 16, 40])
            weight = some_array(self.rng, (extent, columns), kind)
            self.add(
                f"matmul(v{k}, some_array({weight.shape}))",
                lambda xp, v: (
                    xp.matmul(v[k], xp.constant(weight)) * (0.25 if kind[0] == "f" else 1)
                ),
            )
            return
        y = self.random.choice(self.known)
        if y.ndim < 2 or x.ndim < 2 or y.kind != x.kind:
            return
        b, turn = y.place, self.random.random() < 0.6
        small = kind[0] == "f"

        def step(xp: Any, v: list[Any]) -> Any:
            right = xp.matrix_transpose(v[b]) if turn else v[b]
            left = xp.tanh(v[k]) * 0.25 if small else v[k]
            return xp.matmul(left, xp.tanh(right) if small else right)

        self.add(f"matmul(v{k}, v{b}{'.T' if turn else ''})", step)

    # ------------------------------------------------------------------ moving

    def make_reshape(self, x: Known) -> None:
        if not x.ndim:
            return
        k, way = x.place, self.random.randrange(5)
        if way == 0:
            self.add(f"reshape(v{k}, -1)", lambda xp, v: xp.reshape(v[k], (-1,)), x.exact)
        elif way == 1 and x.ndim > 1:
            axis = self.random.randrange(x.ndim - 1)

            def merge(xp: Any, v: list[Any]) -> Any:
                s = v[k].shape
                return xp.reshape(v[k], (*s[:axis], s[axis] * s[axis + 1], *s[axis + 2 :]))

            self.add(f"merge axes {axis}, {axis + 1} of v{k}", merge, x.exact)
        elif way == 2:
            axis = self.random.randrange(x.ndim)
            parts = next((n for n in (8, 3, 5, 2) if (x.number(axis) or 1) % n == 0), None)
            if parts is not None:

                def take_apart(xp: Any, v: list[Any]) -> Any:
                    s = v[k].shape
                    return xp.reshape(v[k], (*s[:axis], parts, s[axis] // parts, *s[axis + 1 :]))

                self.add(f"axis {axis} of v{k} to {parts} parts", take_apart, x.exact)
        elif way == 3:  # back to the shape of another value
            y = self.random.choice(self.known)
            if y.probes[0].size == x.probes[0].size:
                b = y.place
                self.add(
                    f"reshape(v{k}, v{b}.shape)",
                    lambda xp, v: xp.reshape(v[k], v[b].shape),
                    x.exact,
                )
        elif x.ndim > 1:
            self.add(
                f"reshape(v{k}, reversed(v{k}.shape))",
                lambda xp, v: xp.reshape(v[k], tuple(reversed(v[k].shape))),
                x.exact,
            )

    def make_transpose(self, x: Known) -> None:
        if x.ndim < 2:
            return
        k, order = x.place, tuple(self.random.sample(range(x.ndim), x.ndim))
        self.add(f"transpose(v{k}, {order})", lambda xp, v: xp.transpose(v[k], order), x.exact)

    def make_slice(self, x: Known) -> None:
        """Numbers and extents of this and other values as ends."""
        if not x.ndim:
            return
        k, axis, y = x.place, self.random.randrange(x.ndim), self.random.choice(self.known)
        b, other = y.place, self.axis(y)
        ways: dict[str, Callable[[int, int], Any]] = {
            "1:": lambda n, m: slice(1, None),
            ":-1": lambda n, m: slice(None, -1),
            "::-1": lambda n, m: slice(None, None, -1),
            "::2": lambda n, m: slice(None, None, 2),
            "n // 3:": lambda n, m: slice(n // 3, None),
            ":n // 3": lambda n, m: slice(None, n // 3),
            "2:-1": lambda n, m: slice(2, -1),
            "-3:": lambda n, m: slice(-3, None),
            "None": lambda n, m: None,
            "0": lambda n, m: 0,
            "-1": lambda n, m: -1,
        }
        # Both together are what the array was, which formulas do not tell.
        if y.ndim and self.cuts_front:
            ways["m:"] = lambda n, m: slice(m, None)
        elif y.ndim:
            ways[":m"] = lambda n, m: slice(None, m)
        way = self.random.choice(list(ways))

        def step(xp: Any, v: list[Any]) -> Any:
            m = v[b].shape[other] if y.ndim else 0
            return v[k][(*[slice(None)] * axis, ways[way](v[k].shape[axis], m))]

        text = f"v{k}[{':, ' * axis}{way}]" + (f" (m = v{b}.shape[{other}])" if "m" in way else "")
        self.add(text, step, x.exact)

    def make_concat(self, x: Known) -> None:
        y = self.random.choice(self.known)
        if not x.ndim or x.ndim != y.ndim or x.kind != y.kind:
            return
        a, b, axis = x.place, y.place, self.axis(x)
        self.add(
            f"concat([v{a}, v{b}], axis={axis})",
            lambda xp, v: xp.concat([v[a], v[b]], axis=axis),
            x.exact and y.exact,
        )

    def make_gather(self, x: Known) -> None:
        if not x.ndim:
            return
        k, axis = x.place, self.axis(x)
        indices = [v for v in self.known if v.kind == "i" and v.exact]
        if indices and self.random.random() < 0.6:
            b = self.random.choice(indices).place
            self.add(
                f"take(v{k}, v{b} % v{k}.shape[{axis}], axis={axis})",
                lambda xp, v: xp.take(v[k], v[b] % v[k].shape[axis], axis=axis),
                x.exact,
            )
        else:
            places = np.array(self.random.choice([[0, -1, 0], [0], [[0, 0], [-1, 0]]]))
            self.add(
                f"take(v{k}, {places.tolist()}, axis={axis})",
                lambda xp, v: xp.take(v[k], places, axis=axis),
                x.exact,
            )

    def make_rearrange(self, x: Known) -> None:
        if not x.ndim or x.kind == "b":
            return
        k, axis = x.place, self.random.randrange(x.ndim)
        widths = [(0, 0)] * x.ndim
        widths[axis] = (1, 2)
        ways: dict[str, Step] = {
            f"roll(v{k}, 3, axis={axis})": lambda xp, v: xp.roll(v[k], 3, axis=axis),
            f"pad(v{k}, {widths})": lambda xp, v: xp.pad(v[k], widths),
            f"stack([v{k}, -v{k}], axis={axis})": lambda xp, v: xp.stack([v[k], -v[k]], axis=axis),
            f"repeat(v{k}, 2, axis={axis})": lambda xp, v: xp.repeat(v[k], 2, axis=axis),
            f"flip(v{k}, axis={axis})": lambda xp, v: xp.flip(v[k], axis=axis),
            f"tril(v{k})": lambda xp, v: xp.tril(v[k]),
        }
        text = self.random.choice(list(ways))
        if x.ndim > 1 or not text.startswith("tril"):
            self.add(text, ways[text], x.exact)

    def make_extra(self, x: Known) -> None:
        """Sums that run, and differences of neighbours."""
        if not x.ndim or x.kind != "f":
            return
        k, axis = x.place, self.axis(x)
        if self.random.random() < 0.5:
            self.add(
                f"cumulative_sum(v{k} / 16, axis={axis})",
                lambda xp, v: xp.cumulative_sum(v[k] * 0.0625, axis=axis),
            )
        else:
            self.add(f"diff(v{k}, axis={axis})", lambda xp, v: xp.diff(v[k], axis=axis))


def random_program(seed: int, steps: int) -> Program:
    """A program of at most so many steps."""
    return Maker(seed).make(steps)
