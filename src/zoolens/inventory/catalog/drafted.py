"""What is known of a file that is drafted, and what a guess of its task says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolens.inventory.manifests.schema import AssetFile, Input, Output
from zoolens.inventory.manifests.schema_boxes import ReadBoxes, Suppress
from zoolens.inventory.manifests.schema_steps import Step
from zoolens.inventory.runtimes.litert.tflite_metadata import FileNotes, TensorNotes
from zoolens.inventory.runtimes.runtime import TensorSpec

UNCHECKED = "not known: check"  # behind a guess that nothing in the file supports


@dataclass(frozen=True)
class DraftedFile:
    """What is known of a file that is drafted. `notes`: the metadata of a TFLite file."""

    format: str
    path: Path
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    notes: FileNotes | None = None

    def input_notes(self, place: int) -> TensorNotes:
        described = self.notes.inputs if self.notes is not None else ()
        return described[place] if len(described) == len(self.inputs) else TensorNotes()

    def output_notes(self, place: int) -> TensorNotes:
        described = self.notes.outputs if self.notes is not None else ()
        return described[place] if len(described) == len(self.outputs) else TensorNotes()


@dataclass(frozen=True)
class TaskGuess:
    """Outputs of a task. `said`: what is only assumed, and why; `stated`: what the file or one beside it says itself.

    `steps` replace the usual preparation of images, `inputs` all that is said of inputs. `files`: what the model needs
    beside its own file.
    """

    outputs: tuple[Output, ...]
    said: tuple[str, ...]
    steps: tuple[Step, ...] | None = None
    stated: tuple[str, ...] = ()
    inputs: tuple[Input, ...] | None = None
    files: tuple[AssetFile, ...] = ()


def detector(
    parts: dict[str, str],
    reading: ReadBoxes,
    said: Sequence[str],
    *,
    labels: tuple[str, ...] | None = None,
    nms: bool = False,
    stated: Sequence[str] = (),
) -> TaskGuess:
    steps = (reading, Suppress(op="nms", iou=0.7)) if nms else (reading,)
    output = Output(parts=parts, task="detection", scores="probabilities", postprocess=steps, labels=labels or None)
    return TaskGuess((output,), tuple(said), stated=tuple(stated))


def other(file: DraftedFile, said: str) -> TaskGuess:
    """A file whose task is left open, and why."""
    return TaskGuess(tuple(Output(name=spec.name, task="other") for spec in file.outputs), (said,))
