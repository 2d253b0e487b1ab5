"""What exporters write into a model file beside its graph: names of classes, and the properties of ONNX files."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import check_unpacked, open_archive
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.litert.flexbuffer_map import whole_numbers
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.model_files.protobuf_wire import content, fields

_MOST_BYTES: Final = 1 << 20  # of one list of names, or of one property
_MOST_CLASSES: Final = 100_000
_PROPERTIES: Final = 14  # the field of an ONNX model that holds them
_POSTPROCESS: Final = "TFLite_Detection_PostProcess"
_ORDER: Final = ("boxes", "classes", "scores", "count")  # of that operator's outputs, whatever they are called


def zipped_labels(path: Path, name: str | None = None) -> tuple[str, ...] | None:
    """The names of classes in the archive that lies behind a TFLite model: those in the file of this name, or in the
    only one whose name has "label" in it. None: there are none, or several lists."""
    text = zipped_text(path, name)
    # An empty first line is the class 0: without it all others would be one lower.
    names = tuple(line.strip() for line in (text or "").rstrip().splitlines())
    return names if 1 < len(names) <= _MOST_CLASSES else None


def zipped_text(path: Path, name: str | None, most: int = _MOST_BYTES) -> str | None:
    """A text in that archive; None: there is none, or it is too large."""
    try:
        with open_archive(path) as archive:
            check_unpacked(archive)
            files = archive.infolist()
            named = [one for one in files if (one.filename == name if name else "label" in one.filename.lower())]
            if len(named) != 1 or named[0].file_size > most:
                return None
            return archive.read(named[0]).decode("utf-8")
    except (zipfile.BadZipFile, OSError, ModelError, UnicodeDecodeError, NotImplementedError, RuntimeError):
        return None


def onnx_properties(path: Path) -> dict[str, str]:
    """The texts by name that an exporter wrote into an ONNX file."""
    found: dict[str, str] = {}
    try:
        for number, value in fields(memoryview(model_bytes(path))):
            if number == _PROPERTIES:
                entry = {part: bytes(content(text)) for part, text in fields(content(value))}
                if max(map(len, entry.values()), default=0) <= _MOST_BYTES:
                    found[entry.get(1, b"").decode("utf-8")] = entry.get(2, b"").decode("utf-8")
    except (ValueError, IndexError, ModelError):
        return {}
    return found


def listed_names(text: str) -> tuple[str, ...] | None:
    """The names of classes as Ultralytics writes them: {0: 'person', 1: 'bicycle'}; None: it is something else."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    if not isinstance(value, dict) or sorted(value, key=str) != sorted(range(len(value)), key=str):
        return None
    names = [value[place] for place in range(len(value))]
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def listed_size(text: str) -> tuple[int, int] | None:
    """Height and width as Ultralytics writes them: [640, 640]."""
    parts = text.strip("[]() ").split(",")
    sides = [int(part) for part in parts if part.strip().isdecimal() and len(part) < 8]
    return (sides[0], sides[1]) if len(sides) == len(parts) == 2 else None


@dataclass(frozen=True)
class FinishedBoxes:
    """What TFLite's own operator for detections gives. `places`: which output of the file holds what. `classes`: how
    many there are without the background, where that is known."""

    places: Mapping[str, int]
    classes: int | None


def finished_boxes(path: Path) -> FinishedBoxes | None:
    """The outputs of that operator in a TFLite file; None: it has none."""
    try:
        graph = tflite_file.read_graph(path)
    except ModelError:
        return None
    made = next((operator for operator in graph.operators if operator.custom == _POSTPROCESS), None)
    if made is None:
        return None
    roles = dict(zip(made.outputs, _ORDER, strict=False))
    places = {roles[tensor]: place for place, tensor in enumerate(graph.outputs) if tensor in roles}
    return FinishedBoxes(places, whole_numbers(bytes(made.custom_options)).get("num_classes"))
