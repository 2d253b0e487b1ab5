"""The two sides of a port: functions of the user's own code, each called in a worker process of its own.

A side is named on the command line or in Python, as `file.py:function` or `module:function`, and nowhere else: no
store, manifest or exchanged folder can name one, for naming it runs it.
"""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np

from zoolens.base.engine.fork_server import Preloaded
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import ModelError, WorkerTimeout, ZoolensError
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.training.pairs.mapping.comparable_graph import comparable
from zoolens.training.pairs.mapping.origins import (
    Origin,
    graph_and_origins,
    opaque_answers,
    output_axes,
    run_with_channels_first,
    unpacked_origins,
)
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.networks.recognition import recognised
from zoolens.training.pairs.reading.side_facts import SideFacts
from zoolens.training.pairs.sides.framework_imports import preloaded_for

TIMEOUT: Final = 300.0  # seconds for one answer, of which calling the function is the first
Device = Literal["cpu", "gpu"]
# Of a process on each device. Two processes share one GPU, so that none may take all of its memory; and TF32, which one
# framework uses by default where another does not, is off.
_VARIABLES: Final[Mapping[Device, Mapping[str, str]]] = {
    "cpu": {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"},
    "gpu": {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "NVIDIA_TF32_OVERRIDE": "0",
        "JAX_DEFAULT_MATMUL_PRECISION": "float32",
    },
}
# Files whose functions are called in a process that is started for them, with the time of their last change.
_STARTED: Final[set[tuple[str, int]]] = set()
_MOST: Final = 1 << 28  # numbers of one input
_INPUT: Final = re.compile(r"(?:(int|float):)?(\d{1,9}(?:[x×]\d{1,9}){0,5})")


@dataclass(frozen=True)
class InputShape:
    """One input of both networks, without the batch; an image has its channels first. `kind`: "float" or "int"."""

    shape: tuple[int, ...]
    kind: str = "float"

    @classmethod
    def parse(cls, text: str) -> InputShape:
        match = _INPUT.fullmatch(text.strip())
        shape = tuple(int(part) for part in re.split("[x×]", match[2])) if match else ()
        if match is None or 0 in shape or np.prod(shape, dtype=float) > _MOST:
            raise ZoolensError(
                f"{text[:40]!r} is no shape of an input.",
                hint="Write channels, height and width of images (3x64x64), or int:128 for 128 whole numbers.",
            )
        return cls(shape, match[1] or "float")


@dataclass(frozen=True)
class SideName:
    """What the user wrote, and what it means: a Python file or a module, and a function in it."""

    text: str
    code: str
    function: str

    @classmethod
    def parse(cls, text: str) -> SideName:
        code, colon, function = text.rpartition(":")
        if not colon or not code or not function.isidentifier():
            raise ModelError(
                f"{text[:80]!r} names no function.", hint="Write file.py:function or module:function, as my_net.py:net."
            )
        if code.endswith(".py"):
            if not Path(code).is_file():
                raise ModelError(f"There is no file {code}.")
            return cls(text, str(Path(code).absolute()), function)
        if not all(part.isidentifier() for part in code.split(".")):
            raise ModelError(
                f"{code[:80]!r} is neither a Python file nor the name of a module.",
                hint="Write file.py:function or module:function.",
            )
        return cls(text, code, function)


class PortSide(ABC):
    """One network of the user's, wherever it lives; use it in a `with`."""

    text: str  # what sentences call it
    framework: str
    dtype: str
    facts: SideFacts
    learned: frozenset[str] | None = None  # the names of tensors that have gradients in training, where it is known
    notes: tuple[str, ...] = ()  # what had to be assumed of it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let the network go."""

    @abstractmethod
    def read(self) -> tuple[Graph, dict[str, Origin]]:
        """The canonical graph and where each of its tensors comes from, by key."""

    @abstractmethod
    def canonical_graph(self) -> Graph:
        """The canonical graph with the current values."""

    @abstractmethod
    def source(self) -> tuple[Graph, dict[str, str]]:
        """The graph as the network's own code has it, and the classes of its modules by path."""

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """Copies of the network's tensors, by its own names."""

    @abstractmethod
    def assign(self, values: Mapping[str, Array]) -> None:
        """Set tensors by name."""

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for inputs that have their channels first; maps among them have so, too."""

    @abstractmethod
    def output_axes(self) -> list[str]:
        """What the axes of each output are in the network's own order, such as "NHWC"; empty where it is not known."""

    @abstractmethod
    def draws(self, inputs: Sequence[Array]) -> bool:
        """Whether a run draws random numbers, as far as the states of generators show it."""

    @abstractmethod
    def decisions(self, inputs: Sequence[Array]) -> list[tuple[str, bool]]:
        """Where the network's code decides by numbers what it computes for these inputs, and how, in order."""

    @abstractmethod
    def opaque_answers(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """What the layers answer that nobody here computes, by the names of their nodes in the canonical graph."""

    @abstractmethod
    def load(self, path: Path) -> None:
        """Set the tensors from a checkpoint in one of the framework's own formats."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the tensors in one of the framework's own formats."""


class LiveSide(PortSide):
    """A network that a user of Python holds already; its tensors and its mode are put back at the end."""

    def __init__(self, made: Any, inputs: Sequence[InputShape], text: str) -> None:
        shapes, kinds = [given.shape for given in inputs], [given.kind for given in inputs]
        self._network = recognised(made, shapes, kinds, text)
        self.text = text
        self.framework, self.dtype = self._network.framework, self._network.dtype()
        self.facts = self._network.facts()
        self.learned, self.notes = _names(self._network.learned()), tuple(self._network.notes())
        self._before = self._network.tensors()
        self._axes: list[str] | None = None

    def close(self) -> None:
        self._network.assign(self._before)
        self._network.give_back()

    def read(self) -> tuple[Graph, dict[str, Origin]]:
        return graph_and_origins(self._network)

    def canonical_graph(self) -> Graph:
        return comparable(self._network.graph())

    def source(self) -> tuple[Graph, dict[str, str]]:
        return self._network.graph(), self._network.module_classes()

    def tensors(self) -> dict[str, Array]:
        return self._network.tensors()

    def assign(self, values: Mapping[str, Array]) -> None:
        self._network.assign(values)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return run_with_channels_first(self._network, inputs, self.output_axes())

    def output_axes(self) -> list[str]:
        if self._axes is None:
            self._axes = output_axes(self._network)
        return self._axes

    def draws(self, inputs: Sequence[Array]) -> bool:
        return self._network.draws(inputs)

    def decisions(self, inputs: Sequence[Array]) -> list[tuple[str, bool]]:
        return self._network.decisions(inputs)

    def opaque_answers(self, inputs: Sequence[Array]) -> dict[str, Array]:
        return opaque_answers(self._network, inputs)

    def load(self, path: Path) -> None:
        self._network.load(path)

    def save(self, path: Path) -> None:
        self._network.save(path)


class WorkerSide(PortSide):
    """A function of the user's code in a process of its own, which ends with all that it started."""

    def __init__(
        self, name: SideName, inputs: Sequence[InputShape], *, timeout: float = TIMEOUT, device: Device = "cpu"
    ) -> None:
        self.text = name.text
        self._timeout = timeout
        message = {
            "do": "open",
            "code": name.code,
            "function": name.function,
            "name": name.text,
            "shapes": [list(given.shape) for given in inputs],
            "kinds": [given.kind for given in inputs],
            "device": device,
        }
        about = self._opened(name, message, device)
        try:
            self.framework, self.dtype = str(about["framework"]), str(about["dtype"])
            self.facts = SideFacts.model_validate(about["facts"])
            self.learned, self.notes = _names(about["learned"]), tuple(map(str, about["notes"]))
        except BaseException:
            self._worker.stop()
            raise

    def _opened(self, name: SideName, message: Mapping[str, Any], device: Device) -> Mapping[str, Any]:
        """Start the process, and call the function in it. Where a fork of a process that had imported the framework
        before is in doubt, a process of its own has the last word: errors are always from such a one."""
        kind = WorkerKind(
            f"process of {name.text}",
            "zoolens.training.pairs.loop.side_worker",
            "zoolens.training.pairs.loop.side_worker",
            variables=(("TF_CPP_MIN_LOG_LEVEL", "3"), *_VARIABLES[device].items()),
            own_folder=True,
            preloaded=self._preloaded(name, device),
        )
        doing = f"calling {name.function}"
        try:
            about = self._called(kind, message, doing)
        except WorkerTimeout:
            raise
        except ZoolensError:
            if not self._worker.forked:
                raise
            about = {"unfit": "it raises an error"}
        if "unfit" in about:
            _STARTED.add(_version(name))
            self._worker.stop()
            about = self._called(replace(kind, preloaded=None), message, doing)
        return about

    def _preloaded(self, name: SideName, device: Device) -> Preloaded | None:
        """What the process may have imported before the user's code. A GPU's driver does not survive a fork."""
        if device != "cpu" or _version(name) in _STARTED:
            return None
        return preloaded_for(name.code)

    def _called(self, kind: WorkerKind, message: Mapping[str, Any], doing: str) -> Mapping[str, Any]:
        self._worker = WorkerProcess(kind)
        try:
            about: Mapping[str, Any] = self._ask(message, doing)
        except BaseException:
            self._worker.stop()
            raise
        return about

    def close(self) -> None:
        self._worker.stop()

    def read(self) -> tuple[Graph, dict[str, Origin]]:
        answer = self._ask({"do": "graph"}, "reading its structure")
        graph = unpack(base64.b64decode(answer["graph"]))
        return graph, unpacked_origins(answer["origins"], self._tensors(answer))

    def canonical_graph(self) -> Graph:
        answer = self._ask({"do": "values"}, "reading its weights")
        return replace(unpack(base64.b64decode(answer["graph"])), weights=self._tensors(answer))

    def source(self) -> tuple[Graph, dict[str, str]]:
        answer = self._ask({"do": "source"}, "reading its structure")
        return unpack(base64.b64decode(answer["graph"])), {
            str(key): str(value) for key, value in answer["classes"].items()
        }

    def tensors(self) -> dict[str, Array]:
        return self._tensors(self._ask({"do": "tensors"}, "reading its weights"))

    def assign(self, values: Mapping[str, Array]) -> None:
        self._ask({"do": "assign"}, "setting its weights", values)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return list(self._tensors(self._ask({"do": "run"}, "running it", _fed(inputs))).values())

    def output_axes(self) -> list[str]:
        return [str(axes) for axes in self._ask({"do": "axes"}, "reading its structure")["axes"]]

    def draws(self, inputs: Sequence[Array]) -> bool:
        return bool(self._ask({"do": "draws"}, "running it", _fed(inputs))["draws"])

    def decisions(self, inputs: Sequence[Array]) -> list[tuple[str, bool]]:
        found = self._ask({"do": "decisions"}, "running it", _fed(inputs))["decisions"]
        return [(str(place), bool(taken)) for place, taken in found]

    def opaque_answers(self, inputs: Sequence[Array]) -> dict[str, Array]:
        return self._tensors(self._ask({"do": "opaque"}, "running its unknown layers", _fed(inputs)))

    def load(self, path: Path) -> None:
        self._ask({"do": "load", "path": str(path.absolute())}, f"reading {path.name}")

    def save(self, path: Path) -> None:
        self._ask({"do": "save", "path": str(path.absolute())}, f"writing {path.name}")

    def _ask(self, message: Mapping[str, Any], doing: str, tensors: Mapping[str, Array] | None = None) -> Any:
        return self._worker.ask(message, doing, tensors, timeout=self._timeout)

    def _tensors(self, answer: Mapping[str, Any]) -> dict[str, Array]:
        return {name: view.copy() for name, view in self._worker.outputs.read(answer["tensors"]).items()}


def _names(learned: Sequence[Any] | None) -> frozenset[str] | None:
    return None if learned is None else frozenset(map(str, learned))


def _version(name: SideName) -> tuple[str, int]:
    path = Path(name.code)
    return name.code, path.stat().st_mtime_ns if path.is_file() else 0


def _fed(inputs: Sequence[Array]) -> dict[str, Array]:
    return {f"input{number}": array for number, array in enumerate(inputs)}


def open_side(side: str | Any, inputs: Sequence[InputShape], letter: str, *, timeout: float = TIMEOUT) -> PortSide:
    """The side that a user names, or the live network that a user of Python hands over."""
    if isinstance(side, str):
        return WorkerSide(SideName.parse(side), inputs, timeout=timeout)
    kind = type(side[0] if isinstance(side, tuple) and side else side)
    return LiveSide(side, inputs, f"{kind.__name__} ({letter})")
