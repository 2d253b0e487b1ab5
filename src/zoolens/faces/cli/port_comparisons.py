"""`zoolens port train --lockstep` and `--explain`: where two trainings part, and which settings make the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.bars import Bars
from zoolens.base.present.terminal import echo_json
from zoolens.base.verdicts import combined

if TYPE_CHECKING:
    from zoolens.base.store.store import Store
    from zoolens.training.pairs.data.batch import TrainingBatch
    from zoolens.training.pairs.data.opening import OpenData
    from zoolens.training.pairs.data.sources import BatchSource
    from zoolens.training.port.training.port_recipe import PortRecipe


def in_lockstep(recipe: PortRecipe, steps: str, *, as_json: bool) -> int:
    """Print the lockstep of the first steps; the exit code."""
    from zoolens.training.pairs.data.opening import opened_pipelines
    from zoolens.training.pairs.data.stream_comparison import stream_data
    from zoolens.training.pairs.lockstep.lockstep import lockstep
    from zoolens.training.pairs.lockstep.lockstep_words import lockstep_data, lockstep_lines
    from zoolens.training.pairs.sides.network_sides import InputShape

    wanted = _numbers(steps)
    shapes = [InputShape.parse(text) for text in recipe.input]
    with (
        Bars(lines=True) as bars,
        opened_pipelines(
            recipe.pipelines(), shapes, epochs=recipe.epochs, seeds=1, timeout=recipe.timeout, progress=bars
        ) as data,
    ):
        ours, theirs = (list(islice(_batches(one, recipe.epochs), max(wanted))) for one in (data.a, data.b))
        result = lockstep(
            recipe.a,
            recipe.b,
            recipe.input,
            ours,
            steps=wanted,
            batches_b=theirs if data.own else None,
            options=recipe.options(),
        )
    streams = data.compared
    verdict = result.verdict if streams is None else combined([streams.verdict, result.verdict])
    if as_json:
        told = {} if streams is None else {"streams": stream_data(streams), "own_data": data.own}
        echo_json({**lockstep_data(result), **told, **verdict.as_data()})
    else:
        click.echo("\n".join([*_stream_lines(data), *lockstep_lines(result)]))
    return verdict.outcome.exit_code


def _stream_lines(data: OpenData) -> list[str]:
    from zoolens.training.pairs.data.stream_comparison import stream_lines

    if data.compared is None:
        return []
    on = (
        "Each side takes the steps below on its own batches."
        if data.own
        else "Both take the steps below on A's batches."
    )
    return stream_lines(data.compared, on)


def explained(recipe: PortRecipe, replicates: int, store: Store | None, *, as_json: bool) -> int:
    """Print which settings make the gap; the exit code. `store`: where trainings that are done are kept."""
    from zoolens.training.pairs.data.opening import opened_data
    from zoolens.training.pairs.loop.single_run import Length
    from zoolens.training.pairs.sides.network_sides import InputShape
    from zoolens.training.port.training.explanation import ExplanationPlan, explain
    from zoolens.training.port.training.explanation_words import explanation_data, explanation_lines

    if recipe.data_b is not None:
        raise ZoolensError(
            "--explain trains both sides on one stream.",
            hint="Compare the two data pipelines with --lockstep first, and explain what is left without --data-b.",
        )
    shapes = [InputShape.parse(text) for text in recipe.input]
    with (
        Bars(lines=True) as bars,
        opened_data(
            recipe.choice(), shapes, epochs=recipe.epochs, seeds=2 * replicates, timeout=recipe.timeout, progress=bars
        ) as source,
    ):
        length = Length(recipe.epochs, recipe.max_steps)
        plan = ExplanationPlan(length, replicates, recipe.own_init, options=recipe.options())
        result = explain(recipe.a, recipe.b, recipe.input, source, plan, store=store, progress=bars)
    if as_json:
        echo_json({**explanation_data(result), **result.verdict.as_data()})
    else:
        click.echo("\n".join(explanation_lines(result)))
    return result.verdict.outcome.exit_code


def _numbers(steps: str) -> tuple[int, ...]:
    try:
        wanted = tuple(sorted({int(part) for part in steps.split(",")}))
    except ValueError:
        raise ZoolensError(
            f"--steps {steps[:40]} is not a list of whole numbers.", hint="Write --steps 1,2,10."
        ) from None
    if wanted[0] < 1:
        raise ZoolensError("Steps are counted from 1.", hint="Write --steps 1,2,10, for example.")
    return wanted


def _batches(source: BatchSource, epochs: int) -> Iterator[TrainingBatch]:
    for epoch in range(1, epochs + 1):
        last = source.epoch_steps(epoch, 0)
        for number, batch in enumerate(source.batches(epoch, 0), 1):
            yield replace(batch, ends_epoch=number == last)
