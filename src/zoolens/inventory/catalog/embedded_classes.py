"""Names of classes that a file of a classifier holds itself, and what is said where they are missing or too many."""

from __future__ import annotations

from typing import Final

from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile
from zoolens.inventory.catalog.known_classes import BACKGROUND, FIRST_OF_IMAGENET
from zoolens.inventory.manifests.guesses import Guesses
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.manifests.schema_steps import DropLeading
from zoolens.inventory.runtimes.outputs.embedded_notes import listed_names, onnx_properties, zipped_labels

DROPPED: Final = "class 0 is background and is dropped"  # the guess that comes with the step drop_leading


def with_class_names(output: Output, file: DraftedFile, classes: int | None, guesses: Guesses) -> Output:
    """The output with the names of its classes where the file holds as many. ImageNet's are left out: its classes are
    known by their order, and go by too many names."""
    if output.task != "classification" or classes is None:
        return output
    place = next(place for place, spec in enumerate(file.outputs) if spec.name == output.name)
    labels = _embedded(file, place)
    if labels is None or len(labels) != classes:
        guesses.said += _lacking(labels, file.output_notes(place).labels, classes)
        return output
    steps = output.postprocess
    if any(isinstance(step, DropLeading) for step in steps):
        if labels[0].lower() in BACKGROUND or labels[1].startswith(FIRST_OF_IMAGENET):
            labels = labels[1:]
        else:
            # The names say more than the number 1,001 does.
            steps = tuple(step for step in steps if not isinstance(step, DropLeading))
            guesses.said.remove(DROPPED)
    if labels[0].startswith(FIRST_OF_IMAGENET):
        return output
    guesses.stated.append(f"names of {len(labels)} classes are those in the file")
    return output.model_copy(update={"labels": labels, "postprocess": steps})


def _embedded(file: DraftedFile, place: int) -> tuple[str, ...] | None:
    """The names that the file holds for the output at this place."""
    if file.format == "tflite":
        listed = file.output_notes(place).labels
        return zipped_labels(file.path, listed[0] if listed else None)
    return listed_names(onnx_properties(file.path).get("names", "")) if file.format == "onnx" else None


def _lacking(labels: tuple[str, ...] | None, listed: tuple[str, ...], classes: int) -> list[str]:
    if labels is not None:
        return [f"the file holds {len(labels)} names for {classes:,} classes, left out ({UNCHECKED})"]
    if not listed:
        return []
    where = f"the metadata name the classes in {listed[0][:80]!r}, which the file does not hold"
    return [f"{where}: they are taken to be the dataset's, by number ({UNCHECKED})"]
