"""`zoolens runtimes`: what can run models here."""

from __future__ import annotations

import click

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import Styled, echo_json, make_console, print_table
from zoolens.faces.cli.options import json_option, wide_option


@click.command()
@json_option
@wide_option
def command(as_json: bool) -> None:
    """List the runtimes: version, formats, what each declares it cannot do; and the sandbox that models run in."""
    from zoolens.base import plugins
    from zoolens.base.engine.sandbox import PLAIN, describe, shortcomings
    from zoolens.inventory.runtimes.runtime import Runtime

    runtimes: list[Runtime] = [plugins.load(plugins.RUNTIMES, name)() for name in plugins.names(plugins.RUNTIMES)]
    if as_json:
        data = [
            {
                "name": runtime.name,
                "summary": runtime.summary,
                "version": runtime.version(),
                "formats": runtime.formats,
                "modes": runtime.modes,
                "cannot": dict(runtime.cannot),
                "extra": runtime.extra,
                "sandbox": describe() if runtime.plain is None else PLAIN,
            }
            for runtime in runtimes
        ]
        echo_json(data)
        return
    rows = []
    for runtime in runtimes:
        missing = f"not installed: zoolens[{runtime.extra}]" if runtime.extra else "only with --env"
        cannot = ", ".join(name.replace("_", " ") for name in runtime.cannot)
        rows.append([runtime.name, runtime.version() or Styled(missing, "dim"), ", ".join(runtime.formats), cannot])
    columns = [Column("runtime", keep=9), Column("version", keep=8), Column("formats", keep=7, folds=True)]
    console = make_console()
    print_table([*columns, Column("cannot", keep=6, folds=True)], rows, console)
    console.print(f"\nModels run in a worker with this sandbox: {describe()}")
    for missing in shortcomings():
        console.print(f"  {missing}", style="yellow")
