"""All detections of a class by score, and their precision and recall where images count several times.

Precision can only be largest at a detection that is matched, so that nothing else is looked at: the others are counted
in between. A detection of weight 3 is there three times, one after the other. Its last copy has the highest precision
and recall, since (m + 1) / (t + 1) is at least m / t. Detections of one image with equal scores are repeated together,
as a block; of those every copy is looked at.
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
_SPACING: Final = np.spacing(1)  # pycocotools adds it to a denominator that may be 0


@dataclass(frozen=True)
class Events:
    """Detections of one class that are not the same at all thresholds in one range of areas, or matched at all."""

    image: Integers
    block: Integers
    first: Integers  # place of the first event of the same block
    alone: Flags  # in its block
    # thresholds × events: the detection itself, those of its block up to it, and all of its block.
    matched: Integers
    taken: Integers
    matched_within: Integers
    taken_within: Integers
    matched_block: Integers
    taken_block: Integers
    recalled: Floats  # events × (thresholds · LIMITS): 1 where the detection counts as found


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
    block = blocks[places]
    begins, ends = starts[block], starts[block] + lengths[block]
    matched, taken = outcomes == MATCHED, outcomes != IGNORED
    # With a 0 in front, so that the sum of places a to b − 1 is sums[b] − sums[a].
    matched_sums, taken_sums = (np.pad(np.cumsum(flags, axis=1), ((0, 0), (1, 0))) for flags in (matched, taken))
    limited = matched[:, places].T[:, :, np.newaxis] & (rank[places][:, np.newaxis, np.newaxis] < np.array(LIMITS))
    return Events(
        image=images[places],
        block=block,
        first=np.searchsorted(block, block),
        alone=lengths[block] == 1,
        matched=matched[:, places].astype(np.int64),
        taken=taken[:, places].astype(np.int64),
        matched_within=matched_sums[:, places + 1] - matched_sums[:, begins],
        taken_within=taken_sums[:, places + 1] - taken_sums[:, begins],
        matched_block=matched_sums[:, ends] - matched_sums[:, begins],
        taken_block=taken_sums[:, ends] - taken_sums[:, begins],
        recalled=limited.reshape(len(places), len(THRESHOLDS) * len(LIMITS)).astype(np.float64),
    )


def found_shares(events: Events, times: Integers, count: Floats) -> Floats:
    """Recall: rows × thresholds × limits. `times`: how often each image counts (rows × images); `count`: true boxes."""
    found = times[:, events.image].astype(np.float64) @ events.recalled
    result: Floats = found.reshape(len(times), len(THRESHOLDS), len(LIMITS)) / count[:, np.newaxis, np.newaxis]
    return result


def precisions(pool: Pool, area: int, times: Integers, count: Floats) -> Floats:
    """The largest precision at each recall or above it: rows × thresholds × recalls."""
    events = pool.events[area]
    best = np.zeros((len(times), len(THRESHOLDS), len(RECALLS)))
    if not len(events.image):
        return best
    weights = times[:, events.image]
    matched, taken = _before(pool, area, times, weights)
    copies = weights - 1
    at_last = events.matched.astype(bool) & (weights > 0)[:, np.newaxis]
    _raise(best, events, (matched, taken), copies, at_last, count)
    together = ~events.alone
    if together.any():
        for copy in range(int(copies.max(initial=0))):
            there = events.matched.astype(bool) & ((copy < copies) & together)[:, np.newaxis]
            _raise(best, events, (matched, taken), np.full_like(copies, copy), there, count)
    # A recall that is not reached has precision 0.
    result: Floats = np.maximum.accumulate(best[:, :, ::-1], axis=2)[:, :, ::-1]
    return result


def _before(pool: Pool, area: int, times: Integers, weights: Integers) -> tuple[Integers, Integers]:
    """How many before the block of each event are matched, and how many count: rows × thresholds × events."""
    events = pool.events[area]
    ordinary = times[:, pool.images] * pool.ordinary[area]
    ahead = (np.cumsum(ordinary, axis=1) - ordinary)[:, events.block]
    matched, taken = (weights[:, np.newaxis] * flags for flags in (events.matched, events.taken))
    matched, taken = (np.cumsum(values, axis=2) - values for values in (matched, taken))
    return matched[:, :, events.first], taken[:, :, events.first] + ahead[:, np.newaxis]


def _raise(
    best: Floats, events: Events, before: tuple[Integers, Integers], copy: Integers, there: Flags, count: Floats
) -> None:
    """Raise precision at the recall that one copy of each event reaches."""
    row, threshold, event = np.nonzero(there)
    nth = copy[row, event]
    matched = before[0][row, threshold, event] + nth * events.matched_block[threshold, event]
    taken = before[1][row, threshold, event] + nth * events.taken_block[threshold, event]
    matched = (matched + events.matched_within[threshold, event]).astype(np.float64)
    taken = taken + events.taken_within[threshold, event]
    reached = np.searchsorted(RECALLS, matched / count[row], side="right") - 1
    np.maximum.at(best, (row, threshold, reached), matched / (taken + _SPACING))
