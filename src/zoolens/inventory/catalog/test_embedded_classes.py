"""Names of classes in the file of a classifier: used where they fit, and said where they are missing or too many."""

from __future__ import annotations

import zipfile

import pytest

from zoolens.inventory.catalog.drafted import DraftedFile
from zoolens.inventory.catalog.embedded_classes import DROPPED, with_class_names
from zoolens.inventory.manifests.guesses import Guesses
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.runtimes.litert.tflite_metadata import FileNotes, TensorNotes
from zoolens.inventory.runtimes.runtime import TensorSpec


@pytest.fixture
def named(tmp_path):
    """What becomes of the scores of so many classes in a file with these lines of labels."""

    def make(classes, lines, file="labels.txt", **output):
        path = tmp_path / "made.tflite"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(file, "\n".join(lines))
        given, made = TensorSpec("x", (1, 4), "float32"), TensorSpec("y", (1, classes), "float32")
        notes = FileNotes((TensorNotes(),), (TensorNotes(labels=("labels.txt",)),))
        guesses = Guesses("tflite")
        guesses.said += [DROPPED] if output else []
        drafted = with_class_names(
            Output(name="y", **output), DraftedFile("tflite", path, [given], [made], notes), classes, guesses
        )
        return drafted, guesses

    return make


def test_as_many_names_as_classes(named):
    output, guesses = named(3, ["a", "b", "c"])
    assert (output.labels, guesses.said) == (("a", "b", "c"), [])
    assert "names of 3 classes" in guesses.summary()
    output, _ = named(3, ["", "cat", "dog"])  # an empty line is a class too
    assert output.labels == ("", "cat", "dog")


@pytest.mark.parametrize(
    ("lines", "file", "said"),
    [
        (["a", "b"], "labels.txt", "2 names for 3 classes"),
        (["a", "b", "c"], "labels_de.txt", "which the file does not"),
    ],
)
def test_names_that_are_missing_or_of_another_number_are_said(named, lines, file, said):
    output, guesses = named(3, lines, file)
    assert output.labels is None
    assert said in guesses.said[0]
    assert "not known: check" in guesses.said[0]


def test_the_names_say_whether_class_0_of_1001_is_a_background(named):
    others = [f"bird {number}" for number in range(1000)]
    drop = {"postprocess": [{"op": "drop_leading"}]}
    output, guesses = named(1001, ["first bird", *others], **drop)
    assert (output.postprocess, len(output.labels), guesses.said) == ((), 1001, [])
    output, guesses = named(1001, ["background", *others], **drop)
    assert (output.postprocess[0].op, len(output.labels), guesses.said) == ("drop_leading", 1000, [DROPPED])
    imagenet = ["tench", *others[1:]]
    for first in ("background", "dummy"):
        output, guesses = named(1001, [first, *imagenet], **drop)
        assert (output.postprocess[0].op, output.labels, guesses.said) == ("drop_leading", None, [DROPPED])
