"""The inputs on which a model and its nearest equivalents do not all agree: candidates for testing at the boundary.

found = zoolens.disagree("demo:lenet-torch", n=5)
found.inputs[0].votes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import frame
from zoolens.base.present.tables import csv_text
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.compatibility import Compatibility
from zoolens.findings.comparisons.contents import changed_notes
from zoolens.findings.comparisons.panel import Neighbour, PanelResult, nearest_models, reference_run
from zoolens.findings.comparisons.signatures import Signature, signature_of, task_of
from zoolens.findings.comparisons.text_disagreements import TextDisagreements, contested_texts
from zoolens.findings.measure.class_order import data_classes
from zoolens.findings.measure.named_runs import RunOrModel, run_text
from zoolens.findings.measure.predictions import renumbered
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.tasks.task import task_named

NEIGHBOURS: Final = 5
_SYNSET: Final = re.compile(r"n\d{8}\s+")


@dataclass(frozen=True)
class Vote:
    """What one of the panel answers: class, probability, and its lead over the second best class. Of networks that were
    trained here the probability is not known, and the lead counts as 0."""

    answer: int
    score: float | None
    margin: float


@dataclass(frozen=True)
class Contested:
    """`index` is the input's place in the dataset. `entropy`: of the votes, in bits."""

    index: int
    input: str
    label: int
    votes: tuple[Vote, ...]  # in the order of the panel
    entropy: float
    margin: float  # mean of the votes'


