"""`check`: are two networks of the user's the same, how do their parameters map, and do they answer alike?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.present.results import Result
from zoolens.base.verdicts import Outcome, Verdict
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.passes.proof import is_uniform, varied
from zoolens.training.crosstrain.training.diff import defaults, recipe_structure
from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, Item, compared, named
from zoolens.training.pairs.mapping.parameter_map import ParameterMap
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.data_inputs import data_inputs
from zoolens.training.pairs.sides.network_sides import TIMEOUT, InputShape
from zoolens.training.pairs.sides.open_pair import OpenPair, opened
from zoolens.training.port.agreement import PortAgreement, agreement
from zoolens.training.port.judgement import check_verdict


@dataclass(frozen=True, repr=False)
class Check(Result):
    """Whether two networks are the same, and what was compared."""

    names: tuple[str, str]
    frameworks: tuple[str, str]
    versions: tuple[Mapping[str, str], Mapping[str, str]]
    diff: Diff
    training: tuple[Item, ...]  # differences that only training sees
    map: ParameterMap
    agreement: PortAgreement  # with A's weights in both
    notes: tuple[str, ...] = ()  # sentences about what had to be assumed

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


def _check_data(data: str | None, inputs: Sequence[str]) -> None:
    """Refuse data that do not fit before anything is built."""
    if data is None:
        return
    if len(inputs) != 1:
        raise DatasetError(f"A dataset has samples for one input, and the networks have {len(inputs)}.")
    data_inputs(data, InputShape.parse(inputs[0]), 1)


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
        if (is_uniform(values) or _by_gate(values)) and name in roles
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
