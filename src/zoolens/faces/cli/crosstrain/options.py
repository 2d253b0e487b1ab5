"""Options that several commands of the group have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from zoolens.training.crosstrain.training.manner import Manner

frameworks_option = click.option(
    "--with", "frameworks", multiple=True, metavar="FRAMEWORK", help="Trainer: torch, tensorflow or jax. Repeatable."
)
yaml_file = click.Path(exists=True, dir_okay=False, path_type=Path)


def manner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How to train, as far as it is no matter of the recipe."""
    for option in (
        click.option(
            "--keep-weights", is_flag=True, help="Keep the trained weights, to load them or to train on from them."
        ),
        click.option(
            "--threads", type=click.IntRange(1), default=None, help="Threads of each training; default: all cores."
        ),
        click.option("--device", default="cpu", show_default=True, help="Device to train on, such as cuda."),
        click.option(
            "--loop",
            type=click.Choice(["eager", "compiled"]),
            default=None,
            help="Training loop; default: eager for torch on a CPU, else compiled.",
        ),
    ):
        command = option(command)
    return command


def manner(chosen: dict[str, Any]) -> Manner:
    """Take the values of `manner_options` out of the chosen options."""
    from zoolens.training.crosstrain.training.manner import Manner

    return Manner(**{name: chosen.pop(name) for name in ("loop", "device", "threads", "keep_weights")})
