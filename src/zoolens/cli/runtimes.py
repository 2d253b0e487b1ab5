"""`zoolens runtimes`: what can run models here."""

from __future__ import annotations

import click

from zoolens.cli.jsonout import echo_json
from zoolens.present.streams import open_console


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(as_json: bool) -> None:
    """List the runtimes: version, formats, what each declares it cannot do; and the sandbox that models run in."""
    from zoolens import plugins
    from zoolens.engine.sandbox import PLAIN, describe, shortcomings
    from zoolens.runtimes.base import Runtime

    found: list[Runtime] = [plugins.load(plugins.RUNTIMES, name)() for name in plugins.names(plugins.RUNTIMES)]
    if as_json:
        rows = [
            {
                "name": one.name,
                "summary": one.summary,
                "version": one.version(),
                "formats": one.formats,
                "modes": one.modes,
                "cannot": dict(one.cannot),
                "extra": one.extra,
                "sandbox": describe() if one.plain is None else PLAIN,
            }
            for one in found
        ]
        echo_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("runtime", "version", "formats", "cannot"):
        table.add_column(name)
    for one in found:
        missing = f"[dim]not installed: zoolens\\[{one.extra}][/]" if one.extra else "[dim]only with --env[/]"
        cannot = ", ".join(name.replace("_", " ") for name in one.cannot)
        table.add_row(one.name, one.version() or missing, ", ".join(one.formats), cannot)
    console = open_console(width=None if open_console().is_terminal else 140)
    console.print(table)
    console.print(f"\nModels run in a worker with this sandbox: {describe()}", highlight=False)
    for missing in shortcomings():
        console.print(f"  {missing}", style="yellow", highlight=False)
