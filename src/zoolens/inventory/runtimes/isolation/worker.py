"""The process behind an isolated runtime; `isolated` starts it and speaks to it.

It runs in an environment that holds numpy and one framework only. Of zoolens it imports `errors`, this module,
`runtime`, `observing`, `timing`, the runtime's own module and what a worker needs of `engine`.
"""

from __future__ import annotations

import importlib
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.engine.service import Message, Service
from zoolens.base.engine.wire import encoded
from zoolens.base.errors import CodeNotAllowed, ModelError, UnsupportedAbility, WorkerError, first_line
from zoolens.inventory.runtimes.observing import check_captured_size, point_message, profile_message
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime, Session, Tensor, TensorSpec, Yielding
from zoolens.inventory.runtimes.timing.calls import observed_calls
from zoolens.inventory.runtimes.timing.latency_loop import Repeater

_MAX_RANK: Final = 64


class Worker:
    """Answers requests one by one. Every method named `do_…` is one request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._inputs, self._outputs = service.inputs, service.outputs
        self._runtime: Runtime | None = None
        self._session: Session | None = None
        self._repeated: Repeater | None = None
        self._snippets: dict[str, Snippet] = {}
        self._run: tuple[Any, bytes] = None, b""  # the last layout of answers, and its message

    def answer(self, request: Message) -> Any:
        return getattr(self, f"do_{request['do']}")(request)

    def do_open(self, request: Message) -> Message:
        code: Mapping[str, str] = request["code"]
        self._snippets = {name: Snippet(name, source) for name, source in code.items() if name != "architecture"}
        runtime = _runtime(request["runtime"])
        runtime.yielding = Yielding(request["yielding"])
        model = _model_files(request["model"])
        options = Options(**request["options"])
        runtime.check(model, options)
        runtime.library()
        # Includes numpy, which any framework needs.
        imported = (time.monotonic_ns() - self._service.began_ns) / 1e9
        self._forget_repeated()
        if self._session is not None:
            self._session.close()
        session = runtime.open(model, options)
        self._runtime, self._session = runtime, session
        return {
            "inputs": [asdict(spec) for spec in session.inputs],
            "outputs": [asdict(spec) for spec in session.outputs],
            "sandbox": self._service.sandbox,
            "takes_packed": runtime.takes_packed,
            "phases": {"start": self._service.start_seconds, "import": imported, **session.phases},
        }

    def do_predict(self, request: Message) -> Message:
        session = self._opened()
        feeds = self._inputs.read(request["tensors"])
        started = time.perf_counter()
        answers = session.predict(feeds)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "tensors": self._outputs.write(answers)}

    def do_run(self, request: Message) -> bytes:
        """Runs a prediction for a server: faster than `do_predict`, since the answer's text never changes."""
        layout = self._outputs.write(self._opened().predict(self._inputs.read(request["tensors"])))
        if self._run[0] is not layout:
            self._run = layout, encoded({"tensors": layout})
        return self._run[1]

    def do_predict_each(self, request: Message) -> Message:
        """Several batches in one go: each is run by itself, and only the handing over is done for all together."""
        session = self._opened()
        feeds = self._inputs.read(request["tensors"])
        answers: dict[str, Tensor] = {}
        started = time.perf_counter()
        for place in range(request["batches"]):
            own = {name[len(f"{place} ") :]: view for name, view in feeds.items() if name.startswith(f"{place} ")}
            answers |= {f"{place} {name}": array for name, array in session.predict(own).items()}
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "tensors": self._outputs.write(answers)}

    def do_repeat(self, request: Message) -> bool:
        session = self._opened()
        feeds = {name: view.copy() for name, view in self._inputs.read(request["tensors"]).items()}
        self._forget_repeated()
        kept = request.get("kept")
        call = partial(session.predict, feeds) if kept is None else partial(session.extend, feeds["tokens"], kept)
        self._repeated = Repeater(call, request["warmup_calls"], request["warmup_seconds"])
        return self._repeated.watched

    def do_sample(self, request: Message) -> Message:
        if self._repeated is None:
            raise WorkerError("The isolated process was asked for times before a prediction was repeated.")
        elapsed, waiting = self._repeated.sample(request["wanted"], request["seconds"])
        times = {"elapsed": elapsed, "delay": waiting.delay_ns, "switches": waiting.switches}
        return {"tensors": self._outputs.write(times)}

    def do_observe(self, request: Message) -> Message:
        session = self._opened()
        feeds = {name: view.copy() for name, view in self._inputs.read(request["tensors"]).items()}
        session.predict(feeds)
        calls = observed_calls(lambda: session.predict(feeds), request["repeats"])
        return {"calls": [asdict(call) for call in calls]}

    def do_effective(self, _: Message) -> Message:
        return asdict(self._opened().effective())

    def do_count_parameters(self, _: Message) -> int:
        return self._able("count_parameters").count_parameters()

    def do_profile(self, request: Message) -> list[Message]:
        session = self._able("profile", *(["kernels"] if request["kernels"] else []))
        feeds = self._inputs.read(request["tensors"])
        return [profile_message(run) for run in session.profile(feeds, request["repeats"], kernels=request["kernels"])]

    def do_profile_extend(self, request: Message) -> list[Message]:
        session = self._able("extend", "profile", *(["kernels"] if request["kernels"] else []))
        tokens = self._inputs.read(request["tensors"])["tokens"].copy()
        profiles = session.profile_extend(tokens, request["kept"], request["repeats"], kernels=request["kernels"])
        return [profile_message(run) for run in profiles]

    def do_capture_points(self, _: Message) -> list[Message]:
        return [point_message(point) for point in self._able("capture").capture_points()]

    def do_capture(self, request: Message) -> Message:
        """Two groups of tensors travel together: the first letter of each name says of which one it is."""
        captured = self._able("capture").capture(self._inputs.read(request["tensors"]), request["names"])
        check_captured_size(captured)
        tensors = {f"t{name}": array for name, array in captured.tensors.items()}
        outputs = {f"o{name}": array for name, array in captured.outputs.items()}
        return {"tensors": self._outputs.write(tensors | outputs)}

    def do_extend(self, request: Message) -> Message:
        tokens = self._inputs.read(request["tensors"])["tokens"]
        return {"tensors": self._outputs.write({"next": self._able("extend").extend(tokens, request["kept"])})}

    def do_device_times(self, request: Message) -> list[Message]:
        feeds = self._inputs.read(request["tensors"])
        return [asdict(times) for times in self._opened().device_times(feeds, request["repeats"])]

    def do_preprocess(self, request: Message) -> Message:
        image = self._inputs.read(request["tensors"])["image"]
        return {"tensors": self._outputs.write({"result": self._snippet("preprocess").run(image)})}

    def do_postprocess(self, request: Message) -> Message:
        outputs = self._inputs.read(request["tensors"])
        return {"tensors": self._outputs.write({"result": self._snippet("postprocess").run(outputs)})}

    def do_packages(self, _: Message) -> dict[str, str]:
        # A tenth of what a worker takes to start, and most are never asked this.
        from importlib import metadata

        packages = [package for package in metadata.distributions() if package.name]
        return {re.sub(r"[-_.]+", "-", package.name).lower(): package.version for package in reversed(packages)}

    def do_memory(self, _: Message) -> int:
        return peak_memory_bytes()

    def do_close(self, _: Message) -> Message:
        if self._session is not None:
            self._session.close()
        return {"peak_memory": peak_memory_bytes()}

    def _forget_repeated(self) -> None:
        if self._repeated is not None:
            self._repeated.close()
        self._repeated = None

    def _opened(self) -> Session:
        if self._session is None:
            raise WorkerError("The isolated process was asked to run a model before one was opened.")
        return self._session

    def _able(self, *abilities: str) -> Session:
        session = self._opened()
        for ability in abilities:
            if self._runtime is None:
                continue
            self._runtime.require(ability)
            # A plug-in that is older than the ability does not declare that it lacks it.
            if getattr(type(session), ability, None) is getattr(Session, ability, ability):
                raise UnsupportedAbility(self._runtime.name, ability, "its plug-in does not say how")
        return session

    def _snippet(self, name: str) -> Snippet:
        if name not in self._snippets:
            raise CodeNotAllowed(
                f"The {name} code was not handed to the isolated process.",
                hint="Code in a manifest runs only with --allow-code.",
            )
        return self._snippets[name]


