"""What a session tells about the inside of a model: how long each operator took, and the values of tensors on the way.

`Session.profile` gives one `Profile` for each prediction, `Session.capture` the values of the tensors that
`Session.capture_points` lists. Both are abilities that a runtime declares (`profile`, `kernels`, `capture`). Either may
run a second copy of the model that was opened for observation, so that the session itself computes as before.

A worker sends these as plain data: no field holds an object of a framework.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from numpy.typing import NDArray

from zoolens.errors import ModelError

Level = Literal["layer", "library"]
NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator or kernel in one prediction.

    `name` and `kind` are the framework's own. `start` is in nanoseconds since the Unix epoch; it is None where the
    framework tells durations only. `nodes` are the names that the operators it computes have in the model's file:
    several where the framework fused them, none where that is unknown. `parent` is the place of the operator that
    called this one in `Profile.operators`. `level` is "layer" for operators of the framework and "library" for
    the primitives and device kernels that computed them.
    """

    name: str
    kind: str
    duration: int
    start: int | None = None
    level: Level = "layer"
    parent: int | None = None
    nodes: tuple[str, ...] = ()
    kernel: str | None = None  # which implementation computed it, such as "brgconv_avx512_amx"
    precision: str | None = None  # "float32", "bfloat16", "int8"; None: the framework does not tell
    shapes: tuple[tuple[int, ...], ...] = ()  # of its outputs
    thread: int | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Profile:
    """One observed prediction: when it began and how long the whole call took, in nanoseconds, and its operators in
    the order in which they ran. `delay` is how long its threads waited for a core meanwhile (see `runtimes.calls`,
    which times calls so); None where that is not known."""

    start: int
    duration: int
    operators: tuple[OperatorTime, ...]
    delay: int | None = None


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """A tensor inside a model whose values can be read.

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
