"""What can go wrong, in words a user understands.

Every error a user may cause or meet derives from `ZoolensError`. Its message is one sentence that says
what is wrong and one that says what to do; the command line prints it and exits with `exit_code`.
Raise these where the facts are known; let programming mistakes surface as ordinary exceptions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_LONGEST_NAME: Final = 200  # characters; a whole file may be given in the place of its name


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Returns up to three known names that a mistyped one may mean, the closest first."""
    return difflib.get_close_matches(name, list(known), n=3)


class ZoolensError(Exception):
    """Base of everything that is explained to the user instead of shown as a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class UnknownName(ZoolensError):
    """A zoo, model, runtime, dataset, metric or run that does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), *, hint: str | None = None) -> None:
        names = sorted(known)
        close = close_names(name, names)
        if hint is None and close:
            hint = f"Did you mean {' or '.join(close)}?"
        elif hint is None and names:
            hint = f"Known: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}."
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        super().__init__(f"There is no {kind} named {shown!r}.", hint=hint)


class WrongArgument(ZoolensError, TypeError):
    """A call from Python with an argument of a wrong type or name; a TypeError too, as Python's own are."""


class AmbiguousName(ZoolensError):
    """A name that several models have."""

    def __init__(self, name: str, candidates: Iterable[str], hint: str = "Give the full name, zoo:name.") -> None:
        super().__init__(f"{name!r} could be any of {', '.join(candidates)}.", hint=hint)


class MissingDependency(ZoolensError):
    """A framework that is not installed; says which extra brings it."""

    def __init__(self, needed_by: str, package: str, extra: str | None = None) -> None:
        how = f"pip install 'zoolens[{extra}]'" if extra else f"pip install {package}"
        super().__init__(f"{needed_by} needs {package}, which is not installed.", hint=f"Run: {how}")


class ManifestError(ZoolensError):
    """A manifest that does not describe a model; `problems` carry line numbers."""


class AssetError(ZoolensError):
    """A model file that is absent, unreachable, altered or outside its folder."""


class Lacking(AssetError):
    """Files that a job needs are neither on its machine nor in the place through which files travel: whoever sent the
    job may put them there and send it again."""


class ModelError(ZoolensError):
    """A model that a runtime cannot open or run, or whose answers make no sense."""


class DatasetError(ZoolensError):
    """Data that cannot be read, is empty, or does not fit the model."""


class UnsupportedAbility(ZoolensError):
    """Something a runtime declares it cannot do; the reason comes from that declaration."""

    def __init__(self, runtime: str, ability: str, reason: str) -> None:
        super().__init__(f"Runtime {runtime} cannot {ability.replace('_', ' ')}: {reason}")


class ConstraintError(ZoolensError):
    """No runtime or environment satisfies what the user or the manifest requires; says why."""


class EnvironmentBuildError(ZoolensError):
    """A virtual environment for an isolated runtime that could not be made."""


class WorkerError(ZoolensError):
    """A worker process that died or returned an invalid answer."""


class Lost(WorkerError):
    """The machine that was to run a job is gone, or is not what it was said to be: another one may do it."""


class Cancelled(ZoolensError):
    """A job that somebody cancelled, or for which a budget has no room. What was finished stays."""


class WorkerTimeout(WorkerError):
    """A worker process that was stopped because it did not answer in time."""


class UnexpectedError(WorkerError):
    """An exception in a worker process that its code did not foresee."""


class Circumstance(WorkerError):
    """A worker process that failed for want of something on this machine, not because of its work."""


class StoreError(ZoolensError):
    """The store cannot be opened, is of another version, or lost its server."""


class DamagedStore(StoreError):
    """A fact of the store is not as it was written. A store that cannot be reached is not damaged."""


class DamagedFile(DamagedStore):
    """A file of bulk facts is missing, or is not the one that was registered."""


class CodeNotAllowed(ZoolensError):
    """A manifest carries code and the user has not opted in."""


class GateFailed(ZoolensError):
    """A `--fail-on` condition held: the comparison is a failure by the user's own rule."""

    exit_code = 3


def first_line(error: BaseException) -> str:
    """Returns the first non-empty line of a framework's message, without the stack some of them append."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()[:300]
    return type(error).__name__
