from dataclasses import replace

import pytest

from zoolens.findings.comparisons.compatibility import Head, compare_interfaces, compatible, interface_of
from zoolens.findings.comparisons.conftest import INPUT, one_hot, write_run

LABELS = [0, 1, 2]
ANIMALS = ["cat", "dog", "emu"]


@pytest.fixture
def run(store):
    """A run of a classifier of three classes; keywords go into its manifest."""
    numbers = iter(range(100))

    def write(**settings):
        return write_run(store, f"net{next(numbers)}", one_hot(LABELS, 3), LABELS, **settings)

    return write


def named(*labels, **more):
    return [{"labels": list(labels), **more}]


def test_models_without_names_are_taken_in_the_datas_order(run):
    found = compatible(run(), run())
    assert found
    assert found.notes == ("A and B name no classes: theirs are taken in the dataset's order",)


def test_the_same_names_in_the_same_order_need_nothing(run):
    found = compatible(run(outputs=named("cat", "dog", "emu")), run(outputs=named("Cat", "dog ", "emu")))
    assert found
    assert (found.notes, found.translation_a, found.translation_b) == ((), None, None)


def test_another_order_is_translated_by_name(run):
    found = compatible(run(outputs=named("cat", "dog", "emu")), run(outputs=named("emu", "cat", "dog")))
    assert found
    assert found.translation_a is None
    assert found.translation_b.tolist() == [2, 0, 1]
    assert "B's classes are in another order than A's: matched by name" in found.notes


def test_both_are_brought_into_the_order_of_data_that_names_its_classes(run):
    swapped = run(outputs=named("dog", "cat", "emu"), classes=ANIMALS)
    silent = run(classes=ANIMALS)
    found = compatible(swapped, silent)
    assert found.translation_a.tolist() == [1, 0, 2]
    assert found.translation_b is None
    assert any("A's classes are in another order than the dataset's" in note for note in found.notes)


def test_names_that_are_not_the_datas_are_matched_with_each_other(run):
    found = compatible(
        run(outputs=named("x", "y", "z"), classes=ANIMALS), run(outputs=named("y", "x", "z"), classes=ANIMALS)
    )
    assert found.translation_a is None
    assert found.translation_b.tolist() == [1, 0, 2]


def test_other_names_are_refused_with_some_of_them(run):
    found = compatible(run(outputs=named("cat", "dog", "emu")), run(outputs=named("cat", "dog", "yak")))
    assert not found
    assert "only A has 'emu', only B has 'yak'" in found.reasons[0]


def test_a_label_map_stands_for_the_names(run):
    mapped = run(outputs=named("p", "q", "r", label_map={0: 2, 1: 1, 2: 0}), classes=ANIMALS)
    found = compatible(mapped, run(outputs=named("cat", "dog", "emu"), classes=ANIMALS))
    assert found
    assert (found.translation_a, found.translation_b) == (None, None)


def test_a_name_that_stands_for_two_classes_cannot_be_matched(run):
    twice = named("crane", "crane", "emu")
    assert compatible(run(outputs=twice), run(outputs=twice))
    found = compatible(run(outputs=twice), run(outputs=named("crane", "emu", "crane")))
    assert "several classes" in found.reasons[0]


def test_another_number_of_classes_is_refused(run):
    def width(count):
        return [{"name": "out", "task": "classification", "width": count}]

    found = compatible(run(about=width(10)), run(about=width(1000)))
    assert found.reasons == ("A has 10 classes and B has 1,000",)


def test_another_task_or_modality_or_dataset_is_refused(run):
    array = {"modality": "array", "shape": [None, 64], "layout": "NC"}
    other = [{"name": "v", "task": "embedding", "width": 3}]
    assert compatible(run(), run(about=other)).reasons == ("A does classification and B does embedding",)
    assert compatible(run(), run(inputs=[array])).reasons == ("A takes an image and B an array",)
    assert "A was run on digits (3 inputs) and B on letters" in compatible(run(), run(dataset="letters")).reasons[0]


