"""Which failures are tried again, how often and after which pause: said here once, for all executors.

What befell a machine says nothing of a model: a killed node, a preempted GPU, a broken connection, a process that the
operating system killed for want of memory. Another attempt may succeed. What a model, a dataset or our own code did
wrong would go wrong again: it is never tried again.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import Circumstance, Lost, ZoolensError

RETRIES_VARIABLE: Final = "ZOOLENS_JOB_RETRIES"
PAUSE_VARIABLE: Final = "ZOOLENS_JOB_PAUSE"
_LONGEST_PAUSE: Final = 60.0  # seconds
_MOST_RETRIES: Final = 100


@dataclass(frozen=True)
class RetryPolicy:
    """`retries`: further attempts of a job whose machine was lost. `pause`: seconds before the first of them; each
    further one waits twice as long, up to a minute. `killed`: further attempts of a stage whose worker process was
    killed, on the same machine: a model that needs more memory than there is would be killed each time."""

    retries: int = 5
    pause: float = 1.0
    killed: int = 1

    @property
    def attempts(self) -> int:
        return 1 + self.retries

    def pause_before(self, retry: int) -> float:
        """Seconds before further attempt number `retry`, which begins at 1."""
        return min(self.pause * 2.0 ** min(retry - 1, 30), _LONGEST_PAUSE)


def retry_policy() -> RetryPolicy:
    """The policy, with what ZOOLENS_JOB_RETRIES and ZOOLENS_JOB_PAUSE say."""
    default = RetryPolicy()
    retries = _number(RETRIES_VARIABLE, default.retries, _MOST_RETRIES)
    if retries != int(retries):
        raise _senseless(RETRIES_VARIABLE, _MOST_RETRIES)
    pause = _number(PAUSE_VARIABLE, default.pause, _LONGEST_PAUSE)
    return RetryPolicy(int(retries), pause, min(default.killed, int(retries)))


def machine_was_lost(error: BaseException) -> bool:
    """Whether a job ended with its machine, so that it may be tried again on any other."""
    return isinstance(error, Lost)


def worker_was_killed(error: BaseException) -> bool:
    """Whether a worker process ended for want of something on its machine, so that it may be tried again there."""
    return isinstance(error, Circumstance)


def _number(variable: str, default: float, most: float) -> float:
    text = os.environ.get(variable)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise _senseless(variable, most)
    return number


def _senseless(variable: str, most: float) -> ZoolensError:
    return ZoolensError(
        f"{variable} is {os.environ[variable]!r}, which makes no sense.", hint=f"Set it to a number from 0 to {most:g}."
    )
