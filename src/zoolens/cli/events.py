"""`zoolens events`: what happened while services were served."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from zoolens.cli.options import json_option, wide_option
from zoolens.cli.stores import store_option
from zoolens.present.tables import Column
from zoolens.present.terminal import echo_json, echo_prose, print_table

if TYPE_CHECKING:
    from zoolens.serving.services.events import Compared, Kept, Session


@click.command()
@click.argument("service", required=False)
@click.option("--sessions", "limit", type=click.IntRange(1), default=1, show_default=True, help="The newest so many.")
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="Events of each session.")
@store_option("reads")
@json_option
@wide_option
def command(service: str | None, limit: int, last: int, store: str | None, as_json: bool) -> None:
    """Show what happened to a service while it was served: every switch and its reason, and who answered how often.

    Without SERVICE, the newest sessions of all services.
    """
    from zoolens.serving.services.events import sessions
    from zoolens.store.store import open_store

    with open_store(store, must_exist=True) as opened:
        found = sessions(opened, service, limit)
    if as_json:
        echo_json([_data(session) for session in found])
    elif not found:
        click.echo("No service was served yet: see `zoolens serve`.", err=True)
    for session in () if as_json else found:
        _print(session, last)


def _data(session: Session) -> dict[str, Any]:
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


def _newest(session: Session) -> list[Compared]:
    """The last state of each pair of models, on a cluster for each replica by itself."""
    return list({(row.model, row.other, row.replica): row for row in session.comparisons}.values())


def _print(session: Session, last: int) -> None:
    click.echo(f"{session.service}, session {session.run.id[:8]} of {session.run.created:%Y-%m-%d %H:%M}")
    shown = session.events[-last:]
    if len(shown) < len(session.events):
        click.echo(f"The last {len(shown)} of {len(session.events):,} events:")
    columns = [Column("time", "key"), Column("event", "key", keep=9), Column("what", folds=True, keep=9)]
    print_table(columns, [[_clock(event.time), event.kind, _what(event)] for event in shown])
    total = sum(session.answered.values())
    for (model, runtime), requests in sorted(session.answered.items(), key=lambda item: -item[1]):
        click.echo(f"{requests:,} of {total:,} requests were answered by {model} in {runtime}.")
    if session.kept is not None:
        echo_prose(_objective(session.kept))
    for row in _newest(session):
        by_model = sum(requests for (model, _), requests in session.answered.items() if model == row.model)
        echo_prose(_compared(row, by_model))


def _what(event: Any) -> str:
    return f"{event.previous} → {event.model}: {event.reason}" if event.previous else event.reason


def _objective(kept: Kept) -> str:
    """Whether the promised percentile came in time; a request that was refused did not."""
    total = kept.requests + kept.refused
    share = kept.within / total if total else 1.0
    verdict = "kept" if share >= kept.percentile / 100 else "not kept"
    refused = f", {kept.refused:,} were refused" if kept.refused else ""
    return (
        f"{share:.2%} of {total:,} requests were answered within {kept.bound * 1e3:.4g} ms in the server{refused}: "
        f"the objective of {kept.percentile:.4g} % was {verdict}."
    )


def _compared(row: Compared, answered: int) -> str:
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


def _clock(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9).strftime("%H:%M:%S.%f")[:-3]
