"""`zoolens port train`: two networks of your own, trained side by side."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.exit_codes import trouble
from zoolens.faces.cli.options import json_option, on_option
from zoolens.faces.cli.port_data_options import DATA_OPTIONS
from zoolens.faces.cli.port_options import pairs_of
from zoolens.faces.cli.stores import store_option
from zoolens.training.pairs.data.batch_choice import AUGMENTATIONS


def port_recipe(context: click.Context, sides: tuple[str, ...], given: dict[str, Any]) -> Any:
    """The recipe of a file with the options that were given beside it, or that of two sides and all options."""
    from zoolens.base.safety.consent import require
    from zoolens.training.port.training.port_recipe import SUFFIXES, load_port_recipe, recipe_of_options, wish_of

    if len(sides) == 1 and sides[0].endswith(SUFFIXES):
        options = {
            name: value
            for name, value in given.items()
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        recipe = load_port_recipe(Path(sides[0]))
        require(wish_of(recipe, Path(sides[0])))
        return recipe_of_options({**recipe.model_dump(), **options})
    if len(sides) != 2:
        raise ZoolensError(
            f"Two sides are trained, and {len(sides)} were named.", hint="Name A and B, or one recipe.yaml."
        )
    if not given["input"]:
        raise ZoolensError("The shape of the networks' input is not known.", hint="Add --input, such as 3x32x32.")
    return recipe_of_options({**given, "a": sides[0], "b": sides[1]})


_OPTIONS = (
    click.option(
        "--input",
        "input",
        multiple=True,
        metavar="SHAPE",
        help="Shape of an input without the batch, channels first: 3x64x64; int:128 for whole numbers.",
    ),
    click.option(
        "--data",
        metavar="D",
        default="demo",
        show_default=True,
        help="What to train on: demo, fashion-mnist, cifar10-subset, a dataset with a train and a test split, or "
        "TRAIN|TEST, with values from 0 to 1; or your own data, my_data.py:batches: a function that returns a "
        "generator of (inputs, targets), arrays, a DataLoader or a tf.data.Dataset, or (train, test) of these.",
    ),
    click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Samples of one step."),
    click.option(
        "--epochs", type=click.IntRange(1), default=1, show_default=True, help="Number of passes over the data."
    ),
    click.option("--max-steps", type=click.IntRange(1), help="End after so many steps, whatever --epochs says."),
    click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="How often both are trained."),
    click.option("--own-init", is_flag=True, help="Each side keeps the weights it draws, instead of A's in both."),
    click.option(
        "--augmentation",
        type=click.Choice(AUGMENTATIONS),
        default="none",
        show_default=True,
        help="Augmentation of the images, the same for both sides.",
    ),
    click.option("--train-limit", type=click.IntRange(1), help="Samples to train on, of every class as many."),
    click.option("--test-limit", type=click.IntRange(1), help="Samples to test on, of every class as many."),
    click.option(
        "--map", "map", multiple=True, metavar="A=B", help="This tensor of A belongs to that tensor of B, by names."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(1),
        default=300.0,
        show_default=True,
        help="Seconds that one answer may take; training is asked for in parts of about a second.",
    ),
)


def training_options(function: Any) -> Any:
    """What decides about a paired training; the fields of a recipe have the same names."""
    for option in reversed((*_OPTIONS, *DATA_OPTIONS)):
        function = option(function)
    return function


@click.command("train")
@click.argument("sides", nargs=-1, required=True, metavar="A B | RECIPE.yaml")
@training_options
@click.option(
    "--lockstep",
    is_flag=True,
    help="Compare the first steps instead: every quantity in the order of computation, the first departure, its cause.",
)
@click.option(
    "--steps",
    default="1,2,10",
    show_default=True,
    metavar="N,N,…",
    help="Steps that --lockstep compares, counted from 1.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Share the difference out among the settings that differ, by training with some of them switched.",
)
@click.option(
    "--replicates",
    type=click.IntRange(2),
    default=4,
    show_default=True,
    help="Seeds of --explain, and as many fresh ones to verify it.",
)
@click.option("--no-keep", is_flag=True, help="Neither keep what is trained in the store nor look for it there.")
@store_option("makes")
@json_option
@on_option
@click.pass_context
def train_command(
    ctx: click.Context,
    /,
    sides: tuple[str, ...],
    lockstep: bool,
    steps: str,
    explain: bool,
    replicates: int,
    no_keep: bool,
    store: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Train A and B side by side, and say whether their results agree: my_torch.py:net my_keras.py:net --input 3x32x32.

    Each function returns its network with an optimizer and a loss: (net, optimizer, loss), a compiled Keras model, or a
    dictionary with network, optimizer, loss, scheduler, clip_norm, precision and so on. Both get the same weights and
    the same batches in the same order, once for each seed; the difference is reported with its interval and whether it
    is beyond seed noise.

    It may be interrupted: seeds that are done, and with --explain trainings, are kept in the store as trials of a
    study, and the same command goes on with the others, as long as your files, the data and the weights at the start
    are the same.

    With --lockstep both take the same first steps, and all that they compute is compared, layer by layer, to the first
    departure beyond rounding; its cause is proved by switching it on B. With --explain the difference over whole
    trainings is shared out among the settings that both sides can be given, and verified with fresh seeds.

    With --on the seeds are trained on other machines of the same kind, one job a seed.

    With --data-b each side has its own data: both streams are compared first, and how they differ is told.

    Exits with 0 if they are the same (up to seed noise; with --lockstep, up to rounding), 1 if they differ or if one
    side alone did not stay finite, 4 if that is not known, as with one seed, 2 if something cannot be trained.
    """
    from zoolens.base.engine.executors.current_executor import current_executor
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.port_comparisons import explained, in_lockstep
    from zoolens.training.port.training.paired import train_pair
    from zoolens.training.port.training.paired_words import paired_data, paired_lines

    with trouble():
        if lockstep and explain:
            raise ZoolensError("--lockstep and --explain are two questions.", hint="Ask one after the other.")
        if (lockstep or explain) and current_executor().elsewhere:
            option = "--lockstep" if lockstep else "--explain"
            raise ZoolensError(f"{option} trains on this machine only.", hint="Leave --on out; it shares out seeds.")
        recipe = port_recipe(ctx, sides, {**given, "map": pairs_of(given["map"])})
        if lockstep:
            ctx.exit(in_lockstep(recipe, steps, as_json=as_json))
        if explain:
            with nullcontext() if no_keep else open_store(store) as opened:
                ctx.exit(explained(recipe, replicates, opened, as_json=as_json))
        with nullcontext() if no_keep else open_store(store) as opened, Bars(lines=True) as bars:
            result = train_pair(recipe.request(), store=opened, progress=bars)
    if as_json:
        echo_json(paired_data(result))
    else:
        for line in paired_lines(result):
            click.echo(line)
    ctx.exit(result.verdict.outcome.exit_code)
