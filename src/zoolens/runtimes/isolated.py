"""A runtime in a process of its own: for strangers' files, for libraries that clash with ours, and for cold starts.

`open_model` opens a model where it belongs: in a sandboxed worker, unless the user trusts it or no framework parses it.
`open_isolated` always opens it in a worker, and gives a `Session` like any other. The worker lives in its own process
group, is told to close, and is killed with everything it started when it does not answer, when the session goes, or
when we do; then its scratch folder is removed.
Works where there are POSIX pipes and process groups (Linux, macOS).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens import errors, plugins
from zoolens.engine.launcher import launch
from zoolens.engine.policy import worker_policy
from zoolens.engine.sandbox import PLAIN, TRUSTED, Policy, trusted
from zoolens.engine.scratch import kept_scratch, make_scratch, remove_scratch
from zoolens.engine.wire import Arena, Channel
from zoolens.errors import ModelError, WorkerError, ZoolensError
from zoolens.runtimes.base import Effective, ModelFiles, Options, Runtime, Session, Tensor, Tensors
from zoolens.runtimes.interference import Waiting
from zoolens.runtimes.repeating import Repeating
from zoolens.runtimes.worker import tensor_specs

if TYPE_CHECKING:
    from zoolens.engine.environments import Environment

DEFAULT_TIMEOUT: Final = 600.0
_TAIL_LINES = 40
_LONGEST_SENTENCE = 4000  # characters of a worker's error
_GRACE = 5.0  # seconds for a worker to close in good order


def open_model(
    runtime: Runtime,
    model: ModelFiles,
    options: Options | None = None,
    *,
    isolate: bool = False,
    environment: Environment | None = None,
    code: Mapping[str, str] | None = None,
) -> Session:
    """Open a model in a sandboxed worker. In our own process only what is trusted, or plain data to its runtime, and
    neither needs a process of its own (`isolate`) nor another environment, nor brings code."""
    harmless = trusted() or runtime.plain is not None
    if not harmless or isolate or environment is not None or code:
        return open_isolated(runtime, model, options, environment=environment, code=code)
    session = runtime.open(model, options)
    session.sandbox = PLAIN if runtime.plain is not None else TRUSTED
    return session


@contextmanager
def opener(runtime: Runtime, folder: Path) -> Iterator[Callable[[ModelFiles], Session]]:
    """A function that opens models of `folder`, one after another, all in one worker: for files that we wrote
    ourselves, where a worker for each would cost more than it protects. Each ends the session before it."""
    if trusted() or runtime.plain is not None:
        yield runtime.open
        return
    workers: list[WorkerProcess] = []

    def opened(model: ModelFiles) -> Session:
        if not workers or not workers[-1].running:
            workers.append(WorkerProcess(runtime, None, DEFAULT_TIMEOUT, [folder], Options()))
        return IsolatedSession(workers[-1], model, Options(), {}, ends_worker=False)

    try:
        yield opened
    finally:
        for worker in workers:
            worker.stop()


def open_isolated(
    runtime: Runtime | str,
    model: ModelFiles,
    options: Options | None = None,
    *,
    environment: Environment | None = None,
    code: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> IsolatedSession:
    """Open a model in a worker process, in `environment` or else in the environment we run in; sandboxed, unless the
    user trusts the model.

    `code` holds what the manifest brings and the user has allowed: "preprocess", "postprocess", "architecture".
    `timeout` is in seconds, for opening and for each later request.
    """
    if isinstance(runtime, str):
        runtime = _registered(runtime)
    options = options or Options()
    worker = WorkerProcess(runtime, environment, timeout, model.files.values(), options)
    try:
        return IsolatedSession(worker, model, options, dict(code or {}))
    except BaseException:
        worker.stop()
        raise


class IsolatedSession(Session):
    """A session whose model lives in a worker. `phases` has "start", "import", "load" and "compile"."""

    elsewhere = True

    def __init__(
        self,
        worker: WorkerProcess,
        model: ModelFiles,
        options: Options,
        code: dict[str, str],
        *,
        ends_worker: bool = True,
    ) -> None:
        self._worker = worker
        self._ends_worker = ends_worker
        # A request and the reading of its answer belong together: threads that prepare inputs share the worker.
        self._turn = threading.RLock()
        self._begun: _Begun | None = None  # a prediction whose answer has not been read yet
        self._peak_memory: int | None = None
        self._packages: dict[str, str] | None = None
        request: dict[str, Any] = {
            "runtime": worker.entry_point,
            "model": _described(model, code.get("architecture")),
            "options": asdict(options),
            "code": code,
        }
        answer = worker.ask("open", f"opening {model.path().name}", **request)
        with self._sense():
            self.inputs = tensor_specs(answer["inputs"])
            self.outputs = tensor_specs(answer["outputs"])
            self.phases = {str(name): float(seconds) for name, seconds in answer["phases"].items()}
            self.sandbox = str(answer["sandbox"] or TRUSTED)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        return self._begin("predict", feeds)()

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        """Hand over some batches and go on: what is given back waits for the answers. Meanwhile the next ones can be
        prepared and the last answers judged. One at a time: whatever is asked next waits first."""
        numbered = {f"{place} {name}": array for place, feeds in enumerate(batches) for name, array in feeds.items()}
        finish = self._begin("predict_each", numbered, batches=len(batches))

        def apart() -> list[Tensors]:
            found = finish()
            each: list[Tensors] = [{} for _ in batches]
            with self._sense():
                for name, array in found.items():
                    place, _, own = name.partition(" ")
                    each[int(place)][own] = array
                if not all(each):
                    raise ValueError("fewer answers than batches")
            return each

        return apart

    def _begin(self, do: str, tensors: Mapping[str, Tensor], **content: Any) -> Callable[[], Tensors]:
        with self._turn:
            self._collect()
            self._worker.send(do, "running the model", tensors, **content)
            begun = self._begun = _Begun()

        def finish() -> Tensors:
            with self._turn:
                if self._begun is begun:
                    self._collect()
            return begun.outcome()

        return finish

    def repeat(self, feeds: Mapping[str, Tensor], warmup_calls: int, warmup_seconds: float) -> Repeating:
        """Predictions of the same inputs, repeated and timed in the worker."""
        request = {"warmup_calls": warmup_calls, "warmup_seconds": warmup_seconds}
        with self._turn:
            watched = self._ask("repeat", "running the model", feeds, **request)
        return _RepeatedElsewhere(self, bool(watched))

    def sample(self, wanted: int, seconds: float) -> tuple[NDArray[np.int64], Waiting]:
        """Times of the repeated predictions; see `Repeating`."""
        with self._turn:
            answer = self._ask("sample", "running the model", wanted=wanted, seconds=seconds)
            found = self._received(answer)
        with self._sense():
            elapsed, delay, switches = (found[name].astype(np.int64) for name in ("elapsed", "delay", "switches"))
            if not elapsed.shape == delay.shape == switches.shape == (len(elapsed),) or not 1 <= len(elapsed) <= wanted:
                raise ValueError("times of other calls than those asked for")
        return elapsed, Waiting(delay, switches)

    def effective(self) -> Effective:
        answer = self._ask("effective", "reporting how it runs")
        with self._sense():
            return _effective(**answer)

    def count_parameters(self) -> int:
        answer = self._ask("count_parameters", "counting parameters")
        with self._sense():
            return int(answer)

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
            with self._sense():
                self._packages = {str(name): str(version) for name, version in answer.items()}
        return self._packages

    @property
    def peak_memory_bytes(self) -> int:
        """The worker's largest resident size so far; after `close`, its last one."""
        if self._peak_memory is None:
            answer = self._ask("memory", "reporting its memory")
            with self._sense():
                return int(answer)
        return self._peak_memory

    def close(self) -> None:
        if not self._ends_worker:
            return
        if self._worker.running and self._begun is None:  # nobody waits any more for what was begun
            with contextlib.suppress(ZoolensError), self._sense():
                self._peak_memory = int(self._ask("close", "closing", within=_GRACE)["peak_memory"])
        self._worker.stop()

    def _ask(self, do: str, doing: str, tensors: Mapping[str, Tensor] | None = None, **content: Any) -> Any:
        with self._turn:
            self._collect()
            return self._worker.ask(do, doing, tensors, **content)

    def _collect(self) -> None:
        """Read the answer to a prediction that was begun, and keep it for whoever began it."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            answer = self._worker.receive("running the model")
            with self._sense():
                self.last_predict_seconds = float(answer["seconds"])
            begun.answers = self._received(answer)
        except ZoolensError as error:
            begun.error = error

    def _received(self, answer: Mapping[str, Any]) -> Tensors:
        # Copied out: the arena is written again by the next request, and what we return is the caller's to keep.
        with self._sense():
            return {name: view.copy() for name, view in self._worker.outputs.read(answer["tensors"]).items()}

    @contextmanager
    def _sense(self) -> Iterator[None]:
        """A worker that was taken over may answer anything: what is not as it should be ends it."""
        try:
            yield
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
            self._worker.stop()
            raise WorkerError(f"The isolated {self._worker.name} process answered nonsense: {error}.") from error


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


class WorkerProcess:
    """The child process, its pipes and its shared memory. `ask` is the only way to speak to it."""

    def __init__(
        self,
        runtime: Runtime,
        environment: Environment | None,
        timeout: float,
        files: Iterable[Path],
        options: Options,
    ) -> None:
        """`files`: all that a model in it may consist of; `options`: what they are opened with."""
        self.name = runtime.name
        self.entry_point = _entry_point(runtime)
        self._timeout = timeout
        self.inputs, self.outputs = Arena.create(), Arena.create()
        request_end, request = os.pipe()
        answer, answer_end = os.pipe()
        self._channel = Channel(answer, request)
        passed = (request_end, answer_end, self.inputs.descriptor, self.outputs.descriptor)
        scratch: Path | None = None
        try:
            if not trusted():
                scratch = make_scratch()
            policy = _policy(scratch, runtime, environment, files, options)
            self._process = _spawn(runtime, environment, passed, policy)
        except (OSError, ZoolensError) as error:
            for arena_or_channel in (self._channel, self.inputs, self.outputs):
                arena_or_channel.close()
            if scratch is not None:
                remove_scratch(scratch)
            if isinstance(error, ZoolensError):
                raise
            raise WorkerError(f"The isolated {self.name} process cannot be started: {error}.") from error
        finally:
            os.close(request_end)
            os.close(answer_end)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._listener = threading.Thread(target=_keep_tail, args=(self._process, self._tail), daemon=True)
        self._listener.start()
        # Runs once: when asked, when this object goes, or when the interpreter exits.
        self._finalizer = weakref.finalize(
            self, _end, self._process, os.getpid(), scratch, self._channel, self.inputs, self.outputs
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._finalizer.alive

    def ask(
        self,
        do: str,
        doing: str,
        tensors: Mapping[str, Tensor] | None = None,
        *,
        within: float | None = None,
        **content: Any,
    ) -> Any:
        """Send one request and wait for its answer; an error in the worker is raised here as the same error."""
        self.send(do, doing, tensors, **content)
        return self.receive(doing, within)

    def send(self, do: str, doing: str, tensors: Mapping[str, Tensor] | None = None, **content: Any) -> None:
        """Send one request. Its answer must be received before the next one is sent."""
        if not self.running:
            raise WorkerError(f"The isolated {self.name} process has ended.", hint="Open the model again.")
        if tensors is not None:
            content["tensors"] = self.inputs.write(tensors)
        with self._explained(doing, self._timeout):
            self._channel.send({"do": do, **content})

    def receive(self, doing: str, within: float | None = None) -> Any:
        timeout = within or self._timeout
        with self._explained(doing, timeout):
            answer = self._channel.receive(timeout)
        if isinstance(answer.get("error"), Mapping):
            raise _rebuilt(answer["error"])
        return answer.get("ok")

    @contextmanager
    def _explained(self, doing: str, timeout: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.stop()
            raise WorkerError(
                f"The isolated {self.name} process was stopped: no answer in {timeout:g} s while {doing}.",
                hint="Allow more time, or try a smaller batch.",
            ) from error
        except (EOFError, OSError) as error:
            raise self._death(doing) from error
        except ValueError as error:
            self.stop()
            raise WorkerError(f"The isolated {self.name} process answered nonsense while {doing}: {error}.") from error
        except BaseException:  # Ctrl-C: the answer would be taken for that of the next request
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the worker and all it started, and release the shared memory. Calling it twice is fine."""
        self._finalizer()

    def _death(self, doing: str) -> WorkerError:
        try:
            code = self._process.wait(_GRACE)
            how = f"died with signal {-code} ({_signal_name(-code)})" if code < 0 else f"exited with code {code}"
        except subprocess.TimeoutExpired:
            how, code = "hung up", 0
        self.stop()
        self._listener.join(_GRACE)
        words = " | ".join(line for line in list(self._tail)[-3:])
        hint = "Is there enough memory?" if code == -signal.SIGKILL else None
        if words:
            hint = f"{hint + ' ' if hint else ''}Its last words: {words}"
        return WorkerError(f"The isolated {self.name} process {how} while {doing}.", hint=hint)


