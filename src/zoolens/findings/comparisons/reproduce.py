"""Run a stored run again, from what the store alone knows, and say which figures hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoolens.base.engine.environments import confirm_environment, parse_env
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.records import Observation, Run, Stage
from zoolens.base.store.scopes import context_tokens, parse_scope
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.compare import Report, compare_runs
from zoolens.findings.comparisons.model_difference import PARTS, differing_lines, lines_words
from zoolens.findings.comparisons.signatures import identical_share
from zoolens.findings.measure.class_order import data_classes, matched_by_name
from zoolens.findings.measure.job_runner import open_data, run_job
from zoolens.findings.measure.jobs import Job, RunOptions, plan_jobs
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.named_runs import NamedRun, run_text
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.current import current_entry, has_lost_manifest
from zoolens.inventory.catalog.stored import contents_of, stored_entry
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.runtimes.runtime_names import runtime_named

DRIFTING = (
    *("latency_", "throughput", "prefill_speed", "decode_speed"),
    *("clean_share", "cold_start", "peak_memory", "memory_context"),
)
OF_FILES = ("file_size", "parameters", "energy")  # neither a timing nor made of answers
# Intervals of one sitting are narrower than the machine's moods.
SLACK = {"s": 0.05, "inputs/s": 0.05, "tokens/s": 0.05, "B": 0.02}
_LOST = "The model's manifest is not found any more: it ran as the store describes it."


@dataclass(frozen=True)
class FigureVerdict:
    """One figure of the original; `now` is None where the repetition does not have it."""

    then: Observation
    now: Observation | None
    inside: bool

    @property
    def drifts(self) -> bool:
        """A timing or another figure of the machine's, which may be otherwise every time."""
        return self.then.metric.startswith(DRIFTING)


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    original: Run
    again: Run
    verdicts: tuple[FigureVerdict, ...]
    report: Report
    identical: float | None = None  # share of inputs whose raw outputs are bit-equal; None: there are no answers
    notes: tuple[str, ...] = ()

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each figure of the original run."""
        rows = [
            {
                "metric": one.then.metric,
                "scope": one.then.scope,
                "then": one.then.value,
                "now": None if one.now is None else one.now.value,
                "inside": one.inside,
                "drifts": one.drifts,
            }
            for one in self.verdicts
        ]
        return frame(rows, "Reproduction.frame")

    @property
    def holds(self) -> bool:
        """Timings may drift; answers may not."""
        return all(verdict.inside for verdict in self.verdicts if not verdict.drifts)


def reproduce(
    run: NamedRun,
    *,
    store: Store | str | Path | None = None,
    allow_code: bool = False,
    trust: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    with trusting(trust), borrowed_store(store, must_exist=True) as opened:
        original = opened.measured_run(run_text(run))
        again = _repeat(opened, original, allow_code, progress or Silent())
        report = compare_runs(opened, original, again)
        then, now = opened.observations(original.id), opened.observations(again.id)
        equal = identical_share(opened, original, again)
    notes = (_LOST,) if has_lost_manifest(original) else ()
    return Reproduction(original, again, tuple(verdicts(then, now, same_answers=equal == 1)), report, equal, notes)


def verdicts(
    then: Sequence[Observation], now: Sequence[Observation], *, same_answers: bool = False
) -> Iterator[FigureVerdict]:
    """One for every figure the original has; a figure that is gone is not reproduced. With the same answers bit by bit
    every figure that is made of answers holds, whatever its interval says."""
    repeated = {(original.metric, original.scope): original for original in now}
    for original in then:
        if original.value is not None:
            again = repeated.get((original.metric, original.scope))
            held = same_answers and not original.metric.startswith((*DRIFTING, *OF_FILES))
            yield FigureVerdict(original, again, again is not None and (held or inside(original, again)))


def _repeat(store: Store, original: Run, allow_code: bool, progress: Progress) -> Run:
    """Run it again as a new attempt, with the settings it was measured with."""
    job = job_of_run(original, allow_code)
    origin = original.origin
    plan = _same_plan(store, original)
    with closing(open_data(origin["data"], origin["limit"], origin["seed"])) as dataset:
        if dataset.fingerprint() != original.dataset.fingerprint:
            raise ZoolensError(
                f"The data at {origin['data']} is not what run {original.id[:8]} used: its content has changed.",
                hint="Restore the dataset, or start a new evaluation.",
            )
        if matched_by_name(original) and data_classes(original) != dataset.classes:
            raise ZoolensError(
                f"The class names of {origin['data']} have changed since run {original.id[:8]}, and "
                "names decide which output is which class.",
                hint="Restore the names, or start a new evaluation.",
            )
        outcome = run_job(job, plan, dataset, store, progress)
    if outcome.run is None or outcome.errors:
        raise ZoolensError(f"The run could not be repeated: {'; '.join(outcome.errors)}")
    return outcome.run


def _same_plan(store: Store, original: Run) -> EvaluationPlan:
    stages = store.stages(original.id)
    latencies = Stage.LATENCY.parts(stages)
    settings = next((stages[name].details for name in latencies.values() if stages[name].details), {})
    return EvaluationPlan(
        models=[original.ref],
        data=original.origin["data"],
        limit=original.origin["limit"],
        seed=original.origin["seed"],
        batches=tuple(int(parse_scope(scope).value) for scope in latencies),
        contexts=tuple(sorted({context_tokens(scope) for scope in Stage.GENERATION.parts(stages)})),
        accuracy=Stage.PREDICTIONS in stages,
        cold=Stage.COLD in stages,
        fresh=True,
        latency=LatencySettings(**settings),
        cold_repeats=stages[Stage.COLD].details.get("repeats", 1) if Stage.COLD in stages else 1,
    )


def inside(original: Observation, again: Observation) -> bool:
    """Is the new value the old one, or inside its interval (with the unit's slack)?"""
    if original.value == again.value or original.value is None or again.value is None:
        return original.value == again.value
    slack = SLACK.get(original.unit, 0.0) * abs(original.value)
    if original.low is None or original.high is None:
        return abs(again.value - original.value) <= max(slack, 1e-6 * abs(original.value), 1e-6)
    return Interval(original.low - slack, original.high + slack).contains(again.value)


def job_of_run(original: Run, allow_code: bool = False) -> Job:
    """The job of a run, from its stored identity. Refuses when the model is not the one that was measured."""
    identity = original.stack.identity
    environment: Sequence[str] = identity.get("environment") or ()
    if environment:
        runtime = runtime_named(original.stack.full_runtime)
        asked_by = f"Run {original.id[:8]} of the store"
        confirm_environment(parse_env(",".join(environment)), runtime.requirements, asked_by)
    wanted = RunOptions(
        runtimes=(original.stack.full_runtime,),
        environments=(",".join(environment),) if environment else (),
        options=Options(**identity["options"]),
        isolate=bool(identity.get("isolated")),
        allow_code=allow_code,
    )
    _refuse_other_manifest(original)
    jobs, skipped = plan_jobs([stored_entry(original)], wanted)
    fitting = [job for job in jobs if job.model.fingerprint == original.model.fingerprint]
    if not fitting:
        if jobs:
            raise ZoolensError(
                f"{original.ref} is not the model that run {original.id[:8]} measured: "
                "its files or its preprocessing have changed.",
                hint="Use `zoolens eval` to measure it as it is now, then `zoolens compare`.",
            )
        raise ZoolensError(
            "; ".join(reason_skipped.reason for reason_skipped in skipped) or f"{original.ref} cannot be run here."
        )
    return fitting[0]


def _refuse_other_manifest(original: Run) -> None:
    """The stored manifest would run as well, but today's model is another one where its manifest says otherwise."""
    today = current_entry(original)
    if today is None or original.model.fingerprint in contents_of(today):
        return
    stored = stored_entry(original)
    if original.model.fingerprint not in contents_of(stored):
        # The files themselves have changed, which is said where they are opened.
        return
    then, now = (entry.manifest.model_dump(mode="json") for entry in (stored, today))
    lines = [line for part in PARTS for line in differing_lines(part, then.get(part), now.get(part))]
    shown = lines_words(lines) or "its files"
    raise ZoolensError(
        f"The manifest of {original.ref} is not the one that run {original.id[:8]} measured: {shown}.",
        hint="Use `zoolens eval` to measure it as it is now, then `zoolens compare`.",
    )
