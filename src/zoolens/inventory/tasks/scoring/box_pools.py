"""All detections of a class by score, and their precision and recall where images count several times.

Precision can only be largest at a detection that is matched, so that ordinary false ones are only counted in between.
A detection of weight 3 is there three times, one after the other. Its last copy has the highest precision and recall,
since (m + 1) / (t + 1) is at least m / t: sums up to and including each detection say all. Detections of one image with
equal scores are repeated together, as a block; of those every copy is looked at (`_of_ties`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.box_lists import Flags, Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, FALSE, IGNORED, MATCHED, THRESHOLDS, ImageParts, ranks

RECALLS: Final = np.linspace(0, 1, 101)  # at which precision is read
LIMITS: Final = (1, 10, 100)  # of detections of a class in an image, for average recall
# Numbers of one array: rows × thresholds × events. More does not fit into the caches, and takes memory for nothing.
_AT_ONCE: Final = 1 << 20
_SPACING: Final = np.spacing(1)  # pycocotools adds it to a denominator that may be 0


@dataclass(frozen=True)
class Ties:
    """Those detections of `Events` that share their image and score with others; thresholds × ties."""

    places: Integers  # among the events
    first: Integers  # place of the first event of the same block
    matched_within: Integers  # of the block, up to the detection
    taken_within: Integers
    matched_block: Integers  # of the whole block
    taken_block: Integers


@dataclass(frozen=True)
class Events:
    """Detections of one class that are not the same at all thresholds in one range of areas, or matched at all."""

    image: Integers
    block: Integers
    matched: Flags  # thresholds × events
    taken: Flags  # thresholds × events: the detection counts
    recalled: Flags  # events × (thresholds · LIMITS): the detection counts as found
    ties: Ties


@dataclass(frozen=True)
class Pool:
    """Detections of one class in all images, by descending score; those of equal score in the order of images.

    A block are the detections of one image and score: an image that is counted twice repeats them together.
    """

    images: Integers  # of blocks
    ordinary: Integers  # areas × blocks: false detections that are no events
    events: tuple[Events, ...]  # of each range of areas


def pooled(parts: Sequence[ImageParts], classes: Integers) -> list[Pool]:
    if not parts:
        return []
    image = np.repeat(np.arange(len(parts)), [len(part.scores) for part in parts])
    label = np.concatenate([part.classes for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    rank = np.concatenate([ranks(part.classes) for part in parts])
    outcomes = np.concatenate([part.outcomes for part in parts], axis=2)
    order = np.argsort(-scores, kind="stable")
    order = order[np.argsort(label[order], kind="stable")]
    bounds = np.searchsorted(label[order], [classes, classes + 1]).T
    return [_pool(order[first:last], image, scores, rank, outcomes) for first, last in bounds]


def _pool(chosen: Integers, image: Integers, scores: Floats, rank: Integers, outcomes: NDArray[np.int8]) -> Pool:
    images, values = image[chosen], scores[chosen]
    new = (np.diff(images, prepend=-1) != 0) | (np.diff(values, prepend=np.nan) != 0)
    starts = np.flatnonzero(new)
    blocks = np.cumsum(new) - 1
    own = outcomes[:, :, chosen]
    # An event is what is matched at some threshold, and what is ignored at some but not at all.
    events = (own == MATCHED).any(axis=1) | ((own == IGNORED).any(axis=1) & (own != IGNORED).any(axis=1))
    plain = ~events & (own[:, 0] == FALSE)
    ordinary = np.array([np.bincount(blocks[row], minlength=len(starts)) for row in plain], np.int64)
    lengths = np.diff(starts, append=len(chosen))
    each = [
        _events(np.flatnonzero(events[area]), own[area], blocks, starts, lengths, images, rank[chosen])
        for area in range(len(AREAS))
    ]
    return Pool(images[starts], ordinary.reshape(len(AREAS), -1), tuple(each))


def _events(
    places: Integers,
    outcomes: NDArray[np.int8],
    blocks: Integers,
    starts: Integers,
    lengths: Integers,
    images: Integers,
    rank: Integers,
) -> Events:
    matched, taken = outcomes == MATCHED, outcomes != IGNORED
    limited = matched[:, places].T[:, :, np.newaxis] & (rank[places][:, np.newaxis, np.newaxis] < np.array(LIMITS))
    return Events(
        image=images[places],
        block=blocks[places],
        matched=matched[:, places],
        taken=taken[:, places],
        recalled=limited.reshape(len(places), len(THRESHOLDS) * len(LIMITS)),
        ties=_ties(places, matched, taken, blocks, starts, lengths),
    )


def _ties(
    places: Integers, matched: Flags, taken: Flags, blocks: Integers, starts: Integers, lengths: Integers
) -> Ties:
    tied = np.flatnonzero(lengths[blocks[places]] > 1)
    block, at = blocks[places][tied], places[tied]
    begins, ends = starts[block], starts[block] + lengths[block]
    if not len(tied):
        nothing = np.zeros((len(THRESHOLDS), 0), np.int64)
        return Ties(tied, tied, nothing, nothing, nothing, nothing)
    # With a 0 in front, so that the sum of places a to b − 1 is sums[b] − sums[a].
    matched_sums, taken_sums = (np.pad(np.cumsum(flags, axis=1), ((0, 0), (1, 0))) for flags in (matched, taken))
    return Ties(
        places=tied,
        first=np.searchsorted(blocks[places], block),
        matched_within=matched_sums[:, at + 1] - matched_sums[:, begins],
        taken_within=taken_sums[:, at + 1] - taken_sums[:, begins],
        matched_block=matched_sums[:, ends] - matched_sums[:, begins],
        taken_block=taken_sums[:, ends] - taken_sums[:, begins],
    )


def found_shares(events: Events, times: Integers, count: Floats) -> Floats:
    """Recall: rows × thresholds × limits. `times`: how often each image counts (rows × images); `count`: true boxes."""
    found = times[:, events.image].astype(np.float64) @ events.recalled.astype(np.float64)
    result: Floats = found.reshape(len(times), len(THRESHOLDS), len(LIMITS)) / count[:, np.newaxis, np.newaxis]
    return result


def precisions(pool: Pool, area: int, times: Integers, count: Floats) -> Floats:
    """The largest precision at each recall or above it: rows × thresholds × recalls."""
    best = np.zeros((len(times), len(THRESHOLDS), len(RECALLS)))
    events = len(pool.events[area].image)
    if not events:
        return best
    rows = max(1, _AT_ONCE // (events * len(THRESHOLDS)))
    thresholds = max(1, min(len(THRESHOLDS), _AT_ONCE // events))
    for start in range(0, len(times), rows):
        some = slice(start, start + rows)
        weights, ahead = _weights(pool, area, times[some])
        for first in range(0, len(THRESHOLDS), thresholds):
            which = slice(first, first + thresholds)
            best[some, which] = _largest(pool.events[area], weights, ahead, count[some], which)
    return best


def _weights(pool: Pool, area: int, times: Integers) -> tuple[Integers, Integers]:
    """How often each event is there, and how many ordinary detections come before its block: rows × events."""
    events = pool.events[area]
    ordinary = times[:, pool.images] * pool.ordinary[area]
    before = np.cumsum(ordinary, axis=1) - ordinary
    return times[:, events.image], before[:, events.block]


def _largest(events: Events, weights: Integers, ahead: Integers, count: Floats, which: slice) -> Floats:
    """`precisions` at some of the thresholds."""
    matched = np.cumsum(weights[:, np.newaxis] * events.matched[which], axis=2)
    taken = np.cumsum(weights[:, np.newaxis] * events.taken[which], axis=2)
    taken += ahead[:, np.newaxis]
    precision = matched / (taken + _SPACING)
    # What lies between two copies of a block is no sum up to any detection.
    precision[:, :, events.ties.places] = 0
    above = np.maximum.accumulate(precision[:, :, ::-1], axis=2)[:, :, ::-1]
    reached = _first_reaching(matched, _needed(count))
    known = np.take_along_axis(above, np.minimum(reached, matched.shape[2] - 1), axis=2)
    # A recall that is not reached has precision 0.
    best: Floats = np.where(reached < matched.shape[2], known, 0.0)
    if len(events.ties.places):
        np.maximum(best, _of_ties(events, weights, matched, taken, count, which), out=best)
    return best


def _needed(count: Floats) -> Integers:
    """The least number of matches that reaches each recall, compared as pycocotools does: rows × recalls."""
    whole = count[:, np.newaxis]
    needed = np.ceil(RECALLS * whole)
    # The product may be rounded the other way than the quotient.
    needed -= (needed > 0) & ((needed - 1) / whole >= RECALLS)
    needed += needed / whole < RECALLS
    result: Integers = needed.astype(np.int64)
    return result


def _first_reaching(sums: Integers, needed: Integers) -> Integers:
    """Where each row of ascending sums (rows × thresholds × events) reaches each of its numbers (rows × numbers)."""
    rows, thresholds, events = sums.shape
    # One search for all rows: each has a range of numbers of its own.
    above = int(max(sums[:, :, -1].max(initial=0), needed.max(initial=0))) + 1
    ranges = above * np.arange(rows * thresholds).reshape(rows, thresholds, 1)
    flat = (sums + ranges).reshape(-1)
    asked = needed[:, np.newaxis] + ranges
    found = np.searchsorted(flat, asked.reshape(-1), side="left").reshape(rows, thresholds, -1)
    result: Integers = np.minimum(found - events * np.arange(rows * thresholds).reshape(rows, thresholds, 1), events)
    return result


def _of_ties(
    events: Events, weights: Integers, matched: Integers, taken: Integers, count: Floats, which: slice
) -> Floats:
    """The largest precision among all copies of detections that share image and score with others."""
    ties = events.ties
    own = weights[:, ties.first][:, np.newaxis]
    # The sums before the block: those at its first event, without that event.
    before = [
        sums[:, :, ties.first] - own * flags[which][:, ties.first]
        for sums, flags in ((matched, events.matched), (taken, events.taken))
    ]
    best = np.zeros((*matched.shape[:2], len(RECALLS)))
    there = events.matched[which][:, ties.places]
    copies = weights[:, ties.places]
    for copy in range(int(copies.max(initial=0))):
        row, threshold, event = np.nonzero(there & (copy < copies)[:, np.newaxis])
        at = which.start + threshold
        right = before[0][row, threshold, event] + copy * ties.matched_block[at, event] + ties.matched_within[at, event]
        every = before[1][row, threshold, event] + copy * ties.taken_block[at, event] + ties.taken_within[at, event]
        reached = np.searchsorted(RECALLS, right / count[row], side="right") - 1
        np.maximum.at(best, (row, threshold, reached), right / (every + _SPACING))
    result: Floats = np.maximum.accumulate(best[:, :, ::-1], axis=2)[:, :, ::-1]
    return result
