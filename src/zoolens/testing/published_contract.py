"""What every study that others published must do. A test class derives from `PublishedStudyContract`, names the class
and writes a folder with the released files, or with a few of their rows.

class TestMine(PublishedStudyContract):
    study_class = Mine

    def folder(self, tmp_path):
        return some_released_rows(tmp_path / "released")
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Provenance
from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.published import PublishedStudy
from zoolens.training.crosstrain.study.search.hyperspace import Axis, subspaces
from zoolens.training.crosstrain.study.stored_studies import read_study


class PublishedStudyContract:
    study_class: ClassVar[type[PublishedStudy]]

    def folder(self, tmp_path: Path) -> Path:
        """A folder with released files, which may have a few rows only."""
        raise NotImplementedError("say where the released files are")

    @pytest.fixture
    def published(self) -> PublishedStudy:
        return type(self).study_class()

    def test_its_files_are_recognised_and_read(self, published: PublishedStudy, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        studies = published.read(folder)
        assert published.is_in(folder)
        assert len({study.name for study in studies}) == len(studies) > 0
        assert all(study.trials and published.is_released(study) for study in studies)

    def test_another_folder_is_refused_in_a_sentence(self, published: PublishedStudy, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        assert not published.is_in(empty)
        with pytest.raises(ZoolensError):
            published.read(empty)

    def test_trials_are_filed_once_as_what_others_claim(self, published: PublishedStudy, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        trials = sum(len(study.trials) for study in published.read(folder))
        with open_store(tmp_path / "store.sqlite") as store:
            first, again = (published.import_into(store, folder) for _ in range(2))
            assert (first.written, first.kept, again.written, again.kept) == (trials, 0, 0, trials)
            for name in first.studies:
                filed = read_study(store, name)
                assert published.is_released(filed)
                runs = [str(side.run) for trial in filed.trials for side in trial.sides]
                provenances = [observation.provenance for run in runs for observation in store.observations(run)]
                assert Provenance.MEASURED not in provenances
            assert published.compare_with_paper(store, None).figures

    def test_its_search_begins_with_the_same_points_inside_its_space(self, published: PublishedStudy) -> None:
        axes = subspaces(published.space, published.search)[0].axes
        first, again = (list(islice(published.points(axes, 0), 5)) for _ in range(2))
        assert first == again
        for point in first:
            assert list(point) == [axis.name for axis in axes]
            assert all(_holds(axis, value) for axis, value in zip(axes, point.values(), strict=True))


def _holds(axis: Axis, value: Any) -> bool:
    return value in axis.choices if axis.choices else bool(axis.low <= value <= axis.high)
