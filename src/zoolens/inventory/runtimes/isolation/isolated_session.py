"""A session whose model lives in a worker process: what is asked goes there, and what comes back is checked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.process import WorkerProcess
from zoolens.base.engine.sandbox import TRUSTED
from zoolens.base.errors import WorkerError, ZoolensError
from zoolens.inventory.runtimes.devices import DeviceTimes, read_device_times
from zoolens.inventory.runtimes.isolation.packed import BFLOAT16, STRING, packed, packed_parts
from zoolens.inventory.runtimes.isolation.worker import tensor_specs
from zoolens.inventory.runtimes.observing import (
    MOST_CAPTURED_BYTES,
    Captured,
    CapturePoint,
    Profile,
    read_points,
    read_profiles,
)
from zoolens.inventory.runtimes.runtime import Effective, ModelFiles, Options, Session, Tensor, Tensors, Yielding
from zoolens.inventory.runtimes.timing.calls import NOT_ALWAYS_KNOWN, ObservedCall
from zoolens.inventory.runtimes.timing.interference import Waiting
from zoolens.inventory.runtimes.timing.latency_loop import Repeating

DEFAULT_TIMEOUT: Final = 600.0
MOST_OUTPUT_BYTES: Final = 1 << 31  # of an answer to `hand_over`: a worker that was taken over may claim anything
_GRACE: Final = 5.0  # seconds for a worker to close in good order


@dataclass(frozen=True)
class Opening:
    """How a worker opens a model."""

    entry_point: str  # of the runtime, as "module:class"
    model: ModelFiles
    options: Options = field(default_factory=Options)
    # What the manifest brings and the user has allowed, under "preprocess", "postprocess" and "architecture".
    code: Mapping[str, str] = field(default_factory=dict)
    yielding: Yielding = Yielding.NEVER

    def request(self) -> dict[str, Any]:
        return {
            "runtime": self.entry_point,
            "model": _described(self.model, self.code.get("architecture")),
            "options": asdict(self.options),
            "code": dict(self.code),
            "yielding": int(self.yielding),
        }


class IsolatedSession(Session):
    """A session whose model lives in a worker. `phases` has "start", "import", "load" and "compile"."""

    elsewhere = True

    def __init__(
        self, worker: WorkerProcess, opening: Opening, *, timeout: float = DEFAULT_TIMEOUT, ends_worker: bool = True
    ) -> None:
        self._worker = worker
        self._timeout = timeout
        self._ends_worker = ends_worker
        # A request and the reading of its answer belong together: threads that prepare inputs share the worker.
        self._turn = threading.RLock()
        self._begun: _Begun | None = None  # a prediction whose answer has not been read yet
        self._peak_memory: int | None = None
        self._packages: dict[str, str] | None = None
        self._opening = opening
        self._open()

    def open_again(self, yielding: Yielding) -> None:
        """Open the same model again in the same worker: its framework need not be imported a second time."""
        self._opening = replace(self._opening, yielding=yielding)
        self._open()

    def _open(self) -> None:
        opening = self._opening
        answer = self._ask("open", f"opening {opening.model.path().name}", **opening.request())
        with self._worker.sensible():
            self.inputs = tensor_specs(answer["inputs"])
            self.outputs = tensor_specs(answer["outputs"])
            self.phases = {str(name): float(seconds) for name, seconds in answer["phases"].items()}
            self.sandbox = str(answer["sandbox"] or TRUSTED)
            unlike_numpy = any(spec.dtype in (BFLOAT16, STRING) for spec in self.inputs)
            self._packs = bool(answer["takes_packed"]) and unlike_numpy

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        return self._begin("predict", feeds)()

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        """Hand over some batches and go on: what is given back waits for the answers. Meanwhile the next ones can be
        prepared and the last answers judged. One at a time: whatever is asked next waits first."""
        numbered = {f"{place} {name}": array for place, feeds in enumerate(batches) for name, array in feeds.items()}
        finish = self._begin("predict_each", numbered, batches=len(batches))

        def apart() -> list[Tensors]:
            answers = finish()
            each: list[Tensors] = [{} for _ in batches]
            with self._worker.sensible():
                for name, array in answers.items():
                    place, _, own = name.partition(" ")
                    each[int(place)][own] = array
                if not all(each):
                    raise ValueError("fewer answers than batches")
            return each

        return apart

    def _begin(self, do: str, tensors: Mapping[str, Tensor], **content: Any) -> Callable[[], Tensors]:
        with self._turn:
            self._collect()
            self._worker.send({"do": do, **content}, "running the model", packed(tensors) if self._packs else tensors)
            begun = self._begun = _Begun()

        def finish() -> Tensors:
            with self._turn:
                if self._begun is begun:
                    self._collect()
            return begun.outcome()

        return finish

    @property
    def yielding(self) -> Yielding:
        return self._opening.yielding

    @property
    def process_id(self) -> int:
        return self._worker.pid

    @property
    def descriptor(self) -> int:
        """Becomes readable when the answer to what `hand_over` gave arrives, or when the worker has ended."""
        return self._worker.descriptor

    def hand_over(self, parts: Sequence[Mapping[str, Tensor]]) -> None:
        """For event loops: give the worker a batch, made of some parts, and do not wait. `arrived` reads the answer.

        Errors are as those of `arrived`.
        """
        self._worker.start_run(packed_parts(parts) if self._packs else parts)
        self._begun = _Begun()

    def hand_over_tokens(self, tokens: Tensor, kept: int) -> None:
        """For event loops: as `hand_over`, to continue a sequence as `extend` does. The answer has one tensor."""
        self._worker.start({"do": "extend", "kept": kept}, {"tokens": tokens})
        self._begun = _Begun()

    def arrived(self) -> Tensors | None:
        """For event loops, once `descriptor` is readable: the answer, or None where more of it is still to come.

        It never waits. A ZoolensError is the model's own: the worker lives. Any other error means that the worker is of
        no more use, and `ended` explains it.
        """
        try:
            complete, answer = self._worker.receive_arrived()
        except ZoolensError:
            self._begun = None
            raise
        if not complete:
            return None
        if self._begun is None:
            raise ValueError("an answer that was not requested")
        self._begun = None
        views = self._worker.outputs.read(answer["tensors"], MOST_OUTPUT_BYTES)
        return {name: view.copy() for name, view in views.items()}

    def ended(self, error: Exception) -> WorkerError:
        """Stop a worker of which `hand_over` or `arrived` raised this error, and say how it ended (takes seconds)."""
        return self._worker.ended(error, "running the model")

    def kill(self) -> None:
        """End the worker at once; `close` afterwards releases what it shared with us."""
        self._worker.kill()

    def repeat(self, feeds: Mapping[str, Tensor], warmup_calls: int, warmup_seconds: float) -> Repeating:
        """Predictions of the same inputs, repeated and timed in the worker."""
        request = {"warmup_calls": warmup_calls, "warmup_seconds": warmup_seconds}
        with self._turn:
            watched = self._ask("repeat", "running the model", feeds, **request)
        return _RepeatedElsewhere(self, bool(watched))

    def repeat_extend(self, tokens: Tensor, kept: int, warmup_calls: int, warmup_seconds: float) -> Repeating:
        """A call of `extend`, repeated and timed in the worker."""
        request = {"warmup_calls": warmup_calls, "warmup_seconds": warmup_seconds, "kept": kept}
        with self._turn:
            watched = self._ask("repeat", "continuing a sequence", {"tokens": tokens}, **request)
        return _RepeatedElsewhere(self, bool(watched))

    def sample(self, wanted: int, seconds: float) -> tuple[NDArray[np.int64], Waiting]:
        """Times of the repeated predictions; see `Repeating`."""
        with self._turn:
            answer = self._ask("sample", "running the model", wanted=wanted, seconds=seconds)
            times = self._received(answer)
        with self._worker.sensible():
            elapsed, delay, switches = (times[name].astype(np.int64) for name in ("elapsed", "delay", "switches"))
            if not elapsed.shape == delay.shape == switches.shape == (len(elapsed),) or not 1 <= len(elapsed) <= wanted:
                raise ValueError("times of calls that were not requested")
        return elapsed, Waiting(delay, switches)

    def observe(self, feeds: Mapping[str, Tensor], repeats: int) -> list[ObservedCall]:
        """Runs predictions of the same inputs, each with what the operating system did to the worker in that time."""
        answer = self._ask("observe", "running the model", feeds, repeats=repeats)
        with self._worker.sensible():
            calls = [_observed_call(**call) for call in answer["calls"]]
            if len(calls) != repeats:
                raise ValueError("calls that were not requested")
            return calls

    def effective(self) -> Effective:
        answer = self._ask("effective", "reporting how it runs")
        with self._worker.sensible():
            return _effective(**answer)

    def count_parameters(self) -> int:
        answer = self._ask("count_parameters", "counting parameters")
        with self._worker.sensible():
            return int(answer)

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        request = {"repeats": repeats, "kernels": kernels}
        answer = self._ask("profile", "profiling the model", feeds, **request)
        with self._worker.sensible():
            return read_profiles(answer, repeats)

    def profile_extend(self, tokens: Tensor, kept: int, repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        request = {"kept": kept, "repeats": repeats, "kernels": kernels}
        answer = self._ask("profile_extend", "profiling the model", {"tokens": tokens}, **request)
        with self._worker.sensible():
            return read_profiles(answer, repeats)

    def capture_points(self) -> tuple[CapturePoint, ...]:
        answer = self._ask("capture_points", "listing the tensors inside the model")
        with self._worker.sensible():
            return read_points(answer)

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        with self._turn:
            answer = self._ask("capture", "reading tensors inside the model", feeds, names=list(names))
            arrays = self._received(answer, MOST_CAPTURED_BYTES)
        with self._worker.sensible():
            tensors = {name[1:]: array for name, array in arrays.items() if name.startswith("t")}
            outputs = {name[1:]: array for name, array in arrays.items() if name.startswith("o")}
            if tensors.keys() != set(names) or outputs.keys() != {spec.name for spec in self.outputs}:
                raise ValueError("tensors that were not requested")
            return Captured({name: tensors[name] for name in names}, outputs)

    def extend(self, tokens: Tensor, kept: int | None = None) -> Tensor:
        with self._turn:
            answer = self._ask("extend", "continuing a sequence", {"tokens": tokens}, kept=kept)
            found = self._received(answer)
        with self._worker.sensible():
            (after,) = found.values()
            if after.dtype != np.float32 or after.ndim != 2 or len(after) != len(tokens):
                raise ValueError("distributions that were not requested")
            return after

    def device_times(self, feeds: Mapping[str, Tensor], repeats: int = 1) -> list[DeviceTimes]:
        answer = self._ask("device_times", "running the model", feeds, repeats=repeats)
        with self._worker.sensible():
            return read_device_times(answer, repeats)

    def run_preprocess(self, image: Tensor) -> Tensor:
        """The manifest's own `preprocess(image)`, executed in the worker."""
        with self._turn:
            return self._received(self._ask("preprocess", "preprocessing", {"image": image}))["result"]

    def run_postprocess(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """The manifest's own `postprocess(outputs)`, executed in the worker; `outputs` as `predict` gives them."""
        with self._turn:
            return self._received(self._ask("postprocess", "postprocessing", outputs))["result"]

    @property
    def packages(self) -> dict[str, str]:
        """Versions of all distributions the worker sees, by normalised name (ai-edge-litert, tf-keras)."""
        if self._packages is None:
            answer = self._ask("packages", "listing its packages")
            with self._worker.sensible():
                self._packages = {str(name): str(version) for name, version in answer.items()}
        return self._packages

    @property
    def peak_memory_bytes(self) -> int:
        """The worker's largest resident size so far; after `close`, its last one."""
        if self._peak_memory is None:
            answer = self._ask("memory", "reporting its memory")
            with self._worker.sensible():
                return int(answer)
        return self._peak_memory

    def close(self) -> None:
        if not self._ends_worker:
            return
        # Nobody waits any more for what was begun.
        if self._worker.running and self._begun is None:
            with contextlib.suppress(ZoolensError), self._worker.sensible():
                self._peak_memory = int(self._ask("close", "closing", timeout=_GRACE)["peak_memory"])
        self._worker.stop()

    def _ask(
        self,
        do: str,
        doing: str,
        tensors: Mapping[str, Tensor] | None = None,
        *,
        timeout: float | None = None,
        **content: Any,
    ) -> Any:
        with self._turn:
            self._collect()
            return self._worker.ask({"do": do, **content}, doing, tensors, timeout=timeout or self._timeout)

    def _collect(self) -> None:
        """Reads the answer to a prediction that was begun, and keeps it for the caller that began it."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            answer = self._worker.receive("running the model", timeout=self._timeout)
            with self._worker.sensible():
                self.last_predict_seconds = float(answer["seconds"])
            begun.answers = self._received(answer)
        except ZoolensError as error:
            begun.error = error

    def _received(self, answer: Mapping[str, Any], limit: int | None = None) -> Tensors:
        # Copied out: the arena is written again by the next request, and what we return is the caller's to keep.
        with self._worker.sensible():
            views = self._worker.outputs.read(answer["tensors"], limit)
            return {name: view.copy() for name, view in views.items()}


class _Begun:
    """A prediction that the worker was given: its answers, or what went wrong, once they were read."""

    answers: Tensors | None = None
    error: ZoolensError | None = None

    def outcome(self) -> Tensors:
        if self.error is not None:
            raise self.error
        if self.answers is None:
            raise WorkerError("The isolated process ended before it answered.", hint="Open the model again.")
        return self.answers


class _RepeatedElsewhere:
    """A prediction that is repeated in a worker."""

    def __init__(self, session: IsolatedSession, watched: bool) -> None:
        self._session = session
        self.watched = watched

    def sample(self, wanted: int, seconds: float) -> tuple[NDArray[np.int64], Waiting]:
        return self._session.sample(wanted, seconds)

    def close(self) -> None:
        """Nothing to do: the worker forgets it with the session, or with the next one that is repeated."""


def _described(model: ModelFiles, architecture_source: str | None) -> dict[str, Any]:
    architecture = None if model.architecture is None else dict(model.architecture)
    if architecture_source is not None:
        architecture = {**(architecture or {}), "source": architecture_source, "allowed": True}
    return {
        "format": model.format,
        "files": {role: str(Path(path).absolute()) for role, path in model.files.items()},
        "architecture": architecture,
        "inputs": [asdict(spec) for spec in model.inputs],
        "outputs": [asdict(spec) for spec in model.outputs],
    }


def _observed_call(**counts: Any) -> ObservedCall:
    """Parses a call from a worker's answer; ValueError or TypeError if it is invalid."""
    known = {name: value for name, value in counts.items() if value is not None or name not in NOT_ALWAYS_KNOWN}
    if not all(isinstance(value, int) and 0 <= value < 1 << 63 for value in known.values()):
        raise ValueError("a time or a count that is not an integer")
    return ObservedCall(**counts)


def _effective(
    provider: Any, precision: Any = None, threads: Any = None, details: Mapping[Any, Any] | None = None
) -> Effective:
    """What a worker says of itself, as text and a number: more is recorded nowhere."""
    texts = {str(name): str(value) for name, value in (details or {}).items()}
    return Effective(
        str(provider), None if precision is None else str(precision), None if threads is None else int(threads), texts
    )
