"""`zoolens events`: what happened while services were served."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, echo_prose, print_table
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.faces.serving.services.events import Session


@click.command()
@click.argument("service", required=False)
@click.option(
    "--sessions",
    "limit",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of sessions, newest first.",
)
@click.option(
    "--last",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Number of events of each session, the last ones.",
)
@store_option("reads")
@json_option
@wide_option
def command(service: str | None, limit: int, last: int, store: str | None, as_json: bool) -> None:
    """Show what happened to a service while it was served: every switch and its reason, and who answered how often.

    Without SERVICE, the newest sessions of all services.
    """
    from zoolens.base.store.store import open_store
    from zoolens.faces.serving.services.events import sessions
    from zoolens.faces.serving.services.session_words import session_data

    with open_store(store, must_exist=True) as opened:
        every_session = sessions(opened, service, limit)
    if as_json:
        echo_json([session_data(session) for session in every_session])
    elif not every_session:
        click.echo("No service was served yet: see `zoolens serve`.", err=True)
    for session in () if as_json else every_session:
        _print(session, last)


def _print(session: Session, last: int) -> None:
    from zoolens.faces.serving.services.session_words import event_words, session_sentences

    click.echo(f"{session.service}, session {session.run.id[:8]} of {session.run.created:%Y-%m-%d %H:%M}")
    shown = session.events[-last:]
    if len(shown) < len(session.events):
        click.echo(f"The last {len(shown)} of {len(session.events):,} events:")
    columns = [Column("time", "key"), Column("event", "key", keep=9), Column("what", folds=True, keep=9)]
    print_table(columns, [[_clock(event.time), event.kind, event_words(event)] for event in shown])
    for sentence in session_sentences(session):
        echo_prose(sentence)


def _clock(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9).strftime("%H:%M:%S.%f")[:-3]