class Snippet:
    """One piece of Python from a manifest, which the user has allowed to run. It defines a function of its name."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._file = f"<{name} code of the manifest>"
        self._function = self._define(source)

    def run(self, argument: Any) -> Tensor:
        try:
            result = np.asarray(self._function(argument))
        except (Exception, SystemExit) as error:
            raise self._explained(error) from error
        if result.dtype.kind not in "biufc":
            raise ModelError(f"The {self._name} code returned {result.dtype.name} values and not an array of numbers.")
        return result

    def _define(self, source: str) -> Callable[[Any], Any]:
        namespace: dict[str, Any] = {"__name__": f"zoolens_{self._name}_code"}
        try:
            exec(compile(source, self._file, "exec"), namespace)  # noqa: S102 - the user gave --allow-code
        except (Exception, SystemExit) as error:
            raise self._explained(error) from error
        function = namespace.get(self._name)
        if not callable(function):
            raise ModelError(f"The {self._name} code does not define a function named {self._name}.")
        return function  # type: ignore[no-any-return]

    def _explained(self, error: BaseException) -> ModelError:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self._file]
        if isinstance(error, SyntaxError):
            lines.append(error.lineno)
        line = lines[-1] if lines else None
        where = f" in line {line}" if line else ""
        return ModelError(f"The {self._name} code fails{where}: {type(error).__name__}: {first_line(error)}")


def peak_memory_bytes() -> int:
    """The most memory this process ever had resident, including the shared arenas it touched."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    service = Service(settings, began_ns)
    service.serve(Worker(service).answer, lambda _: "The isolated process")


