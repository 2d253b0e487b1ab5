"""`zoolens port`: a network of your own and its port: the same? Can the weights move? Do they train alike?"""

from __future__ import annotations

from pathlib import Path

import click

from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.exit_codes import DIFFERENT, trouble
from zoolens.faces.cli.options import OUT_FILE, json_option
from zoolens.faces.cli.port_options import input_option, pairs_of, timeout_option
from zoolens.faces.cli.port_scaffold import scaffold_command
from zoolens.faces.cli.port_training import train_command


@click.group("port")
def command() -> None:
    """Compare a network of your own with its port to another framework, move weights between them, train both,
    or have a first draft of the port written.

    A side is file.py:function or module:function. The function takes no arguments and returns a torch.nn.Module, a
    Keras model, or a JAX function with its parameters. It is your code, and it runs because you name it: in a process
    of its own, never from a store.
    """


_map = click.option(
    "--map",
    "chosen",
    multiple=True,
    metavar="A=B",
    help="This tensor of A belongs to that tensor of B, by their names.",
)


@command.command("check")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@input_option
@click.option("--data", metavar="D", help="A dataset whose samples both answer, instead of random numbers.")
@_map
@click.option("--strict", is_flag=True, help="Exit with 1 also for what only training would see.")
@click.option("--all", "everything", is_flag=True, help="Show every tensor.")
@timeout_option
@json_option
@click.pass_context
def check_command(
    ctx: click.Context,
    a: str,
    b: str,
    inputs: tuple[str, ...],
    data: str | None,
    chosen: tuple[str, ...],
    strict: bool,
    everything: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Say whether A and B are the same network: my_torch.py:net my_keras.py:net --input 3x64x64.

    Both are built and read, nothing is trained: what differs, in words; which tensor of A is which tensor of B; whether
    the outputs agree on the same input with the same weights, and if not, which layer parts first.

    Exits with 0 if they compute the same, 1 if they differ, 2 if one cannot be built or read, 4 if it is not known
    whether they are the same.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.training.port.port_check import check
    from zoolens.training.port.port_words import check_data, check_lines

    with trouble(), spinner(f"{a} and {b}", "build both and compare"):
        result = check(a, b, inputs, data=data, chosen=pairs_of(chosen), timeout=timeout)
    if as_json:
        echo_json(check_data(result))
    else:
        for line in check_lines(result, everything=everything):
            click.echo(line)
    code = result.verdict.outcome.exit_code
    ctx.exit(DIFFERENT if code == 0 and strict and result.training else code)


@command.command("weights")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@input_option
@click.option(
    "--out",
    required=True,
    type=OUT_FILE,
    help="Where B's weights go: .safetensors, .pt, .keras, .weights.h5, .msgpack.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="A's weights: .safetensors, .pt, .keras, .h5, .msgpack.",
)
@_map
@click.option("--unproved", is_flag=True, help="Write them even where the two networks answer differently.")
@click.option("--all", "everything", is_flag=True, help="Show every tensor.")
@timeout_option
@json_option
@click.pass_context
def weights_command(
    ctx: click.Context,
    a: str,
    b: str,
    inputs: tuple[str, ...],
    out: Path,
    checkpoint: Path | None,
    chosen: tuple[str, ...],
    unproved: bool,
    everything: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Move the weights of A into B, prove it by running both, and write B's weights.

    The other way round, name the sides the other way round. What B has and A lacks is asked for unless it can be
    neutral (a bias of 0). Nothing is written where the answers differ, unless you say --unproved.

    Exits with 0 if both give the same answers, 1 if they do not, 2 if something cannot be built, read or written,
    4 if it is not known whether they do.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.training.port.port_words import moved_data, moved_lines
    from zoolens.training.port.weights import move_weights

    with trouble(), spinner(f"{a} to {b}", "move weights and run both"):
        moved = move_weights(
            a,
            b,
            inputs,
            out,
            checkpoint=checkpoint,
            chosen=pairs_of(chosen),
            unproved=unproved,
            timeout=timeout,
        )
    if as_json:
        echo_json(moved_data(moved))
    else:
        for line in moved_lines(moved, everything=everything):
            click.echo(line)
    ctx.exit(moved.verdict.outcome.exit_code)


command.add_command(scaffold_command)
command.add_command(train_command)
