"""Events of a session that say the same, together: a service that switches to and fro has hundreds of such events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zoolens.faces.serving.services.events import EventKind, ServiceEvent

_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class EventGroup:
    """Events of one kind, between the same two models, whose reasons differ in numbers alone."""

    events: tuple[ServiceEvent, ...]  # the oldest first; never empty

    @property
    def kind(self) -> EventKind:
        return self.events[0].kind

    @property
    def newest(self) -> ServiceEvent:
        return self.events[-1]


def grouped_events(events: Iterable[ServiceEvent]) -> list[EventGroup]:
    """The groups, the one with the newest event first."""
    groups: dict[tuple[EventKind, str, str, str], list[ServiceEvent]] = {}
    for event in sorted(events, key=lambda each: each.time):
        same = (event.kind, event.previous, event.model, _NUMBER.sub("#", event.reason))
        groups.setdefault(same, []).append(event)
    found = [EventGroup(tuple(members)) for members in groups.values()]
    return sorted(found, key=lambda group: group.newest.time, reverse=True)
