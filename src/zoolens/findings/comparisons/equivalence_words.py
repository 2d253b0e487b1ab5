"""How interchangeable two models are, in the sentences that the terminal and a notebook share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from zoolens.base.present.figures import percent_down, stack_label
from zoolens.findings.comparisons.behaviour import Accuracy, Behaviour
from zoolens.findings.comparisons.equivalence import Bounds, Equivalence, ModelBounds, OnData
from zoolens.findings.comparisons.wording import continuation_words, next_token_words, sample_words, silence_words

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class FoundLine:
    """One line of a report."""

    text: str
    bold: tuple[str, ...] = ()  # the parts of the text that a terminal emphasises


def refusal(report: Equivalence) -> str:
    """Says why the two cannot be compared on any dataset."""
    return f"{report.a} (A) and {report.b} (B) cannot be compared: {'; '.join(report.reasons)}."


def side_lines(pair: OnData) -> Iterator[tuple[str, str]]:
    """Yields the letter of each side and which run it is."""
    for side, run in (("A", pair.a), ("B", pair.b)):
        yield side, f"{run.id[:8]}  {run.ref}  {stack_label(run)}"


def size_words(pair: OnData) -> str:
    return f"{pair.n:,} inputs of {pair.dataset}"


def data_lines(pair: OnData, tolerance: float) -> Iterator[FoundLine]:
    """Yields what was found on one dataset; nothing where the two cannot be compared there."""
    several = len(pair.outputs) > 1
    for output in pair.outputs:
        bounds = pair.bounds if output is pair.worst else None
        yield agreement_line(output, bounds, tolerance, named=several)
        if facts := list(_facts(output)):
            yield FoundLine("  " + ", ".join(facts))
    if pair.outputs and pair.outputs[0].accuracy is not None:
        yield from _accuracy_lines(pair.outputs[0].accuracy, pair.bounds)


def agreement_line(output: Behaviour, bounds: Bounds | None, tolerance: float, *, named: bool) -> FoundLine:
    """Returns how often the two agree in an output, and the bound where there is one."""
    title = f"{output.output} ({output.task}): " if named else ""
    agreement = agreement_words(output.agreement)
    text = f"{title}{output.agreement_name(tolerance)}: {agreement}"
    if bounds is None or math.isnan(bounds.agreement):
        return FoundLine(text, (agreement,))
    least = percent_down(bounds.agreement)
    method = f"{percent_words(bounds.confidence, 0)} confidence, {bounds.agreement_bound}"
    return FoundLine(f"{text}, at least {least} on inputs drawn like these ({method})", (agreement, least))


def agreement_words(share: float) -> str:
    return NOT_KNOWN if math.isnan(share) else percent_words(share)


def _facts(output: Behaviour) -> Iterator[str]:
    if output.graded and not math.isnan(output.agreement):
        yield f"full agreement on {percent_words(output.full / output.n)} of the inputs"
        if silence := silence_words(output.silent, output.n):
            yield silence
    if not math.isnan(output.identical):
        yield f"bit-equal outputs {percent_words(output.identical)}"
    if output.top5_overlap is not None:
        yield f"common classes among the five best {percent_words(output.top5_overlap)}"
    yield from _distance(output)
    if output.cosine is not None:
        yield f"mean cosine {output.cosine:.5f}"
    if output.next_tokens is not None:
        yield next_token_words(output.next_tokens)
    if output.continuations is not None:
        yield continuation_words(output.continuations)
    if output.samples is not None:
        yield sample_words(output.samples)


def _distance(output: Behaviour) -> Iterator[str]:
    low, high = output.l2
    # The task knows no distance, or only classes were kept.
    if math.isnan(low):
        if output.top5_overlap is not None:
            yield "no scores were kept"
    elif output.top5_overlap is not None:
        span = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        yield f"mean l2 distance of probabilities {span}"
    else:
        share = output.relative_l2 or 0
        finite = math.isfinite(share)
        shown = f"{percent_words(share, 3)} of A's length" if finite else "A gives zeros where B does not"
        yield f"mean l2 distance {low:.3g} ({shown})"


def _accuracy_lines(accuracy: Accuracy, bounds: Bounds | None) -> Iterator[FoundLine]:
    a, b = percent_words(accuracy.a), percent_words(accuracy.b)
    difference = f"{100 * accuracy.difference:+.2f} points"
    if bounds is not None and bounds.accuracy_a and bounds.accuracy_b and bounds.difference:
        a = f"{a} {_interval(bounds.accuracy_a)}"
        b = f"{b} {_interval(bounds.accuracy_b)}"
        low, high = bounds.difference
        difference += f" [{100 * low:+.2f}, {100 * high:+.2f}]"
    yield FoundLine(f"accuracy: A {a}, B {b}")
    counts = f"only A correct: {accuracy.only_a:,}, only B correct: {accuracy.only_b:,}; paired"
    yield FoundLine(f"  B − A {difference} ({counts})", (difference,))
    if bounds is not None and bounds.accuracy_drop is not None:
        change, points = _promised_change(bounds.accuracy_drop)
        confidence = percent_words(bounds.confidence, 0)
        text = f"  B is {change} {points} on inputs drawn like these ({confidence} confidence, betting)"
        yield FoundLine(text, (points,))


def _promised_change(drop: float) -> tuple[str, str]:
    """Returns what an upper bound on the drop in accuracy says, rounded so that it still holds."""
    points = math.ceil(10_000 * drop) / 100
    if points < 0:
        return "more accurate by at least", f"{-points:.2f} points"
    return "less accurate by at most", f"{points:.2f} points"


def guarantee_line(report: Equivalence) -> FoundLine | None:
    """Returns what holds on every one of several datasets; None for one dataset, and where nothing is guaranteed."""
    if len(report.comparable) < 2 or report.guarantee is None:
        return None
    subject = f"On every one of {len(report.comparable)} datasets"
    text = (
        f"{subject} {_guaranteed(report)}: at least {percent_down(report.guarantee.lower)} "
        f"({percent_words(report.confidence, 0)} confidence; least on {report.guarantee.worst.name})."
    )
    return FoundLine(text, (subject,))


def _guaranteed(report: Equivalence) -> str:
    outputs = [output for pair in report.comparable for output in pair.outputs]
    names = {output.agreement_name(report.tolerance) for output in outputs}
    return names.pop() if len(names) == 1 else "agreement"


MARGIN_BOUND = "Margin bound"
MARGIN_BOUND_MEANING = "generalisation of each model by itself, not their agreement"


def margin_lines(bounds: ModelBounds) -> Iterator[str]:
    for side, bound in (("A", bounds.a), ("B", bounds.b)):
        yield f"{side}: {bound if isinstance(bound, str) else bound.sentence}"


def percent_words(value: float, digits: int = 1) -> str:
    return f"{hundredths(value, digits)} %"


def hundredths(value: float, digits: int = 1) -> str:
    """Nearly all is not shown as all: 99.96."""
    text = f"{100 * value:.{digits}f}"
    if value < 1 and float(text) == 100:
        return hundredths(value, digits + 1)
    return text


def _interval(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"[{100 * low:.1f}, {100 * high:.1f}]"
