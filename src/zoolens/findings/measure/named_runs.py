"""What users give where a run is meant: its name, or what another call returned."""

from __future__ import annotations

from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Run
from zoolens.findings.measure.plan import Outcome
from zoolens.inventory.catalog.lookup import model_text
from zoolens.inventory.zoos.zoo import Entry

NamedRun = str | Run | Outcome
RunOrModel = str | Path | Entry | Run | Outcome


def run_text(named: RunOrModel) -> str:
    """Returns the id of a run, or the name of a model, as the store finds it."""
    if isinstance(named, Run):
        return named.id
    if not isinstance(named, Outcome):
        return model_text(named)
    if named.run is None:
        reasons = " ".join((*named.errors, named.skipped or ""))
        raise ZoolensError(f"{named.title} has no run: {reasons or 'nothing was measured.'}")
    return named.run.id
