"""Whom a model is compared with: the run that is meant, and the models that answer most like it to the same inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import Result
from zoolens.base.store.records import Run, RunKind
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.behaviour import agreement_of
from zoolens.findings.comparisons.compatibility import Compatibility, compare_interfaces, interface_of
from zoolens.findings.comparisons.contents import without_replaced
from zoolens.findings.comparisons.runs import close_names, formats_read, in_runtime, runs_of
from zoolens.findings.comparisons.signatures import (
    Signature,
    default_dataset,
    probe_runs,
    signature_or_reason,
    task_of,
)
from zoolens.inventory.catalog.names import bare
from zoolens.inventory.tasks.task import task_named


@dataclass(frozen=True)
class Neighbour:
    """A model of the panel and how often it answers like the first of them. The first is the model itself."""

    run: Run
    agreement: float

    @property
    def name(self) -> str:
        return _model_name(self.run)


@dataclass(frozen=True, repr=False)
class PanelResult(Result):
    """What was found of a model and its nearest equivalents."""

    panel: tuple[Neighbour, ...]

    @property
    def run(self) -> Run:
        return self.panel[0].run

    @property
    def dataset(self) -> str:
        return self.run.dataset.name

    def panel_data(self) -> list[dict[str, Any]]:
        return [
            {"model": near.run.ref, "run": near.run.id, "runtime": near.run.stack.runtime, "agreement": near.agreement}
            for near in self.panel
        ]


def reference_run(store: Store, model: str, data: str | None, runtime: str | None) -> Run:
    """The run that is meant by a model's name."""
    runs = runs_of(store, model, data=data, runtime=runtime)
    if not runs:
        close = " ".join(f"Did you mean {close_name}?" for close_name in close_names(store, model))
        raise ZoolensError(
            f"{model} was not measured{f' on {data}' if data else ''}{f' in {runtime}' if runtime else ''}.",
            hint=close or f"Run: zoolens eval {model} --data {quote(data or 'DATA')}.",
        )
    chosen = default_dataset(probe_runs(store, kind=runs[0].kind), {run.key.dataset for run in runs})
    return min((run for run in runs if run.key.dataset == chosen), key=lambda run: formats_read(run.stack.runtime))


def nearest_models(
    store: Store, ours: Signature, runtime: str | None
) -> tuple[list[tuple[Neighbour, Compatibility]], list[str]]:
    """All other models that can be compared on the same inputs, nearest first, and notes on those that are left out:
    whose answers cannot be read, or whose agreement is not known."""
    interface = interface_of(ours.run)
    candidates, notes = [], []
    for run in _others(store, ours.run, runtime):
        fit = compare_interfaces(interface, interface_of(run))
        if not fit:
            continue
        theirs = signature_or_reason(store, run)
        if isinstance(theirs, str):
            notes.append(theirs)
            continue
        agreement = agreement_of(ours, theirs, fit)
        if np.isnan(agreement):
            notes.append(_not_known(ours, theirs))
        else:
            candidates.append((Neighbour(run, agreement), fit))
    if not candidates:
        raise ZoolensError(
            f"No other model was measured on {ours.run.dataset.name} that {ours.run.ref} can be compared with.",
            hint=" ".join(notes) or "Evaluate more models on the same data with `zoolens eval`.",
        )
    return sorted(candidates, key=lambda candidate: (-candidate[0].agreement, candidate[0].name)), notes


def _not_known(ours: Signature, theirs: Signature) -> str:
    reason = (
        task_named(ours.main.task).unknown_agreement(ours.main, theirs.main) or "how far the two agree is not known"
    )
    return f"{theirs.run.ref} in {theirs.run.stack.runtime} is left out: {reason}."


def _model_name(run: Run) -> str:
    """Trainings of one recipe share its name, and are different models."""
    return f"{run.ref} {run.id[:8]}" if run.kind is RunKind.TRAINING else bare(run.ref)


def _others(store: Store, run: Run, runtime: str | None) -> Iterable[Run]:
    """Return one run of each other model on the same dataset, in the same environment or runtime if possible."""
    chosen: dict[str, tuple[tuple[bool, bool, int], Run]] = {}
    everyone = probe_runs(store, task=task_of(run), kind=run.kind)
    beside = [other_run for other_run in everyone if other_run.key.dataset == run.key.dataset]
    for other in (
        beside if run.kind is RunKind.TRAINING else without_replaced(beside, everyone)
    ):  # none replaces another
        name = _model_name(other)
        if name == _model_name(run) or not in_runtime(other, runtime):
            continue
        merit = (
            other.key.stack == run.key.stack,
            other.stack.runtime == run.stack.runtime,
            -formats_read(other.stack.runtime),
        )
        if name not in chosen or chosen[name][0] < merit:
            chosen[name] = (merit, other)
    return [run for _, run in chosen.values()]
