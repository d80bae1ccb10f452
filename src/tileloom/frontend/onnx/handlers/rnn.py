"""Recurrent layers, unrolled over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler

Activation = Callable[[Tensor], Tensor]
#: (x W for all gates, state) -> new state; the first part of a state is the output.
Step = Callable[[Tensor, Sequence[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class _Layer:
    """What the directions of one node share."""

    call: Call
    x: Tensor  # [time, batch, inputs]
    hidden: int
    lengths: Tensor | None
    directions: int
    gates: int

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    def weights(self, index: int, direction: int) -> Tensor:
        """One direction's slice of a weight."""
        return ops.squeeze(_slice(self.call.tensor(index), 0, direction, direction + 1), 0)

    def optional(self, index: int, direction: int) -> Tensor | None:
        """The same of a weight that may be absent."""
        return self.weights(index, direction) if self.call.has(index) else None


def _slice(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return ops.strided_slice(x, [start], [stop], [axis])


def _layer(call: Call, gates: int) -> _Layer:
    x, w, r = call.tensor(0), call.tensor(1), call.tensor(2)
    if x.ndim != 3 or w.ndim != 3 or r.ndim != 3:
        raise ShapeError(f"unusable shapes of X {x.type}, W {w.type}, R {r.type}")
    if call.flag("layout"):
        x = ops.transpose(x, (1, 0, 2))
    direction = call.choice("direction", "forward", ("forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1
    hidden = call.integer("hidden_size", r.shape[2])
    wanted = (directions, gates * hidden)
    if w.shape != (*wanted, x.shape[2]) or r.shape != (*wanted, hidden):
        raise ShapeError(f"W {w.type} and R {r.type} do not fit X {x.type}, hidden size {hidden}")
    lengths = call.optional(4)
    if lengths is not None and lengths.shape != (x.shape[1],):
        raise ShapeError(f"sequence_lens {lengths.type} does not fit X {x.type}")
    return _Layer(call, x, hidden, lengths, directions, gates)


# ---------------------------------------------------------------------------- activations


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    def default(value: float | None, otherwise: float) -> float:
        return otherwise if value is None else value

    table: dict[str, Activation] = {
        "relu": ops.relu,
        "tanh": ops.tanh,
        "sigmoid": ops.sigmoid,
        "softsign": ops.softsign,
        "softplus": ops.softplus,
        "affine": lambda x: ops.add(ops.mul(x, default(alpha, 1.0)), default(beta, 0.0)),
        "leakyrelu": lambda x: ops.leaky_relu(x, default(alpha, 0.01)),
        "thresholdedrelu": lambda x: ops.thresholded_relu(x, default(alpha, 1.0)),
        "scaledtanh": lambda x: ops.mul(
            ops.tanh(ops.mul(x, default(beta, 1.0))), default(alpha, 1.0)
        ),
        "hardsigmoid": lambda x: ops.hard_sigmoid(x, default(alpha, 0.2), default(beta, 0.5)),
        "elu": lambda x: ops.elu(x, default(alpha, 1.0)),
    }
    found = table.get(name.lower())
    if found is None:
        raise UserError(f"unknown activation {name!r}; known are {', '.join(sorted(table))}")
    return found


_TAKES_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_TAKES_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(call: Call, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    names = call.texts("activations", list(defaults) * directions)
    if len(names) != len(defaults) * directions:
        raise UserError(f"{len(names)} activations, {len(defaults) * directions} are needed")
    alphas = iter(call.numbers("activation_alpha", []))
    betas = iter(call.numbers("activation_beta", []))
    functions = []
    for name in names:
        alpha = next(alphas, None) if name.lower() in _TAKES_ALPHA else None
        beta = next(betas, None) if name.lower() in _TAKES_BETA else None
        functions.append(_activation(name, alpha, beta))
    count = len(defaults)
    return [functions[k * count : (k + 1) * count] for k in range(directions)]


# ---------------------------------------------------------------------------- time


def _run(
    layer: _Layer, initial: Sequence[int], steps: Sequence[Step], parts: int
) -> tuple[Tensor, ...]:
    """All directions: Y, and the last value of each part of the state."""
    outputs, finals = [], []
    for direction in range(layer.directions):
        backwards = direction == 1 or layer.call.text("direction", "forward") == "reverse"
        state = [_initial(layer, index, direction) for index in initial[:parts]]
        line, last = _unroll(layer, direction, backwards, steps[direction], state)
        outputs.append(line)
        finals.append(last)
    y = ops.stack(outputs, 1)  # [time, directions, batch, hidden]
    ends = [ops.stack([last[k] for last in finals], 0) for k in range(parts)]
    if layer.call.flag("layout"):
        return ops.transpose(y, (2, 0, 1, 3)), *(ops.transpose(end, (1, 0, 2)) for end in ends)
    return y, *ends


def _initial(layer: _Layer, index: int, direction: int) -> Tensor:
    if not layer.call.has(index):
        return ops.zeros((layer.batch, layer.hidden), layer.x.dtype)
    given = layer.call.tensor(index)
    if layer.call.flag("layout"):
        given = ops.transpose(given, (1, 0, 2))
    if given.shape != (layer.directions, layer.batch, layer.hidden):
        raise ShapeError(f"an initial state of {given.type} does not fit X {layer.x.type}")
    return ops.squeeze(_slice(given, 0, direction, direction + 1), 0)


def _unroll(
    layer: _Layer, direction: int, backwards: bool, step: Step, state: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    time = layer.x.shape[0]
    weight = layer.weights(1, direction)
    bias = layer.optional(3, direction)
    # One product for all times; the recurrent part follows step by step.
    products = ops.matmul(layer.x, weight, transpose_b=True)
    if bias is not None:
        products = ops.add(products, _slice(bias, 0, 0, layer.gates * layer.hidden))
    lines: list[Tensor] = []
    order = range(time - 1, -1, -1) if backwards else range(time)
    for t in order:
        fresh = step(ops.squeeze(_slice(products, 0, t, t + 1), 0), state)
        output = fresh[0]
        if layer.lengths is not None:
            alive = ops.expand_dims(ops.greater(layer.lengths, t), 1)
            output = ops.where(alive, output, 0)
            fresh = [ops.where(alive, new, old) for new, old in zip(fresh, state)]
        state = fresh
        lines.append(output)
    if not lines:
        return ops.zeros((0, layer.batch, layer.hidden), layer.x.dtype), state
    return ops.stack(lines[::-1] if backwards else lines, 0), state


def _recurrent_bias(layer: _Layer, direction: int) -> Tensor | None:
    bias = layer.optional(3, direction)
    size = layer.gates * layer.hidden
    return None if bias is None else _slice(bias, 0, size, 2 * size)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = ops.matmul(x, weight, transpose_b=True)
    return product if bias is None else ops.add(product, bias)


def _clipper(call: Call) -> Activation:
    if "clip" not in call.attrs:
        return lambda x: x
    bound = call.number("clip")
    return lambda x: ops.clip(x, -bound, bound)


# ---------------------------------------------------------------------------- cells


@handler("RNN")
def rnn(call: Call) -> tuple[Tensor, ...]:
    layer, clip = _layer(call, 1), _clipper(call)
    activations = _activations(call, ["Tanh"], layer.directions)

    def make(direction: int) -> Step:
        recurrent = layer.weights(2, direction)
        bias = _recurrent_bias(layer, direction)

        def step(x: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
            total = ops.add(x, _linear(state[0], recurrent, bias))
            return [activations[direction][0](clip(total))]

        return step

    return _run(layer, [5], [make(d) for d in range(layer.directions)], 1)


@handler("GRU")
def gru(call: Call) -> tuple[Tensor, ...]:
    layer, clip = _layer(call, 3), _clipper(call)
    activations = _activations(call, ["Sigmoid", "Tanh"], layer.directions)
    linear_first = call.flag("linear_before_reset")
    n = layer.hidden

    def make(direction: int) -> Step:
        recurrent, bias = layer.weights(2, direction), _recurrent_bias(layer, direction)
        gate_weight, new_weight = _slice(recurrent, 0, 0, 2 * n), _slice(recurrent, 0, 2 * n, 3 * n)
        gate_bias = None if bias is None else _slice(bias, 0, 0, 2 * n)
        new_bias = None if bias is None else _slice(bias, 0, 2 * n, 3 * n)
        f, g = activations[direction]

        def step(x: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
            h = state[0]
            gates = ops.add(_slice(x, 1, 0, 2 * n), _linear(h, gate_weight, gate_bias))
            z, r = (f(clip(part)) for part in ops.split(gates, [n, n], 1))
            fresh = _slice(x, 1, 2 * n, 3 * n)
            if linear_first:
                memory = ops.mul(r, _linear(h, new_weight, new_bias))
            else:
                memory = _linear(ops.mul(r, h), new_weight, new_bias)
            candidate = g(clip(ops.add(fresh, memory)))
            return [ops.add(ops.mul(ops.sub(1.0, z), candidate), ops.mul(z, h))]

        return step

    return _run(layer, [5], [make(d) for d in range(layer.directions)], 1)


@handler("LSTM")
def lstm(call: Call) -> tuple[Tensor, ...]:
    layer, clip = _layer(call, 4), _clipper(call)
    activations = _activations(call, ["Sigmoid", "Tanh", "Tanh"], layer.directions)
    n, coupled = layer.hidden, call.flag("input_forget")

    def make(direction: int) -> Step:
        recurrent, bias = layer.weights(2, direction), _recurrent_bias(layer, direction)
        peepholes = layer.optional(7, direction)
        peep = None if peepholes is None else ops.split(peepholes, [n, n, n], 0)
        f, g, h_of = activations[direction]

        def step(x: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
            h, c = state
            total = ops.add(x, _linear(h, recurrent, bias))
            i, o, forget, fresh = ops.split(total, [n] * 4, 1)
            if peep is not None:
                i = ops.add(i, ops.mul(peep[0], c))
                forget = ops.add(forget, ops.mul(peep[2], c))
            i = f(clip(i))
            keep = ops.sub(1.0, i) if coupled else f(clip(forget))
            cell = ops.add(ops.mul(keep, c), ops.mul(i, g(clip(fresh))))
            if peep is not None:
                o = ops.add(o, ops.mul(peep[1], cell))
            return [ops.mul(f(clip(o)), h_of(cell)), cell]

        return step

    return _run(layer, [5, 6], [make(d) for d in range(layer.directions)], 2)
