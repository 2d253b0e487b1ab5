"""What the commands of `zoolens port` share: options, and what --map says."""

from __future__ import annotations

import click

from zoolens.base.errors import ZoolensError

input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="SHAPE",
    help="Shape of an input without the batch, channels first: 3x64x64; int:128 for whole numbers. One for each input.",
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds that one answer may take."
)


def pairs_of(chosen: tuple[str, ...]) -> dict[str, str]:
    """What --map says: tensors of A to tensors of B."""
    pairs = {}
    for text in chosen:
        a, sign, b = text.partition("=")
        if not (a and sign and b):
            raise ZoolensError(f"{text[:80]!r} maps nothing.", hint="Write --map name_in_A=name_in_B.")
        pairs[a] = b
    return pairs
