"""Back from a run to its data, opened again."""

from __future__ import annotations

from zoolens.datasets.base import Dataset
from zoolens.datasets.opening import open_dataset
from zoolens.errors import DatasetError
from zoolens.store.records import Run


def open_inputs(run: Run) -> Dataset:
    """The inputs of a run in their order; refused where the data are gone or have changed."""
    origin = run.origin
    if not origin.get("data"):
        raise DatasetError(
            f"Run {run.id[:8]} does not say where its data lie.", hint="Evaluate it again with `zoolens eval`."
        )
    dataset = open_dataset(origin["data"], limit=origin.get("limit"), seed=origin.get("seed"))
    if dataset.fingerprint() != run.dataset.fingerprint:
        dataset.close()
        raise DatasetError(
            f"The data at {origin['data']} are not those of run {run.id[:8]}: their content has changed.",
            hint="Restore the data, or start a new evaluation.",
        )
    return dataset
