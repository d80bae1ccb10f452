"""Control flow, unrolled: conditions and trip counts are known when the graph is made."""

from __future__ import annotations

import numpy as np

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler
from ..values import Value, constant_of

#: Loops are unrolled: this many iterations at most.
MOST_ITERATIONS = 20_000


@handler("If")
def if_(call: Call) -> tuple[Value, ...]:
    branch = "then_branch" if bool(call.scalar(0)) else "else_branch"
    return tuple(call.services.run_graph(call.graph(branch), [], branch))


@handler("Loop")
def loop(call: Call) -> tuple[Value, ...]:
    body = call.graph("body")
    limit = int(call.scalar(0)) if call.has(0) else None
    going = bool(call.scalar(1)) if call.has(1) else True
    state = list(call.inputs[2:])
    collected: list[list[Tensor]] = [[] for _ in body.output[len(state) + 1 :]]
    iteration = 0
    while going and (limit is None or iteration < limit):
        if iteration >= MOST_ITERATIONS:
            raise UserError(f"the loop runs for more than {MOST_ITERATIONS} iterations")
        step = constant_of(np.array(iteration, np.int64))
        flag = constant_of(np.array(going, np.bool_))
        results = call.services.run_graph(body, [step, flag, *state], str(iteration))
        going = bool(_known(call, results[0]))
        state = results[1 : len(state) + 1]
        for line, value in zip(collected, results[len(state) + 1 :]):
            line.append(_tensor(value))
        iteration += 1
    if iteration == 0 and collected:
        return (*state, *_empty_scans(call, going, state))
    return (*state, *map(_stacked, collected))


def _empty_scans(call: Call, going: bool, state: list[Value]) -> list[Tensor]:
    """Scan outputs of a loop that never runs: the body is imported for their types alone."""
    given = [constant_of(np.array(0, np.int64)), constant_of(np.array(going, np.bool_)), *state]
    checks = call.services.checks
    before = len(checks)
    values = call.services.run_graph(call.graph("body"), given, "types")
    del checks[before:]  # of what never runs
    types = [_tensor(value).type for value in values[len(state) + 1 :]]
    return [ops.zeros((0, *type_.shape), type_.dtype) for type_ in types]


def _known(call: Call, value: Value) -> bool:
    if not isinstance(value, Tensor) or value.type.size != 1:
        raise UserError("the loop's condition must have one element")
    return bool(call.services.array(value).reshape(-1)[0])


def _tensor(value: Value) -> Tensor:
    if not isinstance(value, Tensor):
        raise UserError("a scan output must be a tensor")
    return value


def _stacked(line: list[Tensor]) -> Tensor:
    if not line:
        raise ShapeError("a scan over nothing")
    if any(item.shape != line[0].shape for item in line):
        raise ShapeError("a scan output changes its shape between iterations")
    return ops.stack(line, 0)


@handler("Scan", since=9)
def scan(call: Call) -> tuple[Value, ...]:
    count = call.integer("num_scan_inputs")
    if not 1 <= count <= len(call.inputs):
        raise UserError(f"num_scan_inputs is {count} of {len(call.inputs)} inputs")
    states = len(call.inputs) - count
    axes = call.ints("scan_input_axes", [0] * count)
    backwards = call.ints("scan_input_directions", [0] * count)
    sources = [_moved(call.tensor(states + k), axis) for k, axis in enumerate(axes)]
    pieces = [ops.unstack(ops.flip(x, 0) if back else x, 0) for x, back in zip(sources, backwards)]
    if len({len(line) for line in pieces}) != 1:
        raise ShapeError("the scan inputs differ in length")
    state, lines = _scan(call, list(call.inputs[:states]), pieces)
    outs = len(lines)
    out_axes = call.ints("scan_output_axes", [0] * outs)
    reverse = call.ints("scan_output_directions", [0] * outs)
    results = []
    for line, axis, back in zip(lines, out_axes, reverse):
        stacked = _stacked(line[::-1] if back else line)
        results.append(ops.moveaxis(stacked, 0, axis % stacked.ndim))
    return (*state, *results)


def _moved(x: Tensor, axis: int) -> Tensor:
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"scan axis {axis} is out of range for {x.type}")
    if x.shape[axis] > MOST_ITERATIONS:
        raise UserError(f"the scan runs for more than {MOST_ITERATIONS} iterations")
    return ops.moveaxis(x, axis % x.ndim, 0)


def _scan(
    call: Call, state: list[Value], pieces: list[list[Tensor]], label: str = ""
) -> tuple[list[Value], list[list[Tensor]]]:
    graph = call.graph("body")
    lines: list[list[Tensor]] = [[] for _ in graph.output[len(state) :]]
    for step, parts in enumerate(zip(*pieces)):
        results = call.services.run_graph(graph, [*state, *parts], f"{label}{step}")
        state = results[: len(state)]
        for line, value in zip(lines, results[len(state) :]):
            line.append(_tensor(value))
    return state, lines


@handler("Scan", since=8)
def scan_batched(call: Call) -> tuple[Value, ...]:
    """Opset 8 had a batch dimension in front of everything."""
    if call.has(0):
        call.unsupported("sequence_lens of Scan in opset 8")
    count = call.integer("num_scan_inputs")
    states = len(call.inputs) - 1 - count
    if count < 1 or states < 0 or any(call.ints("directions", [0] * count)):
        call.unsupported("this Scan of opset 8")
    tensors = [call.tensor(k + 1) for k in range(states + count)]
    batch = tensors[-1].shape[0] if tensors[-1].ndim else 0
    if any(x.ndim < 1 or x.shape[0] != batch for x in tensors) or not batch:
        raise ShapeError("the inputs differ in their batch dimension")
    everything: list[list[Tensor]] = []
    for b in range(batch):
        items = [ops.squeeze(ops.strided_slice(x, [b], [b + 1], [0]), 0) for x in tensors]
        pieces = [ops.unstack(x, 0) for x in items[states:]]
        state, lines = _scan(call, list(items[:states]), pieces, f"{b}/")
        everything.append([*map(_tensor, state), *map(_stacked, lines)])
    return tuple(ops.stack(list(parts), 0) for parts in zip(*everything))
