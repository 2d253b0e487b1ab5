"""`zoolens diverge A B`: at which layer two environments diverge, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.terminal import echo_json, echo_prose, make_console, plain, print_table
from zoolens.base.verdicts import enforce
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import OUT_FILE, Bytes, json_option, on_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.findings.divergence.result import Divergence, SideSummary

SHOWN = 12  # layers in the table, unless --all


@click.command()
@click.argument("a", metavar="A", shell_complete=complete_models)
@click.argument("b", metavar="B", shell_complete=complete_models)
@click.option("--data", "-d", help="Dataset: 'demo', a path, or kind:path?key=value; default: that of stored runs.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs.")
@click.option("--seed", type=click.IntRange(0), default=None, help="Draw them at random; default: the first ones.")
@click.option(
    "--examine",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Number of inputs to compare layer by layer.",
)
@click.option(
    "--memory",
    type=Bytes(),
    default="1 GB",
    show_default=True,
    help="Memory for the tensors that are compared at a time.",
)
@click.option("--all", "show_all", is_flag=True, help="List every layer.")
@click.option("--html", "page", type=OUT_FILE, default=None, help="Write a page with the growth curve.")
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    help="Exit with 3 if it holds ('max_error > 1e-3'), with 4 if that is not known; 'unknown': with 4 if the verdict "
    "is not known. Repeatable.",
)
@click.option("--allow-code", is_flag=True, help="Run Python code that builds a model (in a process of its own).")
@store_option(None)
@json_option
@on_option
@trust_option
@wide_option
def command(a: str, b: str, **chosen: Any) -> None:
    """Say at which layer A and B diverge on the same dataset, whether that is rounding or a fault, and what removes it.

    A and B are MODEL@RUNTIME, with options behind a colon (MODEL@openvino:precision=float32,threads=1), or stored runs:
    an id, a prefix of one, 'last' or 'last~1'. Each cause is proved by changing the suspect and computing again; what
    cannot be proved is said to be suspected only.
    """
    try:
        _diverge(a, b, chosen)
    except KeyboardInterrupt as interrupt:
        raise type(interrupt)("A comparison keeps nothing until it is finished, so it starts over.") from None


def _diverge(a: str, b: str, chosen: dict[str, Any]) -> None:
    from zoolens.base.present.bars import Bars
    from zoolens.findings.divergence.divergence_words import as_data
    from zoolens.findings.divergence.diverging import diverge
    from zoolens.findings.divergence.gates import parse_divergence_gate

    gates = [parse_divergence_gate(text) for text in chosen["conditions"]]
    with Bars() as bars:
        divergence = diverge(
            a,
            b,
            chosen["data"],
            limit=chosen["limit"],
            seed=chosen["seed"],
            examined=chosen["examine"],
            memory=chosen["memory"],
            store=chosen["store"],
            allow_code=chosen["allow_code"],
            progress=bars,
        )
    if chosen["as_json"]:
        echo_json(as_data(divergence))
    else:
        print_divergence(divergence, chosen["show_all"])
    if chosen["page"] is not None:
        _write_page(divergence, chosen["page"])
    # At the end: one that cannot be judged loses no report.
    enforce(gates, divergence)


def print_divergence(divergence: Divergence, show_all: bool = False) -> None:
    from zoolens.findings.divergence.divergence_words import headline, lines, table

    console = make_console()
    for label, side in (("A", divergence.a), ("B", divergence.b)):
        console.print(f"[bold]{label}[/] {plain(_stack(side))}")
    console.print(f"  {len(divergence.answers.rows):,} inputs of {plain(divergence.data)}\n")
    if divergence.layers:
        layers = table(divergence)
        rows = [[str(cell) for cell in row] for row in layers.rows]
        shown = rows if show_all else _telling(divergence, rows)
        print_table(list(layers.columns), shown, console)
        if len(shown) < len(rows):
            console.print(f"[dim]{len(rows) - len(shown)} more layers are not listed; --all lists them.[/]")
        console.print()
    for line in lines(divergence):
        echo_prose(line)
    console.print(f"\n[bold]{plain(headline(divergence))}[/]", soft_wrap=True)


def _telling(divergence: Divergence, rows: list[list[str]]) -> list[list[str]]:
    """The layer before the first that is beyond, those right behind it, and the last."""
    if len(rows) <= SHOWN:
        return rows
    parting = (place for place, fact in enumerate(divergence.layers) if fact.layer.beyond or fact.layer.files_beyond)
    first = next(parting, len(rows) - SHOWN)
    start = max(0, min(first - 1, len(rows) - SHOWN))
    return [*rows[start : start + SHOWN - 1], rows[-1]]


def _stack(side: SideSummary) -> str:
    return f"{side.title}  {side.runtime} {side.version} ({side.precision}), {side.layers} layers can be read"


def _write_page(divergence: Divergence, target: Path) -> None:
    from zoolens.findings.divergence.divergence_page import html

    target.write_text(html(divergence), encoding="utf-8")
    click.echo(f"{target} written.", err=True)