def _policy(
    scratch: Path | None, runtime: Runtime, environment: Environment | None, files: Iterable[Path], options: Options
) -> Policy | None:
    if scratch is None:
        return None
    files = list(files)
    # Workers of one model share what its compiler made; those of another cannot be led astray by it.
    compiles = options.mode in runtime.compilers
    kept = kept_scratch(f"{runtime.name} {sorted(map(str, files))}") if compiles and runtime.compiler_cache else None
    return worker_policy(
        scratch,
        type(runtime).__module__,
        environment,
        files,
        kept=kept,
        programs=compiles,
        accelerated=options.device != "cpu",
    )


def _spawn(
    runtime: Runtime, environment: Environment | None, passed: tuple[int, ...], policy: Policy | None
) -> subprocess.Popen[bytes]:
    settings = {"descriptors": passed, "parent": os.getpid(), "spawned_ns": time.monotonic_ns()}
    return launch(
        "zoolens.runtimes.worker",
        settings,
        environment,
        type(runtime).__module__,
        variables={runtime.compiler_cache: policy.kept} if policy and policy.kept and runtime.compiler_cache else None,
        policy=policy,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=passed,
    )


def _end(process: subprocess.Popen[bytes], owner: int, scratch: Path | None, channel: Channel, *arenas: Arena) -> None:
    if os.getpid() != owner:  # a forked child of ours must not end a worker that is not its own
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    channel.close()
    for arena in arenas:
        arena.close()
    if scratch is not None:
        remove_scratch(scratch)


