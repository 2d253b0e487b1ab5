"""Answers that are tags of words: named entities and other spans, judged and compared as seqeval does.

Numbers of tokens become tags of the dataset's words: the best tag of each, or the best path where the manifest declares
transitions. A word that was cut off has the tag O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.base.statistics.resampling import Counts
from zoolens.inventory.datasets.text_dataset import Words
from zoolens.inventory.manifests.schema_texts import TAGGING, Subwords, Viterbi
from zoolens.inventory.preprocess.outputs import dequantised
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.tasks.drawing import Drawing, DrawnMark
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.entities import (
    Entity,
    EntityParts,
    best_constant_f1,
    entity_parts,
    read_entities,
    tag_agreement,
)
from zoolens.inventory.tasks.scoring.sequence_decoding import decode_crf
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, ragged_column

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth
    from zoolens.inventory.tasks.documents import AnswerClasses
    from zoolens.inventory.tasks.output_setup import OutputSetup, Reader

TAGS: Final = "tags"  # the column of answers, and that of truths
ROLE: Final = "emissions"
_OUTSIDE: Final = "O"
_SHOWN: Final = 6  # entities
_MOST_TYPES: Final = 20  # with a figure of their own
_SIGNATURE: Final = 64  # numbers an input
_LETTERS: Final = frozenset("BIESO")


class TokenClassification(Task):
    name = TAGGING
    summary = "Tags of words, such as named entities"
    judged = True
    metric = "f1"
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    located = True
    truth = "tags"
    ragged = frozenset({TAGS})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {TAGS: pa.list_(pa.string())}

    def reader(self, setup: OutputSetup) -> Reader:
        setup.require_one_text()
        labels = _checked_labels(setup)
        viterbi = next((step for step in setup.output.postprocess if isinstance(step, Viterbi)), None)
        subwords = next((step for step in setup.output.postprocess if isinstance(step, Subwords)), None)
        if viterbi is not None and len(viterbi.transitions) != len(labels):
            raise ManifestError(f"There are {len(labels)} labels, but transitions between {len(viterbi.transitions)}.")
        last = subwords is not None and subwords.take == "last"

        def read(tensors: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[NDArray[Any]]:
            emissions = dequantised(tensors[ROLE], setup.tensors[ROLE])
            if emissions.ndim != 3 or emissions.shape[2] != len(labels):
                raise ModelError(
                    f"The output has shape {emissions.shape}, not one score for each of {len(labels)} labels and each "
                    "token of each text.",
                    hint="Correct labels in the manifest, or name another output.",
                )
            rows = zip(emissions, memos, strict=True)
            return [_tags(row, places, labels, viterbi, last=last) for row, places in rows]

        return read

    def keep(self, values: Sequence[NDArray[Any]], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return {TAGS: Ragged.of(values, object)}

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        return self.columns(main=True)

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        return {TAGS: Ragged.of([np.empty(0, object) if truth is None else truth[TAGS] for truth in truths], object)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        pairs = zip(ragged_column(a, TAGS), ragged_column(b, TAGS), strict=True)
        return np.array([tag_agreement(ours.tolist(), theirs.tolist()) for ours, theirs in pairs], np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "F1 of one model's entities against the other's"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.array([all(tag == _OUTSIDE for tag in row) for row in ragged_column(answers, TAGS)], np.bool_)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """How many tags of each kind a text has: a vector of counts, by a digest of the tag."""
        tags = ragged_column(answers, TAGS)
        vectors = np.zeros((len(tags), _SIGNATURE), np.float32)
        for row, own in zip(vectors, tags, strict=True):
            for tag in own.tolist():
                row[sum(tag.encode()) % _SIGNATURE] += 1
        return vectors

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats:
        """F1 of the entities of each text; 1 where there is none and none is found."""
        true, found = answers.truths.get(TAGS), ragged_column(answers, TAGS)
        if true is None:
            return np.zeros(len(found))
        # Truths that nobody knows are kept as rows without tags.
        pairs = ((a.tolist(), b.tolist()) for a, b in zip(true, found, strict=True))
        return np.array([tag_agreement(a, b) if len(a) == len(b) else 0.0 for a, b in pairs], np.float64)

    def judgement(self, answers: Answers) -> Judgement:
        true, found = answers.truths[TAGS], ragged_column(answers, TAGS)
        rows = [row.tolist() for row in true]
        parts = entity_parts(rows, [row.tolist() for row in found])
        present = [place for place in np.argsort(-parts.true.sum(axis=0), kind="stable") if parts.true[:, place].any()]
        shown = [int(place) for place in present[:_MOST_TYPES]]
        metrics = (Metric("f1", blind=best_constant_f1(rows)), Metric("precision"), Metric("recall"))
        by_type = tuple(Metric(f"f1.{parts.types[place]}") for place in shown)
        entities = int(parts.true.sum())
        notes = [f"{entities:,} true entities of {len(present)} type{'s' if len(present) != 1 else ''}"]
        if invented := [name for place, name in enumerate(parts.types) if not parts.true[:, place].any()]:
            notes.append(f"the model finds entities of types that the dataset does not have: {', '.join(invented)}")
        return Judgement((*metrics, *by_type), lambda weights: _figures(parts, shown, weights), tuple(notes))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _in_words(read_entities(ragged_column(answers, TAGS)[place].tolist()))

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _in_words(read_entities(answers.truths[TAGS][place].tolist()))

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing:
        tags = answers.truths[TAGS] if truth else ragged_column(answers, TAGS)
        entities = read_entities(tags[place].tolist())
        return Drawing(marks=tuple(DrawnMark(entity.first, entity.last, entity.type) for entity in entities))

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """Each word with its tag, and the entities that the tags make up."""
        tags = ragged_column(answers, TAGS)[place].tolist()
        words = list(sample.parts) if isinstance(sample, Words) else [None] * len(tags)
        entities = [
            {"type": type_, "first": first, "last": last, "words": words[first : last + 1]}
            for type_, first, last in read_entities(tags)
        ]
        return {"words": words, "tags": tags, "entities": entities}


def _in_words(entities: Sequence[Entity]) -> str:
    listed = [f"{entity.type} {entity.first}–{entity.last}" for entity in entities[:_SHOWN]]
    more = ", …" if len(entities) > _SHOWN else ""
    return f"{', '.join(listed)}{more} (words)" if listed else "no entities"


def _checked_labels(setup: OutputSetup) -> tuple[str, ...]:
    labels = setup.output.labels
    if labels is None:
        raise ManifestError("The task token-classification needs labels: the tag that each score stands for.")
    odd = next((tag for tag in labels if tag != _OUTSIDE and not (tag[:1] in _LETTERS and tag[1:2] == "-")), None)
    # Labels of padding and the like, which no word should have.
    if odd is not None and not odd.startswith(("<", "[")):
        raise ManifestError(
            f"The label {odd[:40]!r} is neither O nor a letter and a type such as B-PER.",
            hint="Name the tags as the dataset does: B-PER, I-PER, O.",
        )
    return tuple(tag if tag == _OUTSIDE or tag[1:2] == "-" else _OUTSIDE for tag in labels)


def _tags(
    row: NDArray[Any], places: TokenPlaces, labels: tuple[str, ...], viterbi: Viterbi | None, *, last: bool
) -> NDArray[Any]:
    """The tags of the words of one text."""
    if not isinstance(places.sample, Words):
        raise DatasetError(
            "Tags are given to words, but the sample is a text that was not split into words.",
            hint="Give tagged words: --data tagged:FILE.conll.",
        )
    own = row[places.columns(len(row))]
    if not np.isfinite(own).all():
        raise ModelError("The model answered NaN or infinity for a token.")
    if len(own) != len(places.words):
        raise ModelError(f"The output has {len(own)} rows for a text of {len(places.words)} tokens.")
    tags = np.full(len(places.sample.parts), _OUTSIDE, object)
    if viterbi is None:
        best = own.argmax(axis=1)
    else:
        start, end = (None if edge is None else np.array(edge) for edge in (viterbi.start, viterbi.end))
        best = decode_crf(own, np.array(viterbi.transitions), start, end).tags
    tokens = np.flatnonzero(places.words >= 0)
    for token in tokens if last else tokens[::-1]:
        # Later assignments win: those of the last token of a word, or of its first one.
        tags[places.words[token]] = labels[best[token]]
    return tags


def _figures(parts: EntityParts, shown: Sequence[int], weights: Counts) -> Floats:
    correct, predicted, true = (weights @ counts for counts in (parts.correct, parts.predicted, parts.true))
    sums = [each.sum(axis=1) for each in (correct, predicted, true)]
    with np.errstate(divide="ignore", invalid="ignore"):
        micro = [2 * sums[0] / (sums[1] + sums[2]), sums[0] / sums[1], sums[0] / sums[2]]
        by_type = 2 * correct / (predicted + true)
    return np.column_stack([*micro, by_type[:, list(shown)]])
