"""`zoolens runtimes`: what can run models here."""

from __future__ import annotations

import click

from zoolens.cli.options import json_option, wide_option
from zoolens.present.tables import Column
from zoolens.present.terminal import Styled, echo_json, make_console, print_table


@click.command()
@json_option
@wide_option
def command(as_json: bool) -> None:
    """List the runtimes: version, formats, what each declares it cannot do; and the sandbox that models run in."""
    from zoolens import plugins
    from zoolens.engine.sandbox import PLAIN, describe, shortcomings
    from zoolens.runtimes.base import Runtime

    found: list[Runtime] = [plugins.load(plugins.RUNTIMES, name)() for name in plugins.names(plugins.RUNTIMES)]
    if as_json:
        data = [
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
        echo_json(data)
        return
    rows = []
    for one in found:
        missing = f"not installed: zoolens[{one.extra}]" if one.extra else "only with --env"
        cannot = ", ".join(name.replace("_", " ") for name in one.cannot)
        rows.append([one.name, one.version() or Styled(missing, "dim"), ", ".join(one.formats), cannot])
    columns = [Column("runtime", keep=9), Column("version", keep=8), Column("formats", keep=7, folds=True)]
    console = make_console()
    print_table([*columns, Column("cannot", keep=6, folds=True)], rows, console)
    console.print(f"\nModels run in a worker with this sandbox: {describe()}")
    for missing in shortcomings():
        console.print(f"  {missing}", style="yellow")
