"""Parts of one file put into the other: what that does to its exact answer is the proof of a cause in the files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zoolens.base.errors import ZoolensError
from zoolens.findings.divergence.alignment import Aligned
from zoolens.findings.divergence.divergence_causes import Proof
from zoolens.findings.divergence.examined import Exact, exact_outputs, farthest, relative_difference, scores_of
from zoolens.findings.divergence.file_differences import FileDifference
from zoolens.findings.divergence.holes import filled_as, sinks_of
from zoolens.findings.divergence.sides import Side
from zoolens.findings.divergence.transplants import transplanted
from zoolens.findings.graph.ir.model import Array


@dataclass(frozen=True)
class Exchange:
    """The effect of parts of B's file in A's file on A's exact answer.

    What goes into a hole must become B's as well.
    """

    a: Side
    b: Side
    graphs: Aligned
    exact: Exact
    target: Array  # what B's file answers to the worst input as A takes it
    others: Sequence[Exact]  # further examined inputs

    @property
    def inputs(self) -> Mapping[str, Array]:
        return self.exact.inputs[0]

    def answer(self, chosen: list[FileDifference], exact: Exact) -> list[Array] | None:
        """The exact answer of A's file with these places as B has them, and what then goes into its holes, which have
        the values that they have in B; None where that has no meaning."""
        changed = transplanted(self.graphs, chosen)
        if changed is None:
            return None
        names = dict(zip(self.graphs.a.outputs, changed.outputs, strict=True))
        inputs = filled_as(changed, exact.inputs[0], self.graphs.b, exact.inputs[1])
        wanted = (names.get(self.a.output, self.a.output), *sinks_of(changed))
        try:
            return exact_outputs(changed, wanted, inputs)
        except ZoolensError:
            return None

    def targets(self, exact: Exact, answer: Array) -> list[Array]:
        """What B's file answers, and what goes into its holes."""
        graph = self.graphs.b
        return [answer, *exact_outputs(graph, sinks_of(graph), exact.inputs[1])]

    def proof(self, chosen: list[FileDifference]) -> Proof:
        """What is left of the difference with these places taken over. Where the outputs are of different kinds, such
        as logits and probabilities, scores may show it too."""
        exact = self.exact
        answer = self.answer(chosen, exact)
        what = "this one place" if len(chosen) == 1 else f"all {len(chosen)} places"
        words = f"A's file with {what} as in B, computed exactly, against B's file"
        targets = self.targets(exact, self.target)
        into_holes = exact_outputs(self.graphs.a, sinks_of(self.graphs.a), exact.inputs[0])
        before = farthest(targets, [exact.outputs[0], *into_holes])
        after = math.inf if answer is None else farthest(answer, targets)
        proof = Proof(words, before, after, exact.file_floor)
        if answer is None or proof.holds or exact.scores is None:
            return proof
        left = relative_difference(scores_of(self.b, self.target), scores_of(self.a, answer[0]))
        in_scores = Proof(f"{words} (scores)", exact.scores[0], left, exact.scores[1])
        return in_scores if in_scores.holds else proof

    def holds_elsewhere(self, place: list[FileDifference]) -> bool:
        """Whether the place alone explains the other examined inputs too."""
        for other in self.others:
            answer = self.answer(place, other)
            if answer is None:
                return False
            if not farthest(answer, self.targets(other, other.outputs[1])) <= other.file_floor:
                return False
        return True
