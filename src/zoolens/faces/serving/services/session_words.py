"""A session of a service as data and in sentences: what `zoolens events` prints, and what the explorer shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from zoolens.base.present.figures import percent
from zoolens.faces.serving.services.comparison import CONFIDENCE
from zoolens.faces.serving.services.events import ModelComparison, ObjectiveCounts, ServiceEvent, Session


def session_data(session: Session) -> dict[str, Any]:
    """A session as `zoolens events --json` prints it."""
    return {
        "service": session.service,
        "session": session.run.id,
        "begun": session.run.created.isoformat(),
        "events": [asdict(event) for event in session.events],
        "answered": [
            {"model": model, "runtime": runtime, "requests": requests}
            for (model, runtime), requests in session.answered.items()
        ],
        "objective": None if session.kept is None else asdict(session.kept),
        "comparisons": [asdict(compared) for compared in _newest(session)],
        "comparisons_of_all_replicas": [asdict(row) for row in summed_pairs(session)],
    }


def event_words(event: ServiceEvent) -> str:
    return f"{event.previous} → {event.model}: {event.reason}" if event.previous else event.reason


def session_sentences(session: Session) -> list[str]:
    """Who answered how often, whether the latency objective was kept, and how far models agreed."""
    total = sum(session.answered.values())
    sentences = [
        f"{requests:,} of {total:,} requests were answered by {model} in {runtime}."
        for (model, runtime), requests in sorted(session.answered.items(), key=lambda item: -item[1])
    ]
    if session.kept is not None:
        sentences.append(_objective(session.kept))
    for row in summed_pairs(session):
        by_model = sum(requests for (model, _), requests in session.answered.items() if model == row.model)
        sentences.append(_compared(row, by_model))
    if not session.stopped:
        sentences.append(_uncounted(session))
    return sentences


def _uncounted(session: Session) -> str:
    """What the counts of a session leave out whose end is not known."""
    if not session.answers:
        return "No requests were counted yet: they are counted once a minute and at the end, which is not known."
    last = datetime.fromtimestamp(max(row.time for row in session.answers) / 1e9).astimezone()
    return (
        f"Requests after {last:%H:%M:%S} are not counted: they are counted once a minute and at the end, which is not "
        "known."
    )


def _newest(session: Session) -> list[ModelComparison]:
    """The last state of each pair of models, on a cluster for each replica by itself."""
    newest = {(row.model, row.other, row.replica): row for row in session.comparisons}
    return list(newest.values())


@dataclass(frozen=True, kw_only=True)
class SummedComparison(ModelComparison):
    """A pair of models on all replicas. Each replica's interval holds with 95 %, all of them together with at least
    `confidence`; then the mean lies between the means of their ends. No such interval is left of 20 replicas."""

    replicas: int
    confidence: float


def summed_pairs(session: Session) -> list[SummedComparison]:
    """The last state of each pair of models, over all replicas that compared it."""
    pairs: dict[tuple[str, str], list[ModelComparison]] = {}
    for row in _newest(session):
        pairs.setdefault((row.model, row.other), []).append(row)
    return [_summed(rows) for rows in pairs.values()]


def _summed(rows: Sequence[ModelComparison]) -> SummedComparison:
    counted = [row for row in rows if row.n] or list(rows)
    labelled = [row for row in rows if row.labelled]
    weights = [max(row.n, 1) for row in counted]
    of_labelled = [row.labelled for row in labelled]
    agreement, low, high = (
        _mean([getattr(row, name) for row in counted], weights) for name in ("agreement", "low", "high")
    )
    gain, gain_low, gain_high = (
        _mean([getattr(row, name) or 0.0 for row in labelled], of_labelled) if labelled else None
        for name in ("gain", "gain_low", "gain_high")
    )
    confidence = max(0.0, 1 - len(counted) * (1 - CONFIDENCE))
    known = confidence > 0
    return SummedComparison(
        model=rows[0].model,
        other=rows[0].other,
        n=sum(row.n for row in rows),
        agreement=agreement,
        low=low if known else 0.0,
        high=high if known else 1.0,
        labelled=sum(of_labelled),
        gain=gain,
        gain_low=gain_low if known else None,
        gain_high=gain_high if known else None,
        dropped=sum(row.dropped for row in rows),
        compared_requests=sum(row.compared_requests or row.n for row in rows),
        share=min(row.share for row in rows),
        measure=rows[0].measure,
        time=max(row.time for row in rows),
        replicas=len(counted),
        confidence=confidence,
    )


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    weighted = [value * weight for value, weight in zip(values, weights, strict=True)]
    return sum(weighted) / sum(weights)


def _objective(kept: ObjectiveCounts) -> str:
    """Whether the promised percentile came in time; a request that was refused did not."""
    total = kept.requests + kept.refused
    share = kept.within / total if total else 1.0
    verdict = "kept" if share >= kept.percentile / 100 else "not kept"
    refused = f", {kept.refused:,} were refused" if kept.refused else ""
    return (
        f"{percent(share, 2)} of {total:,} requests were answered within {_bound(kept.bound)} in the server"
        f"{refused}: the objective of {kept.percentile:.4g} % was {verdict}."
    )


def _bound(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"


def _compared(row: SummedComparison, answered: int) -> str:
    interval = f" [{100 * row.low:.1f}, {100 * row.high:.1f}]" if row.confidence else ""
    sure = f" (at least {percent(row.confidence, 0)} confidence)" if row.replicas > 1 and row.confidence else ""
    where = f" on {row.replicas} replicas" if row.replicas > 1 else ""
    sentences = [
        f"{_agreement(row, interval + sure)} requests that both answered{where}.",
        f"{row.compared_requests or row.n:,} of the {answered:,} requests that {row.model} answered were compared.",
    ]
    if row.dropped:
        sentences.append(f"{row.dropped:,} more were drawn, but not compared: the server was busy, or a model failed.")
    if row.share < 1:
        share = f"{100 * row.share:.3g} %"
        sentences.append(f"{share} of all that were drawn count, so that busy times weigh as much as quiet ones.")
    if row.labelled:
        sentences.append(f"{row.labelled:,} of them have labels. {row.verdict}")
    return " ".join(sentences)


def _agreement(row: SummedComparison, interval: str) -> str:
    if row.measure:
        figures = f"{row.measure} is {percent(row.agreement, 1)}{interval}"
        return f"Between {row.model} and {row.other}, {figures} over the newest {row.n:,}"
    return f"{row.model} and {row.other} agree on {percent(row.agreement, 1)}{interval} of the newest {row.n:,}"
