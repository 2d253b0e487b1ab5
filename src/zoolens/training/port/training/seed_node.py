"""The work of a node: it trains both sides under one seed that another machine asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import check_reachable
from zoolens.base.engine.executors.reports import job_progress
from zoolens.training.pairs.data.opening import opened_pipelines
from zoolens.training.pairs.loop.trainable_sides import opened_for_training
from zoolens.training.pairs.sides.network_sides import InputShape
from zoolens.training.port.training.kept_seeds import decided_by
from zoolens.training.port.training.paired import Training, TrainingRequest, beside_seed
from zoolens.training.port.training.seeds_elsewhere import check_same, check_start, run_fields


def train_seed_here(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Train, and give back the runs of A and B as plain data."""
    check_reachable(job["paths"])
    request = TypeAdapter(TrainingRequest).validate_python(job["request"])
    progress = job_progress()
    (seed,) = request.seeds
    with (
        opened_pipelines(
            request.data,
            [InputShape.parse(text) for text in request.inputs],
            epochs=request.length.epochs,
            seeds=job["recorded_seeds"],
            timeout=request.options.timeout,
            progress=progress,
        ) as data,
        opened_for_training(request.a, request.b, request.inputs, request.options) as pair,
    ):
        check_same(job["decided"], decided_by(pair, data.a, request.length, beside_seed(request, data)) or {})
        training = Training(pair, data, request.length, not request.own_init, progress)
        check_start(job["start"], training.start(seed))
        return [run_fields(run) for run in training.both(seed, f"seed {seed}")]
