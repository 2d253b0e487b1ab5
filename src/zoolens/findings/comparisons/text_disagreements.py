"""The texts on which a language model and its nearest agree least about what follows, and at which tokens.

found = zoolens.disagree("models/mine.Q4_0.yaml", n=2)
found.inputs[0].agreement, found.inputs[0].at.best
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.results import frame
from zoolens.base.present.tables import csv_text
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.panel import Neighbour, PanelResult
from zoolens.findings.comparisons.signatures import Signature, signature_of
from zoolens.inventory.tasks.foreseen_columns import FOLLOWING, answered_positions
from zoolens.inventory.tasks.scoring.next_tokens import PositionPairs
from zoolens.inventory.tasks.task import Answers, Floats, ragged_column, taken_answers, task_named
from zoolens.inventory.tasks.text_agreement import paired_texts


@dataclass(frozen=True)
class TextPositions:
    """The models of a panel at every position of one text; models × positions, in the order of the panel, where it is
    not said otherwise."""

    following: NDArray[Any]  # the token that follows in the text, one a position
    agreement: Floats  # of the nearest models with the first, mean over them, one a position
    divergence: Floats  # Kullback–Leibler divergence of the nearest from the first in nats, likewise
    best: NDArray[Any]  # the most likely token
    best_logs: NDArray[Any]  # its log-probability
    true_logs: NDArray[Any]  # log-probability of the token that follows

    @property
    def differing(self) -> NDArray[np.bool_]:
        """Where not all find the same token most likely."""
        return np.asarray((self.best != self.best[0]).any(axis=0))


@dataclass(frozen=True)
class ContestedText:
    """One text. `index` is its place in the dataset. Means are over its positions and over the nearest models."""

    index: int
    input: str
    agreement: float  # of the next token: 1 − total variation, estimated, or at most this where no samples were kept
    least: float  # and at least this
    divergence: float  # nats a token
    differing: int  # positions at which not all find the same token most likely
    at: TextPositions = field(repr=False, compare=False)

    @property
    def positions(self) -> int:
        return len(self.at.following)


@dataclass(frozen=True, repr=False)
class TextDisagreements(PanelResult):
    """The texts on which a panel of language models agrees least."""

    inputs: tuple[ContestedText, ...]  # those with the least agreement first
    total: int  # texts on which the panel does not agree fully, listed or not
    positions: int  # of all texts
    differing: int  # positions of all texts at which not all find the same token most likely
    notes: tuple[str, ...] = ()  # which models the panel lacks

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each contested text."""
        return frame([_figures(one) for one in self.inputs], "TextDisagreements.frame")


def contested_texts(
    store: Store, ours: Signature, nearest: Sequence[Neighbour], limit: int | None, notes: tuple[str, ...]
) -> TextDisagreements:
    """`nearest`: models that split the texts into the same tokens as the first."""
    signatures = [ours, *(signature_of(store, near.run) for near in nearest)]
    paired = [paired_texts(ours.main, theirs.main) for theirs in signatures[1:]]
    mean = _mean_of([texts.pairs for texts in paired])
    agreement = np.mean([texts.estimate for texts in paired], axis=0)
    least = np.mean([texts.least for texts in paired], axis=0)
    offsets = ragged_column(ours.main, FOLLOWING).offsets - ragged_column(ours.main, FOLLOWING).offsets[0]
    order = np.argsort(agreement, kind="stable")
    total = int(np.count_nonzero(agreement < 1))
    listed = order[: total if limit is None else min(limit, total)].tolist()
    return TextDisagreements(
        panel=(Neighbour(ours.run, 1.0), *nearest),
        inputs=tuple(
            _contested(signatures, mean, slice(offsets[i], offsets[i + 1]), i, Interval(least[i], agreement[i]))
            for i in listed
        ),
        total=total,
        positions=len(mean.agreement),
        differing=int(np.count_nonzero(~mean.same_best)),
        notes=notes,
    )


def _mean_of(pairs: Sequence[PositionPairs]) -> PositionPairs:
    """The nearest models as one: means over them, and whether all of them find the same token most likely."""
    return PositionPairs(
        agreement=np.mean([each.estimate for each in pairs], axis=0),
        least=np.mean([each.least for each in pairs], axis=0),
        divergence=np.mean([each.divergence for each in pairs], axis=0),
        same_best=np.all([each.same_best for each in pairs], axis=0),
    )


def _contested(
    signatures: Sequence[Signature], mean: PositionPairs, where: slice, place: int, agreement: Interval
) -> ContestedText:
    at = _positions([signature.main for signature in signatures], mean, where, place)
    return ContestedText(
        index=place,
        input=str(signatures[0].inputs[place]),
        agreement=float(agreement.high),
        least=float(agreement.low),
        divergence=float(at.divergence.mean()),
        differing=int(np.count_nonzero(at.differing)),
        at=at,
    )


def _positions(answers: Sequence[Answers], mean: PositionPairs, where: slice, place: int) -> TextPositions:
    answered = [answered_positions(each, place) for each in answers]
    return TextPositions(
        following=answered[0][0],
        agreement=mean.agreement[where],
        divergence=mean.divergence[where],
        best=np.stack([kept.ids[:, 0] for _, kept in answered]),
        best_logs=np.stack([kept.logs[:, 0] for _, kept in answered]),
        true_logs=np.stack([kept.true for _, kept in answered]),
    )


def compared_text(a: Answers, b: Answers, place: int) -> TextPositions | None:
    """Two models at every position of one text; None where they split it into different tokens."""
    sides = [taken_answers(answers, np.array([place])) for answers in (a, b)]
    if task_named(a.task).unknown_agreement(*sides):
        return None
    pairs = paired_texts(*sides).pairs
    return _positions(sides, _mean_of([pairs]), slice(None), 0)


# --- as plain values


def as_data(found: TextDisagreements) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "n": found.run.inputs,
        "contested": found.total,
        "positions": found.positions,
        "differing": found.differing,
        "panel": found.panel_data(),
        "inputs": [{**_figures(text), "at": _differing(text.at)} for text in found.inputs],
        "notes": list(found.notes),
    }


def _figures(text: ContestedText) -> dict[str, Any]:
    return {
        "index": text.index,
        "input": text.input,
        "positions": text.positions,
        "agreement": text.agreement,
        "least_agreement": text.least,
        "divergence": text.divergence,
        "differing": text.differing,
    }


def _differing(at: TextPositions) -> list[dict[str, Any]]:
    """The positions at which the most likely tokens differ. `best`: the token of each of the panel."""
    return [
        {
            "position": place,
            "token": int(at.following[place]),
            "agreement": float(at.agreement[place]),
            "divergence": float(at.divergence[place]),
            "best": [
                {"token": int(token), "logprob": float(log)}
                for token, log in zip(at.best[:, place], at.best_logs[:, place], strict=True)
            ],
        }
        for place in np.flatnonzero(at.differing).tolist()
    ]


def as_csv(found: TextDisagreements) -> str:
    """One row a text."""
    rows = [list(_figures(text).values()) for text in found.inputs]
    return csv_text(["index", "input", "positions", "agreement", "least agreement", "divergence", "differing"], rows)
