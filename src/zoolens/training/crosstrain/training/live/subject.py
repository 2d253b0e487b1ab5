"""What is inspected: one architecture at one size, and the size at which its structure shows best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.findings.graph.importers.importer import Request
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import LIBRARY_ONLY_SHIPPED
from zoolens.training.pairs.semantics import Semantics

SEED: Final = 0  # of the freshly drawn weights, so that an answer can be repeated
_OUTLINE_SIDE: Final = 224  # on smaller images the last maps have one place, where convolutions and pools mean nothing


@dataclass(frozen=True)
class Subject:
    architecture: str
    input_shape: tuple[int, int, int]  # channels, height, width
    classes: int

    @property
    def shipped(self) -> bool:
        return self.architecture in LIBRARY_ONLY_SHIPPED

    @property
    def outline_shape(self) -> tuple[int, int, int]:
        channels, height, width = self.input_shape
        return (channels, max(height, _OUTLINE_SIDE), max(width, _OUTLINE_SIDE))

    def network(self, habits: Semantics) -> Network:
        """Our definition with what a framework's users do, for architectures that no library ships."""
        return build(self.architecture, habits, self.input_shape, self.classes)


def subject_of(request: Request) -> Subject:
    """The subject that `inspection` asks an importer of live objects for."""
    assert request.size is not None
    arguments = request.arguments
    return Subject(request.subject, (int(arguments["channels"]), *request.size), int(arguments["classes"]))
