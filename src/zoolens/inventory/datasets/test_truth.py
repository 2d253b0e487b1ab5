import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.dataset import UNLABELLED
from zoolens.inventory.datasets.subset import select
from zoolens.inventory.datasets.truth import Truth


def boxes(count):
    return {
        "boxes": np.zeros((count, 4)),
        "classes": np.zeros(count, np.int64),
        "areas": np.zeros(count),
        "crowds": np.zeros(count, bool),
    }


def test_a_truth_has_the_arrays_of_its_kind():
    assert Truth("boxes", boxes(2))["boxes"].shape == (2, 4)
    assert Truth("spans", {"texts": np.array([])}).parts["texts"].size == 0


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("colours", {}),
        ("boxes", {"boxes": np.zeros((1, 4))}),
        ("mask", {"mask": np.zeros((2, 2), np.float32)}),
        ("tags", {"tags": np.array([1, 2])}),
        ("value", {"value": np.zeros(1), "more": np.zeros(1)}),
    ],
)
def test_other_arrays_are_refused(kind, parts):
    with pytest.raises(ValueError, match=r"kind of truth|has the arrays"):
        Truth(kind, parts)


class Rated(ArrayDataset):
    truth_kind = "value"

    def truth(self, index):
        return Truth("value", {"value": np.array([float(index)])})


def rated():
    return Rated(np.zeros((5, 2), np.float32), np.full(5, UNLABELLED), name="rated")


def test_a_part_of_a_dataset_has_the_truths_of_its_samples():
    part = select(rated(), 3, seed=1)
    assert part.truth_kind == "value"
    assert part.says("value")
    assert not part.says("boxes")
    assert not part.says(None)
    ids = [part.read(place).id for place in range(3)]
    whole = {rated().read(place).id: place for place in range(5)}
    assert [part.truth(place)["value"][0] for place in range(3)] == [whole[name] for name in ids]


def test_labels_alone_are_no_truth_of_another_kind():
    plain = ArrayDataset(np.zeros((2, 2), np.float32), np.array([0, 1]), name="plain")
    with pytest.raises(DatasetError, match="no more than the number of a class"):
        plain.truth(0)
