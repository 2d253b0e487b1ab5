"""What every dataset must do. A test class derives from `DatasetContract` and opens a small dataset.

class TestMine(DatasetContract):
    def opened(self, tmp_path):
        return open_mine(write_a_small_dataset(tmp_path))

`opened` is called again to show that the fingerprint depends on content: it must write the same content every time.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.subset import Subset
from zoolens.inventory.datasets.truth import Truth

LOOKED_AT = 30  # samples that are compared one by one


class DatasetContract:
    def opened(self, tmp_path: Path) -> Dataset:
        """A small dataset, written below `tmp_path` if need be."""
        raise NotImplementedError

    def opened_with_another_truth(self, tmp_path: Path) -> Dataset | None:
        """Opens the inputs of `opened` with one truth changed, such as a side of a box; None: truths are classes."""
        return None

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Dataset:
        return self.opened(tmp_path)

    @staticmethod
    def looked_at(dataset: Dataset) -> range:
        return range(min(len(dataset), LOOKED_AT))

    @staticmethod
    def assert_same(first: Sample, second: Sample) -> None:
        assert (first.id, first.label) == (second.id, second.label)
        assert first.value.dtype == second.value.dtype
        np.testing.assert_array_equal(first.value, second.value)

    @staticmethod
    def assert_same_truth(first: Truth | None, second: Truth | None) -> None:
        assert (first is None) == (second is None)
        if first is None or second is None:
            return
        assert first.kind == second.kind
        for name, part in first.parts.items():
            assert part.dtype == second[name].dtype
            np.testing.assert_array_equal(part, second[name])

    def test_it_has_a_name_and_inputs(self, dataset: Dataset) -> None:
        assert dataset.name
        assert len(dataset) > 0
        assert dataset.classes is None or all(isinstance(name, str) for name in dataset.classes)

    def test_ids_tell_inputs_apart(self, dataset: Dataset) -> None:
        names = [dataset.read(index).id for index in self.looked_at(dataset)]
        assert len(set(names)) == len(names)

    def test_labels_are_those_of_the_samples(self, dataset: Dataset) -> None:
        labels = dataset.labels()
        assert labels.shape == (len(dataset),)
        assert labels.dtype == np.int64
        assert [dataset.read(index).label for index in self.looked_at(dataset)] == labels[:LOOKED_AT].tolist()
        assert dataset.labelled == bool((labels != UNLABELLED).any())
        if dataset.classes is not None and dataset.labelled:
            assert labels.max() < len(dataset.classes)
        if dataset.truth_kind is not None:
            assert (labels == UNLABELLED).all()
            assert dataset.says(dataset.truth_kind)

    def test_a_truth_is_of_the_kind_that_the_dataset_names(self, dataset: Dataset) -> None:
        if dataset.truth_kind is None:
            with pytest.raises(DatasetError):
                dataset.truth(0)
            return
        for index in self.looked_at(dataset):
            truth = dataset.truth(index)
            assert truth is None or truth.kind == dataset.truth_kind
            if truth is not None and "classes" in truth.parts and dataset.classes is not None:
                assert truth["classes"].min(initial=0) >= 0
                assert truth["classes"].max(initial=0) < len(dataset.classes)

    def test_a_truth_is_the_same_again_also_from_several_threads(self, dataset: Dataset) -> None:
        if dataset.truth_kind is None:
            pytest.skip("what is right of its samples is a class")
        first = [dataset.truth(index) for index in self.looked_at(dataset)]
        with ThreadPoolExecutor(4) as pool:
            again = list(pool.map(dataset.truth, self.looked_at(dataset)))
        for before, after in zip(first, again, strict=True):
            self.assert_same_truth(before, after)

    def test_a_part_has_the_truths_of_its_samples(self, dataset: Dataset) -> None:
        if dataset.truth_kind is None:
            pytest.skip("what is right of its samples is a class")
        places = [index for index in self.looked_at(dataset) if index % 2][::-1]
        part = Subset(dataset, np.array(places, np.int64), "some")
        for place, index in enumerate(places):
            self.assert_same_truth(part.truth(place), dataset.truth(index))

    def test_another_truth_makes_another_dataset(self, dataset: Dataset, tmp_path: Path) -> None:
        if dataset.truth_kind is None:
            pytest.skip("what is right of its samples is a class")
        elsewhere = tmp_path / "another"
        elsewhere.mkdir()
        other = self.opened_with_another_truth(elsewhere)
        if other is None:
            pytest.skip("the test opens no dataset with another truth")
        assert other.fingerprint() != dataset.fingerprint()

    def test_images_are_decoded_pixels(self, dataset: Dataset) -> None:
        value = dataset.read(0).value
        assert isinstance(value, np.ndarray | np.void)
        if dataset.encoded and value.dtype.names is None:
            assert value.dtype == np.uint8
            assert value.shape[2] in (1, 3)

    def test_reading_again_gives_the_same_also_from_several_threads(self, dataset: Dataset) -> None:
        first = [dataset.read(index) for index in self.looked_at(dataset)]
        with ThreadPoolExecutor(4) as pool:
            again = list(pool.map(dataset.read, self.looked_at(dataset)))
        for before, after in zip(first, again, strict=True):
            self.assert_same(before, after)

    def test_several_at_once_are_the_same_as_one_by_one(self, dataset: Dataset) -> None:
        indices = np.array(self.looked_at(dataset), np.int64)[::-1]
        rows = dataset.read_rows(indices)
        if rows is None:
            pytest.skip("it reads one input at a time, which is allowed")
        for place, index in enumerate(indices):
            sample = dataset.read(int(index))
            assert (rows.ids[place], int(rows.labels[place])) == (sample.id, sample.label)
            np.testing.assert_array_equal(rows.values[place], sample.value)

    def test_the_fingerprint_is_of_content_and_not_of_paths(self, dataset: Dataset, tmp_path: Path) -> None:
        assert re.fullmatch(r"[0-9a-f]{64}", dataset.fingerprint())
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        assert self.opened(elsewhere).fingerprint() == dataset.fingerprint()
        assert dataset.decoded_with("opencv").fingerprint() == dataset.fingerprint()

    def test_closing_twice_is_fine(self, dataset: Dataset) -> None:
        dataset.close()
        dataset.close()
