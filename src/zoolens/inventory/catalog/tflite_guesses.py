"""Detectors and text classifiers in TFLite: by TFLite's own operator for detections, and by the file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile, TaskGuess, detector, other
from zoolens.inventory.catalog.known_classes import usual_classes, without_background
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.formats import model_stem
from zoolens.inventory.manifests.schema import AssetFile, Input
from zoolens.inventory.manifests.schema_boxes import ReadBoxes
from zoolens.inventory.manifests.schema_inputs import TOKEN_TYPES
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer, WordVocabulary
from zoolens.inventory.runtimes.litert.tflite_metadata import BoxNotes
from zoolens.inventory.runtimes.outputs.embedded_notes import finished_boxes, zipped_labels, zipped_text
from zoolens.inventory.runtimes.outputs.lookup_tables import table_rows

# What metadata call the outputs of detectors; the writers of TensorFlow's own models use these names.
_OUTPUTS: Final = {
    "location": "boxes",
    "locations": "boxes",
    "category": "classes",
    "categories": "classes",
    "score": "scores",
    "scores": "scores",
    "number of detections": "count",
}
_NEEDED: Final = frozenset({"boxes", "classes", "scores"})
_FORMATS: Final[Mapping[tuple[str, tuple[int, ...]], str]] = {
    ("corners", (0, 1, 2, 3)): "xyxy",
    ("corners", (1, 0, 3, 2)): "yxyx",
    ("corner and sides", (0, 1, 2, 3)): "xywh",
    ("centre and sides", (0, 1, 2, 3)): "cxcywh",
}
_MOST_VOCABULARY: Final = 1 << 24  # bytes
_LONGEST_PATTERN: Final = 1000


def tflite_detector(file: DraftedFile) -> TaskGuess | None:
    """Finished boxes: the operator that makes them says which tensor holds what; without it the metadata may."""
    if file.format != "tflite":
        return None
    made = finished_boxes(file.path)
    places = made.places if made is not None else {}
    if set(places) >= _NEEDED and max(places.values()) < len(file.outputs):
        parts, said, stated = _parts(file, places), [], ["boxes come from TFLite's operator for detections"]
        reading = ReadBoxes(op="boxes", format="yxyx", units="shares")
        if _described(file) not in ({}, places):
            said.append(f"the metadata call the outputs otherwise than the operator gives them ({UNCHECKED})")
    else:
        places = _described(file)
        if not set(places) >= _NEEDED:
            return None
        notes = file.output_notes(places["boxes"]).boxes
        form = None if notes is None else _FORMATS.get((notes.kind or "", notes.order))
        if notes is None or form is None:
            return other(file, f"outputs are those of a detector by the metadata, whose boxes are {_form(notes)}")
        parts, said, stated = _parts(file, places), [], ["outputs and the form of boxes are those of the metadata"]
        reading = ReadBoxes(op="boxes", format=form, units="pixels" if notes.pixels else "shares")  # type: ignore[arg-type]
    labels = _labels(file, places, made.classes if made is not None else None, said, stated)
    threshold = file.output_notes(places["scores"]).threshold
    if threshold is not None:
        stated.append(f"applications show boxes of score {threshold:g} and more; average precision needs all")
    return detector(parts, reading, said, labels=labels, stated=stated)


def _parts(file: DraftedFile, places: Mapping[str, int]) -> dict[str, str]:
    return {role: file.outputs[place].name for role, place in places.items()}


def _described(file: DraftedFile) -> dict[str, int]:
    """Which output holds what by the metadata; empty where they do not say it of each."""
    names = [file.output_notes(place).name.strip().lower() for place in range(len(file.outputs))]
    places = {_OUTPUTS[name]: place for place, name in enumerate(names) if name in _OUTPUTS}
    return places if len(places) == len(names) else {}


def _form(notes: BoxNotes | None) -> str:
    if notes is None:
        return f"not described ({UNCHECKED}: xyxy, yxyx, xywh or cxcywh, pixels or shares)"
    return f"{notes.kind or 'of no kind'} in the order {notes.order}, which no format here has"


def _labels(
    file: DraftedFile, places: Mapping[str, int], classes: int | None, said: list[str], stated: list[str]
) -> tuple[str, ...] | None:
    """Names of the classes that boxes have, from 0 on and without a background."""
    listed = file.output_notes(places["classes"]).labels
    packed = zipped_labels(file.path, listed[0] if listed else None)
    names = None if packed is None else without_background(packed, classes)
    if names is not None and packed is not None:
        dropped = " without its first line, the background" if len(names) < len(packed) else ""
        stated.append(f"names of {len(names)} classes are those in the file{dropped}")
        return names
    if packed is not None:
        said.append(f"the file holds {len(packed)} names for {classes} classes, which are left out ({UNCHECKED})")
        return None
    lacks = f": the metadata name {listed[0][:80]!r}, which it does not hold" if listed else ""
    usual = usual_classes(classes)
    if usual is not None:
        said.append(f"the file names none of its {classes} classes, taken for COCO's ({UNCHECKED}{lacks})")
        return usual
    count = f" {classes}" if classes is not None else ""
    unknown = f"the names of its{count} classes are unknown"
    said.append(f"{unknown}: they are taken to be the dataset's, by number ({UNCHECKED}{lacks})")
    return None


# --- texts


def tflite_words(file: DraftedFile) -> TaskGuess | None:
    """A classifier of texts whose words are looked up in a vocabulary, as TFLite's Task Library feeds it."""
    tokens = file.input_notes(0).tokens if len(file.inputs) == 1 else None
    spec = file.inputs[0]
    if tokens is None or len(file.outputs) != 1 or len(spec.shape) != 2 or spec.dtype not in TOKEN_TYPES:
        return None
    if tokens.kind != "words" or not tokens.vocabulary or not 0 < len(tokens.separators) <= _LONGEST_PATTERN:
        return other(file, f"texts are split by a tokenizer of the kind {tokens.kind}: give a tokenizer.json")
    vocabulary = _vocabulary_beside(file, tokens.vocabulary)
    if isinstance(vocabulary, str):
        return other(file, vocabulary)
    path, numbers = vocabulary
    length = spec.shape[1]
    if length is None or "<UNKNOWN>" not in numbers or "<PAD>" not in numbers:
        return other(file, f"{path.location} has no <UNKNOWN> and <PAD>, or the file no length of texts")
    rows = table_rows(file.format, file.path, spec.name)
    words = WordVocabulary(
        pattern=tokens.separators,
        matches="separators",
        unknown_id=numbers["<UNKNOWN>"],
        start_id=numbers.get("<START>"),
    )
    declared = Tokenizer(
        max_length=length, vocabulary=rows or max(numbers.values()) + 1, pad_id=numbers["<PAD>"], words=words
    )
    given = Input(name=spec.name, modality="text", shape=(spec.shape[0], length), dtype=spec.dtype, tokenizer=declared)  # type: ignore[arg-type]
    stated = [f"texts are split at {tokens.separators!r} and looked up in {path.location}, as the metadata say"]
    said = ["texts are lower-cased, as TFLite's Task Library does"]
    return TaskGuess((), tuple(said), stated=tuple(stated), inputs=(given,), files=(path,))


