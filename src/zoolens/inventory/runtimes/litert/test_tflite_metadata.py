"""Metadata that applications of TFLite read: written here with the library flatbuffers, field by field."""

from __future__ import annotations

import contextlib

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert.tflite_file import read_graph
from zoolens.inventory.runtimes.litert.tflite_metadata import read_notes

flatbuffers = pytest.importorskip("flatbuffers")

FLOATS, UNSIGNED = "Float32", "Uint32"


class Writer:
    """Tables of a FlatBuffer, each a mapping from the number of a field to what it holds."""

    def __init__(self):
        self.builder = flatbuffers.Builder(1024)

    def table(self, fields):
        made = {slot: self.offset(value) for slot, value in fields.items()}
        self.builder.StartObject(max(fields, default=0) + 1)
        for slot, value in fields.items():
            if made[slot] is not None:
                self.builder.PrependUOffsetTRelativeSlot(slot, made[slot], 0)
            else:
                kind, number = value
                getattr(self.builder, f"Prepend{kind}Slot")(slot, number, 0 if number else 1)
        return self.builder.EndObject()

    def offset(self, value):
        """A table, text or list; None for a number, which lies in its table."""
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, str):
            return self.builder.CreateString(value)
        if isinstance(value, bytes):
            return self.builder.CreateByteVector(value)
        if isinstance(value, list):
            return self.vector([self.offset(one) for one in value])
        if value[0] in (FLOATS, UNSIGNED) and isinstance(value[1], list):
            self.builder.StartVector(4, len(value[1]), 4)
            for number in reversed(value[1]):
                getattr(self.builder, f"Prepend{value[0]}")(number)
            return self.builder.EndVector()
        return None

    def vector(self, offsets):
        self.builder.StartVector(4, len(offsets), 4)
        for one in reversed(offsets):
            self.builder.PrependUOffsetTRelative(one)
        return self.builder.EndVector()

    def finished(self, root, mark):
        self.builder.Finish(root, file_identifier=mark)
        return bytes(self.builder.Output())


def metadata(inputs, outputs):
    writer = Writer()
    return writer.finished(writer.table({3: [{2: inputs, 3: outputs}]}), b"M001")


def model(content, name="TFLITE_METADATA"):
    """A TFLite file with one input that is its output, and this content beside its graph."""
    writer = Writer()
    graph = {0: [{3: "x"}], 1: (UNSIGNED, [0]), 2: (UNSIGNED, [0])}
    root = writer.table({2: [graph], 4: [{}, {0: content}], 6: [{0: name, 1: ("Uint32", 1)}]})
    return writer.finished(root, b"TFL3")


@pytest.fixture
def written(tmp_path):
    def write(*content, **words):
        path = tmp_path / "m.tflite"
        path.write_bytes(model(*content, **words))
        return path

    return write


IMAGE = {
    0: "image",
    3: {0: ("Uint8", 2), 1: {0: ("Int8", 1)}},
    4: [{0: ("Uint8", 1), 1: {0: (FLOATS, [127.0]), 1: (FLOATS, [128.0])}}],
}
BOXES = {0: "location", 3: {0: ("Uint8", 3), 1: {0: (UNSIGNED, [1, 0, 3, 2]), 1: ("Int8", 1), 2: ("Int8", 0)}}}
CATEGORY = {0: "category", 6: [{0: "read.me", 2: ("Int8", 1)}, {0: "labels.txt", 2: ("Int8", 3)}]}
SCORE = {0: "score", 4: [{0: ("Uint8", 3), 1: {0: ("Float32", 0.25)}}]}
WORDS = {0: "text", 4: [{0: ("Uint8", 6), 1: {0: "[^a-z]+", 1: [{0: "vocab.txt"}]}}]}


def test_tensors_are_described(written):
    path = written(metadata([IMAGE], [BOXES, CATEGORY, SCORE]))
    assert len(read_graph(path).inputs) == 1
    notes = read_notes(path)
    (image,) = notes.inputs
    assert (image.name, image.color, image.mean, image.deviation) == ("image", "RGB", (127.0,), (128.0,))
    boxes, category, score = notes.outputs
    assert (boxes.boxes.kind, boxes.boxes.order, boxes.boxes.pixels) == ("corners", (1, 0, 3, 2), False)
    assert category.labels == ("labels.txt",)
    assert (score.name, score.threshold, score.boxes) == ("score", 0.25, None)


def test_texts_have_a_tokenizer(written):
    (text,) = read_notes(written(metadata([WORDS], []))).inputs
    assert (text.tokens.kind, text.tokens.vocabulary, text.tokens.separators) == ("words", "vocab.txt", "[^a-z]+")


def test_a_file_without_metadata_says_nothing(written):
    assert read_notes(written(metadata([], []), name="min_runtime_version")) is None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_impossible_numbers_are_refused(written, number):
    odd = {4: [{0: ("Uint8", 1), 1: {0: (FLOATS, [number]), 1: (FLOATS, [1.0])}}]}
    with pytest.raises(ModelError, match=r"The metadata in m.tflite cannot be read: it normalises with numbers"):
        read_notes(written(metadata([odd], [])))


def test_damage_is_one_sentence(written):
    content = metadata([IMAGE, WORDS], [BOXES, CATEGORY, SCORE])
    with pytest.raises(ModelError, match="does not carry the mark M001"):
        read_notes(written(b"odd" * 9))
    for place in range(0, len(content), 3):
        for value in (0, 127, 255):
            damaged = bytearray(content)
            damaged[place] = value
            with contextlib.suppress(ModelError):
                read_notes(written(bytes(damaged)))
    for length in range(0, len(content), 7):
        with contextlib.suppress(ModelError):
            read_notes(written(content[:length]))