def test_inputs_that_are_wanted_otherwise_are_notes(run):
    normal = {"preprocess": [{"op": "normalize", "scale": 0.5}]}
    wide = {"shape": [None, 3, 16, 16], "layout": "NCHW", "color": "BGR", **normal}
    found = compatible(run(), run(inputs=[wide]))
    assert found
    assert "input shape: A 8×8, B 3×16×16" in found.notes
    assert "colour order: A gray, B BGR" in found.notes
    assert "preprocessing: A none; B normalize(scale=0.5)" in found.notes


def test_the_same_shape_in_another_layout_is_the_same_shape(run):
    first = run(inputs=[{**INPUT, "shape": [None, 3, 8, 9], "layout": "NCHW"}])
    last = run(inputs=[{**INPUT, "shape": [None, 8, 9, 3], "layout": "NHWC"}])
    assert not [note for note in compatible(first, last).notes if "shape" in note]


def test_only_outputs_that_both_have_are_compared(run):
    one, two = ({"name": n, "task": "classification", "width": 3} for n in "ab")
    found = compatible(run(about=[one, two]), run(about=[one]))
    assert found.outputs == 1
    assert "A has 2 outputs and B 1: only the first output is compared" in found.notes
    assert compatible(run(about=[one, two]), run(about=[two, one])).outputs == 2


def test_a_manifest_that_cannot_be_read_is_a_note(run):
    found = compatible(run(inputs="nonsense"), run())
    assert found
    assert "has no readable manifest" in found.notes[0]


BOXES, SCORES, KINDS = ({"name": name, "task": "other", "width": 10} for name in ("boxes", "scores", "kinds"))


def test_outputs_in_another_order_are_matched_by_name(run):
    found = compatible(run(about=[BOXES, SCORES, KINDS]), run(about=[KINDS, BOXES, SCORES]))
    assert (found.outputs, found.places) == (3, (1, 2, 0))
    assert "B has the outputs of A in another order: matched by name" in found.notes
    assert compatible(run(about=[BOXES, SCORES]), run(about=[BOXES, SCORES])).places is None


def test_outputs_of_other_names_are_compared_by_their_place_and_that_is_said(run):
    found = compatible(run(about=[BOXES, SCORES]), run(about=[BOXES, KINDS]))
    assert (found.outputs, found.places) == (2, None)
    assert "outputs are compared in the order of the manifests: boxes with boxes, scores with kinds" in found.notes


@pytest.mark.parametrize("name", ["Identity_{}", "StatefulPartitionedCall:{}", "output{}", "{}"])
def test_names_that_an_exporter_numbered_do_not_tell_which_output_is_which(run, name):
    first, second = ({**BOXES, "name": name.format(number)} for number in (1, 2))
    assert compatible(run(about=[first, second]), run(about=[second, first])).places is None


def test_an_output_that_labels_judge_stays_the_main_one(run):
    classes = {"name": "classes", "task": "classification", "width": 3}
    assert compatible(run(about=[classes, BOXES, SCORES]), run(about=[classes, SCORES, BOXES])).places == (0, 2, 1)
    twin = {**classes, "name": "twin"}
    assert compatible(run(about=[classes, twin]), run(about=[twin, classes])).places is None


@pytest.mark.parametrize(
    ("theirs", "told"), [({"b" * 64}, True), ({"a" * 64}, False), ({"a" * 8}, False), (set(), False)]
)
def test_writers_with_other_tokenizers_are_told(run, theirs, told):
    ours = replace(interface_of(run()), heads=(Head("generation"),), tokenizers=frozenset({"a" * 64}))
    found = compare_interfaces(ours, replace(ours, tokenizers=frozenset(theirs)))
    assert any("tokenizers of A and B are different files" in note for note in found.notes) == told
