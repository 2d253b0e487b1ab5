"""`zoolens port scaffold`: a first draft of a port."""

from __future__ import annotations

from pathlib import Path

import click

from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.exit_codes import trouble
from zoolens.faces.cli.options import OUT_FILE, json_option
from zoolens.faces.cli.port_options import input_option, timeout_option


@click.command("scaffold")
@click.argument("source", metavar="A")
@click.option("--to", required=True, type=click.Choice(["keras", "torch"]), help="The framework of the draft.")
@input_option
@click.option("--out", type=OUT_FILE, help="The Python file. By default it is named after A and the framework.")
@click.option(
    "--weights",
    type=OUT_FILE,
    help="Also write A's weights for the draft: .safetensors, .keras, .weights.h5, .pt.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--all", "everything", is_flag=True, help="Show every tensor.")
@timeout_option
@json_option
@click.pass_context
def scaffold_command(
    ctx: click.Context,
    source: str,
    to: str,
    inputs: tuple[str, ...],
    out: Path | None,
    weights: Path | None,
    force: bool,
    everything: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Write a first draft of A's port: my_torch.py:net --to keras --input 3x224x224 --out my_keras.py.

    The draft has a function net(), and one function or module for each block that A has several times. It is then
    checked as by port check, with A's weights moved to it. Layers that cannot be written are functions of the draft
    that say TODO and raise NotImplementedError.

    Exits with 0 if the draft computes the same as A, 1 if it differs, 2 if A cannot be read, 4 if it is not complete or
    not known to compute the same.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.training.port.scaffolds.scaffold_words import scaffold_data, scaffold_lines
    from zoolens.training.port.scaffolds.scaffolding import scaffold

    with trouble(), spinner(source, f"draft it for {to} and check the draft"):
        made = scaffold(source, inputs, to, out=out, weights=weights, force=force, timeout=timeout)
    if as_json:
        echo_json(scaffold_data(made))
    else:
        for line in scaffold_lines(made, everything=everything):
            click.echo(line)
    ctx.exit(made.verdict.outcome.exit_code)