def _keep_tail(process: subprocess.Popen[bytes], tail: deque[str]) -> None:
    """Drain what the worker and its framework print, so that they never block, and keep the end of it."""
    assert process.stdout is not None  # asked for in _spawn
    with process.stdout as stream:
        while line := stream.readline(1 << 12):
            if text := line.decode(errors="replace").strip():
                tail.append(text[:300])


def _registered(name: str) -> Runtime:
    found: Runtime = plugins.load(plugins.RUNTIMES, name)()
    return found


def _entry_point(runtime: Runtime) -> str:
    kind = type(runtime)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise WorkerError(
            f"Runtime {runtime.name} cannot run isolated: another process cannot import {kind.__qualname__}.",
            hint="Define the class at the top of a module of its own.",
        )
    return f"{kind.__module__}:{kind.__qualname__}"


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


def _effective(
    provider: Any, precision: Any = None, threads: Any = None, details: Mapping[Any, Any] | None = None
) -> Effective:
    """What a worker says of itself, as text and a number: more is recorded nowhere."""
    told = {str(name): str(value) for name, value in (details or {}).items()}
    return Effective(
        str(provider), None if precision is None else str(precision), None if threads is None else int(threads), told
    )


def _rebuilt(description: Mapping[str, Any]) -> ZoolensError:
    kind = getattr(errors, str(description.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, ZoolensError)):
        kind = ModelError  # a plug-in's own subclass
    error: ZoolensError = kind.__new__(kind)  # subclasses have constructors of their own; the words are made already
    hint = description.get("hint")
    message = str(description.get("message"))[:_LONGEST_SENTENCE]
    ZoolensError.__init__(error, message, hint=str(hint)[:_LONGEST_SENTENCE] if hint else None)
    return error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
