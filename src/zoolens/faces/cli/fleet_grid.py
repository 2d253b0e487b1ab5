"""`zoolens fleet grid`: every model on every kind of machine, and what is worse on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import click

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
from zoolens.base.verdicts import enforce
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.comparisons.kind_changes import JudgedGrid

_MOST_SAID: Final = 20  # sentences; --json has all


@click.command(name="grid")
@click.option("--data", default="", metavar="NAME", help="Dataset, or a part of its name; default: the one with most.")
@click.option("--runtime", "-r", default="", help="Runtime; default: the one with most evaluations of the dataset.")
@click.option(
    "--figure",
    type=click.Choice(("quality", "latency")),
    default="quality",
    show_default=True,
    help="The main metric of the task, or the median latency.",
)
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Batch size of latencies.")
@click.option("--model", "text", default="", metavar="WORDS", help="Only models with these words in their names.")
@click.option("--against", default="", metavar="KIND", help="Compare all with this kind, instead of with the best.")
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    help="Exit with 3 if it holds: 'latency_p50 rise > 10%'; 'unknown': with 4. Repeatable.",
)
@store_option("reads")
@json_option
@wide_option
def command(
    data: str,
    runtime: str,
    figure: Literal["quality", "latency"],
    batch: int,
    text: str,
    against: str,
    conditions: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Show every model on every kind of machine that the store has runs of, and name what is worse on one.

    Each figure is compared with the best one on equal hardware, where only the software differs. --fail-on judges
    these differences, and with --against those from the kind that it names. Only what is more than noise counts.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.findings.comparisons.kind_gate import parse_kind_gate
    from zoolens.findings.comparisons.kind_report import compare_kinds, grid_data

    gates = [parse_kind_gate(condition) for condition in conditions]
    wanted = {"data": data, "runtime": runtime, "text": text, "against": against}
    with spinner("grid", "compare kinds of machine"):
        judged, dataset = compare_kinds(store, figure, batch=batch, **wanted)
    if as_json:
        echo_json({"dataset": dataset, **grid_data(judged)})
    elif judged.grid.rows:
        _print_grid(judged, dataset)
    else:
        click.echo("No evaluations fit. `zoolens eval … --on each-kind` makes some.", err=True)
    enforce(gates, judged)


def _print_grid(judged: JudgedGrid, dataset: str) -> None:
    from zoolens.findings.comparisons.kind_report import cell_words
    from zoolens.findings.comparisons.machine_kinds import kind_names

    console, grid = make_console(), judged.grid
    names = kind_names(grid.kinds)
    console.print(plain(f"{grid.metric} on {dataset} in {grid.wanted.runtime}"))
    for kind in grid.kinds:
        offered = grid.agents.get(kind.id, ())
        said = f" (agent {', '.join(offered)})" if offered else ""
        console.print(f"  [bold]{kind.id}[/] {plain(str(names[kind.id]) + said)}")
    console.print()
    rows = [
        [row.name, *(cell_words(row.cell(kind.id), changes.get(kind.id)) for kind in grid.kinds)]
        for row, changes in zip(grid.rows, judged.rows, strict=True)
    ]
    print_table([Column("model", "key"), *(Column(kind.id, "number") for kind in grid.kinds)], rows)
    worse = judged.regressions
    for change in worse[:_MOST_SAID]:
        console.print(plain(change.sentence), highlight=False)
    if len(worse) > _MOST_SAID:
        console.print(f"And {len(worse) - _MOST_SAID:,} more: --json has all.")
    if judged.unmeasured:
        cells = len(grid.rows) * len(grid.kinds)
        console.print(f"{judged.unmeasured:,} of {cells:,} cells have no figure, or their newest run failed.")
