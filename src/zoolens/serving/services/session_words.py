"""A session of a service as data and in sentences: what `zoolens events` prints, and what the explorer shows."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from zoolens.serving.services.events import ModelComparison, ObjectiveCounts, ServiceEvent, Session


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
    }


def event_words(event: ServiceEvent) -> str:
    return f"{event.previous} → {event.model}: {event.reason}" if event.previous else event.reason


def session_sentences(session: Session) -> list[str]:
    """Who answered how often, whether the latency objective was kept, and how often models agreed."""
    total = sum(session.answered.values())
    sentences = [
        f"{requests:,} of {total:,} requests were answered by {model} in {runtime}."
        for (model, runtime), requests in sorted(session.answered.items(), key=lambda item: -item[1])
    ]
    if session.kept is not None:
        sentences.append(_objective(session.kept))
    for row in _newest(session):
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
    return list({(row.model, row.other, row.replica): row for row in session.comparisons}.values())


def _objective(kept: ObjectiveCounts) -> str:
    """Whether the promised percentile came in time; a request that was refused did not."""
    total = kept.requests + kept.refused
    share = kept.within / total if total else 1.0
    verdict = "kept" if share >= kept.percentile / 100 else "not kept"
    refused = f", {kept.refused:,} were refused" if kept.refused else ""
    return (
        f"{share:.2%} of {total:,} requests were answered within {kept.bound * 1e3:.4g} ms in the server{refused}: "
        f"the objective of {kept.percentile:.4g} % was {verdict}."
    )


def _compared(row: ModelComparison, answered: int) -> str:
    where = f"On replica {row.replica}, " if row.replica else ""
    sentences = [
        f"{where}{row.model} and {row.other} agree on {row.agreement:.1%} [{row.low:.1%}, {row.high:.1%}] of the "
        f"newest {row.n:,} requests that both answered.",
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