def _vocabulary_beside(file: DraftedFile, name: str) -> tuple[AssetFile, dict[str, int]] | str:
    """The vocabulary as a file beside the model, with its words; else what is to be done."""
    packed = zipped_text(file.path, name, _MOST_VOCABULARY)
    candidates = [file.path.parent / f"{model_stem(file.path)}.{name}", file.path.parent / name]
    path = next((path for path in candidates if "/" not in name and is_file(path)), None)
    name = name[:80]
    how = f"take it out (`unzip -p {file.path.name} {name}`) and declare the input as text"
    if path is None and packed is None:
        return f"texts are looked up in {name!r}, which neither the file nor its folder holds"
    if path is None:
        return f"texts are looked up in {name!r}, which lies inside of the file: {how}"
    text = read_text(path, _MOST_VOCABULARY)
    if packed is not None and packed.split() != text.split():
        return f"{path.name} is not the vocabulary that lies inside of the file: {how}"
    rows = [line.rsplit(None, 1) for line in text.splitlines() if line.strip()]
    if not rows or not all(len(row) == 2 and row[1].isdecimal() and len(row[1]) < 10 for row in rows):
        return f"{path.name} does not have a word and its number on each line"
    listed = AssetFile(location=path.name, role=ROLE, sha256=digest(path), bytes=size_on_disk(path))  # type: ignore[arg-type]
    return listed, {word: int(number) for word, number in rows}
