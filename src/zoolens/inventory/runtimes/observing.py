"""What a session tells about the inside of a model: how long each operator took, and the values of tensors on the way.

`Session.profile` gives one `Profile` for each prediction, `Session.capture` the values of the tensors that
`Session.capture_points` lists. Both are abilities that a runtime declares (`profile`, `kernels`, `capture`). Either may
run a second copy of the model that was opened for observation, so that the session itself computes as before.

A worker sends these as plain data: no field holds an object of a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeVar, get_args

from numpy.typing import NDArray

from zoolens.base.errors import ModelError

T = TypeVar("T")
Level = Literal["layer", "library"]
MOST_CAPTURED_BYTES: Final = 1 << 32  # in one call of `Session.capture`
_MOST_OPERATORS: Final = 2_000_000  # in all profiles of one call
_LONGEST_TEXT: Final = 20_000  # characters; compiled kernels have very long names
_MAX_RANK: Final = 64


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator or kernel in one prediction.

    `name` and `kind` are the framework's own. `start` is in nanoseconds since the Unix epoch; it is None where the
    framework tells durations only. `nodes` are the names that the operators it computes have in the model's file:
    several where the framework fused them, none where that is unknown. They are what the graph importers call the
    source of a node; in formats whose operators may be nameless, the name of the first output stands for them.
    `parent` is the place in `Profile.operators` of the operator that called this one, which stands before it. `level`
    is "layer" for operators of the framework and "library" for the primitives and device kernels that computed them.
    """

    name: str
    kind: str
    duration: int
    start: int | None = None
    level: Level = "layer"
    parent: int | None = None
    nodes: tuple[str, ...] = ()
    kernel: str | None = None  # which implementation computed it, such as "brgconv_avx512_amx"
    precision: str | None = None  # "float32", "bfloat16", "int8"; None: the framework does not report it
    shapes: tuple[tuple[int, ...], ...] = ()  # of its outputs
    thread: int | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Profile:
    """One observed prediction: when it began and how long the whole call took, in nanoseconds, and its operators in
    the order in which they ran. `delay` is how long its threads waited for a core meanwhile (see `runtimes.calls`,
    which times calls so); None where that is not known. `run` is how long the framework's own run took by its own
    clock; the rest of the call hands over inputs and outputs. None where the framework does not report it."""

    start: int
    duration: int
    operators: tuple[OperatorTime, ...]
    delay: int | None = None
    run: int | None = None


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """A tensor inside a model, or one of its outputs, whose values can be read.

    `name` is what `Session.capture` takes. `node` is the operator of the model's file that makes the tensor, by its
    name there, and `tensor` the name of the tensor itself, where the format has one: by these two a point is found in
    the imported graph. `kept` says that the runtime makes this tensor anyway, so that reading it changes nothing about
    how the model is computed. `axes` is the order of axes, such as "NHWC", where the runtime fixes it.
    """

    name: str
    node: str = ""
    tensor: str = ""
    kept: bool = False
    shape: tuple[int | None, ...] = ()
    dtype: str = ""
    axes: str = ""


@dataclass(frozen=True)
class Captured:
    """The values that were asked for, and what the observed copy of the model answered: where that differs from what
    `predict` answers, observing has changed the computation, and whoever reports the values says so."""

    tensors: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


def check_points(asked: tuple[str, ...], points: tuple[CapturePoint, ...]) -> None:
    """ModelError where a tensor is asked for that cannot be read."""
    known = {point.name for point in points}
    missing = next((name for name in asked if name not in known), None)
    if missing is not None:
        raise ModelError(
            f"The tensor {missing[:80]!r} inside the model cannot be read; {len(known)} others can.",
            hint="`Session.capture_points` lists them.",
        )


def check_captured_size(captured: Captured) -> None:
    """ModelError where the values are more than a worker may send at once."""
    size = sum(array.nbytes for array in (*captured.tensors.values(), *captured.outputs.values()))
    if size > MOST_CAPTURED_BYTES:
        raise ModelError(
            f"The {len(captured.tensors)} tensors that were asked for have {size:,} bytes; at most "
            f"{MOST_CAPTURED_BYTES:,} can be read at once.",
            hint="Ask for fewer tensors at a time, or run a smaller batch.",
        )


# --- plain data: what a worker sends, and what is believed of it


def profile_message(profile: Profile) -> dict[str, Any]:
    operators = [{name: getattr(operator, name) for name in _OPERATOR_FIELDS} for operator in profile.operators]
    times = {name: getattr(profile, name) for name in ("start", "duration", "delay", "run")}
    return {**times, "operators": operators}


def read_profiles(messages: Sequence[Mapping[str, Any]], repeats: int) -> list[Profile]:
    """Parses profiles from a worker's answer; ValueError, TypeError or KeyError if they are invalid."""
    if len(messages) != repeats or sum(len(message["operators"]) for message in messages) > _MOST_OPERATORS:
        raise ValueError("profiles of calls that were not requested")
    return [_profile(message) for message in messages]


def point_message(point: CapturePoint) -> dict[str, Any]:
    return {name: getattr(point, name) for name in _POINT_FIELDS}


def read_points(messages: Sequence[Mapping[str, Any]]) -> tuple[CapturePoint, ...]:
    """Parses capture points from a worker's answer; ValueError or TypeError if they are invalid."""
    points = tuple(_point(**message) for message in messages)
    if len({point.name for point in points}) < len(points):
        raise ValueError("two tensors of one name")
    return points


_OPERATOR_FIELDS: Final = tuple(field.name for field in fields(OperatorTime))
_POINT_FIELDS: Final = tuple(field.name for field in fields(CapturePoint))


def _profile(message: Mapping[str, Any]) -> Profile:
    operators = tuple(_operator(place, operator) for place, operator in enumerate(message["operators"]))
    delay = _optional(_whole, message.get("delay"))
    run = _optional(_whole, message.get("run"))
    return Profile(_whole(message["start"]), _whole(message["duration"]), operators, delay, run)


def _operator(place: int, message: Mapping[str, Any]) -> OperatorTime:
    if set(message) != set(_OPERATOR_FIELDS):
        raise ValueError("an operator with missing or unknown fields")
    if message["level"] not in get_args(Level):
        raise ValueError("an operator of an unknown level")
    parent = _optional(_whole, message["parent"])
    if parent is not None and parent >= place:
        raise ValueError("an operator that was called by a later one")
    shapes = [_shape(shape) for shape in message["shapes"]]
    return OperatorTime(
        name=_text(message["name"]),
        kind=_text(message["kind"]),
        duration=_whole(message["duration"]),
        start=_optional(_whole, message["start"]),
        level=message["level"],
        parent=parent,
        nodes=tuple(_text(node) for node in message["nodes"]),
        kernel=_optional(_text, message["kernel"]),
        precision=_optional(_text, message["precision"]),
        shapes=tuple(tuple(_whole(extent) for extent in shape) for shape in shapes),
        thread=_optional(_whole, message["thread"]),
        device=_text(message["device"]),
    )


def _point(name: Any, node: Any, tensor: Any, kept: Any, shape: Any, dtype: Any, axes: Any) -> CapturePoint:
    return CapturePoint(
        _text(name),
        _text(node),
        _text(tensor),
        bool(kept),
        tuple(_optional(_whole, extent) for extent in _shape(shape)),
        _text(dtype),
        _text(axes),
    )


def _optional(check: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else check(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError("a name that is not text, or too long")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("a time, extent or place that is not an integer")
    return value


def _shape(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or len(value) > _MAX_RANK:
        raise ValueError("a tensor without a possible shape")
    return value
