"""`zoolens reproduce RUN`: run it again and say which figures hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import Styled, make_console, plain, print_table
from zoolens.faces.cli.options import trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.reproduce import FigureVerdict


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--allow-code", is_flag=True, help="Run Python code that the manifest carries.")
@click.option("--yes", is_flag=True, help="Install what the run's environment needs, without asking.")
@store_option("reads")
@trust_option
@wide_option
def command(run: str, allow_code: bool, yes: bool, store: str | None) -> None:
    """Execute RUN again with the same model, dataset, runtime and options, and compare every figure with its interval.

    Exits with 1 if an answer (not a timing) falls outside.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.present.figures import figure, with_interval
    from zoolens.faces.cli.asking import answered_yes
    from zoolens.findings.comparisons.reproduce import reproduce

    with answered_yes() if yes else nullcontext(), Bars() as bars:
        result = reproduce(run, store=store, allow_code=allow_code, progress=bars)
    console = make_console()
    console.print(f"{plain(result.original.ref)} in {result.original.stack.runtime}: ", end="")
    console.print(f"run {result.original.id[:8]} repeated as {result.again.id[:8]}")
    rows = []
    for pair in result.verdicts:
        if pair.then.metric != "recall" or not pair.inside:
            mark = Styled("✓", "green") if pair.inside else Styled("~", "yellow") if pair.drifts else Styled("✗", "red")
            now = figure(pair.now.value, pair.then.unit) if pair.now else "gone"
            rows.append([mark, pair.then.metric, pair.then.scope, with_interval(pair.then), now])
    names = {"": 9, "metric": 9, "scope": 5, "then": 7, "now": 8}
    print_table([Column(name, keep=keep) for name, keep in names.items()], rows, console)
    if result.identical is not None:
        console.print(f"{100 * result.identical:.4g} % of the answers are the same bit by bit.")
    console.print(_summary(result.verdicts))
    for note in result.notes:
        console.print(plain(note))
    for difference in result.report.environment:
        changed = plain(f"{difference.what}: {difference.a} → {difference.b}")
        console.print(f"  {'!' if difference.telling else ' '} {changed}")
    if not result.holds:
        raise ZoolensError(
            "The answers are not reproduced; the figures marked ✗ are outside their interval.",
            hint=f"`zoolens diverge {result.again.id[:8]} MODEL@RUNTIME:env=PACKAGES` says at which layer this "
            "environment diverges from the original one.",
        )


def _summary(verdicts: Sequence[FigureVerdict]) -> str:
    """Figures that must hold, and those of the machine, apart: a timing outside its interval is no failure."""
    lasting, drifting = ([verdict for verdict in verdicts if verdict.drifts is drifts] for drifts in (False, True))
    held, inside = (sum(verdict.inside for verdict in group) for group in (lasting, drifting))
    text = f"{held} of {len(lasting)} figures hold." if lasting else ""
    if drifting:
        text += f" Of {len(drifting)} timings and other figures of the machine {inside} fall inside their interval"
        text += "; those marked ~ drifted." if inside < len(drifting) else "."
    return text.strip()
