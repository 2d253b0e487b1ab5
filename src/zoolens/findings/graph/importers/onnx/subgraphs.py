"""Functions of the file, branches and loops: their nodes are translated in the place of the call.

A branch is read where its condition is constant, a loop where the number of its steps is; it is unrolled. Otherwise
the operator stays unknown, and so does what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.findings.graph.importers.constants import Constant, Tensor, computed
from zoolens.findings.graph.importers.onnx.translation import OnnxCall, Scope
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxFunction, OnnxGraph, OnnxNode, OnnxTensor
from zoolens.inventory.runtimes.onnx.onnx_values import with_references

# Functions that call functions, and loops in loops, grow to any number of nodes from a small file.
_MOST_STEPS: Final = 1_024  # of a loop that is unrolled; a longer one is not understood
_MOST_NODES: Final = 50_000  # of one file that come from unrolled loops and functions
_DEEPEST: Final = 32  # functions that call functions


class _TooLarge(Exception):
    """More steps or nodes than are unrolled."""


def call_function(call: OnnxCall, function: OnnxFunction) -> None:
    given = {name: call.given(place) for place, name in enumerate(function.inputs)}
    nodes = [with_references(node, call.node, function.defaults) for node in function.nodes]
    prefix = f"{call.source}/"
    _answered(call, lambda: _inlined(call, nodes, {}, given, function.outputs, prefix, closed=True))


def _if(call: OnnxCall) -> None:
    condition = call.constant(0)
    if condition is None or condition.size != 1:
        call.unknown("whose condition is computed")
        return
    branch = call.attributes.get("then_branch" if condition.values().item() else "else_branch")
    if not isinstance(branch, OnnxGraph):
        call.unknown()
        return
    _answered(call, lambda: _body(call, branch, [], 0))


def _loop(call: OnnxCall) -> None:
    body = call.attributes.get("body")
    steps = call.constant(0)
    go_on = call.constant(1)
    started = call.given(1) is None or (go_on is not None and bool(go_on.values().item()))
    if not isinstance(body, OnnxGraph) or steps is None or not started:
        call.unknown("whose number of steps is computed")
        return
    count = int(steps.values().item())
    _answered(call, lambda: _unrolled_loop(call, body, count))


def _unrolled_loop(call: OnnxCall, body: OnnxGraph, count: int) -> list[Tensor]:
    carried = [_initial(call, place) for place in range(2, len(call.inputs))]
    stacked: list[list[Tensor]] = []
    for step in range(_bounded(count)):
        number = computed(np.asarray(step, np.int64), f"{call.source}/step")
        running = computed(np.asarray(True), f"{call.source}/running")
        go_on, *results = _body(call, body, [number, running, *carried], step)
        if not isinstance(go_on, Constant):
            raise _TooLarge  # whether it goes on is computed
        carried = [*results[: len(carried)]]
        stacked.append(results[len(carried) :])
        if not bool(go_on.values().item()):
            break
    return [*(value for value in carried if value is not None), *_stacked(call, stacked, [0] * len(body.outputs))]


def _scan(call: OnnxCall) -> None:
    body = call.attributes.get("body")
    given = call.get("num_scan_inputs", 0)
    states = len(call.inputs) - given
    if not isinstance(body, OnnxGraph) or call.opset < 9 or given < 1 or states < 0:
        call.unknown()
        return
    _answered(call, lambda: _unrolled_scan(call, body, states))


def _unrolled_scan(call: OnnxCall, body: OnnxGraph, states: int) -> list[Tensor]:
    places = range(states, len(call.inputs))
    axes = call.integers("scan_input_axes") or [0] * len(places)
    if any(call.integers("scan_input_directions") or []) or any(call.integers("scan_output_directions") or []):
        raise _TooLarge  # backwards
    count = call.shape(states)[axes[0]]
    carried = [_initial(call, place) for place in range(states)]
    stacked = []
    for step in range(_bounded(count)):
        parts = [_part(call, place, axis, step) for place, axis in zip(places, axes, strict=True)]
        results = _body(call, body, [*carried, *parts], step)
        carried = [*results[:states]]
        stacked.append(results[states:])
    joined = call.integers("scan_output_axes") or [0] * len(body.outputs)
    return [*(value for value in carried if value is not None), *_stacked(call, stacked, joined)]


def _initial(call: OnnxCall, place: int) -> Tensor | None:
    """What a loop begins with: nobody learned it."""
    given = call.given(place)
    return replace(given, learned=False) if isinstance(given, Constant) else given


def _part(call: OnnxCall, place: int, axis: int, step: int) -> str:
    shape = call.shape(place)
    axis = call.axis(axis, len(shape))
    cut = call.cut(call.live(place), [(axis, step, step + 1, 1)])
    return call.add("reshape", (cut,), shape=(*shape[:axis], *shape[axis + 1 :]))


def _stacked(call: OnnxCall, steps: Sequence[Sequence[Tensor]], axes: Sequence[int]) -> list[Tensor]:
    """What every step gives, along a new axis."""
    if not steps:
        return []
    stacks: list[Tensor] = []
    for output, values in enumerate(zip(*steps, strict=True)):
        names = [value if isinstance(value, str) else call.state.materialised(value) for value in values]
        shape = call.state.shape(names[0])
        axis = call.axis(axes[output], len(shape) + 1)
        longer = (*shape[:axis], 1, *shape[axis:])
        stacks.append(call.add("concat", [call.add("reshape", (name,), shape=longer) for name in names], axis=axis))
    return stacks


def _bounded(count: int) -> int:
    if count > _MOST_STEPS:
        raise _TooLarge
    return max(count, 0)


def _body(call: OnnxCall, body: OnnxGraph, given: Sequence[Tensor | None], step: int) -> list[Tensor]:
    inputs = dict(zip((spec.name for spec in body.inputs), given, strict=True))
    outputs = [spec.name for spec in body.outputs]
    return _inlined(call, body.nodes, body.constants, inputs, outputs, f"{call.source}/{step}/")


def _answered(call: OnnxCall, read: Callable[[], list[Tensor]]) -> None:
    state = call.state
    if state.depth >= _DEEPEST:
        call.unknown("in too many others")
        return
    state.depth += 1
    try:
        answers = read()
    except _TooLarge:
        call.unknown("of too many steps")
        return
    finally:
        state.depth -= 1
    if len(answers) < len([name for name in call.outputs if name]):
        call.unknown("of no steps")
    else:
        call.answer(*answers)


def _inlined(
    call: OnnxCall,
    nodes: Sequence[OnnxNode],
    constants: Mapping[str, OnnxTensor],
    given: Mapping[str, Tensor | None],
    outputs: Sequence[str],
    prefix: str,
    *,
    closed: bool = False,
) -> list[Tensor]:
    """Translates nodes with names of their own; what they do not make themselves is of the graphs around them, unless
    they are `closed`. Tensors keep one key in every step, so that they are counted once."""
    state = call.state
    state.inlined += len(nodes)
    if state.inlined > _MOST_NODES:
        raise _TooLarge
    own = {*given, *constants, *(name for node in nodes for name in node.outputs)} - {""}
    names = {name: f"{prefix}{name}" for name in own}
    names.update({name: "" for name, value in given.items() if value is None})
    state.values.update({names[name]: value for name, value in given.items() if value is not None})
    for name, tensor in constants.items():
        state.values[names[name]] = state.constant(tensor, f"{call.source}/{name}")
    around = state.scopes
    state.scopes = (Scope(prefix, names),) if closed else (*around, Scope(prefix, names))
    try:
        inner = [state.scoped(node) for node in nodes]
        state.uses.update(name for node in inner for name in node.inputs)
        state.uses.update(state.scoped_name(name) for name in outputs)
        for node in inner:
            state.translate(node)
        return [state.values[state.scoped_name(name)] for name in outputs]
    finally:
        state.scopes = around


HOLDING: Final[dict[str, Callable[[OnnxCall], None]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