def _runtime(value: str) -> Runtime:
    module, _, qualified = value.partition(":")
    named: Any
    try:
        named = importlib.import_module(module)
    except ImportError as error:
        raise WorkerError(
            f"The runtime {value} cannot be imported in the isolated process: {first_line(error)}.",
            hint="A runtime module imports nothing but numpy, the standard library, zoolens.base.errors "
            "and zoolens.inventory.runtimes.",
        ) from error
    for name in qualified.split("."):
        named = getattr(named, name)
    runtime: Runtime = named()
    return runtime


def _model_files(message: Mapping[str, Any]) -> ModelFiles:
    return ModelFiles(
        format=message["format"],
        files={role: Path(path) for role, path in message["files"].items()},
        architecture=message["architecture"],
        inputs=tensor_specs(message["inputs"]),
        outputs=tensor_specs(message["outputs"]),
    )


def tensor_specs(messages: list[Message]) -> tuple[TensorSpec, ...]:
    """Parses tensor specs; ValueError or TypeError if they are invalid. Both processes use it."""
    return tuple(_tensor_spec(**message) for message in messages)


def _tensor_spec(
    name: Any, shape: Any, dtype: Any, scale: Any = None, zero_point: Any = None, likeliest_only: Any = False
) -> TensorSpec:
    extents = tuple(shape)
    if not (isinstance(name, str) and isinstance(dtype, str)):
        raise ValueError("a tensor whose name or type is not text")  # noqa: TRY004 - same kind as the next
    if len(extents) > _MAX_RANK or not all(_is_extent(extent) for extent in extents):
        raise ValueError("a tensor without a possible shape")
    if not all(value is None or isinstance(value, int | float) for value in (scale, zero_point)):
        raise ValueError("a tensor whose scale is not a number")
    return TensorSpec(name, extents, dtype, scale, zero_point, bool(likeliest_only))


def _is_extent(extent: Any) -> bool:
    return extent is None or (isinstance(extent, int) and 0 <= extent < 1 << 63)
