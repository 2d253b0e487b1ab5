"""TFLite Model Metadata: what the maker of a file wrote into it for applications (a FlatBuffer with the mark M001).

Tensors are described in the order of the graph's inputs and outputs. The files that it names (labels, vocabularies) lie
in a zip archive behind the model.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert.tflite_file import Table, attached, root_table, why

_NAME: Final = "TFLITE_METADATA"
_MARK: Final = b"M001"
_MOST: Final = 100  # entries of a list in it
_LABELS: Final = (2, 3)  # kinds of files: names of the places on an axis, and of the values of a tensor
_IMAGE, _BOXES, _AUDIO = 2, 3, 4  # kinds of content
_NORMALISE, _CALIBRATE, _THRESHOLD, _BERT, _SENTENCES, _WORDS = 1, 2, 3, 4, 5, 6  # kinds of steps
_COLORS: Final = {1: "RGB", 2: "gray"}
_BOX_KINDS: Final = {1: "corners", 2: "corner and sides", 3: "centre and sides"}


@dataclass(frozen=True)
class BoxNotes:
    """`order`: where each number of the kind's usual order (left before top) stands."""

    kind: str | None  # None: not said
    order: tuple[int, ...]
    pixels: bool  # shares of the picture otherwise


@dataclass(frozen=True)
class TokenNotes:
    """How a text becomes numbers: `kind` is bert, sentencepiece or words, which `separators` (an expression) part."""

    kind: str
    vocabulary: str
    separators: str = ""


@dataclass(frozen=True)
class TensorNotes:
    """What is said of one tensor."""

    name: str = ""
    color: str | None = None  # of an image: RGB or gray
    boxes: BoxNotes | None = None
    rate: int | None = None  # of a sound, samples a second
    mean: tuple[float, ...] = ()  # value = (pixel − mean) / deviation
    deviation: tuple[float, ...] = ()
    threshold: float | None = None  # of scores that applications show
    calibrated: bool = False  # scores go through a calibration that the graph does not have
    labels: tuple[str, ...] = ()  # names of the files with names of classes, the first one counts
    tokens: TokenNotes | None = None


@dataclass(frozen=True)
class FileNotes:
    inputs: tuple[TensorNotes, ...]
    outputs: tuple[TensorNotes, ...]


def read_notes(path: Path) -> FileNotes | None:
    """What a TFLite file says of its inputs and outputs; None: nothing. ModelError where that is damaged."""
    content = attached(path, _NAME)
    if content is None:
        return None
    try:
        if content[4:8] != _MARK:
            raise ValueError(f"it does not carry the mark {_MARK.decode()}")  # noqa: TRY301
        graphs = root_table(content).tables(3, _MOST)
        return _of_graph(graphs[0]) if graphs else None
    except (ValueError, IndexError, struct.error) as error:
        raise ModelError(f"The metadata in {path.name} cannot be read: {why(error)}.") from error


def _of_graph(graph: Table) -> FileNotes:
    inputs = tuple(_tensor(tensor) for tensor in graph.tables(2, _MOST))
    outputs = tuple(_tensor(tensor) for tensor in graph.tables(3, _MOST))
    return FileNotes(inputs, outputs)


def _tensor(tensor: Table) -> TensorNotes:
    content, steps = tensor.table(3), dict(_steps(tensor))
    kind, properties = (content.scalar(0, "B"), content.table(1)) if content is not None else (0, None)
    mean, deviation = _numbers(steps.get(_NORMALISE), 0), _numbers(steps.get(_NORMALISE), 1)
    threshold = steps[_THRESHOLD].number(0, "f") if _THRESHOLD in steps else None
    rate = properties.scalar(0, "I") if properties is not None and kind == _AUDIO else None
    return TensorNotes(
        name=_text(tensor, 0),
        color=_COLORS.get(properties.scalar(0, "b")) if properties is not None and kind == _IMAGE else None,
        boxes=_boxes(properties) if properties is not None and kind == _BOXES else None,
        rate=rate or None,
        mean=mean,
        deviation=deviation,
        threshold=threshold if threshold is None or isfinite(threshold) else None,
        calibrated=_CALIBRATE in steps,
        labels=tuple(_text(file, 0) for file in tensor.tables(6, _MOST) if file.scalar(2, "b") in _LABELS),
        tokens=_tokens(steps),
    )


def _steps(tensor: Table) -> list[tuple[int, Table]]:
    """The steps outside of the graph that a tensor goes through, by their kinds."""
    units = [(unit.scalar(0, "B"), unit.table(1)) for unit in tensor.tables(4, _MOST)]
    return [(kind, step) for kind, step in units if step is not None]


def _numbers(step: Table | None, slot: int) -> tuple[float, ...]:
    """Numbers for the channels of a tensor; none where one of them is NaN or infinite."""
    numbers = step.numbers(slot, "f") if step is not None else ()
    if len(numbers) > _MOST or not all(isfinite(number) for number in numbers):
        raise ValueError("it normalises with numbers that are none")
    return tuple(float(number) for number in numbers)


def _boxes(properties: Table) -> BoxNotes:
    order = tuple(int(place) for place in properties.numbers(0, "I")) or (0, 1, 2, 3)
    return BoxNotes(_BOX_KINDS.get(properties.scalar(1, "b")), order, bool(properties.scalar(2, "b")))


def _tokens(steps: dict[int, Table]) -> TokenNotes | None:
    if _BERT in steps:
        return TokenNotes("bert", _first_file(steps[_BERT], 0))
    if _SENTENCES in steps:
        return TokenNotes("sentencepiece", _first_file(steps[_SENTENCES], 0))
    if _WORDS in steps:
        return TokenNotes("words", _first_file(steps[_WORDS], 1), _text(steps[_WORDS], 0))
    return None


def _first_file(step: Table, slot: int) -> str:
    files = step.tables(slot, _MOST)
    return _text(files[0], 0) if files else ""


def _text(table: Table, slot: int) -> str:
    if table.length(slot) > 1 << 16:
        raise ValueError("a text in it is too long")
    return table.text(slot)
