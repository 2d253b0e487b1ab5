"""Runs one target again and again with inputs drawn from a seed; anything but success or a ZoolensError is a failure.

An attempt is known by seed and number, so that every failure can be repeated: `--only NUMBER`. A failure is told apart
from others by its exception and the innermost line of ours, and each kind is shown once.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from zoolens.base.errors import ZoolensError

Attempt = Callable[[random.Random, Path], object]  # draws an input, writes it below the folder, and has it read

SLOWEST = 20  # seconds of computing that an attempt may take
WAITING = 120  # seconds that it may take in all: a busy machine is no failure, an endless wait is one
STUCK = 180  # seconds after which a process is ended whose attempt hangs where Python cannot interrupt it
MEMORY = 12 << 30  # addresses that the process may have


@dataclass
class Outcome:
    target: str
    attempts: int = 0
    refused: int = 0
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)  # kind -> first attempt, traceback

    def __str__(self) -> str:
        kinds = f"{len(self.failures)} kinds of failure" if self.failures else "no failure"
        return f"{self.target}: {self.attempts:,} attempts, {self.refused:,} refused in one sentence, {kinds}"


class TooSlow(Exception):
    pass


def fuzz(
    target: str,
    attempt: Attempt,
    *,
    seed: int,
    seconds: float = 0.0,
    attempts: int = 0,
    only: int | None = None,
    begin: Callable[[int], object] = lambda number: None,
) -> Outcome:
    """Until the time is over or the attempts are made, whichever is asked for. `begin` is told each number first."""
    outcome = Outcome(target)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="zoolens-fuzz-") as name, _home(Path(name) / "home"):
        folder = Path(name) / "input"
        for number in [only] if only is not None else _numbers(attempts, end):
            folder.mkdir()
            begin(number)
            _try(attempt, random.Random(f"{seed}/{target}/{number}"), folder, number, outcome)
            _remove(folder)
    return outcome


def limit_memory() -> None:
    """For a process that does nothing else: an input that would fill the machine becomes a MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _numbers(attempts: int, end: float) -> Iterator[int]:
    number = 0
    while number < attempts or (not attempts and time.monotonic() < end):
        yield number
        number += 1


def _try(attempt: Attempt, draw: random.Random, folder: Path, number: int, outcome: Outcome) -> None:
    outcome.attempts += 1
    try:
        with _within():
            attempt(draw, folder)
    except ZoolensError as error:
        outcome.refused += 1
        if "\n\n" in str(error) or len(str(error)) > 20_000:
            outcome.failures.setdefault("an endless sentence", (number, str(error)[:2000]))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        outcome.failures.setdefault(_kind(error), (number, traceback.format_exc()))


def _kind(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "zoolens" in f.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} at {place}"


@contextlib.contextmanager
def _within() -> Iterator[None]:
    def interrupt(number: int, _: object) -> None:
        raise TooSlow(f"more than {SLOWEST} s of computing" if number == signal.SIGPROF else f"more than {WAITING} s")

    before = {kind: signal.signal(kind, interrupt) for kind in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, SLOWEST)
    signal.alarm(WAITING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextlib.contextmanager
def _home(path: Path) -> Iterator[None]:
    before = os.environ.get("ZOOLENS_HOME")
    os.environ["ZOOLENS_HOME"] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["ZOOLENS_HOME"]
        else:
            os.environ["ZOOLENS_HOME"] = before


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
