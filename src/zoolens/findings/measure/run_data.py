"""One run as plain data: what `zoolens runs show --json` prints, and what the explorer gives for a download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zoolens.base.store.records import Observation, Run, RunKind, StageState
from zoolens.findings.measure.class_order import judged_right


def run_facts(run: Run) -> dict[str, Any]:
    """What sets a run apart in a list."""
    return {
        "id": run.id,
        "created": run.created.isoformat(),
        "attempt": run.key.attempt,
        "runtime": run.stack.runtime,
        "runtime_version": run.stack.version,
        "precision": run.precision,
        "purpose": purpose(run),
    }


def purpose(run: Run) -> str:
    """Whether somebody asked for it, or the doctor tried it."""
    return str(RunKind.TRIAL if run.kind is RunKind.TRIAL else RunKind.EVALUATION)


def run_data(run: Run, stages: Mapping[str, StageState], observations: Sequence[Observation]) -> dict[str, Any]:
    """Everything about a run, without the figures that were made in a wrong order of classes."""
    right = judged_right(run, observations)
    return {
        **run_facts(run),
        **asdict(run),
        "observations": [asdict(observation) for observation in right],
        "stages": {name: asdict(state) for name, state in stages.items()},
    }
