"""A runtime in a process of its own: for strangers' files, for libraries that clash with ours, and for cold starts.

`open_model` opens a model where it belongs: in a sandboxed worker, unless the user trusts it or no framework parses it.
`open_isolated` always opens it in a worker, and gives a `Session` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from zoolens.base import plugins
from zoolens.base.engine.environments import Environment
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.engine.sandbox import PLAIN, TRUSTED, trusted
from zoolens.base.engine.scratch import kept_scratch
from zoolens.base.errors import WorkerError
from zoolens.inventory.runtimes.isolation.isolated_session import DEFAULT_TIMEOUT, IsolatedSession, Opening
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime, Session, Yielding


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
    entry_point = _entry_point(runtime)
    workers: list[WorkerProcess] = []

    def opened(model: ModelFiles) -> Session:
        if not workers or not workers[-1].running:
            workers.append(_worker(runtime, None, [folder], Options()))
        return IsolatedSession(workers[-1], Opening(entry_point, model), ends_worker=False)

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
    yielding: Yielding = Yielding.NEVER,
) -> IsolatedSession:
    """Open a model in a worker process, in `environment` or else in the environment we run in; sandboxed, unless the
    user trusts the model.

    `code` holds what the manifest brings and the user has allowed: "preprocess", "postprocess", "architecture".
    `timeout` is in seconds, for opening and for each later request.
    """
    if isinstance(runtime, str):
        runtime = _registered(runtime)
    options = options or Options()
    opening = Opening(_entry_point(runtime), model, options, code or {}, yielding)
    worker = _worker(runtime, environment, model.files.values(), options)
    try:
        return IsolatedSession(worker, opening, timeout=timeout)
    except BaseException:
        worker.stop()
        raise


def _worker(
    runtime: Runtime, environment: Environment | None, files: Iterable[Path], options: Options
) -> WorkerProcess:
    """A worker for models of these files, opened with these options; sandboxed, unless the user trusts them."""
    rights = None if trusted() else _rights(runtime, [str(file) for file in files], options)
    cache, variables = runtime.compiler_cache, dict(runtime.variables)
    if cache and rights and rights.kept:
        variables[cache] = rights.kept
    kind = WorkerKind(
        f"isolated {runtime.name} process",
        "zoolens.inventory.runtimes.isolation.worker",
        type(runtime).__module__,
        environment,
        variables=tuple(variables.items()),
        rights=rights,
    )
    return WorkerProcess(kind)


def _rights(runtime: Runtime, files: list[str], options: Options) -> Rights:
    # Workers of one model share what its compiler made; those of another cannot be led astray by it.
    compiles = options.mode in runtime.compilers
    shared = compiles and runtime.compiler_cache
    return Rights(
        tuple(files),
        kept=str(kept_scratch(f"{runtime.name} {sorted(files)}")) if shared else None,
        programs=compiles,
        accelerated=options.device != "cpu",
    )


def _registered(name: str) -> Runtime:
    runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
    return runtime


def _entry_point(runtime: Runtime) -> str:
    kind = type(runtime)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise WorkerError(
            f"Runtime {runtime.name} cannot run isolated: another process cannot import {kind.__qualname__}.",
            hint="Define the class at the top of a module of its own.",
        )
    return f"{kind.__module__}:{kind.__qualname__}"
