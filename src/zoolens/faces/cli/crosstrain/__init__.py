"""`zoolens crosstrain`: one recipe, several frameworks."""

from __future__ import annotations

import click

from zoolens.faces.cli.crosstrain.diffing import diff
from zoolens.faces.cli.crosstrain.exchanging import export, import_, submit
from zoolens.faces.cli.crosstrain.explaining import explain
from zoolens.faces.cli.crosstrain.reporting import report
from zoolens.faces.cli.crosstrain.running import run
from zoolens.faces.cli.crosstrain.spaces import space
from zoolens.faces.cli.crosstrain.studies import list_, remove, show
from zoolens.faces.cli.crosstrain.training import train


@click.group(name="crosstrain")
def command() -> None:
    """Train one recipe in several frameworks: where they part, by how much more than seed noise, and why.

    Everything that was trained is kept in the store, and never trained a second time.
    """


for _each in (diff, train, run, explain, list_, show, remove, report, import_, export, submit, space):
    command.add_command(_each)
