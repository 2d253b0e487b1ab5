"""The contract of importers: a request goes in, a raw graph comes out, or an error that says why not.

A *library* importer builds a network by name, without weights unless asked, and is registered under
`zoolens.graph.libraries`; a *file* importer reads one format and is registered under `zoolens.graph.files`. What is
registered is an `Importer`. Its `load` imports the framework inside; it may run in another process or environment, so
the module that defines it needs nothing but numpy and zoolens.findings.graph.

`load` raises ModelError (one sentence) for a model it cannot build or read. An operator it does not know becomes a
node of op "unknown", never an error and never nothing. Shapes are for batch 1 and static: a file with a free image
size asks for one (`size`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph


@dataclass(frozen=True)
class Request:
    """What an importer is asked for. `subject` is the name in the library, or the path of the file; `files` has further
    paths by role."""

    subject: str
    size: tuple[int, int] | None = None  # height, width; None: the library's or file's own
    arguments: Mapping[str, Any] = field(default_factory=dict)  # passed to the library's constructor
    files: Mapping[str, str] = field(default_factory=dict)
    # Shapes of inputs that the file leaves open, by name; under "" for every input of that rank.
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights: bool = False  # carry the values too: a library then initialises them (seeded), a file reads them

    @classmethod
    def of_files(
        cls,
        files: Mapping[str, Path],
        size: tuple[int, int] | None,
        *,
        weights: bool = False,
        extents: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Request:
        """A request for the file in the role "model", with the others beside it."""
        others = {role: str(path) for role, path in files.items() if role != "model"}
        return cls(str(files["model"]), size=size, files=others, weights=weights, extents=extents or {})

    def as_message(self) -> dict[str, Any]:
        """The request as plain data for another process; `from_message` reads it there."""
        return {
            "subject": self.subject,
            "size": self.size,
            "arguments": dict(self.arguments),
            "files": dict(self.files),
            "extents": dict(self.extents),
            "weights": self.weights,
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Request:
        size = message.get("size")
        return cls(
            message["subject"],
            size=(int(size[0]), int(size[1])) if size else None,
            arguments=message.get("arguments") or {},
            files=message.get("files") or {},
            extents={name: tuple(shape) for name, shape in (message.get("extents") or {}).items()},
            weights=bool(message.get("weights")),
        )


@dataclass(frozen=True)
class Importer:
    load: Callable[[Request], Graph]
    distributions: tuple[str, ...]  # packages whose versions a graph depends on
    environment: tuple[str, ...] = ()  # requirements of the environment it needs; empty: this one
    without_dependencies: tuple[str, ...] = ()  # further ones, installed alone because they pin what cannot be had
    seconds: float = 0.2  # about how long one network takes, so that the longest work is begun first


def load_object(point: str, kind: type[Any]) -> Any:
    """The object that "module:attribute" names; TypeError where it is of another kind."""
    module, _, attribute = point.partition(":")
    loaded = getattr(importlib.import_module(module), attribute)
    if not isinstance(loaded, kind):
        raise TypeError(f"{point} is no {kind.__name__}")
    return loaded


def model_path(request: Request) -> Path:
    """The file that a request names; ModelError where there is none."""
    path = Path(request.subject)
    if not path.is_file():
        raise ModelError(f"There is no file {path}.")
    return path


def counted(graph: Graph) -> Graph:
    """The raw graph with the number of its parameters among its facts, for passes join what a source keeps apart."""
    return replace(graph, facts={**graph.facts, "parameters_total": graph.parameters})
