"""What an evaluation of all models of a folder comes to: the query that chooses, and the model to ship."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_prose

if TYPE_CHECKING:
    from zoolens.findings.measure.plan import Outcome
    from zoolens.findings.queries.answers.matches import Match

_SPEED = "latency_p50"


def conclude(outcomes: Sequence[Outcome], store: str | None, lose: float, check: str) -> None:
    """Ask which model is the quickest of those that lose at most so many points, and say what the answer rests on.
    `check`: the command that examines guesses."""
    from zoolens.base.present.bars import Bars
    from zoolens.faces.cli.query import print_answer
    from zoolens.findings.measure.run_data import ACCURACY, main_metric
    from zoolens.findings.queries.query import query

    runs = [outcome.run for outcome in outcomes if outcome.run is not None]
    if not runs:
        return
    if any(main_metric(run) != ACCURACY for run in runs):
        click.echo("\nThese are no classifiers: `zoolens compare RUN RUN` judges two, `zoolens query` finds others.")
        return
    text = choosing_query(runs[0].dataset.name, runs[0].dataset.fingerprint, lose)
    option = "" if store is None else f" --store {shlex.quote(store)}"
    click.echo(f'\n$ zoolens query "{text}"{option}')
    try:
        with Bars() as bars:
            answer = query(text, store=store, progress=bars)
    except ZoolensError as error:
        click.echo(f"No answer: {error}")
        return
    print_answer(answer)
    guessed = list(dict.fromkeys(outcome.title.partition(" in ")[0] for outcome in outcomes if outcome.guessed))
    if guessed:
        echo_prose(
            f"\nDo not ship yet: how {', '.join(guessed)} should be fed is guessed, so that every accuracy above may "
            "be too low. Let the doctor try other ways on your pictures:"
        )
        click.echo(f"  {check}")
    elif answer.reference is not None:
        others = answer.matches if answer.exact else ()
        echo_prose(f"\n{shipping_sentence(answer.reference, others, answer.n)}")


def choosing_query(name: str, fingerprint: str, lose: float) -> str:
    """The quickest model that is at most so many points less accurate than the best."""
    return (
        f"TASK image-classification ON accuracy_drop <= {lose:g}% ORDER BY {_SPEED} SHOW accuracy, {_SPEED}, file_size "
        f"DATA '{name}#{fingerprint[:8]}'"
    )


def shipping_sentence(best: Match, others: Sequence[Match], inputs: int) -> str:
    """Which model to ship: the quickest of the most accurate one and of those that lose little enough."""
    fitting = [best, *others]
    chosen = min(fitting, key=lambda match: match[_SPEED] or 0.0)
    unknown = [match for match in fitting if match[_SPEED] is None]
    if unknown:
        return f"Which is the quickest is not known: {_named(unknown[0])} was not timed."
    ship = f"Ship {_named(chosen)}: "
    if chosen is best:
        return f"{ship}none of the others is quicker without losing more accuracy than you allow."
    return (
        f"{ship}{_figure(chosen, 'accuracy')} on these {inputs:,} pictures in {_figure(chosen, _SPEED)}, where the "
        f"most accurate, {_named(best)}, has {_figure(best, 'accuracy')} in {_figure(best, _SPEED)}. Both are what was "
        "measured here; CONFIDENCE 95% in the query asks whether the difference also holds on further pictures."
    )


def _named(match: Match) -> str:
    return f"{match.ref.partition('@')[0]} in {match.runtime}"


def _figure(match: Match, name: str) -> str:
    from zoolens.base.present.figures import NOTHING, figure

    known = match.figures.get(name)
    return NOTHING if known is None else figure(known.value, known.unit)
