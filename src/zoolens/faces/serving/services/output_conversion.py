"""From what a model of a service answers to what the client gets: probabilities in the reference's order of classes.

Classes are matched as they were when the models were measured: by the class of the data that each output was counted
as. Where that is not known of all of them, names decide. Where classes cannot be matched, the model is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.inventory.datasets.imagenet import imagenet_names
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.classes import NAMES_SHOWN, plain_name
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.runtimes.runtime import TensorSpec

Array = NDArray[Any]
Convert = Callable[[Array], Array]


@dataclass(frozen=True)
class ScoreColumns:
    """The classes of a model's scores, in the order in which it has them. `names` tells them apart; `judged`: which
    class of the data each was counted as when the model was measured, None for one that was counted as no class."""

    names: tuple[Hashable, ...]
    judged: tuple[int | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)


def class_identities(
    output: Output, folder: Path | None, classes: int, data_names: Sequence[str] | None
) -> list[Hashable]:
    """What tells each class of an output from the others, in the order in which the output has them.

    `data_names`: the classes of the data that the model was measured on.
    """
    names = labels_of(output, folder)
    if names is not None:
        if len(names) != classes:
            raise NotConvertible(f"its manifest names {len(names):,} classes and it has {classes:,}")
        return [plain_name(name) for name in names]
    if output.label_map is not None:
        places = [output.label_map.get(place) for place in range(classes)]
        if data_names is not None and all(place is not None and place < len(data_names) for place in places):
            return [plain_name(data_names[place]) for place in places if place is not None]
        return [("class of the data", place) if place is not None else ("output", i) for i, place in enumerate(places)]
    known = data_names
    if known is None or len(known) != classes:
        known = imagenet_names(classes)
    if known is None:
        return [("class of the data", i) for i in range(classes)]
    return [plain_name(name) for name in known]


def class_order(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> NDArray[np.int64] | None:
    """For each class of the reference its place among another model's; None where the order is the same."""
    if list(ours) == list(theirs):
        return None
    missing = [key for key in ours if key not in set(theirs)]
    if len(ours) != len(theirs) or missing:
        example = ", ".join(str(key) for key in missing[:NAMES_SHOWN])
        what = f"it has no class {example}" if missing else f"it has {len(theirs):,} classes instead of {len(ours):,}"
        raise NotConvertible(f"{what}, which the reference has" if missing else what)
    twice = [key for names in (theirs, ours) for key, count in Counter(names).items() if count > 1]
    if twice:
        raise NotConvertible(f"several classes are called {str(twice[0])!r}, and its order is not the reference's")
    places = {key: place for place, key in enumerate(theirs)}
    return np.array([places[key] for key in ours], np.int64)


def column_order(ours: ScoreColumns, theirs: ScoreColumns) -> NDArray[np.int64] | None:
    """For each class of the reference its place among another model's; None where the order is the same."""
    judged, other = ours.judged, theirs.judged
    if judged is None or other is None or not _same_classes(judged, other):
        return class_order(ours.names, theirs.names)
    if judged == other:
        return None
    places = [other.index(place) for place in judged]
    return np.array(places, np.int64)


def _same_classes(judged: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Whether both have every class of the data that either has, once."""
    if None in judged or set(judged) != set(other):
        return False
    distinct = len(set(judged))
    return len(judged) == distinct and len(other) == distinct


def mapped_conversion(output: Output, tensor: TensorSpec, ours: ScoreColumns) -> Convert:
    """Converts raw answers through the model's label_map, as when it was measured, into the reference's classes. For a
    model with more outputs than the reference has classes, or with several for one class."""
    label_map, judged = output.label_map or {}, ours.judged or ()
    lacking = [name for name, place in zip(ours.names, judged, strict=True) if place not in label_map.values()]
    if lacking:
        named = ", ".join(str(name) for name in lacking[:NAMES_SHOWN])
        raise NotConvertible(f"its label_map has no output for class {named}, which the reference has")
    beyond = sorted(set(label_map.values()) - set(judged))
    if beyond:
        raise NotConvertible(f"its label_map names class {beyond[0]} of the data, which the reference does not have")
    scores = build_scores(output, tensor, len(judged))
    columns = np.array(judged, np.int64)
    return lambda raw: np.ascontiguousarray(scores(raw)[:, columns])


def probability_conversion(output: Output, tensor: TensorSpec, order: NDArray[np.int64] | None) -> Convert:
    """Converts raw answers into probabilities in the reference's order of classes."""
    scores = build_scores(output.model_copy(update={"label_map": None}), tensor)
    if order is None:
        return scores
    return lambda raw: np.ascontiguousarray(scores(raw)[:, order])


def require_raw(ours: Output, source: TensorSpec, theirs: Output, target: TensorSpec, *, ordered: bool) -> None:
    """NotConvertible unless the raw answers of a model mean what those of the reference mean, number by number."""
    if ordered:
        raise NotConvertible("its classes are in another order, and raw outputs are asked for")
    if (ours.scores, ours.postprocess) != (theirs.scores, theirs.postprocess):
        raise NotConvertible(
            f"its raw outputs are other figures ({theirs.scores}) than the reference's ({ours.scores})"
        )
    if source.quantised or target.quantised or source.dtype != target.dtype:
        raise NotConvertible("its raw outputs are quantised or typed otherwise than the reference's")
    if source.shape[1:] != target.shape[1:]:
        raise NotConvertible("its raw outputs have another shape than the reference's")
