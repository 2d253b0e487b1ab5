"""ONNX Runtime's own profile: a file of events, times in microseconds since profiling began."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.observing import OperatorTime, Profile
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxNode
from zoolens.inventory.runtimes.onnxruntime.fused_operators import Fused
from zoolens.inventory.runtimes.timing.calls import ObservedCall

_TIMED: Final = "_kernel_time"
_RUN: Final = "model_run"  # the event of a session's run, without what Python does before and after it
_MOST_EVENTS: Final = 1_000_000  # what happens after that is not recorded
_CALLS_OTHERS: Final = {"If", "Loop", "Scan", "SequenceMap"}
_INTEGER_ARITHMETIC: Final = ("QLinear", "ConvInteger", "MatMulInteger", "QGemm", "DynamicQuantize", "MatMulNBits")
_TYPES: Final = {"float": "float32", "double": "float64", "uint8": "int8"}


def read_profiles(path: Path, epoch: int, calls: Sequence[ObservedCall], fused: Sequence[Fused]) -> list[Profile]:
    """The operators of each call. `epoch`: when profiling began. `fused`: what the operators of the optimised graph
    compute."""
    recorded = _events(path)
    events = [event for event in recorded if event.get("cat") == "Node" and event["name"].endswith(_TIMED)]
    runs = [event for event in recorded if event.get("name") == _RUN]
    known = fused_by_name([event["name"].removesuffix(_TIMED) for event in events], fused)
    operators = [_operator(event, epoch, known) for event in events]
    operators.sort(key=lambda operator: (_start(operator), -operator.duration))
    # Its times are cut to microseconds, and so may lie that much before ours.
    starts = [_start(operator) + 1000 for operator in operators]
    profiles = []
    for call, following in zip(calls, [*calls[1:], None], strict=True):
        end = len(starts) if following is None else bisect_left(starts, following.start)
        own = operators[bisect_left(starts, call.start) : end]
        if not own:
            raise ModelError("ONNX Runtime's profile does not have all the predictions that were run.")
        profiles.append(Profile(call.start, call.duration, _with_parents(own), call.delay, _run_of(call, runs, epoch)))
    return profiles


def _run_of(call: ObservedCall, runs: Sequence[Mapping[str, Any]], epoch: int) -> int | None:
    """How long the session's own run took that lies in a call, in nanoseconds."""
    starts = [epoch + run["ts"] * 1000 + 1000 for run in runs]
    within = [
        run["dur"] * 1000
        for run, start in zip(runs, starts, strict=True)
        if call.start <= start <= call.start + call.duration
    ]
    return min(within[0], call.duration) if len(within) == 1 else None


def fused_by_name(names: Sequence[str], fused: Sequence[Fused]) -> dict[str, Fused]:
    """What is computed under each name of a profile, whose names are given in the order of time.

    Operators of functions that ONNX Runtime puts in the place of one operator, such as HardSwish, have no name, and a
    profile calls them by kind and a number that nothing else tells. They are known by their place where the operators
    ran in the order of the graph, as they mostly do.
    """
    known = {part.node.name: part for part in fused if part.node.name}
    ran = list(dict.fromkeys(names))
    if len(ran) == len(fused) and all(_is_event_of(name, part.node) for name, part in zip(ran, fused, strict=True)):
        known |= dict(zip(ran, fused, strict=True))
    return known


def _is_event_of(name: str, node: OnnxNode) -> bool:
    return name == node.name if node.name else name.rpartition("_")[0] == node.op


def _shown_name(name: str, kind: str, fused: Fused | None) -> str:
    """What an operator is called: as in the file. ONNX Runtime's own names depend on the processor that it runs on."""
    if fused is None:
        return name
    return fused.main or (f"{kind} of {fused.moved}" if fused.moved else name)


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        events = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError("ONNX Runtime's profile cannot be read: it is not complete.") from error
    if len(events) >= _MOST_EVENTS:
        raise ModelError("ONNX Runtime's profile holds no more than a million events.", hint="Ask for fewer repeats.")
    return sorted(events, key=lambda event: int(event.get("ts", 0)))


def _operator(event: Mapping[str, Any], epoch: int, known: Mapping[str, Fused]) -> OperatorTime:
    name, details = event["name"].removesuffix(_TIMED), event["args"]
    kind, outputs, fused = details["op_name"], details.get("output_type_shape", []), known.get(name)
    return OperatorTime(
        _shown_name(name, kind, fused),
        kind,
        event["dur"] * 1000,
        epoch + event["ts"] * 1000,
        nodes=fused.labels if fused else (),
        precision=_precision(kind, outputs),
        shapes=tuple(tuple(shape) for output in outputs for shape in output.values()),
        thread=event.get("tid"),
    )


def _precision(kind: str, outputs: Sequence[Mapping[str, Any]]) -> str | None:
    if kind.startswith(_INTEGER_ARITHMETIC):
        return "int8"
    made = next((name for output in outputs for name in output), None)
    return None if made is None else _TYPES.get(made, made)


def _with_parents(operators: Sequence[OperatorTime]) -> tuple[OperatorTime, ...]:
    """Operators of branches and loops lie within the one that has them, and are no nodes of the file's main graph."""
    result: list[OperatorTime] = []
    # Places of the operators that are not over.
    around: list[int] = []
    for place, operator in enumerate(operators):
        while around and _end(operators[around[-1]]) < _end(operator):
            around.pop()
        result.append(replace(operator, parent=around[-1], nodes=()) if around else operator)
        if operator.kind in _CALLS_OTHERS:
            around.append(place)
    return tuple(result)


def _start(operator: OperatorTime) -> int:
    return operator.start or 0


def _end(operator: OperatorTime) -> int:
    return _start(operator) + operator.duration
