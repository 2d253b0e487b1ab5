"""The contract of importers: a request goes in, a raw graph comes out, or an error that says why not.

A *library* importer builds a network by name, without weights unless asked, and is registered under
`zoolens.graph.libraries`; a *file* importer reads one format and is registered under `zoolens.graph.files`. What is
registered is an `Importer`. Its `load` imports the framework inside; it may run in another process or environment, so
the module that defines it needs nothing but numpy and zoolens.graph.

`load` raises ModelError (one sentence) for a model it cannot build or read. An operator it does not know becomes a
node of op "unknown", never an error and never nothing. Shapes are for batch 1 and static: a file with a free image
size asks for one (`size`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zoolens.graph.model import Graph


@dataclass(frozen=True)
class Request:
    """`subject`: the name in the library, or the path of the file (`files` has further ones by role)."""

    subject: str
    size: tuple[int, int] | None = None  # height, width; None: the library's or file's own
    arguments: Mapping[str, Any] = field(default_factory=dict)  # passed to the library's constructor
    files: Mapping[str, str] = field(default_factory=dict)
    weights: bool = False  # carry the values too: a library then initialises them (seeded), a file reads them


@dataclass(frozen=True)
class Importer:
    load: Callable[[Request], Graph]
    distributions: tuple[str, ...]  # packages whose versions a graph depends on
    environment: tuple[str, ...] = ()  # requirements of the environment it needs; empty: this one
    without_dependencies: tuple[str, ...] = ()  # further ones, installed alone because they pin what cannot be had


def counted(graph: Graph) -> Graph:
    """The raw graph with the number of its parameters among its facts, for passes join what a source keeps apart."""
    return replace(graph, facts={**graph.facts, "parameters_total": graph.parameters})
