"""The contract of a trainer: one class in one file, registered under the entry-point group `zoolens.trainers`.

- the framework is imported in `train` or below it, never at module import;
- one job at a time; a trainer's process serves many jobs after each other, so a job leaves nothing global behind;
- seeds are set before the network is made;
- batches are those of `zoolens.training.pairs.data.epoch_order.batches`: the same samples in the same order with the
  same augmentation on every side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.plugins import installed_version
from zoolens.base.present.results import Result
from zoolens.training.crosstrain.training.job import Epoch, Job, LoopKind, Outcome
from zoolens.training.crosstrain.training.recipe import FEATURES
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import USUAL, Semantics

Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, repr=False)
class Trained(Result):
    """`weights` by the names and in the layout of `network`, where the job asks for them."""

    outcome: Outcome
    predictions: NDArray[np.int32]
    weights: Weights | None = None


class Trainer(ABC):
    """What a trainer can do beyond `train` is declared by the attributes and methods below. Nobody asks for its name:
    what is not declared is refused with one sentence that says so."""

    name: ClassVar[str]
    summary: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]]  # whose versions change the numbers; the first one is "the" version
    extra: ClassVar[str | None] = None
    variables: ClassVar[Mapping[str, str]] = {}  # environment of its process, such as KERAS_BACKEND

    # What of `recipe.FEATURES` it knows: a recipe that asks for more is refused before it is trained.
    knows: ClassVar[frozenset[str]] = frozenset()
    # Its place among those that train where nobody is named; None: it trains only where it is named.
    default_place: ClassVar[int | None] = None
    # What its networks have where nobody says otherwise; decides at least `architectures.STRUCTURAL`.
    habits: ClassVar[Semantics] = USUAL
    # Its networks are those of `architectures.build`, so that their tensors and parameters are known beforehand.
    common_networks: ClassVar[bool] = False
    # It can begin with given weights also where a recipe asks for a network as its library ships it.
    starts_shipped: ClassVar[bool] = False
    # It writes what `Job.capture` asks for, so that `--lockstep` can compare its steps.
    captures: ClassVar[bool] = False
    # The precision in which it computes what others are compared with in lockstep; a reference also has `answers`.
    reference_precision: ClassVar[Literal["float64"] | None] = None
    # "module:NAME" of the `importers.importer.Importer` that inspects its live objects for `crosstrain diff`. It puts
    # `diff.facts.SideFacts` into the fact "live" of the graph. None: it cannot be inspected.
    inspector: ClassVar[str | None] = None
    aliases: ClassVar[tuple[str, ...]] = ()  # further names for it in `crosstrain diff`

    @classmethod
    def versions(cls) -> dict[str, str]:
        """The installed packages that change its numbers."""
        installed = {name: installed_version(name) or installed_version(f"{name}-cpu") for name in cls.distributions}
        return {name: version for name, version in installed.items() if version}

    @classmethod
    def usual_loop(cls, device: str) -> LoopKind:
        """The loop that its users have on a device."""
        return "compiled"

    def check_known(self, job: Job) -> None:
        """Refuse what this trainer would ignore: an optimizer, say, that came after it was written."""
        asked = job.recipe.features | (FEATURES & {job.semantics.weight_decay, job.semantics.reduction})
        if unknown := sorted(asked - self.knows):
            raise ModelError(
                f"The trainer {self.name} does not know {' and '.join(unknown)}.",
                hint="Use another trainer, or leave that out of the recipe.",
            )

    @abstractmethod
    def train(self, job: Job, data: TrainData, weights: Weights | None, report: Callable[[Epoch], None]) -> Trained:
        """Train and test. Out of memory and a loss that is not finite are outcomes; captures go to `job.output`."""

    def live_model(self, side: SideRecipe, weights: Weights) -> Any:
        """A network of the framework with these weights, which answers logits to images between 0 and 1."""
        raise ModelError(f"The trainer {self.name} makes no live models.", hint="Read the numbers with `weights`.")

    def answers(self, side: SideRecipe, weights: Weights, images: NDArray[np.uint8]) -> NDArray[np.int32]:
        """The class that a network with these weights answers for each image (N×H×W×C)."""
        raise ModelError(f"The trainer {self.name} runs no trained networks.", hint="Use another trainer.")
