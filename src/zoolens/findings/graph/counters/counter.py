"""The contract of cost counters, which are registered under `zoolens.counters`.

A counter names the package it runs, the kind of network that package looks at, and its convention. `count` is called
in a process of its own (`counter_worker`), whose output nobody reads and whose current folder is temporary: it may
print, patch its framework and leave files. What it raises is shown as the reason why there is no count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from zoolens.findings.graph.counters.subjects import CountedModel
from zoolens.findings.graph.counters.terms import Convention
from zoolens.findings.graph.ir.model import Graph

KINDS: Final[Mapping[str, str]] = {
    "torch": "live torch networks",
    "keras": "live Keras models",
    "onnx": "ONNX files",
}


@dataclass(frozen=True)
class Counter:
    name: str
    distribution: str  # the package it runs
    kind: str  # of KINDS
    convention: Callable[[Graph], Convention]
    count: Callable[[CountedModel], float]

    @property
    def version(self) -> str | None:
        """The version of the counter's package; None where it is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None


def always(convention: Convention) -> Callable[[Graph], Convention]:
    """For a counter whose convention does not depend on the network."""
    return lambda graph: convention
