"""The contract of a live network: what a worker process can do with what the user's function returned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.networks.generators import generator_states
from zoolens.training.pairs.reading.side_facts import SideFacts

Array = NDArray[Any]


class LiveNetwork(ABC):
    """A network in evaluation mode with named tensors: learned ones, and statistics of norms.

    Tensors are in the framework's own shapes and under its own names. Counters and states of random generators are not
    among them. Inputs come with their channels first, as the user wrote `--input`; the network takes them in its own
    order.
    """

    framework: ClassVar[str]

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """Copies of all tensors, in float32, or float64 where the network has it."""

    @abstractmethod
    def assign(self, values: Mapping[str, Array]) -> None:
        """Set tensors by name; those that are not named stay as they are."""

    @abstractmethod
    def graph(self) -> Graph:
        """The raw graph with the tensors' current values."""

    @abstractmethod
    def opaque_answers(self, inputs: Sequence[Array]) -> tuple[Graph, dict[str, Array]]:
        """The raw graph for these inputs, and what the layers answer to them that nobody here computes, by the names of
        their nodes, in the network's own order of axes. Where a layer's answer cannot be had, it is left out."""

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in order, for one batch."""

    def draws(self, inputs: Sequence[Array]) -> bool:
        """Whether a run draws random numbers, as far as the states of generators show it."""
        before = self.generator_states()
        self.run(inputs)
        return self.generator_states() != before

    def decisions(self, inputs: Sequence[Array]) -> list[tuple[str, bool]]:
        """Where the network's code decides by numbers what it computes for these inputs, and how, in order."""
        return []

    def generator_states(self) -> bytes:
        """The states of all generators that the network is known to draw from."""
        return generator_states()

    @abstractmethod
    def facts(self) -> SideFacts:
        """What training would start from: initial weights, the settings of norms, dropout."""

    def learned(self) -> list[str] | None:
        """The names of the tensors that training would change by their gradients; None where it is not known."""
        return None

    def notes(self) -> list[str]:
        """Sentences about what had to be assumed of the network."""
        return []

    def module_classes(self) -> dict[str, str]:
        """The class of every module by its path, where the framework has such a hierarchy."""
        return {}

    @abstractmethod
    def move_to_gpu(self) -> None:
        """Compute on the GPU from now on; ModelError where the framework sees none."""

    def give_back(self) -> None:
        """Put the user's own object into the mode, and on the device, in which it was."""

    @abstractmethod
    def dtype(self) -> str:
        """The type of its tensors, and that of its arithmetic where it is another one: "float32"."""

    @abstractmethod
    def load(self, path: Path) -> None:
        """Set the tensors from a checkpoint in one of the framework's own formats. Nothing in it is executed."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the tensors in one of the framework's own formats."""


def no_gpu(framework: str) -> ModelError:
    return ModelError(
        f"{framework} sees no GPU.",
        hint="Its version for CUDA needs an NVIDIA GPU; or use --device cpu.",
    )


def joined(known: Mapping[str, Any], given: Mapping[str, Any], file: str) -> None:
    """Refuse a checkpoint that lacks a tensor of the network, or has one that the network lacks."""
    missing, further = [name for name in known if name not in given], [name for name in given if name not in known]
    if missing or further:
        problems = [f"has no {_few(missing)}"] if missing else []
        problems += [f"has {_few(further)}, which the network does not have"] if further else []
        raise ModelError(f"The checkpoint {file} {' and '.join(problems)}.", hint="Is it of this network?")


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


def checked_assignment(known: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
    """Refuse names and shapes that a network does not have, before anything is changed."""
    for name, array in values.items():
        if name not in known:
            raise ModelError(f"The network has no tensor {name!r}.")
        if tuple(known[name]) != array.shape:
            raise ModelError(f"The tensor {name!r} has the shape {tuple(known[name])}, not {array.shape}.")


def plain(array: Any) -> Array:
    """An array as it travels between processes: float64 stays, other floating types become float32."""
    given = np.asarray(array)
    return given if given.dtype.kind in "iub" or given.dtype == np.float64 else given.astype(np.float32)
