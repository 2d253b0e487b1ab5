"""Both sides of a pair work at the same time, each in its own process; what stops one stops both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from zoolens.training.pairs.loop.trainable_sides import TrainableSide
from zoolens.training.pairs.sides.network_sides import WorkerSide

Result = TypeVar("Result")


def both_at_once(sides: Sequence[TrainableSide], work: Sequence[Callable[[Event], Result]]) -> list[Result]:
    """Call each of `work` with an event that asks it to stop. Live networks of this process take turns instead."""
    stop = Event()
    threads = 2 if all(isinstance(side, WorkerSide) for side in sides) else 1
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(task, stop) for task in work]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            _raise_first(futures)
        except BaseException:  # also Ctrl-C: nobody waits for a training that may take hours
            stop.set()
            for side in sides:
                side.interrupt()
            raise
    return [future.result() for future in futures]


def _raise_first(futures: Sequence[Future[Result]]) -> None:
    """The error of a side that failed, before that of the other, which may only have been stopped."""
    for future in futures:
        if future.done() and (error := future.exception()) is not None:
            raise error
