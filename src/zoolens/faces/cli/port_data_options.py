"""Options of `zoolens port` for data of one's own and for the device; the fields of a recipe have the same names."""

from __future__ import annotations

from pathlib import Path

import click

DATA_OPTIONS = (
    click.option("--test-data", metavar="D", help="The held-out part, where --data is a function that has none."),
    click.option(
        "--data-b", metavar="D", help="B's own data, where they are not those of --data; both are compared first."
    ),
    click.option("--test-data-b", metavar="D", help="The held-out part of B's own data."),
    click.option(
        "--train-on",
        type=click.Choice(["a", "own"]),
        default="a",
        show_default=True,
        help="With --data-b: train both on A's data, or each on its own.",
    ),
    click.option(
        "--data-order",
        type=click.Choice(["channels_first", "channels_last"]),
        help="Where your own images have their channels, if their shape does not show it.",
    ),
    click.option("--epoch-steps", type=click.IntRange(1), help="Batches of an epoch, for a stream that never ends."),
    click.option(
        "--record",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Keep the recording of your own data here, or replay the one that is here.",
    ),
    click.option(
        "--record-limit",
        type=click.FloatRange(0, min_open=True),
        default=8.0,
        show_default=True,
        metavar="GIB",
        help="How large a recording may become.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "gpu"]),
        default="cpu",
        show_default=True,
        help="Where both sides compute; on a GPU with TF32 off.",
    ),
)
