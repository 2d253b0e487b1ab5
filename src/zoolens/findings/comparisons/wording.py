"""Sentences that several commands say in the same words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.pair_figures import NextTokenFigures
from zoolens.inventory.tasks.scoring.continuations import NEAR, ContinuationFigures
from zoolens.inventory.tasks.scoring.sample_tests import ERROR, SAME_WITHIN, SampleFigures

_LEAST_P: Final = 1e-15
_LEAST_TOLD: Final = 5e-5  # what a percentage with two decimals shows


def changed_file_note(ref: str, run_id: str) -> str:
    """Says that what a run answered is not what the model answers now."""
    return f"The file of {ref} has changed since it was measured in run {run_id[:8]}: `zoolens eval` it again."


def uncompared_words(outputs: Sequence[str]) -> str:
    names = ", ".join(outputs)
    return f"Not compared: {names} (a further output of classes, or one without a partner like it)."


class Agreement(Protocol):
    """How far two runs agree in an output, as `compare` tells it."""

    @property
    def n(self) -> int: ...

    @property
    def agreement(self) -> float: ...

    @property
    def agreement_name(self) -> str: ...

    @property
    def graded(self) -> bool: ...

    @property
    def full(self) -> int: ...


def agreement_words(found: Agreement) -> str:
    """same answer: 99.60 %. Where inputs may agree in part, the mean and the share that agree fully are two figures."""
    if math.isnan(found.agreement):
        return f"{found.agreement_name}: not known"
    return f"{found.agreement_name}: {100 * found.agreement:.2f} %{full_words(found.full, found.n, found.graded)}"


def full_words(full: int, n: int, graded: bool) -> str:
    return f" (full agreement on {100 * full / n:.2f} % of the inputs)" if graded else ""


def silence_words(silent: int, n: int) -> str:
    """Says on how many inputs two models agree because neither answers anything; empty where there are none."""
    return f"neither answers anything on {100 * silent / n:.1f} % of the inputs" if silent else ""


def next_token_words(found: NextTokenFigures) -> str:
    """How two language models differ. Of the tokens that are not kept the sum is known, and a sample where one was
    drawn."""
    low, high = found.agreement
    kept = f"the {found.kept} likeliest tokens" if found.kept > 1 else "the likeliest token"
    return (
        f"same likeliest token at {100 * found.same_best:.2f} % of the positions"
        f"{_range(found.same_best_interval, 100, '.2f')}, KL divergence of B from A {found.divergence:.3g} nats a token"
        f"{_range(found.divergence_interval, 1, '.3g')} (over {kept} and the others as one, so at least that over all "
        "tokens), "
        f"1 − total variation over all tokens between {100 * low:.2f} and {100 * high:.2f} %{_rest_words(found)}"
    )


def _rest_words(found: NextTokenFigures) -> str:
    """How the limits are known, and what a bound can be at best, of models that are equal too."""
    low, high = found.agreement
    if high - low < _LEAST_TOLD:
        return ""
    if found.sampled:
        return " (by a sample of the others; limits of samples are wrong in two cases of a million)"
    rest = f"{100 * (high - low):.2f} %"
    return f" (whether both give the other {rest} to the same tokens is not known: bounds count them as different)"


def continuation_words(found: ContinuationFigures) -> str:
    """Where two models write other texts, and how much that means."""
    alike = f"the same text behind {found.identical} of {found.prompts} prompts"
    parted = found.prompts - found.identical
    if not parted:
        return alike
    part = f"{alike}; the others part after {found.common_tokens:g} tokens (median)"
    if found.gap_a is None:
        return f"{part}, where one ends and the other goes on"
    near = f"{found.near_ties} of {parted} are near ties (no more than {NEAR:g} nats in both)"
    bounded = f" (for {found.at_least} of them only a lower bound is known)" if found.at_least else ""
    return (
        f"{part}, where A prefers its own token by {found.gap_a:.2g} nats and B its own by {found.gap_b:.2g} "
        f"(medians){bounded}; {near}"
    )


def sample_words(found: SampleFigures) -> str:
    """Whether drawn texts are of one distribution: yes, no, or not known."""
    low, high = found.interval
    verdict = {
        True: f"the same (the squared distance is surely below {SAME_WITHIN:g})",
        False: "not the same",
        None: "whether they are the same is not known",
    }[found.same]
    texts = f"{found.draws} drawn texts behind each of {found.prompts} prompts"
    if found.repeated:
        return f"{texts} are the same in both, as with the same random numbers, which tells nothing of the models"
    return (
        f"{texts}, position by position: {verdict}; squared distance {found.distance:.3f} "
        f"[{low:.3f}, {high:.3f}], p = {found.p_value:.3g} (the test errs in {100 * ERROR:g} % of equal models)"
    )


def _range(interval: Interval | None, scale: float, digits: str) -> str:
    return "" if interval is None else f" [{scale * interval.low:{digits}}, {scale * interval.high:{digits}}]"


class MetricPair(Protocol):
    """A metric of both runs, and how far the two differ."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def a(self) -> float: ...

    @property
    def b(self) -> float: ...

    @property
    def difference(self) -> Interval | None: ...

    @property
    def p_value(self) -> float | None: ...

    @property
    def no_interval(self) -> str: ...


def metric_words(found: MetricPair) -> str:
    """ap 22.69 % in A and 29.18 % in B, B − A +6.49 points [+2.10, +10.88], p = 0.004 (resampling of inputs)."""
    if math.isnan(found.a) and math.isnan(found.b):
        return f"{found.name} is not defined on these inputs"
    shares = found.unit == "fraction"
    scale, unit, points = (100, " %", " points") if shares else (1, f" {found.unit}".rstrip(), "")
    digits = ".2f" if shares else ".4g"
    sides = f"{found.name} {scale * found.a:{digits}}{unit} in A and {scale * found.b:{digits}}{unit} in B"
    change = f"B − A {scale * (found.b - found.a):+{digits}}{points}"
    if found.difference is None:
        return f"{sides}, {change} (no interval: {found.no_interval})"
    low, high = (scale * end for end in found.difference)
    return f"{sides}, {change} [{low:+{digits}}, {high:+{digits}}]{_tested(found.p_value)} (resampling of inputs)"


def _tested(p_value: float | None) -> str:
    if p_value is None:
        return ""
    # Below this, one minus a probability is rounding alone: 0 or 1.1e-16.
    return f", p = {p_value:.3g}" if p_value >= _LEAST_P else f", p < {_LEAST_P:g}"
