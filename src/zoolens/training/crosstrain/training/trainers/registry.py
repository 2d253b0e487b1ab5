"""The trainers that are installed, chosen by what they declare."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.training.trainers.trainer import Trainer


def trainer_named(name: str) -> type[Trainer]:
    """Raises UnknownName for a trainer that is not installed."""
    return cast(type[Trainer], plugins.load(plugins.TRAINERS, name))


def trainers() -> list[type[Trainer]]:
    """Every installed trainer: first those with a default place, then the others by name. A plug-in that cannot be
    imported is left out; `trainer_named` says why it cannot."""
    installed: list[type[Trainer]] = []
    for name in plugins.names(plugins.TRAINERS):
        with suppress(ZoolensError):
            installed.append(trainer_named(name))
    return sorted(
        installed, key=lambda trainer: (trainer.default_place is None, trainer.default_place or 0, trainer.name)
    )


def default_frameworks() -> tuple[str, ...]:
    """The names of the trainers that train where nobody is named."""
    return tuple(trainer.name for trainer in trainers() if trainer.default_place is not None)


def reference_trainer() -> type[Trainer]:
    """The trainer whose results others are compared with."""
    for trainer in trainers():
        if trainer.reference_precision is not None:
            return trainer
    raise ZoolensError("No trainer that is installed can be the reference.", hint="Install zoolens[torch].")


def inspectable_trainers() -> dict[str, type[Trainer]]:
    """The trainers whose live objects an importer reads, by each name under which they can be inspected."""
    declared = [trainer for trainer in trainers() if trainer.inspector]
    return {name: trainer for trainer in declared for name in (trainer.name, *trainer.aliases)}


def builds_common_networks(name: str) -> bool:
    """Whether a trainer of this name is installed and its networks are those of `architectures.build`."""
    try:
        return trainer_named(name).common_networks
    except ZoolensError:
        return False
