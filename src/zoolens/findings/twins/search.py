"""Which pieces a stitched model keeps: all of them at first, then fewer, until it answers like its reference often
enough.

The rule: the piece that is expected to do most harm is dropped first, and among equals the one that is cheapest to do
without, which is the one with the fewest multiply-accumulates. Expected harm is the relative distance of the weights;
a piece of which only the shapes at its ends are the same, or whose weights are not known, comes before all others.
Pieces of equal weights can do none and are dropped last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite
from typing import TypeVar

from zoolens.findings.twins.pieces import Piece

T = TypeVar("T")


def dropping_order(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, those to be dropped first in front."""
    return sorted(pieces, key=lambda piece: (-expected_harm(piece), piece.macs, piece.common.a.exit))


def expected_harm(piece: Piece) -> float:
    distance = None if piece.kind == "same interface" else piece.distance
    return distance if distance is not None and isfinite(distance) else inf


def attempts(
    pieces: Sequence[Piece], measure: Callable[[Sequence[Piece]], T], good: Callable[[T], bool]
) -> Iterator[T]:
    """What was measured of each stitched model that was tried; the last is good, or no piece is left that changes
    anything."""
    order = dropping_order(pieces)
    for dropped in range(len(order)):
        gone = set(map(id, order[:dropped]))
        kept = [piece for piece in pieces if id(piece) not in gone]
        measured = measure(kept)
        yield measured
        if good(measured) or not any(map(expected_harm, kept)):
            return
