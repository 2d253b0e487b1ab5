"""Two networks of the user's, read and aligned: what every comparison of a pair begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.mapping.parameter_map import MappedSide, ParameterMap, parameter_map
from zoolens.training.pairs.mapping.side_inputs import compared as compared_graphs
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.branches import Branches, branches
from zoolens.training.pairs.sides.data_inputs import data_inputs
from zoolens.training.pairs.sides.network_sides import TIMEOUT, Device, InputShape, PortSide, SideName, open_side
from zoolens.training.pairs.sides.random_inputs import SAMPLES, random_inputs

DATA_SAMPLES: Final = 16  # of a dataset, one after the other

SideReading = tuple[Graph, dict[str, Origin], dict[str, tuple[int, ...]]]  # with the shapes of all tensors


@dataclass(frozen=True)
class PairOptions:
    """How the two sides are opened."""

    chosen: Mapping[str, str] = field(default_factory=dict)  # tensors of A with the tensors of B that they belong to
    timeout: float = TIMEOUT  # seconds for one answer of a side
    device: Device = "cpu"


@dataclass(frozen=True)
class OpenPair:
    """Both networks, read: `diff` and `map` go from A to B."""

    a: PortSide
    b: PortSide
    inputs: tuple[InputShape, ...]
    diff: Diff
    map: ParameterMap

    branches: Branches = field(default_factory=Branches)

    def fed(self, data: str | None = None) -> list[list[Array]]:
        """Inputs for both: samples of a dataset where one is named, or random ones, and such as take other branches."""
        if data is not None:
            return data_inputs(data, self.inputs[0], DATA_SAMPLES)
        return [*_random(self.inputs, (self.diff.a, self.diff.b)), *self.branches.inputs]

    def followed(self, data: str | None) -> Branches:
        """The branches that the inputs of `fed` take."""
        if data is None or not self.branches.chosen:
            return self.branches
        return branches((self.a, self.b), self.fed(data), search=False)


def _random(inputs: Sequence[InputShape], graphs: Sequence[Graph]) -> list[list[Array]]:
    return [random_inputs(inputs, graphs, seed) for seed in range(SAMPLES)]


@contextmanager
def opened(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    *,
    chosen: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    open_: Callable[..., PortSide] = open_side,
) -> Iterator[OpenPair]:
    """Both sides in their processes, read and aligned; the processes end with the `with`. `open_` opens each."""
    shapes = tuple(InputShape.parse(text) for text in inputs)
    for side in (a, b):
        if isinstance(side, str):
            SideName.parse(side)  # so that no process starts for a name that is none
    processes = isinstance(a, str) and isinstance(b, str)
    with ExitStack() as stack, ThreadPoolExecutor(4 if processes else 1) as threads:
        coming = [
            threads.submit(open_, side, shapes, letter, timeout=timeout)
            for side, letter in zip((a, b), "AB", strict=True)
        ]
        # Each is read as soon as it is open: frameworks take seconds to import, and one takes longer than the other.
        reading = [threads.submit(_read_once_open, future) for future in coming] if processes else []
        problems = [error for future in coming if (error := future.exception()) is not None]
        sides = [stack.enter_context(future.result()) for future in coming if future.exception() is None]
        if problems:
            raise problems[0]
        read = [future.result() for future in reading] if processes else list(threads.map(_read, sides))
        names = _short_names([side.text for side in sides])
        diff = compared_graphs(read[0][0], read[1][0], names)
        graphs = (read[0][0], read[1][0])
        fed = _random(shapes, graphs)
        decided = any(graph.facts.get("decisions") for graph in graphs)
        taken = branches(sides, fed) if decided else Branches()
        fed = [*fed, *taken.inputs] if decided else fed[:1]
        unused = [_unused(side, known, names, fed) for side, (_, known, names) in zip(sides, read, strict=True)]
        described = [
            MappedSide(known, names, tuple(idle)) for (_, known, names), idle in zip(read, unused, strict=True)
        ]
        map_ = parameter_map(diff, described[0], described[1], chosen)
        yield OpenPair(sides[0], sides[1], shapes, diff, map_, taken)


def _read_once_open(coming: Future[PortSide]) -> SideReading:
    return _read(coming.result())


def _read(side: PortSide) -> SideReading:
    graph, origins = side.read()
    return graph, origins, {name: array.shape for name, array in side.tensors().items()}


def _unused(
    side: PortSide, origins: Mapping[str, Origin], names: Iterable[str], fed: Sequence[Sequence[Array]]
) -> list[str]:
    """Tensors that change no output when they change. Only those without a place in the graph are tried."""
    placed = {origin.tensor for origin in origins.values()}
    left = [name for name in names if name not in placed]
    if not left:
        return []
    before, expected = side.tensors(), [side.run(inputs) for inputs in fed]
    generator = np.random.default_rng(1)
    unused = []
    for name in left:
        try:
            side.assign({name: before[name] + generator.uniform(0.5, 1.5, before[name].shape)})
            answers = [side.run(inputs) for inputs in fed]
        finally:
            side.assign({name: before[name]})
        if all(_equal(x, y) for x, y in zip(answers, expected, strict=True)):
            unused.append(name)
    return unused


def _equal(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(first, second, strict=True))


def _short_names(names: Sequence[str]) -> tuple[str, str]:
    """What sentences call the two."""
    a, b = (name.rpartition("/")[2] for name in names)
    return (a, b) if a != b else (f"{a} (A)", f"{b} (B)")
