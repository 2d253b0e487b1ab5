"""The contract every zoo keeps: list entries cheaply, describe each with a manifest, never invent weights.

A plug-in registers a `Zoo` subclass under `zoolens.zoos`. Frameworks are imported inside methods. An entry whose
weights are not on this machine says so; nothing in zoolens ever fills in random ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from zoolens.inventory.manifests.schema import Manifest


class Weights(StrEnum):
    PRESENT = "present"  # every file of some asset is on this machine
    REMOTE = "remote"  # a location is known, nothing is here yet: `zoolens pull` fetches it
    ABSENT = "structure only"  # the architecture is known, weights are not to be had


@dataclass(frozen=True)
class Entry:
    """One model of one zoo. `folder` is where relative locations in the manifest start; `file` is the manifest's name
    in it, where the model was named by that path."""

    zoo: str
    manifest: Manifest
    weights: Weights
    folder: Path | None = None
    file: str = ""

    def __repr__(self) -> str:
        return f"<Entry {self.full_ref}, weights {self.weights.value}>"

    @property
    def ref(self) -> str:
        return f"{self.zoo}:{self.manifest.name}"

    @property
    def full_ref(self) -> str:
        return f"{self.ref}@{self.manifest.version}"

    @property
    def described(self) -> bool:
        """False: a bare model file, of which only name and format are known until a manifest is drafted."""
        return not self.manifest.attributes.get("undescribed")


class Zoo(ABC):
    name: ClassVar[str]
    summary: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]] = ()  # packages whose versions the listing depends on (cache key)
    extra: ClassVar[str | None] = None
    remote: ClassVar[bool] = False  # a listing asks a server: only when this zoo is named, and never cached

    @abstractmethod
    def entries(self, search: str | None = None) -> Iterable[Entry]:
        """All models (or those matching `search`, for zoos too large to list). No weights are read."""

    def available(self) -> str | None:
        """Returns None if the zoo can be listed here, else one sentence saying what is missing."""
        return None

    def state(self) -> str:
        """What a listing depends on beside `distributions`, such as which weights are here. Cheap: no imports."""
        return ""

    def problems(self) -> list[str]:
        """What kept models out of the last listing, such as a broken manifest; one sentence each."""
        return []

    def namesakes(self) -> Mapping[str, Sequence[Path]]:
        """Where several models of the last listing have the same name and version: the paths of all, by that name. The
        listing has only the first."""
        return {}
