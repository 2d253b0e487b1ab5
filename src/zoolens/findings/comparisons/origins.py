"""Back from a run to its data, opened again."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.base.errors import DatasetError
from zoolens.base.store.records import Run
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import open_dataset


@dataclass(frozen=True)
class DataOrigin:
    """Where the inputs of a run lie, as `open_dataset` takes it."""

    data: str
    limit: int | None = None
    seed: int | None = None


def data_origin(run: Run) -> DataOrigin:
    """Refused where the run does not record where its dataset is, as trainings and runs of others do not."""
    data, limit, seed = (run.origin.get(name) for name in ("data", "limit", "seed"))
    counted = all(number is None or isinstance(number, int) for number in (limit, seed))
    if not data or not isinstance(data, str) or not counted:
        raise DatasetError(
            f"Run {run.id[:8]} does not record where its dataset is.", hint="Evaluate it again with `zoolens eval`."
        )
    return DataOrigin(data, limit, seed)


def data_changed(whose: str, data: str) -> DatasetError:
    """What is said where the data have another content than they had. `whose`: such as "run 1a2b3c4d"."""
    return DatasetError(
        f"The dataset at {data} is not that of {whose}: its content has changed.",
        hint="Restore the dataset, or start a new evaluation.",
    )


def open_inputs(run: Run) -> Dataset:
    """The inputs of a run in their order; refused where the data are gone or have changed."""
    origin = data_origin(run)
    dataset = open_dataset(origin.data, limit=origin.limit, seed=origin.seed)
    if dataset.fingerprint() != run.dataset.fingerprint:
        dataset.close()
        raise data_changed(f"run {run.id[:8]}", origin.data)
    return dataset
