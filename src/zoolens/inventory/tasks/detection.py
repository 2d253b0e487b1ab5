"""Object detection: boxes of classes with scores, in pixels of the image.

At most 300 boxes of an image are kept, the best. Average precision is computed from all of them. What is said of a
single image (agreement of two models, F1) is said of boxes with a score of at least 0.3, because a model that lists a
hundred boxes of score 0.001 does not mean them, and two models never agree on those. 0.3 lies between what
applications show (Ultralytics 0.25, TensorFlow's examples 0.3 to 0.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema_boxes import LEVELS, MOST_BOXES
from zoolens.inventory.preprocess.box_outputs import ImageBoxes, build_boxes
from zoolens.inventory.preprocess.letterbox import Framing, declared_framing
from zoolens.inventory.tasks.documents import AnswerClasses, shortest
from zoolens.inventory.tasks.drawing import Drawing, DrawnBox
from zoolens.inventory.tasks.judgement import ClassFigures, Judgement, Metric
from zoolens.inventory.tasks.output_setup import OutputSetup, Reader
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.box_agreement import box_agreement
from zoolens.inventory.tasks.scoring.box_figures import BoxAccumulator, BoxFigures
from zoolens.inventory.tasks.scoring.box_lists import Detections, Truths, truths
from zoolens.inventory.tasks.scoring.box_matching import FALSE, MATCHED, ImageParts, match_boxes
from zoolens.inventory.tasks.scoring.box_parts import BoxParts
from zoolens.inventory.tasks.scoring.precision_optimism import OF_LARGEST, PrecisionOptimism, precision_optimism
from zoolens.inventory.tasks.task import (
    TOLERANCE,
    Answers,
    Column,
    Floats,
    Task,
    column,
    judged_at_once,
    no_labels,
    ragged_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

SEEN: Final = 0.3  # score of a box that a user would be shown
METRICS: Final = tuple(Metric(figure.name, blind=0.0 if figure.name == "ap" else None) for figure in fields(BoxFigures))
# Places of the areas that each average precision is about; recalls are shares, and not too high.
_PRECISIONS: Final = {"ap": 0, "ap50": 0, "ap75": 0, "ap_small": 1, "ap_medium": 2, "ap_large": 3}
_SHOWN: Final = 4  # boxes of one answer
_MANY_DROPPED: Final = "boxes of classes that the dataset does not have were"
_BUCKETS: Final = 64  # of classes, in the signature
_RESAMPLES: Final = 1000  # at once; 64 at a time take twice as long


@dataclass(frozen=True)
class Found:
    """What is kept of one image: boxes of the dataset's classes, and how many others there were."""

    image: ImageBoxes
    dropped: int


