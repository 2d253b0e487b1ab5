"""One declared output of a model that answers: its tensors, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.inventory.manifests.schema_steps import Pool
from zoolens.inventory.preprocess.outputs import ANOTHER_OUTPUT, plain_numbers
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text
from zoolens.inventory.tasks.output_setup import OutputSetup, Reader
from zoolens.inventory.tasks.task import task_named

Array = NDArray[Any]
# What an output answered to a batch: one tensor; several by role where the task has roles.
Raw = Array | Mapping[str, Array]


@dataclass(frozen=True)
class JudgedOutput:
    """One declared output. `read` turns the answers of `tensor` into probabilities (classification) or plain vectors.

    An output of a task with roles has several tensors, of which `tensor` is the first: `read_parts` turns all of them
    into what the task keeps.
    """

    tensor: TensorSpec
    task: str
    read: Callable[[Array], NDArray[np.float32]]
    pooling: Pool | None = None  # how vectors of tokens become one of a text, before `read`
    parts: Mapping[str, TensorSpec] = field(default_factory=dict)  # by role
    read_parts: Reader | None = None
    batch_axis: int = 0  # of its tensors, as the model gives them

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(self.parts.values()) or (self.tensor,)

    def raw(self, answered: Mapping[str, Array]) -> Raw:
        """What this output has of a model's answers by tensor, inputs first."""
        if self.read_parts is None:
            return self._inputs_first(answered, self.tensor.name)
        return {role: self._inputs_first(answered, tensor.name) for role, tensor in self.parts.items()}

    def rows(self, answered: Mapping[str, Array], batch: int) -> Raw:
        """`raw`, of which every tensor has a row for each input of a batch."""
        answers = self.raw(answered)
        values = answers.values() if isinstance(answers, Mapping) else (answers,)
        for tensor, value in zip(self.tensors, values, strict=True):
            _check_rows(tensor.name, value, batch)
        return answers

    def _inputs_first(self, answered: Mapping[str, Array], name: str) -> Array:
        if not self.batch_axis:
            return answered[name]
        if answered[name].ndim <= self.batch_axis:
            raise ModelError(
                f"The output {name} has shape {shape_text(answered[name].shape)}, but its batch_axis is "
                f"{self.batch_axis}.",
                hint="Correct batch_axis in the manifest; axes count from 0.",
            )
        return np.moveaxis(answered[name], self.batch_axis, 0)

    def answers(self, raw: Raw, memos: Sequence[Any]) -> Any:
        """What the task keeps. `memos`: of each input, what its preparation left to be known."""
        if isinstance(raw, Mapping):
            assert self.read_parts is not None
            return self.read_parts(raw, memos)
        return self.read(raw)


def read_by_parts(setup: OutputSetup) -> JudgedOutput:
    """An output whose task reads its tensors by role."""
    output, first = setup.output, next(iter(setup.tensors.values()))
    return JudgedOutput(
        first,
        output.task,
        plain_numbers(first),
        parts=setup.tensors,
        read_parts=task_named(output.task).reader(setup),
        batch_axis=output.batch_axis,
    )


def _check_rows(name: str, answer: Array, batch: int) -> None:
    if not answer.ndim or len(answer) != batch:
        given = f"{len(answer):,} rows" if answer.ndim else "a single number"
        raise ModelError(
            f"The output {name} has {given} for a batch of {batch}, not an answer for each input.",
            hint="Rows that are detections, numbers about a whole batch, and files exported for another batch "
            f"size cannot be told apart by input. {ANOTHER_OUTPUT}",
        )
