"""`zoolens reproduce RUN`: run it again and say which figures hold."""

from __future__ import annotations

from contextlib import nullcontext

import click

from zoolens.cli.stores import store_option
from zoolens.cli.tables import make_console, plain
from zoolens.cli.trust import trust_option
from zoolens.errors import ZoolensError


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--allow-code", is_flag=True, help="Run Python code that the manifest carries.")
@click.option("--yes", is_flag=True, help="Install what the run's environment needs, without asking.")
@store_option("reads")
@trust_option
def command(run: str, allow_code: bool, yes: bool, store: str | None) -> None:
    """Execute RUN again with the same model, data, runtime and options, and compare every figure with its interval.

    Exits with 1 if an answer (not a timing) falls outside.
    """
    from rich.table import Table

    from zoolens.cli.asking import answered_yes
    from zoolens.cli.bars import Bars
    from zoolens.cli.text import figure, with_interval
    from zoolens.comparisons.reproduce import reproduce

    with answered_yes() if yes else nullcontext(), Bars() as bars:
        result = reproduce(run, store=store, allow_code=allow_code, progress=bars)
    console = make_console()
    console.print(f"{plain(result.original.ref)} in {result.original.stack.runtime}: ", end="")
    console.print(f"run {result.original.id[:8]} repeated as {result.again.id[:8]}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "metric", "scope", "then", "now"):
        table.add_column(name)
    for one in result.verdicts:
        if one.then.metric == "recall" and one.inside:
            continue
        mark = "[green]✓[/]" if one.inside else "[red]✗[/]"
        now = figure(one.now.value, one.then.unit) if one.now else "gone"
        table.add_row(mark, *map(plain, (one.then.metric, one.then.scope, with_interval(one.then), now)))
    console.print(table)
    if result.identical is not None:
        console.print(f"{100 * result.identical:.4g} % of the answers are the same bit by bit.")
    inside = sum(one.inside for one in result.verdicts)
    console.print(f"{inside} of {len(result.verdicts)} figures fall inside their interval.")
    for difference in result.report.environment:
        changed = plain(f"{difference.what}: {difference.a} → {difference.b}")
        console.print(f"  {'!' if difference.telling else ' '} {changed}")
    if not result.holds:
        raise ZoolensError("The answers are not reproduced; the figures marked ✗ are outside their interval.")
