"""A folder of transformers: what its config.json and the JSON files beside it say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.safety.untrusted import is_file, parse_json, read_text

_CONFIG: Final = "config.json"
_MOST_BYTES: Final = 1 << 22
_MOST_CLASSES: Final = 100_000
CAUSAL: Final = "ForCausalLM"
_HEADS: Final = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForImageClassification",
    "ForSemanticSegmentation",
    "ForObjectDetection",
    CAUSAL,
)


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a config.json of transformers."""

    place: Path
    config: Mapping[str, Any]

    def content(self, name: str) -> Any:
        """What a JSON file of the folder holds; empty where there is none that can be read."""
        path = self.place / name
        try:
            return parse_json(read_text(path, _MOST_BYTES)) if is_file(path) else {}
        except (OSError, ValueError):
            return {}

    @property
    def head(self) -> str:
        """What the exported class is for, such as ForImageClassification; empty: hidden states."""
        return next((head for head in _HEADS if _first_class(self.config).endswith(head)), "")

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of classes; None where there are none but LABEL_0 and the like."""
        listed = self.config.get("id2label")
        if not isinstance(listed, dict) or not 0 < len(listed) <= _MOST_CLASSES:
            return None
        names = [listed.get(str(number)) for number in range(len(listed))]
        if not all(isinstance(name, str) for name in names) or names[0] == "LABEL_0":
            return None
        return tuple(map(str, names))


def folder_of(path: Path) -> ModelFolder | None:
    """The folder of transformers that a file belongs to: its own, or the one above a folder called onnx."""
    for place in (path.parent, path.parent.parent) if path.parent.name == "onnx" else (path.parent,):
        found = ModelFolder(place, {}).content(_CONFIG)
        if isinstance(found, dict) and isinstance(found.get("model_type"), str):
            return ModelFolder(place, found)
    return None


def causal(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a model of the next token."""
    return _first_class(config).endswith(CAUSAL)


def _first_class(config: Mapping[str, Any]) -> str:
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
