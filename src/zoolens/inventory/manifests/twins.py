"""What the manifest of a stitched model says it was made of, read back. It may come from anywhere: nothing is taken on
trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TWINS_POSSIBLE: Final = "twins_possible"  # attribute: how many stitched models its search might have made
_LONGEST: Final = 80  # characters of one name


def origin_of_twin(attributes: Mapping[str, Any]) -> dict[str, str]:
    """ "twin of", "donor" and "segments" as texts; empty for a model that is no stitched model."""
    if not isinstance(attributes.get("twin_of"), str):
        return {}
    texts = {
        "twin of": attributes["twin_of"],
        "donor": attributes.get("donor"),
        "segments": segments_of_twin(attributes),
    }
    return {name: text for name, text in texts.items() if isinstance(text, str) and text}


def segments_of_twin(attributes: Mapping[str, Any]) -> str:
    """Which parts the donor stands in for, in order of computation."""
    given = attributes.get("segments")
    known = [segment for segment in given if isinstance(segment, Mapping)] if isinstance(given, list | tuple) else []
    return "; ".join(map(_segment, known))


def _segment(segment: Mapping[str, Any]) -> str:
    entry, exit_, kind = (str(segment.get(name, "?"))[:_LONGEST] for name in ("entry", "exit", "kind"))
    distance = segment.get("distance")
    if not distance or not isinstance(distance, int | float):
        return f"{entry} → {exit_} ({kind})"
    return f"{entry} → {exit_} ({kind}, distance {distance:.2g})"
