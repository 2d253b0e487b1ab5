"""From what a user writes for two sides to their jobs and the dataset that both are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.comparisons.reproduce import job_of_run
from zoolens.findings.divergence.side_names import job_named, parse_side
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.catalog.names import is_run
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import NamedData
from zoolens.inventory.zoos.zoo import Entry


@dataclass(frozen=True)
class NamedSides:
    jobs: tuple[Job, Job]
    runs: Mapping[int, Run]  # by place, where a side is a stored run
    asked: NamedData  # as the user named it
    inputs: DataOrigin  # what is opened: the dataset asked for, else that of a stored run

    def version_notes(self) -> Iterator[str]:
        """Yield a note for each stored run that was made with other versions than those here, which are compared."""
        for place, run in self.runs.items():
            version = self.jobs[place].stack.version
            if run.stack.version != version:
                yield (
                    f"{'AB'[place]}: run {run.id[:8]} was made with {run.stack.runtime} {run.stack.version}, and "
                    f"{version} is what computes here; name the old one as MODEL@RUNTIME:env=PACKAGES."
                )

    def dataset_notes(self, dataset: Dataset) -> Iterator[str]:
        """Yield a note for each stored run whose own dataset has changed since."""
        if self.asked != NamedData():
            return
        for run in self.runs.values():
            if run.dataset.fingerprint != dataset.fingerprint():
                yield f"The data have changed since run {run.id[:8]} was made: the comparison is of today's."


def name_sides(
    names: tuple[str, str],
    asked: NamedData,
    store: Store | str | Path | None,
    *,
    entries: Mapping[int, Entry],
    allow_code: bool,
    progress: Progress,
) -> NamedSides:
    """Return the jobs of both sides, and the dataset they run on. `entries`: models that came with their files, by
    place."""
    places = [place for place, name in enumerate(names) if is_run(name) and not Path(name).exists()]
    runs: dict[int, Run] = {}
    if places:
        with borrowed_store(store, must_exist=True) as opened:
            runs = {place: opened.measured_run(names[place]) for place in places}
    jobs = []
    for place, name in enumerate(names):
        if place in runs:
            jobs.append(job_of_run(runs[place], allow_code=allow_code))
        else:
            side = parse_side(name)
            jobs.append(job_named(side, entry=entries.get(place), allow_code=allow_code, progress=progress))
    return NamedSides((jobs[0], jobs[1]), runs, asked, _inputs(asked, runs))


def _inputs(asked: NamedData, runs: Mapping[int, Run]) -> DataOrigin:
    if asked.data is not None:
        return DataOrigin(asked.data, asked.limit, asked.seed)
    origins = [run.origin for run in runs.values() if run.origin.get("data")]
    if not origins:
        raise ZoolensError("No dataset given.", hint="Add --data; only stored runs bring their data along.")
    if len({run.dataset.fingerprint for run in runs.values()}) > 1:
        raise ZoolensError("The two runs were made on different data.", hint="Name the data with --data.")
    origin = origins[0]
    seed = asked.seed if asked.seed is not None else origin["seed"]
    return DataOrigin(origin["data"], asked.limit or origin["limit"], seed)
