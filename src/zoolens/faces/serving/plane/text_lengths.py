"""How long the texts of a service will be, and how long they take: learned from those that were written.

Most texts end before they have all the tokens that they may have. What is expected of one is how long most texts were
that could have become as long.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.faces.serving.plane.flights import Flight
from zoolens.faces.serving.plane.instance import BatchOutcome
from zoolens.faces.serving.plane.service_spec import ServiceSpec
from zoolens.faces.serving.plane.text_request import TextLimits, TextRequest
from zoolens.faces.serving.plane.timing import RATE_SECONDS

_TEXTS: Final = 4  # over which the rate of arrivals is averaged
_KEPT: Final = 1000  # texts: older ones are forgotten


def rate_seconds(spec: ServiceSpec) -> float:
    """Over how long arrivals are averaged: over several texts where these take longer than a second each."""
    if spec.texts is None:
        return RATE_SECONDS
    return max(RATE_SECONDS, _TEXTS * spec.ladder.reference.profile.of(spec.texts.answer))


class WrittenTexts:
    """What the texts of one service teach."""

    def __init__(self, limits: TextLimits) -> None:
        self._longest = limits.prompt
        self._lengths = TextLengths(limits.share)

    def expected(self, most: int) -> int:
        return self._lengths.expected(most)

    def add(self, flight: Flight, outcome: BatchOutcome) -> None:
        """A text has ended. How long one would have become whose client went away, or whose time was up, is not known:
        it counts as one that has all the tokens that it may."""
        request = flight.pendings[0].request
        if isinstance(request, TextRequest):
            self._lengths.add(request.most, request.most if outcome.answers is None else flight.rows)

    def seconds(self, flight: Flight, outcome: BatchOutcome) -> float:
        """How long it would have taken behind the longest prompt."""
        profile = flight.state.rung.profile
        return as_behind_longest(profile, self._longest, flight.read, flight.rows, outcome.seconds)


class TextLengths:
    """`share`: of texts that are to have no more tokens than is expected of them."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._written: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, most: int, written: int) -> None:
        """A text that might have had `most` tokens had so many."""
        self._written.append((most, written))

    def expected(self, most: int) -> int:
        """How many tokens a text has that may have `most`: the next one of the same kind has no more with the
        probability `share`, as of any texts whose order does not matter. All that it may have, until enough were
        written that could have become as long: ten for a share of 90 %, a hundred for 99 %."""
        seen = sorted(min(written, most) for limit, written in self._written if limit >= most)
        place = math.ceil(self._share * (len(seen) + 1))
        return most if place > len(seen) else max(1, seen[place - 1])


def as_behind_longest(profile: LatencyProfile, longest: int, read: int, written: int, seconds: float) -> float:
    """Seconds that a text would have taken behind the longest prompt, whose times the profile has. `read`: tokens of
    its prompt that were computed. They count in proportion, but no less than a token that is written."""
    whole, first = profile.of(written), profile.of(1)
    further = profile.of(2) - first if len(profile.seconds) > 1 else 0.0
    short = max(further, first * min(1.0, read / longest)) + whole - first
    return seconds * whole / short if short > 0 else seconds
