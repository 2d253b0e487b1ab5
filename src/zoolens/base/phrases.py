"""Phrases that sentences of every wing have in common."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(names: Sequence[str], most: int, *, between: str = ", ", rest: str = "more") -> str:
    """The first `most` names, and how many there are besides: "a, b and 3 more"."""
    named = between.join(names[:most])
    return f"{named} and {len(names) - most:,} {rest}" if len(names) > most else named
