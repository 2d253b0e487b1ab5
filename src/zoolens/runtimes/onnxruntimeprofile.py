"""ONNX Runtime's own profile: a file of events, times in microseconds since profiling began."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from zoolens.errors import ModelError
from zoolens.runtimes.calls import ObservedCall
from zoolens.runtimes.observing import OperatorTime, Profile

_TIMED: Final = "_kernel_time"
_MOST_EVENTS: Final = 1_000_000  # what happens after that is not recorded
_CALLS_OTHERS: Final = {"If", "Loop", "Scan", "SequenceMap"}
_INTEGER_ARITHMETIC: Final = ("QLinear", "ConvInteger", "MatMulInteger", "QGemm", "DynamicQuantize", "MatMulNBits")
_TYPES: Final = {"float": "float32", "double": "float64", "uint8": "int8"}


def read_profiles(
    path: Path, epoch: int, calls: Sequence[ObservedCall], nodes: Mapping[str, tuple[str, ...]]
) -> list[Profile]:
    """The operators of each call. `epoch`: when profiling began. `nodes`: what each operator computes of the file."""
    operators = [_operator(event, epoch, nodes) for event in _events(path)]
    operators.sort(key=lambda operator: (_start(operator), -operator.duration))
    # Its times are cut to microseconds, and so may lie that much before ours.
    starts = [_start(operator) + 1000 for operator in operators]
    profiles = []
    for call, following in zip(calls, [*calls[1:], None], strict=True):
        end = len(starts) if following is None else bisect_left(starts, following.start)
        own = operators[bisect_left(starts, call.start) : end]
        if not own:
            raise ModelError("ONNX Runtime's profile does not have all the predictions that were run.")
        profiles.append(Profile(call.start, call.duration, _with_parents(own), call.delay))
    return profiles


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        events = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError("ONNX Runtime's profile cannot be read: it is not complete.") from error
    if len(events) >= _MOST_EVENTS:
        raise ModelError("ONNX Runtime's profile holds no more than a million events.", hint="Ask for fewer repeats.")
    return [event for event in events if event.get("cat") == "Node" and event["name"].endswith(_TIMED)]


def _operator(event: Mapping[str, Any], epoch: int, nodes: Mapping[str, tuple[str, ...]]) -> OperatorTime:
    name, details = event["name"].removesuffix(_TIMED), event["args"]
    outputs = details.get("output_type_shape", [])
    return OperatorTime(
        name,
        details["op_name"],
        event["dur"] * 1000,
        epoch + event["ts"] * 1000,
        nodes=nodes.get(name, ()),
        precision=_precision(details["op_name"], outputs),
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
    around: list[int] = []  # places of the operators that are not over
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
