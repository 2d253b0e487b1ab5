import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.imagenet import imagenet_classes
from zoolens.inventory.preprocess.classlookup import find_classes, find_outputs, may_reorder, unproven_order

IMAGENETTE = ("n01440764", "n02102040", "n02979186", "n03000684", "n03028079")


def data(classes, *, alphabetical=True):
    labels = np.arange(len(classes))
    dataset = ArrayDataset(np.zeros((len(classes), 2, 2, 1), np.uint8), labels, name="pictures", classes=tuple(classes))
    dataset.alphabetical = alphabetical
    return dataset


def places(order, count):
    """The output that stands for each of the data's first classes."""
    found = {label: output for output, label in order.items()}
    return [found[label] for label in range(count)]


def test_the_table_is_in_the_order_of_wordnet_ids():
    classes = imagenet_classes()
    assert len(classes) == 1000
    assert list(classes) == sorted(classes)
    assert classes[0] == "n01440764 tench, Tinca tinca"
    assert classes[217].startswith("n02102040 English springer")


@pytest.mark.parametrize(
    "classes",
    [
        IMAGENETTE,
        ("n01440764-tench", "n02102040-English_springer", "n02979186-cassette_player"),  # as in Stanford Dogs
        ("tench", "english_springer", "Cassette Player"),
        ("Tinca tinca", "English springer spaniel", "cassette player"),
        ("n01440764 tench, Tinca tinca", "n02102040 English springer", "n02979186 cassette player"),
    ],
)
@pytest.mark.parametrize(("outputs", "background"), [(1000, 0), (1001, 1)])
def test_folders_of_imagenet_are_found_among_a_thousand_outputs(classes, outputs, background):
    order = find_outputs(None, outputs, data(classes))
    assert places(order, 3) == [0 + background, 217 + background, 482 + background]
    assert sorted(order) == sorted(order.values()) == list(range(outputs))  # no answer is lost


def test_other_classes_follow_in_one_order_for_models_with_and_without_names_or_background():
    plain = find_outputs(None, 1000, data(IMAGENETTE))
    names = [name.partition(" ")[2].split(",")[0] for name in imagenet_classes()]
    named = find_outputs(names, 1000, data(IMAGENETTE[1:2]))
    with_background = find_outputs(None, 1001, data(IMAGENETTE))
    assert [with_background[output + 1] for output in range(1000)] == [plain[output] for output in range(1000)]
    assert with_background[0] == 1000
    assert named == find_outputs(None, 1000, data(IMAGENETTE[1:2]))
    backwards = find_outputs(names[::-1], 1000, data(IMAGENETTE))
    assert [999 - place for place in places(backwards, 3)] == places(plain, 3)


def test_a_models_own_labels_decide():
    assert places(find_outputs(("dog", "zebra", "Cat"), 3, data(("cat", "dog"))), 2) == [2, 0]
    assert find_outputs(("cat", "dog", "zebra"), 3, data(("cat", "dog"))) is None
    assert find_outputs(("cat", "dog"), 2, data(("cat", "dog"))) is None


def test_as_many_folders_as_outputs_without_names_are_in_the_order_of_the_alphabet():
    assert find_outputs(None, 5, data(IMAGENETTE)) is None
    assert find_outputs(None, 2, data(("cat", "dog"))) is None


@pytest.mark.parametrize(
    ("names", "outputs", "classes", "said"),
    [
        (None, 1000, ("n01440764", "n00000001"), "'n00000001' is not among the model's class names"),
        (None, 10, ("cat", "dog"), "the model names none of its outputs"),
        (
            None,
            1000,
            ("crane", "tench"),
            "'crane' may be any of the model's classes 134 and 517",
        ),  # a bird and a machine
        (("cat", "horse"), 2, ("cat", "dog"), "'dog' is not"),
        (("cat", "dog", "horse"), 3, ("cat", "cow"), "'cow' is not among"),
        (
            ("cat", "CAT", "dog"),
            3,
            ("cat", "dog"),
            "'cat' may be any of the model's classes 0 and 1",
        ),  # two of one name
    ],
)
def test_an_order_that_cannot_be_known_is_refused(names, outputs, classes, said):
    with pytest.raises(DatasetError, match=said) as refused:
        find_outputs(names, outputs, data(classes))
    assert "classes.txt" in refused.value.hint


def test_a_label_that_stands_for_two_outputs_is_said_to_be_there_twice():
    with pytest.raises(DatasetError, match="labels have 'cat' more than once"):
        find_outputs(("dog", "cat", "cat"), 3, data(("cat", "dog", "zebra")))


def test_data_with_an_order_of_its_own_is_not_looked_up():
    ordered = data(("cat", "dog", "ship"), alphabetical=False)
    assert find_outputs(None, 1000, ordered) is None
    assert find_outputs(("dog", "Ship", "cat"), 3, ordered) is None


def test_what_may_be_put_in_another_order_is_known_before_the_model_is_open():
    assert may_reorder(None, data(IMAGENETTE))
    assert may_reorder(("dog", "cat"), data(("cat", "dog")))
    assert not may_reorder(("cat", "dog"), data(("cat", "dog")))
    assert not may_reorder(None, data(("red", "yellow")))
    assert not may_reorder(("a", "b"), data(("cat", "dog"), alphabetical=False))


def test_names_that_prove_nothing_are_said_aloud():
    assert "'cat' are none of the model's labels" in unproven_order(("a", "b"), data(("cat", "dog")))
    assert unproven_order(("dog", "cat"), data(("cat", "dog"))) is None
    assert unproven_order(None, data(("cat", "dog"))) is None


def test_whole_names_come_before_parts_of_names():
    assert find_classes(("boat", "car"), ("boat, ship", "boat", "car, boat")) == [1, 2]
