"""Which requests run together: as many as the settings allow, and as keep the deadline of the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.queue import NEVER, Line, Pending
from zoolens.faces.serving.plane.rungs import RungState


def time_left(pending: Pending, settings: EndpointSettings, now: float) -> float | None:
    """Seconds until a request is late, for its client or for the promise of the service; None where it never is."""
    deadline = pending.deadline
    if settings.objective is not None:
        deadline = min(deadline, pending.arrived + settings.objective)
    return None if deadline == NEVER else deadline - now


def may_grow(line: Line, largest: int) -> bool:
    """Whether more requests could join the first batch of this line."""
    rows = 0
    for pending in line:
        rows += pending.rows
        if rows >= largest:
            return False
    return True


def form_batch(
    line: Line, largest: int, settings: EndpointSettings, usable: Sequence[RungState], now: float
) -> list[Pending]:
    """The first requests of a line that may share a call of one of the usable tiers, of at most so many rows."""
    batch = [line[0]]
    rows = line[0].rows
    left = time_left(line[0], settings, now)
    for pending in islice(line, 1, None) if not batch[0].alone else ():
        rows += pending.rows
        if rows > largest or pending.alone or (left is not None and _too_long(rows, usable, left)):
            break
        batch.append(pending)
    return batch


def first_requests(batch: Sequence[Pending], most: int | None) -> int:
    """How many requests have at most so many inputs together; the first one always counts."""
    if most is None:
        return len(batch)
    rows = batch[0].rows
    for place, pending in enumerate(islice(batch, 1, None), 1):
        rows += pending.rows
        if rows > most:
            return place
    return len(batch)


def _too_long(rows: int, usable: Sequence[RungState], left: float) -> bool:
    """Whether even the fastest tier would take longer than what is left."""
    predictions = [state.predict(rows) for state in usable]
    return all(seconds is not None and seconds > left for seconds in predictions)
