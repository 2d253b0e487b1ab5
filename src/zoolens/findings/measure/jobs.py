"""Which model is run how: models × runtimes × environments, each with the keys of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import ModelRecord, StackRecord
from zoolens.findings.measure.lock import resolve_stack
from zoolens.inventory.catalog.sessions import Placement, RunOptions, Skipped, placements
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.locations import model_fingerprint
from zoolens.inventory.tasks.task import task_named
from zoolens.inventory.zoos.zoo import Entry

__all__ = ["Job", "RunOptions", "Skipped", "plan_jobs"]


@dataclass(frozen=True)
class Job(Placement):
    """One model in one runtime in one environment: becomes one run."""

    @cached_property
    def stack(self) -> StackRecord:
        return resolve_stack(
            self.runtime,
            self.options,
            self.environment,
            self.isolate,
            self.manifest.decoder,
            [output.task for output in self.manifest.outputs],
            inputs=next((spec for spec in self.manifest.inputs if spec.tokenizer is not None), self.manifest.inputs[0]),
        )

    def for_data(self, dataset: Dataset) -> Job:
        """This job with the task that the dataset asks of it: a language model foresees texts, or chooses among
        continuations. What the run is filed under stays that of the manifest."""
        main, *others = self.manifest.outputs
        asked = task_named(main.task).by_truth.get(dataset.truth_kind or "")
        if asked is None:
            return self
        outputs = (main.model_copy(update={"task": asked}), *others)
        manifest = self.manifest.model_copy(update={"outputs": outputs})
        return replace(self, entry=replace(self.entry, manifest=manifest))

    @cached_property
    def model(self) -> ModelRecord:
        key = model_fingerprint(self.manifest, self.asset, self.paths)
        return ModelRecord(key, self.entry.full_ref, self.asset.format, self.manifest.model_dump(mode="json"))


def plan_jobs(
    entries: Sequence[Entry], wanted: RunOptions, progress: Progress | None = None
) -> tuple[list[Job], list[Skipped]]:
    """Every job that can be run, and what was asked for and cannot. Builds environments that are not there yet."""
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    for entry in entries:
        try:
            ways, passed_over = placements(entry, wanted, progress)
        except ZoolensError as error:
            skipped.append(Skipped(entry.ref, str(error)))
            continue
        jobs += [Job(*(getattr(way, part.name) for part in fields(Placement))) for way in ways]
        skipped += passed_over
    return jobs, skipped
