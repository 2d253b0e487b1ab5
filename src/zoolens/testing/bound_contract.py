"""What published bounds must do: those on the error of a model (group `zoolens.bounds`) and those on how far a stitched
model's outputs are from the original's (group `zoolens.twin_bounds`).

class TestMargin(ModelBoundContract):
    bound_of = staticmethod(margin_bound)

    def run(self, tmp_path):
        return a_stored_run_of_a_model_that_it_covers(tmp_path)


class TestLayerwise(TwinBoundContract):
    bound_twin = staticmethod(layerwise_bound)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Run
from zoolens.findings.comparisons.equivalence import ModelBound
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.twins.theory import TwinBound


def _is_sentence(text: Any) -> bool:
    return isinstance(text, str) and text.strip().endswith((".", "!")) and "\n" not in text


class ModelBoundContract:
    bound_of: ClassVar[Callable[[Run], ModelBound | str]]

    def run(self, tmp_path: Path) -> Run:
        """A finished run of a model for which there is a bound; its model and data are there."""
        raise NotImplementedError("say which run there is a bound for")

    @pytest.fixture
    def stored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
        monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
        return self.run(tmp_path)

    def test_it_bounds_a_share_of_inputs_and_says_so_in_one_sentence(self, stored: Run) -> None:
        bound = type(self).bound_of(stored)
        assert not isinstance(bound, str), bound
        assert is_dataclass(bound)
        assert bound.bound >= 0
        assert isinstance(bound.vacuous, bool)
        assert isinstance(bound.covered, bool)
        assert bound.vacuous or bound.bound < 1  # an error of 1 or more is no promise
        assert _is_sentence(bound.sentence)
        assert asdict(bound)  # what `equiv --json` writes

    def test_the_same_run_has_the_same_bound(self, stored: Run) -> None:
        first, again = (type(self).bound_of(stored) for _ in range(2))
        assert not isinstance(first, str)
        assert not isinstance(again, str)
        assert asdict(first) == asdict(again)

    def test_a_run_whose_model_is_not_known_gets_a_sentence_that_says_so(self, stored: Run) -> None:
        """A bound is shown beside a measurement: a missing bound must not stop the comparison."""
        unknown = replace(stored, resolved={**stored.resolved, "origin": {}})
        refusal = type(self).bound_of(unknown)
        assert _is_sentence(refusal)


class TwinBoundContract:
    bound_twin: ClassVar[Callable[[Graph, Graph, Array], TwinBound]]

    def network(self, seed: int = 0, width: int = 8) -> Graph:
        """A small classifier with random weights. Override it where dense layers and ReLU are not covered."""
        random = np.random.default_rng(seed)
        builder = GraphBuilder("network", keep_weights=True)
        last = builder.add("input", (), (1, width), name="x")
        for place, (inner, outer) in enumerate([(width, 6), (6, 4)]):
            kernel = builder.parameter("kernel", (outer, inner), f"{place}.kernel", random.normal(size=(outer, inner)))
            bias = builder.parameter("bias", (outer,), f"{place}.bias", random.normal(size=outer))
            last = builder.add("dense", (last,), (1, outer), parameters=[kernel, bias], name=f"dense{place}")
            last = builder.add("relu", (last,), (1, outer), name=f"relu{place}") if place == 0 else last
        return builder.finish([last])

    def twin(self) -> Graph:
        """The network with slightly other weights in its first layer."""
        original = self.network()
        key = next(iter(original.weights))
        return replace(original, weights={**original.weights, key: original.weights[key] * 1.01})

    def inputs(self) -> Array:
        return np.random.default_rng(1).normal(size=(5, *self.network().inputs[0].shape[1:]))

    def check(self, bound: TwinBound) -> None:
        assert bound.meaning.strip()
        assert 0 <= bound.measured <= bound.value * (1 + 1e-9) + 1e-12
        assert bound.looseness >= 1 - 1e-9
        assert bound.vacuous or math.isfinite(bound.value)
        assert bound.unchanged is None or 0 <= bound.unchanged <= 1
        assert all(reason.strip() for reason in bound.reasons)

    def test_it_is_at_least_what_is_measured(self) -> None:
        bound = type(self).bound_twin(self.network(), self.twin(), self.inputs())
        self.check(bound)
        assert bound.measured > 0

    def test_a_network_is_no_distance_from_itself(self) -> None:
        bound = type(self).bound_twin(self.network(), self.network(), self.inputs())
        self.check(bound)
        assert bound.measured == 0

    def test_the_same_question_has_the_same_answer(self) -> None:
        first, again = (type(self).bound_twin(self.network(), self.twin(), self.inputs()) for _ in range(2))
        assert (first.value, first.measured) == (again.value, again.measured)

    def test_networks_that_take_other_inputs_are_refused(self) -> None:
        with pytest.raises(ZoolensError):
            type(self).bound_twin(self.network(), self.network(width=5), self.inputs())
