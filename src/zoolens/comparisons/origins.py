"""Back from a run to what it was made from: its data, opened again, and its model as the store knows it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from zoolens.datasets.base import Dataset
from zoolens.datasets.opening import open_dataset
from zoolens.errors import AssetError, DatasetError, ModelError
from zoolens.manifests.locations import model_fingerprint, resolve_asset
from zoolens.manifests.schema import Manifest
from zoolens.store.records import Run
from zoolens.zoos.base import Entry, Weights


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


def check_model(entry: Entry, run: Run) -> None:
    """ModelError unless the run was made with what the model's files hold today."""
    contents = set()
    for asset in entry.manifest.assets:
        with suppress(AssetError):  # one that is not here cannot have been read
            files = resolve_asset(asset, entry.folder, fetch=False)
            contents.add(model_fingerprint(entry.manifest, asset, files))
    if run.key.model not in contents:
        raise ModelError(
            f"Run {run.id[:8]} of {run.ref} was made with other files than those that are there today.",
            hint=f"Measure it again: zoolens eval {run.ref} --data {run.origin.get('data') or 'DATA'}.",
        )


def stored_entry(run: Run) -> Entry:
    """The model of a run, also where its zoo lists it otherwise by now."""
    folder = run.origin.get("folder")
    try:
        manifest = Manifest.model_validate(run.origin.get("manifest"))
    except ValidationError as error:
        raise ModelError(
            f"Run {run.id[:8]} does not say where its model lies.", hint="Evaluate it again with `zoolens eval`."
        ) from error
    return Entry(run.ref.partition(":")[0], manifest, Weights.PRESENT, Path(folder) if folder else None)
