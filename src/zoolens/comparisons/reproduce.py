"""Run a stored run again, from what the store alone knows, and say which figures hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolens.comparisons.paired import Figure, Report, compare_runs
from zoolens.comparisons.stacks import Difference
from zoolens.datasets.opening import open_dataset
from zoolens.errors import ZoolensError
from zoolens.manifests.schema import Manifest
from zoolens.measure.evaluate import EvaluationPlan, run_job
from zoolens.measure.intervals import Interval
from zoolens.measure.jobs import Job, Wanted, plan_jobs
from zoolens.measure.progress import Progress, Silent
from zoolens.runtimes.base import Options
from zoolens.store.records import Observation, Run
from zoolens.store.store import Store, open_store
from zoolens.zoos.base import Entry, Weights

DRIFTING = ("latency_", "throughput", "clean_share", "cold_start", "peak_memory")
SLACK = {"s": 0.05, "inputs/s": 0.05, "B": 0.02}  # intervals of one sitting are narrower than the machine's moods


@dataclass(frozen=True)
class Verdict:
    figure: Figure
    inside: bool


@dataclass(frozen=True)
class Reproduction:
    original: Run
    again: Run
    verdicts: tuple[Verdict, ...]
    environment: tuple[Difference, ...]
    report: Report

    @property
    def holds(self) -> bool:
        """Timings may drift; answers may not."""
        return all(verdict.inside for verdict in self.verdicts if not verdict.figure.metric.startswith(DRIFTING))


def reproduce(
    run: str, *, store: Store | str | Path | None = None, allow_code: bool = False, progress: Progress | None = None
) -> Reproduction:
    opened = store if isinstance(store, Store) else open_store(store)
    original = opened.run(run)
    job = _same_job(original, allow_code)
    spec = original.dataset.details
    dataset = open_dataset(spec["spec"], limit=spec.get("limit"), seed=spec.get("seed"))
    if dataset.fingerprint() != original.dataset.fingerprint:
        raise ZoolensError(
            f"The data at {spec['spec']} is not what run {original.id[:8]} used: its content has changed.",
            hint="Restore the data, or start a new evaluation.",
        )
    stages = opened.stages(original.id)
    plan = EvaluationPlan(
        models=[original.model.ref],
        data=spec["spec"],
        limit=spec.get("limit"),
        seed=spec.get("seed"),
        batches=tuple(int(name.rpartition("=")[2]) for name in stages if name.startswith("latency:")),
        accuracy="predictions" in stages,
        cold="cold" in stages,
        fresh=True,
    )
    outcome = run_job(job, plan, dataset, opened, progress or Silent())
    if outcome.run is None or outcome.errors:
        raise ZoolensError(f"The run could not be repeated: {'; '.join(outcome.errors)}")
    report = compare_runs(opened, original, outcome.run)
    verdicts = tuple(
        Verdict(figure, inside(figure.a, figure.b)) for figure in report.figures if figure.b.value is not None
    )
    return Reproduction(original, outcome.run, verdicts, report.environment, report)


def inside(original: Observation, again: Observation) -> bool:
    """Is the new value inside the old interval (with the unit's slack), or equal where there is none?"""
    if original.value is None or again.value is None:
        return original.value == again.value
    slack = SLACK.get(original.unit, 0.0) * abs(original.value)
    if original.low is None or original.high is None:
        return abs(again.value - original.value) <= max(slack, 1e-9 * abs(original.value))
    return Interval(original.low - slack, original.high + slack).contains(again.value)


def _same_job(original: Run, allow_code: bool) -> Job:
    """The job of a run, from its stored identity. Refuses when the model is not the one that was measured."""
    identity = original.stack.identity
    environment: Sequence[str] = identity.get("environment") or ()
    wanted = Wanted(
        runtimes=(original.stack.runtime,),
        environments=(",".join(environment),) if environment else (),
        options=Options(**identity["options"]),
        isolate=bool(environment),
        allow_code=allow_code,
    )
    jobs, skipped = plan_jobs([_stored_entry(original)], wanted)
    fitting = [job for job in jobs if job.model.fingerprint == original.model.fingerprint]
    if not fitting:
        if jobs:
            raise ZoolensError(
                f"{original.model.ref} is not the model that run {original.id[:8]} measured: "
                "its files or its preprocessing have changed.",
                hint="Use `zoolens eval` to measure it as it is now, then `zoolens compare`.",
            )
        raise ZoolensError("; ".join(one.reason for one in skipped) or f"{original.model.ref} cannot be run here.")
    return fitting[0]


def _stored_entry(run: Run) -> Entry:
    """The model as the store knows it: also when its zoo lists it otherwise by now."""
    folder = run.resolved.get("folder")
    manifest = Manifest.model_validate(run.model.manifest)
    zoo = run.model.ref.partition(":")[0]
    return Entry(zoo, manifest, Weights.PRESENT, Path(folder) if folder else None)
