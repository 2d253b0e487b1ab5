"""`zoolens crosstrain diff A B`: how two frameworks' versions of an architecture differ, before any training."""

from __future__ import annotations

from typing import Final

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.options import json_option

_DIGITS: Final = 4  # of the largest extent


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--classes", type=click.IntRange(2), default=10, show_default=True, help="Number of classes.")
@click.option(
    "--input", "shape", default="3x32x32", show_default=True, help="Shape of an image: channels, height and width."
)
@click.option("--brief", is_flag=True, help="Leave out the evidence for each difference.")
@json_option
def diff(a: str, b: str, classes: int, shape: str, brief: bool, as_json: bool) -> None:
    """List every difference in definition and defaults: torch:resnet50 keras:resnet50.

    Both are built, and looked at: layers, biases, dropout, strides, padding, norms, initial weights, optimizers, loss.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.training.crosstrain.training.diff.recipe_diff_words import as_data, lines
    from zoolens.training.crosstrain.training.diff.static_diff import static_diff

    with spinner(f"{a} and {b}", "read definitions and defaults"):
        result = static_diff(a, b, classes=classes, input_shape=_shape(shape))
    if as_json:
        echo_json(as_data(result))
        return
    for line in lines(result, evidence=not brief):
        click.echo(line)


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.replace("×", "x").split("x")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) <= _DIGITS and int(part) for part in parts):
        raise ZoolensError(f"{text[:40]!r} is not a size of an image.", hint="Write channels, height, width: 3x32x32.")
    channels, height, width = map(int, parts)
    return channels, height, width
