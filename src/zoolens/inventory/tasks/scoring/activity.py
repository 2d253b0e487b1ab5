"""Figures of voice activity: of all frames together, and of whole sounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zoolens.inventory.tasks.scoring.ranked_scores import rank_scores, roc_auc
from zoolens.inventory.tasks.scoring.score import Flags, Floats, Integers

Figures = Callable[[Integers], Floats]


@dataclass(frozen=True)
class ActivityParts:
    """All judged frames with their scores, decisions, truths and sounds; then all sounds: whether the times of speech
    are known, whether anybody speaks, the highest score, and how many frames are judged and right."""

    scores: Floats
    active: Flags
    true: Flags
    owners: Integers
    timed: Flags
    spoken: Flags
    highest: Floats
    judged: Integers
    right: Integers


def frame_figures(parts: ActivityParts) -> Figures:
    """AUC, accuracy and F1 of frames, from the weights of sounds (resamples × sounds)."""
    ranked = rank_scores(parts.scores, parts.true)
    found = _by_sound(parts, parts.active & parts.true)
    wrong = parts.judged - parts.right

    def figures(weights: Integers) -> Floats:
        auc = [roc_auc(ranked, row[parts.owners]).value for row in weights]
        accuracy = _ratio(weights @ parts.right, weights @ parts.judged)
        # 2 TP / (2 TP + FP + FN)
        f1 = _ratio(2 * (weights @ found), 2 * (weights @ found) + weights @ wrong)
        return np.column_stack([auc, accuracy, f1])

    return figures


def clip_figures(parts: ActivityParts, thresholds: Floats) -> Figures:
    """AUC of sounds by their highest score, the share of sounds with speech that are found, and of false alarms."""
    ranked = rank_scores(parts.highest, parts.spoken)
    alarm = parts.highest > thresholds
    found, false = (alarm & parts.spoken).astype(np.int64), (alarm & ~parts.spoken).astype(np.int64)
    spoken, silent = parts.spoken.astype(np.int64), (~parts.spoken).astype(np.int64)

    def figures(weights: Integers) -> Floats:
        auc = [roc_auc(ranked, row).value for row in weights]
        return np.column_stack(
            [auc, _ratio(weights @ found, weights @ spoken), _ratio(weights @ false, weights @ silent)]
        )

    return figures


def _by_sound(parts: ActivityParts, flags: Flags) -> Integers:
    return np.bincount(parts.owners[flags], minlength=len(parts.timed)).astype(np.int64)


def _ratio(part: Integers, whole: Integers) -> Floats:
    """NaN where there is nothing to count."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
