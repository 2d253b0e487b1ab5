"""What a task is told of an output whose answers it reads: the manifest's words, the tensors, the dataset's classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.runtimes.runtime import TensorSpec

Array = NDArray[Any]
# From the raw tensors of a batch, by role, and what preparing each input left behind (of an image: where it lies on the
# canvas), to whatever the task's `keep` takes. NaN and infinity are the reader's to refuse.
Reader = Callable[[Mapping[str, Array], Sequence[Any]], Any]


@dataclass(frozen=True)
class OutputSetup:
    """One declared output of a model that is about to answer. `classes`: the names of the dataset's classes."""

    output: Output
    inputs: tuple[Input, ...]
    tensors: Mapping[str, TensorSpec]  # by role
    folder: Path | None = None  # of the manifest, for files that it names
    classes: tuple[str, ...] | None = None
    # The dataset's class for each class of the model, −1 where it has none; None: they are numbered alike.
    translation: NDArray[np.int64] | None = field(default=None, compare=False)
