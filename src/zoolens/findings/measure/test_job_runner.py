import numpy as np

from zoolens.findings.measure.outcome_notes import said_of_classes
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.subset import select


def test_the_first_inputs_of_sorted_classes_are_told_to_be_of_a_few():
    labels = np.repeat(np.arange(10), 20)
    data = ArrayDataset(np.zeros((200, 2), np.uint8), labels, name="sorted")
    (said,) = said_of_classes(select(data, 40))
    assert said.startswith("these 40 inputs are of 2 of the dataset's 10 classes")
    assert not list(said_of_classes(select(data, 40, seed=1)))
    assert not list(said_of_classes(data))
    shuffled = ArrayDataset(np.zeros((200, 2), np.uint8), np.random.default_rng(0).permutation(labels), name="mixed")
    assert not list(said_of_classes(select(shuffled, 40)))
