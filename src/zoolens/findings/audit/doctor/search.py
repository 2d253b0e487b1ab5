"""Finds the best variant without trying every combination.

Everything one step away from the manifest, and colour order × normalisation together since these hide each other's
faults, is screened on few inputs. Where no single change gives a figure worth the name, two changes of how answers are
read are tried together: boxes in the wrong order hide that their classes are wrong too. The best few see more, and the
best of those becomes the new base if it beats the old one on the same inputs. From there again, until nothing is
better. At last every change that turns out not to matter is taken back.

Among many variants some look better by chance. Where there are inputs enough, half of them are kept from the search:
they take back what does not hold and judge the rest in one test, so the search itself may be generous. Where there are
not, a variant must beat the base with a p-value that is adjusted for all variants tried (Bonferroni).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.evidence import ALPHA, Contrast, Evidence
from zoolens.findings.audit.doctor.variants import (
    DECLARED,
    Axis,
    AxisChoice,
    Variant,
    combinations,
    neighbours,
)

PROMOTED: Final = 6
MAX_ROUNDS: Final = 6
NOMINATED: Final = 0.2  # p-value that is good enough where fresh inputs decide
NOTHING: Final = 0.01  # better than answers that have nothing to do with the inputs, such as an AP above 0
WEAK: Final = 0.1  # likewise, up to which two changes at once are tried
_READING: Final = ("parts", "head", "boxes", "activation", "map", "labels")  # slots of how answers are read
_MANY: Final = 3  # images more than by chance that an offset must explain before it is tried


def search(bench: VariantBench, axes: Sequence[Axis]) -> Variant:
    """The variant that the inputs of the selection speak for; the declared one unless they do so clearly."""
    ranked = [axis for axis in axes if axis.ranked]
    base = _runnable(bench, axes)
    candidates = [*neighbours(base, ranked), *_joint(base, ranked)]
    for _ in range(MAX_ROUNDS):
        better = _best(bench, base, candidates, ranked)
        if better is None:
            break
        base = better
        candidates = neighbours(base, ranked)
    final = _simplified(bench, base, Level.SELECTION)
    if bench.held_out and final != DECLARED:
        final = _simplified(bench, final, Level.ALL)
    bench.measure_all(neighbours(final, ranked), Level.SCREEN, "Around the best")
    return final


def equals_of(bench: VariantBench, final: Variant) -> list[Variant]:
    """Variants that saw all inputs of the selection and cannot be told from the final one, the commonest first."""
    seen = [variant for variant in bench.seen(Level.SELECTION) if variant != final]
    contrasts = {variant: bench.contrast(final, variant, Level.SELECTION) for variant in seen}
    ran = [variant for variant in seen if contrasts[variant].other.error is None]
    return sorted((one for one in ran if contrasts[one].p_value >= ALPHA), key=lambda variant: variant.rarity)


def found_nothing(evidence: Evidence) -> bool:
    """Whether a figure is that of answers which have nothing to do with the inputs."""
    return evidence.figure is not None and evidence.figure.metric.is_hardly_better(evidence.figure.value, NOTHING)


def is_weak(evidence: Evidence) -> bool:
    """Whether a variant cannot run, or is little better than answers which have nothing to do with the inputs."""
    return evidence.figure is None or evidence.figure.metric.is_hardly_better(evidence.figure.value, WEAK)


def _runnable(bench: VariantBench, axes: Sequence[Axis]) -> Variant:
    """The declared variant; where that cannot run at all, the best single change with which it can."""
    declared = bench.measure(DECLARED, Level.SCREEN)
    if declared.error is None:
        return DECLARED
    tried = bench.measure_all(neighbours(DECLARED, axes), Level.SCREEN, "The manifest cannot be evaluated")
    best = max(tried, key=lambda variant: tried[variant].rank, default=DECLARED)
    if best == DECLARED or tried[best].error is not None:
        raise ModelError(
            f"Neither as declared nor with any one change can {bench.job.entry.ref} be evaluated. {declared.error}"
        )
    return best


def _joint(base: Variant, axes: Sequence[Axis]) -> list[Variant]:
    by_slot = {axis.slot: axis for axis in axes}
    if not {"colour", "normalisation"} <= set(by_slot):
        return []
    return combinations(base, by_slot["colour"], by_slot["normalisation"])


def _read_otherwise(base: Variant, axes: Sequence[Axis]) -> list[Variant]:
    """Every two changes at once of how answers are read."""
    reading = [axis for axis in axes if axis.slot in _READING]
    return [
        variant for first, second in itertools.combinations(reading, 2) for variant in combinations(base, first, second)
    ]


def _best(bench: VariantBench, base: Variant, candidates: Iterable[Variant], axes: Sequence[Axis]) -> Variant | None:
    """The candidate that clearly beats the base, or None."""
    screened = bench.measure_all(candidates, Level.SCREEN, "Screening")
    shifted = _shifted(screened, axes)
    screened |= bench.measure_all(shifted, Level.SCREEN, "Other label offsets")
    better = _winner(bench, base, screened)
    if better is None and all(is_weak(evidence) for evidence in screened.values()):
        pairs = bench.measure_all(_read_otherwise(base, axes), Level.SCREEN, "Two changes at once")
        better = _winner(bench, base, pairs)
    return better


def _winner(bench: VariantBench, base: Variant, screened: Mapping[Variant, Evidence]) -> Variant | None:
    """The best of the screened variants, if it clearly beats the base on all inputs of the selection."""
    hopeful = sorted(screened, key=lambda variant: screened[variant].rank, reverse=True)[:PROMOTED]
    bench.measure_all([DECLARED, base, *hopeful], Level.SELECTION, "The best so far")
    contrasts = {variant: bench.contrast(base, variant, Level.SELECTION) for variant in hopeful}
    winner = _most_likely(contrasts)
    if winner is None:
        return None
    contrast = contrasts[winner]
    level, tests = (NOMINATED, 1) if bench.held_out else (ALPHA, len(bench.tried))
    return winner if contrast.gain > 0 and contrast.difference.adjusted(tests) < level else None


def _most_likely(contrasts: dict[Variant, Contrast]) -> Variant | None:
    """The one with the best figure; among those that cannot be told from it, the one that gives the truth most
    probability: that tells neighbours such as two similar means apart with far fewer images. Where not even that tells
    them apart, prior knowledge does: most models are trained with ImageNet's mean, few with CLIP's."""
    top = max(contrasts, key=lambda variant: contrasts[variant].other.rank, default=None)
    if top is None:
        return None
    evidence = {variant: contrast.other for variant, contrast in contrasts.items()}
    tied = [variant for variant in evidence if Contrast.of(evidence[top], evidence[variant]).p_value >= ALPHA]
    likeliest = max(tied, key=lambda variant: evidence[variant].mean_finer)
    level = [variant for variant in tied if not Contrast.of(evidence[likeliest], evidence[variant]).less_likely]
    return min(level, key=lambda variant: (variant.rarity, -evidence[variant].mean_finer, -evidence[variant].rank[1]))


def _shifted(screened: dict[Variant, Evidence], axes: Sequence[Axis]) -> list[Variant]:
    """Variants that would be right more often if every answer were one class off: their preprocessing may be right
    although their labels are not."""
    axis = next((axis for axis in axes if axis.slot == "labels"), None)
    if axis is None or all(evidence.distance is None for evidence in screened.values()):
        return []
    lower, higher = axis.choices[:2]
    promising: list[tuple[int, Variant]] = []
    for variant, evidence in screened.items():
        if evidence.error is None and evidence.distance is not None and variant.choice("labels") is None:
            right = int(np.count_nonzero(evidence.right))
            for offset, distance in ((lower, 1), (higher, -1)):
                hits = int(np.count_nonzero(evidence.distance == distance))
                if hits > right + _MANY:
                    promising.append((hits, variant.choosing(offset)))
    return [variant for _, variant in sorted(promising, key=lambda promise: -promise[0])[:PROMOTED]]


def _simplified(bench: VariantBench, variant: Variant, level: Level) -> Variant:
    """The variant without changes that make no difference beside the others, judged on inputs of this level."""
    for choice in variant.choices:
        less = variant.reverting(choice.slot)
        contrast = bench.fresh(variant, less) if level is Level.ALL else bench.contrast(variant, less, level)
        if contrast.other.error is None and not _needed(choice, contrast):
            variant = less
    return variant


def _needed(choice: AxisChoice, without: Contrast) -> bool:
    """Taking it back lowers the figure. Probability alone keeps no protocol: a tighter crop makes any model surer."""
    return without.worse or (not choice.is_protocol and without.less_likely)
