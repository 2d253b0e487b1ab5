"""CrossedWires as the plug-in that the core asks about published studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from zoolens.base.errors import DatasetError
from zoolens.base.store.store import Store
from zoolens.contrib.crossedwires.design import PUBLISHED_SPACE, published_points
from zoolens.contrib.crossedwires.paper import compare_with_paper, is_released
from zoolens.contrib.crossedwires.released import hits, published_search
from zoolens.contrib.crossedwires.trials import ARCHITECTURES, TEST_SAMPLES, import_published, read_published
from zoolens.training.crosstrain.study.analysis.collapsed import Labels
from zoolens.training.crosstrain.study.published import Imported, PaperComparison, PublishedStudy
from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.crosstrain.training.trials import Study


class CrossedWires(PublishedStudy):
    space = PUBLISHED_SPACE
    search = published_search()

    def is_in(self, folder: Path) -> bool:
        return any(folder.glob("*_trials_clean.csv"))

    def read(self, folder: Path) -> tuple[Study, ...]:
        return read_published(folder)

    def import_into(self, store: Store, folder: Path, progress: Callable[[int, int], None] | None = None) -> Imported:
        return import_published(store, folder, progress)

    def is_released(self, study: Study) -> bool:
        return is_released(study)

    def compare_with_paper(self, store: Store, labels: Labels | None) -> PaperComparison:
        if labels is not None and len(labels) != TEST_SAMPLES:
            raise DatasetError(
                f"There are {len(labels):,} labels, and the published study has {TEST_SAMPLES:,} test samples.",
                hint="Give the labels of CIFAR-10's test set, in its order.",
            )
        known = study_names(store)
        names = (f"crossedwires-{architecture}" for architecture in ARCHITECTURES)
        return compare_with_paper([read_study(store, name) for name in names if name in known], labels)

    def points(self, axes: Sequence[Axis], seed: int) -> Iterator[Point]:
        return published_points(axes, seed)

    def hits(self, points: tuple[Point, ...], study: Study) -> int:
        return hits(points, study)
