"""`zoolens port train --lockstep` and `--explain`: where two trainings part, and which settings make the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import click

from zoolens.cli.bars import Bars
from zoolens.cli.port_options import DIFFERENT
from zoolens.errors import ZoolensError
from zoolens.present.terminal import echo_json

if TYPE_CHECKING:
    from zoolens.port.training.data.batch import TrainingBatch
    from zoolens.port.training.data.sources import BatchSource
    from zoolens.port.training.port_recipe import PortRecipe
    from zoolens.store.store import Store


def in_lockstep(recipe: PortRecipe, steps: str, *, as_json: bool) -> int:
    """Print the lockstep of the first steps; the exit code."""
    from zoolens.port.sides import InputShape
    from zoolens.port.training.data.opening import opened_data
    from zoolens.port.training.lockstep import lockstep
    from zoolens.port.training.lockstep_words import lockstep_data, lockstep_lines

    wanted = _numbers(steps)
    shapes = [InputShape.parse(text) for text in recipe.input]
    with (
        Bars(lines=True) as bars,
        opened_data(
            recipe.choice(), shapes, epochs=recipe.epochs, seeds=1, timeout=recipe.timeout, progress=bars
        ) as source,
    ):
        batches = list(islice(_batches(source, recipe.epochs), max(wanted)))
        result = lockstep(
            recipe.a, recipe.b, recipe.input, batches, steps=wanted, chosen=recipe.map, timeout=recipe.timeout,
            device=recipe.device,
        )  # fmt: skip
    if as_json:
        echo_json(lockstep_data(result))
    else:
        click.echo("\n".join(lockstep_lines(result)))
    return result.verdict.outcome.exit_code


def explained(recipe: PortRecipe, replicates: int, store: Store | None, *, as_json: bool) -> int:
    """Print which settings make the gap; the exit code. `store`: where trainings that are done are kept."""
    from zoolens.port.sides import InputShape
    from zoolens.port.training.data.opening import opened_data
    from zoolens.port.training.explanation import explain
    from zoolens.port.training.explanation_words import explanation_data, explanation_lines
    from zoolens.port.training.single_run import Length

    shapes = [InputShape.parse(text) for text in recipe.input]
    with (
        Bars(lines=True) as bars,
        opened_data(
            recipe.choice(), shapes, epochs=recipe.epochs, seeds=2 * replicates, timeout=recipe.timeout, progress=bars
        ) as source,
    ):
        result = explain(
            recipe.a, recipe.b, recipe.input, source, Length(recipe.epochs, recipe.max_steps), replicates=replicates,
            own_init=recipe.own_init, chosen=recipe.map, timeout=recipe.timeout, device=recipe.device, store=store,
            progress=bars,
        )  # fmt: skip
    if as_json:
        echo_json(explanation_data(result))
    else:
        click.echo("\n".join(explanation_lines(result)))
    return DIFFERENT if result.pair.beyond_noise else 0


def _numbers(steps: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in steps.split(",")}))
    except ValueError:
        raise ZoolensError(f"--steps {steps[:40]} is no list of whole numbers.", hint="Write --steps 1,2,10.") from None


def _batches(source: BatchSource, epochs: int) -> Iterator[TrainingBatch]:
    for epoch in range(1, epochs + 1):
        last = source.epoch_steps(epoch, 0)
        for number, batch in enumerate(source.batches(epoch, 0), 1):
            yield replace(batch, ends_epoch=number == last)