class Detection(Task):
    name = "detection"
    summary = "Boxes of objects"
    judged = True
    unit = "boxes"
    roles: ClassVar[Mapping[str, bool]] = {
        "boxes": False,
        "scores": False,
        "classes": False,
        "count": False,
        "predictions": False,
        **dict.fromkeys(LEVELS, False),
    }
    truth = "boxes"
    numbered = True
    metric = "ap"
    located = True
    ragged = frozenset({"boxes", "classes", "scores", "areas", "crowds"})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {
            "boxes": pa.list_(pa.float32(), -1),  # left, top, width and height of each, one after the other
            "classes": pa.list_(pa.int32(), -1),
            "scores": pa.list_(pa.float32(), -1),  # descending
            "dropped": pa.int32(),  # boxes of classes that the dataset does not have
        }

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {
            "boxes": pa.list_(pa.float64(), -1),
            "classes": pa.list_(pa.int32(), -1),
            "areas": pa.list_(pa.float64(), -1),
            "crowds": pa.list_(pa.int8(), -1),
        }

    def reader(self, setup: OutputSetup) -> Reader:
        images = [spec for spec in setup.inputs if spec.modality == "image"]
        if len(images) != 1 or any(spec.modality in ("text", "sound") for spec in setup.inputs):
            raise ManifestError("Boxes can be brought back only into the single image that a model takes.")
        # Refused before anything is run: the way back does not depend on the size of an image.
        declared_framing(images[0].preprocess, (1000, 1000))
        read = build_boxes(setup.output, setup.tensors)
        _check_translation(setup)

        def found(raw: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[Found]:
            if not all(isinstance(memo, Framing) for memo in memos):
                raise ManifestError(
                    "Where the image lies on the model's canvas is unknown, so that boxes cannot be brought back.",
                    hint="Declare the steps under preprocess, instead of code.",
                )
            return [_of_dataset(image, setup) for image in read(raw, memos)]

        return found

    def keep(self, values: Sequence[Found], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return {
            "boxes": Ragged.of([found.image.boxes for found in values], np.float32),
            "classes": Ragged.of([found.image.classes for found in values], np.int32),
            "scores": Ragged.of([found.image.scores for found in values], np.float32),
            "dropped": np.array([found.dropped for found in values], np.int32),
        }

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        kinds = {"boxes": np.float64, "classes": np.int32, "areas": np.float64, "crowds": np.int8}
        nothing = np.zeros(0)
        return {
            name: Ragged.of([nothing if truth is None else truth[name] for truth in truths], kind)
            for name, kind in kinds.items()
        }

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The mean F1 of either model's boxes judged by the other's, over overlaps from 0.50 to 0.95."""
        pairs = zip(detected(a), detected(b), strict=True)
        return np.array([box_agreement(ours.above(SEEN), theirs.above(SEEN)) for ours, theirs in pairs], np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return f"mean agreement of boxes of score ≥ {SEEN:g}"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.array([not len(found.above(SEEN)) for found in detected(answers)], np.bool_)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """The summed scores of each class (modulo 64) of the boxes that are shown.

        An index only stores it: agreement is computed from the boxes, since no vector of fixed length tells it.
        """
        sums = np.zeros((len(answers), _BUCKETS), np.float32)
        for place, found in enumerate(detected(answers)):
            shown = found.above(SEEN)
            np.add.at(sums[place], shown.classes % _BUCKETS, shown.scores.astype(np.float32))
        return sums

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        """F1 of each image at an overlap of 0.5; 1 where nothing is to be found and nothing was."""
        if not answers.truths:
            return np.zeros(len(answers))
        return judged_at_once(answers, labels).scores()

    def judgement(self, answers: Answers) -> Judgement | None:
        return judged_at_once(answers, no_labels(answers)).judgement()

    def judging(self) -> BoxJudging:
        return BoxJudging()

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        found = _image(answers, place).above(SEEN)
        if not len(found):
            return f"no boxes of score ≥ {SEEN:g}"
        shown = zip(found.classes[:_SHOWN].tolist(), found.scores[:_SHOWN].tolist(), strict=True)
        listed = [f"{_class_name(number, names)} {score:.2f}" for number, score in shown]
        more = ", …" if len(found) > _SHOWN else ""
        return f"{_counted(len(found))}: {', '.join(listed)}{more}"

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing:
        if truth:
            columns = answers.truths
            boxes, classes = columns["boxes"][place].reshape(-1, 4), columns["classes"][place]
            return Drawing(tuple(_drawn(box, int(number), names) for box, number in zip(boxes, classes, strict=True)))
        found = _image(answers, place).above(SEEN)
        seen = zip(found.boxes, found.classes.tolist(), found.scores.tolist(), strict=True)
        return Drawing(tuple(_drawn(box, number, names, score) for box, number, score in seen))

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        classes = answers.truths["classes"][place].tolist()
        listed = [_class_name(number, names) for number in classes[:_SHOWN]]
        more = ", …" if len(classes) > _SHOWN else ""
        return f"{_counted(len(classes))}: {', '.join(listed)}{more}" if classes else "no boxes"

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """All boxes that are kept, the best first."""
        boxes = ragged_column(answers, "boxes")[place].reshape(-1, 4)
        corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
        numbers, scores = (ragged_column(answers, name)[place] for name in ("classes", "scores"))
        sides = iter(shortest(corners))
        rows = zip(numbers.tolist(), shortest(scores), zip(sides, sides, sides, sides, strict=True), strict=True)
        return [{**classes.told(number), "score": score, "box": list(box)} for number, score, box in rows]


class BoxJudging:
    """Keeps how each detection was matched, and none of the boxes. Each image is matched once for all figures."""

    def __init__(self) -> None:
        self._parts: BoxParts | None = BoxParts()
        self._accumulator: BoxAccumulator | None = None
        self._scores: list[Floats] = []
        self._dropped = 0

    def add(self, answers: Answers, labels: NDArray[Any]) -> None:
        parts = [match_boxes(found, true) for found, true in zip(detected(answers), true_boxes(answers), strict=True)]
        assert self._parts is not None, "what was judged cannot be added to"
        self._parts.add(parts)
        self._scores.append(np.array([_f1(part) for part in parts], np.float64))
        self._dropped += int(column(answers, "dropped").sum()) if "dropped" in answers.columns else 0

    def scores(self) -> Floats:
        return np.concatenate([*self._scores, np.zeros(0)])

    def judgement(self) -> Judgement:
        if self._parts is not None:
            # The accumulator holds all that it needs of them.
            self._accumulator, self._parts = BoxAccumulator(self._parts), None
        assert self._accumulator is not None
        accumulator = self._accumulator
        classes, having = tuple(accumulator.classes.tolist()), accumulator.images_with_truth

        @cache
        def optimism() -> PrecisionOptimism:
            return precision_optimism(accumulator.class_precisions, accumulator.images, having[0], OF_LARGEST)

        return Judgement(
            METRICS,
            lambda weights: accumulator.resampled(weights)[0],
            tuple(_notes(self._dropped, int(np.count_nonzero(having[0])))),
            ClassFigures(
                Metric("class_ap"),
                classes,
                accumulator.class_precisions,
                lambda place: optimism().of_class(int(having[0, place])),
            ),
            main_alone=accumulator.average_precision,
            together=lambda weights: np.concatenate(accumulator.resampled(weights), axis=1),
            rows=_RESAMPLES,
            optimism=lambda name: optimism().of_mean(having[_PRECISIONS[name]]) if name in _PRECISIONS else 0.0,
        )


def _drawn(box: NDArray[Any], number: int, names: Sequence[str] | None, score: float | None = None) -> DrawnBox:
    left, top, width, height = (float(each) for each in box)
    return DrawnBox(left, top, width, height, _class_name(number, names), score, number)


def _counted(boxes: int) -> str:
    return f"{boxes:,} {'boxes' if boxes > 1 else 'box'}"


def detected(answers: Answers) -> Iterator[Detections]:
    """The boxes of each image, by descending score."""
    return (_image(answers, place) for place in range(len(answers)))


def _image(answers: Answers, place: int) -> Detections:
    boxes, classes, scores = (ragged_column(answers, name)[place] for name in ("boxes", "classes", "scores"))
    return Detections(boxes.reshape(-1, 4).astype(np.float64), classes.astype(np.int64), scores.astype(np.float64))


def true_boxes(answers: Answers) -> Iterator[Truths]:
    """The true boxes of each image."""
    columns = [answers.truths[name] for name in ("boxes", "classes", "areas", "crowds")]
    for boxes, classes, areas, crowds in zip(*columns, strict=True):
        yield truths(boxes.reshape(-1, 4), classes, np.unique(classes), areas=areas, crowds=crowds != 0)


def _f1(parts: ImageParts) -> float:
    # Detections of lower scores are matched after those that are shown, so that they change nothing for these.
    outcomes = parts.outcomes[0, 0, parts.scores >= SEEN]
    matched = int((outcomes == MATCHED).sum())
    total = matched + int((outcomes == FALSE).sum()) + int(parts.truth_counts[0].sum())
    return 2 * matched / total if total else 1.0


def _notes(dropped: int, classes: int) -> Iterator[str]:
    if classes:
        yield f"figures are averages over the classes with true boxes, which are {classes:,}"
    else:
        yield "no image has a true box that counts (crowds do not)"
    if dropped:
        were = "box of a class that the dataset does not have was" if dropped == 1 else _MANY_DROPPED
        yield f"{dropped:,} {were} left out"


def _class_name(number: int, names: Sequence[str] | None) -> str:
    return names[number] if names and number < len(names) else f"class {number}"


def _check_translation(setup: OutputSetup) -> None:
    if setup.translation is None or setup.classes is None:
        return
    highest = int(setup.translation.max(initial=-1))
    if highest >= len(setup.classes):
        raise ManifestError(
            f"label_map names the dataset's class {highest}, but it has only the classes 0 to {len(setup.classes) - 1}."
        )


def _of_dataset(image: ImageBoxes, setup: OutputSetup) -> Found:
    """The best boxes of the dataset's classes, by its numbers."""
    numbers = _translated(image.classes, setup)
    known = np.flatnonzero(numbers >= 0)
    kept = known[:MOST_BOXES]
    return Found(ImageBoxes(image.boxes[kept], numbers[kept], image.scores[kept]), len(numbers) - len(known))


def _translated(classes: NDArray[np.int64], setup: OutputSetup) -> NDArray[np.int64]:
    if setup.translation is not None:
        inside = classes < len(setup.translation)
        # What a label_map does not name is no class of the dataset; labels name all, or the reader has refused it.
        return np.where(inside, setup.translation[np.where(inside, classes, 0)], -1)
    if setup.classes is not None and classes.max(initial=-1) >= len(setup.classes):
        raise ManifestError(
            f"The model answers class {classes.max()}, but the dataset has only the classes 0 to "
            f"{len(setup.classes) - 1}.",
            hint="Name the model's classes under labels, or say with label_map which is which.",
        )
    return classes
