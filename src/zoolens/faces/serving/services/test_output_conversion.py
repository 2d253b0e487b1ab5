import numpy as np
import pytest

from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.faces.serving.services.output_conversion import (
    ScoreColumns,
    class_identities,
    class_order,
    column_order,
    mapped_conversion,
    probability_conversion,
)
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.manifests.schema_steps import DropLeading
from zoolens.inventory.runtimes.runtime import TensorSpec

TENSOR = TensorSpec("y", (None, 3), "float32")


def identities(data=None, classes=3, **declared):
    return class_identities(Output(**declared), None, classes, data)


def test_classes_are_matched_by_name():
    ours = identities(labels=("cat", "dog", "sea lion"))
    theirs = identities(labels=("Sea_Lion", "cat", "dog"))
    order = class_order(ours, theirs)
    raw = np.log(np.array([[0.7, 0.2, 0.1]], np.float32))
    converted = probability_conversion(Output(), TENSOR, order)(raw)
    np.testing.assert_allclose(converted, [[0.2, 0.1, 0.7]], atol=1e-6)


def test_a_model_without_names_answers_in_the_order_of_the_data():
    ours = identities(labels=("dog", "cat", "cow"))
    assert list(class_order(ours, identities(("cat", "cow", "dog")))) == [2, 0, 1]
    assert list(class_order(ours, identities(("cow", "cat", "dog"), label_map={0: 1, 1: 2, 2: 0}))) == [1, 0, 2]


def test_two_models_without_names_are_in_one_order():
    assert class_order(identities(), identities()) is None
    assert class_order(identities(classes=1000), identities(classes=1000)) is None


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (("cat", "dog", "cow"), "no class horse"),
        (("dog", "cat", "horse", "owl"), "4 classes"),
        (("dog", "horse", "dog"), "no class cat"),
    ],
)
def test_what_cannot_be_matched_is_refused(theirs, why):
    with pytest.raises(NotConvertible, match=why):
        class_order(identities(labels=("cat", "dog", "horse")), identities(labels=theirs, classes=len(theirs)))


def test_names_that_stand_for_several_classes_are_matched_only_in_the_same_order():
    ours = identities(labels=("crane", "dog", "crane"))
    assert class_order(ours, identities(labels=("crane", "dog", "crane"))) is None
    for theirs in (("crane", "crane", "dog"), ("crane", "dog", "gull")):
        with pytest.raises(NotConvertible, match="several classes are called 'crane'"):
            class_order(ours, identities(labels=theirs))


def test_a_background_class_is_dropped_as_the_manifest_says():
    output = Output(scores="probabilities", postprocess=(DropLeading(op="drop_leading"),))
    raw = np.array([[0.5, 0.3, 0.1, 0.1]], np.float32)
    converted = probability_conversion(output, TensorSpec("y", (None, 4), "float32"), np.array([2, 1, 0]))(raw)
    np.testing.assert_allclose(converted, [[0.2, 0.2, 0.6]], atol=1e-6)


def columns(names, judged):
    return ScoreColumns(tuple(names), judged)


def test_classes_are_matched_as_they_were_judged_whatever_they_are_called():
    """The promise is about these: a label_map or the data's order told which class is which."""
    ours = columns(("t-shirt", "trouser", "bag"), (0, 1, 2))
    assert list(column_order(ours, columns(("a", "b", "c"), (2, 0, 1)))) == [1, 2, 0]
    assert column_order(ours, columns(("T-Shirt/top", "pants", "sack"), (0, 1, 2))) is None
    # names that contradict what was judged: what was measured is served
    assert column_order(ours, columns(("bag", "trouser", "t-shirt"), (0, 1, 2))) is None


@pytest.mark.parametrize("judged", [None, (0, 1, None), (0, 1, 1), (0, 1, 5)])
def test_names_decide_where_it_is_not_known_how_a_class_was_judged(judged):
    ours, theirs = columns(("cat", "dog", "cow"), (0, 1, 2)), columns(("cow", "dog", "cat"), judged)
    assert list(column_order(ours, theirs)) == [2, 1, 0]
    assert list(column_order(theirs, ours)) == [2, 1, 0]


def test_a_model_with_more_outputs_answers_through_its_label_map():
    """Of six outputs two stand for one class and two for none."""
    output = Output(scores="probabilities", label_map={0: 1, 1: 1, 3: 0, 4: 2})
    raw = np.array([[0.1, 0.2, 0.2, 0.3, 0.2, 0.0]], np.float32)
    tensor = TensorSpec("y", (None, 6), "float32")
    converted = mapped_conversion(output, tensor, columns(("a", "b", "c"), (2, 0, 1)))(raw)
    np.testing.assert_allclose(converted, np.array([[0.2, 0.3, 0.3]]) / 0.8, atol=1e-6)
    with pytest.raises(NotConvertible, match="no output for class d, which the reference has"):
        mapped_conversion(output, tensor, columns(("a", "d"), (0, 3)))
    with pytest.raises(NotConvertible, match="names class 2 of the data, which the reference does not have"):
        mapped_conversion(output, tensor, columns(("a", "b"), (0, 1)))