@dataclass(frozen=True, repr=False)
class Disagreements(PanelResult):
    """The inputs on which a panel of models disagrees."""

    inputs: tuple[Contested, ...]  # the most contested first
    total: int  # inputs on which the panel disagrees, listed or not
    classes: tuple[str, ...] | None
    notes: tuple[str, ...] = ()  # which models the panel lacks

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each contested input, with the answer of every model."""
        rows = [
            {
                "input": one.input,
                "label": self.class_name(one.label),
                "entropy": one.entropy,
                **{
                    neighbour.name: self.class_name(vote.answer)
                    for neighbour, vote in zip(self.panel, one.votes, strict=True)
                },
            }
            for one in self.inputs
        ]
        return frame(rows, "Disagreements.frame")

    def class_name(self, index: int) -> str:
        if index < 0:
            return "unknown"  # the truth of data without labels
        return self.classes[index] if self.classes and index < len(self.classes) else str(index)


def readable(name: str) -> str:
    """A class name to read: without a WordNet id before it and synonyms behind it."""
    return _SYNSET.sub("", name, count=1).partition(",")[0].strip() or name


def disagree(
    model: RunOrModel,
    n: int = NEIGHBOURS,
    *,
    data: str | None = None,
    runtime: str | None = None,
    limit: int | None = None,
    store: Store | str | Path | None = None,
) -> Disagreements | TextDisagreements:
    """The `n` models that answer most like `model`, and the inputs on which they and it disagree (at most `limit`)."""
    if n < 1:
        raise ZoolensError(f"{n} models cannot disagree with another.", hint="Ask for one or more.")
    with borrowed_store(store, must_exist=True) as opened:
        run = reference_run(opened, run_text(model), data, runtime)
        predicts = task_of(run) == PREDICTING
        if not (predicts or task_named(task_of(run)).discrete):
            raise ZoolensError(
                f"{run.ref} does {task_of(run)}: it gives no votes.",
                hint="`zoolens compare` lists the inputs on which two runs of it agree least.",
            )
        ours = signature_of(opened, run)
        candidates, notes = nearest_models(opened, ours, runtime)
        nearest = candidates[:n]
        said = (*notes, *changed_notes([run, *(near.run for near, _ in nearest)]))
        if predicts:
            return contested_texts(opened, ours, [near for near, _ in nearest], limit, said)
        panel, signatures = _panel(opened, ours, nearest)
    contested, total = _contested(signatures, limit)
    return Disagreements(panel, contested, total, data_classes(run), said)


def _panel(
    store: Store, ours: Signature, nearest: Sequence[tuple[Neighbour, Compatibility]]
) -> tuple[tuple[Neighbour, ...], list[Signature]]:
    """The model and its nearest, all with their classes in one order. These are read once more: the signatures of all
    candidates together would be large."""
    theirs = [renumbered(signature_of(store, near.run), fit.translation_b) for near, fit in nearest]
    mine = renumbered(ours, nearest[0][1].translation_a)  # the same for every other model
    return (Neighbour(ours.run, 1.0), *(near for near, _ in nearest)), [mine, *theirs]


def _contested(signatures: Sequence[Signature], limit: int | None) -> tuple[tuple[Contested, ...], int]:
    """Inputs by the entropy of the votes; among equals those first on which the panel is least sure."""
    answers = np.stack([signature.answers for signature in signatures])
    scores = np.stack([_best(signature) for signature in signatures])
    margins = scores[:, :, 0] - scores[:, :, 1]
    entropy = vote_entropy(answers)
    doubt = margins.mean(axis=0)
    order = np.lexsort((np.arange(len(entropy)), doubt, -entropy))
    total = int(np.count_nonzero(entropy))
    first = signatures[0]
    return tuple(
        Contested(
            index=int(i),
            input=str(first.inputs[i]),
            label=int(first.labels[i]),
            votes=tuple(
                Vote(int(answers[j, i]), _known(signatures[j], scores[j, i, 0]), float(margins[j, i]))
                for j in range(len(signatures))
            ),
            entropy=float(entropy[i]),
            margin=float(doubt[i]),
        )
        for i in order[: total if limit is None else min(limit, total)]
    ), total


def _best(signature: Signature) -> NDArray[np.float64]:
    """The two best scores; the second is 0 where there is one class only, both are 0 where no scores were kept."""
    best = np.zeros((len(signature), 2))
    if (score := signature.main.columns.get("score")) is not None:
        best[:, : score.shape[1]] = score[:, :2]
    return best


def _known(signature: Signature, score: np.float64) -> float | None:
    return float(score) if "score" in signature.main.columns else None


def vote_entropy(answers: NDArray[Any]) -> NDArray[np.float64]:
    """Entropy in bits of the answers (voters × inputs) to each input; exactly 0 where all are the same."""
    supporters = np.zeros(answers.shape)
    for voter in answers:
        supporters += answers == voter
    return np.asarray(-np.log2(supporters / len(answers)).mean(axis=0)) + 0.0


# --- as plain values


def as_data(disagreements: Disagreements) -> dict[str, Any]:
    return {
        "dataset": disagreements.dataset,
        "n": disagreements.run.inputs,
        "contested": disagreements.total,
        "panel": disagreements.panel_data(),
        "inputs": [
            {
                "index": disputed.index,
                "input": disputed.input,
                "label": disputed.label,
                "truth": disagreements.class_name(disputed.label),
                "entropy": disputed.entropy,
                "margin": disputed.margin,
                "votes": [
                    {"answer": vote.answer, "name": disagreements.class_name(vote.answer), "score": vote.score}
                    for vote in disputed.votes
                ],
            }
            for disputed in disagreements.inputs
        ],
        "notes": list(disagreements.notes),
    }


def as_csv(disagreements: Disagreements) -> str:
    """One row an input; an answer and its score for each of the panel."""
    panel = [f"{neighbour.name} {what}" for neighbour in disagreements.panel for what in ("answer", "score")]
    rows = [
        [
            contested.index,
            contested.input,
            disagreements.class_name(contested.label),
            f"{contested.entropy:.4f}",
            f"{contested.margin:.4f}",
        ]
        + [cell for vote in contested.votes for cell in (disagreements.class_name(vote.answer), _score(vote))]
        for contested in disagreements.inputs
    ]
    return csv_text(["index", "input", "truth", "entropy", "margin", *panel], rows)


def _score(vote: Vote) -> str:
    return "" if vote.score is None else f"{vote.score:.4f}"
