"""What a task is told of an output whose answers it reads: the manifest's words, the tensors, the dataset's classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError
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

    def require_one_text(self) -> None:
        """Refuses answers that are places in a text where the model takes another sample, or several texts."""
        kinds = [spec.modality for spec in self.inputs]
        if kinds.count("text") != 1 or "image" in kinds:
            raise ManifestError(
                f"Answers of the task {self.output.task} are places in a text, but the model takes {', '.join(kinds)}.",
                hint="It may take one text, with arrays and constants beside it.",
            )


def tensors_by_role(
    output: Output, roles: Mapping[str, bool], outputs: Sequence[TensorSpec], place: int
) -> dict[str, TensorSpec]:
    """The tensors of the declared output at `place` by role, as its manifest names them.

    `roles`: those of its task, and whether each must be there.
    """
    listed = ", ".join(roles)
    if output.parts is None and sum(roles.values()) == 1:
        # One tensor is all that it needs.
        needed = next(role for role, required in roles.items() if required)
        return {needed: named_tensor(outputs, output.name, "output", place)}
    if output.parts is None:
        raise ManifestError(
            f"The task {output.task} reads several tensors, but the manifest does not say which is which.",
            hint=f"Name them under parts: {listed}.",
        )
    if unknown := [role for role in output.parts if role not in roles]:
        raise ManifestError(f"The task {output.task} has no part {unknown[0]!r}.", hint=f"Its parts are {listed}.")
    if missing := [role for role, required in roles.items() if required and role not in output.parts]:
        raise ManifestError(f"The manifest names no tensor for the part {missing[0]!r} of task {output.task}.")
    return {role: named_tensor(outputs, output.parts[role], "output", place) for role in roles if role in output.parts}


def named_tensor(specs: Sequence[TensorSpec], name: str | None, kind: str, place: int) -> TensorSpec:
    """The tensor of this name; without a name the one at `place`. `kind`: input or output, for the errors."""
    if name is None and place < len(specs):
        return specs[place]
    if name is None:
        raise ManifestError(f"The manifest declares {place + 1} {kind}s, but the model has {len(specs)}.")
    for spec in specs:
        if spec.name == name:
            return spec
    raise ManifestError(
        f"The manifest names the {kind} {name!r}, but the model has {', '.join(spec.name for spec in specs)}."
    )
