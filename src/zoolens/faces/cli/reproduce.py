"""`zoolens reproduce RUN`: run it again and say which figures hold."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import Styled, make_console, plain, print_table
from zoolens.faces.cli.completed_names import complete_runs
from zoolens.faces.cli.options import trust_option, wide_option
from zoolens.faces.cli.stores import store_option

_COLOURS: Final = {"✓": "green", "~": "yellow", "✗": "red"}


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
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
    from zoolens.faces.cli.asking import answered_yes
    from zoolens.findings.comparisons.reproduce import reproduce
    from zoolens.findings.comparisons.reproduction_page import (
        NOT_REPRODUCED,
        figures_table,
        identical_lines,
        summary,
        title,
    )

    with answered_yes() if yes else nullcontext(), Bars() as bars:
        result = reproduce(run, store=store, allow_code=allow_code, progress=bars)
    console = make_console()
    console.print(plain(title(result)))
    figures = figures_table(result)
    rows = [[Styled(mark, _COLOURS[mark]), *cells] for mark, *cells in figures.rows]
    print_table(figures.columns, rows, console)
    for line in identical_lines(result):
        console.print(line)
    console.print(summary(result.verdicts))
    for note in result.notes:
        console.print(plain(note))
    for difference in result.report.environment:
        changed = plain(f"{difference.what}: {difference.a} → {difference.b}")
        console.print(f"  {'!' if difference.telling else ' '} {changed}")
    if not result.holds:
        raise ZoolensError(
            NOT_REPRODUCED,
            hint=f"`zoolens diverge {result.again.id[:8]} MODEL@RUNTIME:env=PACKAGES` says at which layer this "
            "environment diverges from the original one.",
        )
