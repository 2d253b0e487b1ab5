"""`check`: are two networks of the user's the same, how do their parameters map, and do they answer alike?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.verdicts import Outcome, Verdict
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.model import Graph
from zoolens.findings.graph.proof import alike, varied
from zoolens.training.crosstrain.training.diff import defaults, recipe_structure
from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, Item, compared, named
from zoolens.training.port.agreement import SAMPLES, PortAgreement, agreement, random_inputs
from zoolens.training.port.branches import Branches, branches
from zoolens.training.port.data_inputs import data_inputs
from zoolens.training.port.frameworks.framework import Array
from zoolens.training.port.judgement import check_verdict
from zoolens.training.port.origins import Origin
from zoolens.training.port.parameter_map import MappedSide, ParameterMap, parameter_map
from zoolens.training.port.side_inputs import compared as compared_graphs
from zoolens.training.port.sides import TIMEOUT, InputShape, PortSide, SideName, open_side

DATA_SAMPLES: Final = 16  # of a dataset, one after the other


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


@dataclass(frozen=True)
class Check:
    """`training`: differences that only training sees; `agreement` is with A's weights in both; `notes`: sentences
    about what had to be assumed."""

    names: tuple[str, str]
    frameworks: tuple[str, str]
    versions: tuple[Mapping[str, str], Mapping[str, str]]
    diff: Diff
    training: tuple[Item, ...]
    map: ParameterMap
    agreement: PortAgreement
    notes: tuple[str, ...] = ()

    @cached_property
    def verdict(self) -> Verdict:
        """Whether they are the same network, and how much of both it rests on."""
        return check_verdict(self.diff, self.map, self.agreement)

    @property
    def same(self) -> bool:
        """Whether all of both networks was understood, and they compute the same with the same weights."""
        return self.verdict.outcome is Outcome.SAME


def check(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    *,
    data: str | None = None,
    chosen: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> Check:
    """Call both functions, each in a process of its own, and compare the networks they return. Nothing is trained.

    `a`, `b`: "file.py:function" or "module:function"; or a live network, which is compared in this process and has its
    weights back afterwards. `inputs`: one shape for each input, such as "3x64x64". `data`: a dataset whose samples they
    answer instead of random numbers.
    """
    _check_data(data, inputs)
    with opened(a, b, inputs, chosen=chosen, timeout=timeout) as pair:
        return check_pair(pair, data)


def check_pair(pair: OpenPair, data: str | None = None) -> Check:
    """Compare two networks that are open. Both have other weights afterwards."""
    weights = _shaken(pair)
    pair.a.assign(weights)
    pair.b.assign(pair.map.moved(weights, pair.b.tensors()))
    answers = agreement(pair.a, pair.b, pair.diff, pair.fed(data), weights)
    followed = pair.followed(data)
    answers = replace(answers, branches=followed.missed)
    return Check(
        (pair.a.text, pair.b.text),
        (pair.a.framework, pair.b.framework),
        (pair.a.facts.versions, pair.b.facts.versions),
        pair.diff,
        tuple(item for item in _training(pair) if isinstance(item, Item)),
        pair.map,
        answers,
        (*pair.a.notes, *pair.b.notes, *followed.chosen),
    )


def _random(inputs: Sequence[InputShape], graphs: Sequence[Graph]) -> list[list[Array]]:
    return [random_inputs(inputs, graphs, seed) for seed in range(SAMPLES)]


def _check_data(data: str | None, inputs: Sequence[str]) -> None:
    """Refuse data that do not fit before anything is built."""
    if data is None:
        return
    if len(inputs) != 1:
        raise DatasetError(f"A dataset has samples for one input, and the networks have {len(inputs)}.")
    data_inputs(data, InputShape.parse(inputs[0]), 1)


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
    with ExitStack() as stack, ThreadPoolExecutor(2 if processes else 1) as threads:
        coming = [
            threads.submit(open_, side, shapes, letter, timeout=timeout)
            for side, letter in zip((a, b), "AB", strict=True)
        ]
        problems = [error for future in coming if (error := future.exception()) is not None]
        sides = [stack.enter_context(future.result()) for future in coming if future.exception() is None]
        if problems:
            raise problems[0]
        read = list(threads.map(_read, sides))
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


def _read(side: PortSide) -> tuple[Graph, dict[str, Origin], dict[str, tuple[int, ...]]]:
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


def _shaken(pair: OpenPair) -> dict[str, Array]:
    """A's own weights, those that are all alike varied: fresh scales of 1 and shifts of 0 would hide mistakes.

    Tensors without a partner are varied too: at 1 and 0 they would look as if B needed none.
    """
    generator = np.random.default_rng(0)
    roles = {move.a.tensor: move.role for move in pair.map.moves}
    roles |= {fold.bias.tensor: "bias" for fold in pair.map.folds}
    roles |= {each.bias.tensor: "bias" for each in pair.map.sums}
    roles |= {tensor.tensor: tensor.role for tensor in pair.map.only_a}
    return {
        name: varied(values, roles.get(name, ""), generator).astype(values.dtype)
        if (alike(values) or _by_gate(values)) and name in roles
        else values
        for name, values in pair.a.tensors().items()
    }


def _by_gate(values: Array) -> bool:
    """Whether a tensor has only zeros and ones, as the fresh biases of an LSTM do, whose forget gate begins with 1."""
    return values.size > 2 and values.dtype.kind == "f" and bool(np.isin(values, (0.0, 1.0)).all())


def _training(pair: OpenPair) -> Iterator[Finding]:
    """What changes no answer of a network that is not trained."""
    a, b = pair.a.facts, pair.b.facts
    yield compared("dtype", "type of the weights", pair.a.dtype, pair.b.dtype)
    yield from recipe_structure.dropouts(a, b)
    yield from (finding for finding in defaults.norms(a, b) if finding.what != "epsilon")
    yield from defaults.initial(a, b)
    yield from _learned(pair)


def _learned(pair: OpenPair) -> Iterator[Item]:
    """Tensors that one side learns and the other keeps as they are."""
    if pair.a.learned is None or pair.b.learned is None:
        return
    both = [(move.a.tensor, move.b.tensor) for move in pair.map.moves]
    only_a = dict.fromkeys(a for a, b in both if a in pair.a.learned and b not in pair.b.learned)
    only_b = dict.fromkeys(b for a, b in both if b in pair.b.learned and a not in pair.a.learned)
    if only_a or only_b:
        texts = [named(list(names)) or "none" for names in (only_a, only_b)]
        yield Item("frozen", "tensors that only this side learns", texts[0], texts[1])
