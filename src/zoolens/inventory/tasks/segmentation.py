"""Semantic segmentation: one class for each pixel of an image.

Masks are kept at the image's own size, as runs. Two models agree on an image by the share of pixels that they give the
same class: 1 minus that share is a distance (its triangle inequality holds), and two masks that agree in 99 % of the
pixels differ by at most 1 point in pixel accuracy. A mean IoU would be neither: one stray pixel of a third class takes
a third of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.datasets import truth
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.preprocess.classes import plain_name
from zoolens.inventory.preprocess.letterbox import Framing
from zoolens.inventory.preprocess.mask_maps import map_reader
from zoolens.inventory.tasks.documents import AnswerClasses
from zoolens.inventory.tasks.drawing import Drawing, DrawnClass
from zoolens.inventory.tasks.judgement import ClassFigures, Judgement, Metric
from zoolens.inventory.tasks.output_setup import OutputSetup, Reader
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.mask_figures import (
    FIGURES,
    MaskCounts,
    MaskParts,
    class_iou,
    figures_and_classes,
    mask_figures,
)
from zoolens.inventory.tasks.scoring.mask_runs import (
    ELSEWHERE,
    MAX_CLASSES,
    UNJUDGED,
    MaskRuns,
    mask_runs,
    overlap,
)
from zoolens.inventory.tasks.task import (
    TOLERANCE,
    TRUTH_KNOWN,
    Answers,
    Column,
    Floats,
    Task,
    judged_at_once,
    no_labels,
    ragged_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

_GRID: Final = 8  # rows and columns of pixels that stand for a mask in an index of models
_SHOWN: Final = 4  # classes of a mask
_BACKGROUND: Final = "background"


class Segmentation(Task):
    name = "segmentation"
    summary = "One class for each pixel"
    judged = True
    unit = "classes"
    roles: ClassVar[Mapping[str, bool]] = {"mask": True}
    numbered = True
    truth = "mask"
    metric = FIGURES[0]
    located = True
    ragged = frozenset({"runs", "classes"})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {
            "runs": pa.list_(pa.int32(), -1),  # lengths of stretches of one class, row by row
            "classes": pa.list_(pa.uint16(), -1),  # of each stretch
            "height": pa.int32(),
            "width": pa.int32(),
        }

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        return self.columns(main=True)

    def reader(self, setup: OutputSetup) -> Reader:
        steps = setup.output.postprocess
        step = next((step for step in steps if isinstance(step, Masks)), Masks(op="masks"))
        tensor = setup.tensors["mask"]
        # Where scores are quantised, this is the number that stands for the real one.
        half = 0.5 if setup.output.scores == "probabilities" else 0.0
        if tensor.quantised:
            half = half / float(tensor.scale or 1) + (tensor.zero_point or 0)
        read, numbered = map_reader(step, half), _numbering(setup)

        def masks(raw: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[NDArray[np.uint16]]:
            frames = [memo if isinstance(memo, Framing) else None for memo in memos] or [None] * len(raw["mask"])
            return [numbered(read(one, frame)) for one, frame in zip(raw["mask"], frames, strict=True)]

        return masks

    def keep(self, values: Sequence[NDArray[Any]], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        return _kept([mask_runs(mask) for mask in values])

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        nothing = mask_runs(np.zeros((0, 0), np.uint16))
        return _kept([nothing if one is None else mask_runs(_true_classes(one["mask"])) for one in truths])

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        pairs = zip(_answered(a), _answered(b), strict=True)
        return np.array([_equal_pixels(*pair, f"the one of {b.output}") for pair in pairs], np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "same class of a pixel"

    def signature(self, answers: Answers) -> NDArray[Any]:
        grids = [_grid(mask) for mask in _answered(answers)]
        return np.array(grids, np.float32).reshape(len(grids), _GRID * _GRID)

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        """Pixel accuracy of each image."""
        if not answers.truths:
            return np.zeros(len(answers))
        known = answers.truths[TRUTH_KNOWN] != 0
        pairs = zip(_masks(answers.truths), _answered(answers), strict=True)
        judged = zip(known, pairs, strict=True)
        return np.array([_equal_pixels(*pair, "the model's") if said else 0.0 for said, pair in judged])

    def judgement(self, answers: Answers) -> Judgement | None:
        return judged_at_once(answers, no_labels(answers)).judgement()

    def judging(self) -> MaskJudging:
        return MaskJudging()

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _in_words(_mask(answers.columns, place), names)

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing:
        mask = _mask(answers.truths if truth else answers.columns, place)
        classes = _class_map(mask, names)
        return Drawing(classes=classes, legend=tuple(_legend(classes, names)))

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return _in_words(_mask(answers.truths, place), names)

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        """How many pixels each class has, and runs of pixels of one class, row by row from the top left."""
        mask = _mask(answers.columns, place)
        told = {number: _told(classes, number) for number in np.unique(mask.classes).tolist()}
        pixels = {number: int(mask.lengths[mask.classes == number].sum()) for number in told}
        runs = zip(mask.classes.tolist(), mask.lengths.tolist(), strict=True)
        return {
            "height": mask.size[0],
            "width": mask.size[1],
            "classes": [{**of_class, "pixels": pixels[number]} for number, of_class in told.items()],
            "runs": [[told[number]["class"], length] for number, length in runs],
        }


class MaskJudging:
    """Keeps the counts of pixels of each image, and none of its masks."""

    def __init__(self) -> None:
        self._counts = MaskCounts()

    def add(self, answers: Answers, labels: NDArray[Any]) -> None:
        pairs = list(zip(_masks(answers.truths), _answered(answers), strict=True))
        for pair in pairs:
            _check_sizes(*pair, "the model's")
        self._counts.add(pairs)

    def scores(self) -> Floats:
        return self._counts.accuracies

    def judgement(self) -> Judgement:
        parts = self._counts.parts()
        return Judgement(
            tuple(Metric(name, blind=_blind(parts) if name == Segmentation.metric else None) for name in FIGURES),
            lambda weights: mask_figures(parts, weights),
            tuple(_notes(parts)),
            ClassFigures(
                Metric("iou"),
                tuple(parts.classes[parts.in_truth].tolist()),
                lambda weights: class_iou(parts, weights)[:, parts.in_truth],
            ),
            together=lambda weights: figures_and_classes(parts, weights),
        )


def _blind(parts: MaskParts) -> float | None:
    """mIoU of answering every pixel with the commonest class; None where no pixel is judged."""
    pixels = parts.true_pixels[parts.in_truth]
    return float(pixels.max() / pixels.sum() / len(pixels)) if len(pixels) else None


def _in_words(mask: MaskRuns, names: Sequence[str] | None) -> str:
    pixels = np.bincount(mask.classes, mask.lengths) if len(mask.lengths) else np.zeros(1)
    pixels[UNJUDGED:] = 0
    order = [int(number) for number in np.argsort(-pixels, kind="stable") if pixels[number]]
    called = {number: _class_name(number, names) for number in order}
    # What is not background is what the picture shows.
    shown = [number for number in order if plain_name(called[number]) != _BACKGROUND] or order
    more = ", …" if len(shown) > _SHOWN else ""
    parts = [f"{called[number]} {_percent(pixels[number] / pixels.sum())}" for number in shown[:_SHOWN]]
    return ", ".join(parts) + more or "no pixels"


def _legend(classes: NDArray[np.int32], names: Sequence[str] | None) -> Iterator[DrawnClass]:
    numbers, pixels = np.unique(classes[classes >= 0], return_counts=True)
    for place in np.argsort(-pixels, kind="stable"):
        number = int(numbers[place])
        yield DrawnClass(number, _class_name(number, names), float(pixels[place] / classes.size))


def _told(classes: AnswerClasses, number: int) -> dict[str, Any]:
    """What is said of a class; pixels of classes that the dataset does not have are of none."""
    return {"label": None, "class": None} if number == ELSEWHERE else classes.told(number)


def _class_map(mask: MaskRuns, names: Sequence[str] | None) -> NDArray[np.int32]:
    """The class of each pixel; −1 on the background, and where nothing is said."""
    classes = mask.pixels.astype(np.int32)
    nothing = [number for number, name in enumerate(names or ()) if plain_name(name) == _BACKGROUND]
    classes[np.isin(classes, [*nothing, UNJUDGED, ELSEWHERE])] = -1
    return classes


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %"


def _class_name(number: int, names: Sequence[str] | None) -> str:
    if number == ELSEWHERE:
        return "other classes"
    return names[number] if names and number < len(names) else f"class {number}"


def _numbering(setup: OutputSetup) -> Any:
    """From the model's numbers of classes to the dataset's."""
    named = None if setup.output.labels is None else len(setup.output.labels)
    known = None if setup.classes is None else len(setup.classes)
    # The first number that is refused: beyond the model's names, or beyond the dataset's where both count alike.
    end = MAX_CLASSES if named is None else min(named, MAX_CLASSES)
    if setup.translation is None:
        end = end if known is None else min(end, known)
        table = np.arange(end, dtype=np.uint16)
    else:
        table = np.full(end, ELSEWHERE, np.uint16)
        given = setup.translation[:end]
        table[: len(given)] = np.where(given < 0, ELSEWHERE, given)

    def numbered(classes: NDArray[Any]) -> NDArray[np.uint16]:
        low, high = int(classes.min(initial=0)), int(classes.max(initial=0))
        if low < 0 or high >= end:
            raise ModelError(
                f"The model's mask has class {low if low < 0 else high}, but there are the classes 0 to {end - 1}.",
                hint="Say under labels how the model's classes are called, or which is which with a label_map.",
            )
        result: NDArray[np.uint16] = table[classes.astype(np.intp, copy=False)]
        return result

    if setup.translation is not None and setup.translation.max(initial=-1) >= MAX_CLASSES:
        raise ManifestError(f"Masks may have at most {MAX_CLASSES:,} classes.")
    return numbered


def _true_classes(mask: NDArray[Any]) -> NDArray[np.uint16]:
    unjudged = mask == truth.UNJUDGED[mask.dtype.name]
    if unjudged.all():
        raise DatasetError("A true mask has no pixel that can be judged.", hint="Leave its truth out.")
    highest = int(mask[~unjudged].max())
    if highest >= MAX_CLASSES:
        raise DatasetError(f"A true mask has class {highest:,}; masks may have {MAX_CLASSES:,} classes.")
    # Not np.where with a plain 65535, which numpy 2 cuts to the 255 of a mask of 8 bits.
    classes = mask.astype(np.uint16)
    classes[unjudged] = UNJUDGED
    return classes


def _kept(masks: Sequence[MaskRuns]) -> Mapping[str, Column]:
    return {
        "runs": Ragged.of([mask.lengths for mask in masks], np.int32),
        "classes": Ragged.of([mask.classes for mask in masks], np.uint16),
        "height": np.array([mask.size[0] for mask in masks], np.int32),
        "width": np.array([mask.size[1] for mask in masks], np.int32),
    }


def _mask(columns: Mapping[str, Any], place: int) -> MaskRuns:
    size = int(columns["height"][place]), int(columns["width"][place])
    return MaskRuns(columns["runs"][place], columns["classes"][place], size)


def _masks(columns: Mapping[str, Any]) -> list[MaskRuns]:
    return [_mask(columns, place) for place in range(len(columns["height"]))]


def _answered(answers: Answers) -> list[MaskRuns]:
    # Which says that masks were not kept where they were not.
    ragged_column(answers, "runs")
    return _masks(answers.columns)


def _check_sizes(first: MaskRuns, second: MaskRuns, whose: str) -> None:
    if first.size != second.size:
        (height, width), (other_height, other_width) = first.size, second.size
        raise ModelError(
            f"Two masks of one image have different sizes: {width} × {height} pixels, and {whose} {other_width} × "
            f"{other_height}.",
            hint="A mask returns to the image's size where the input is an image that the manifest's steps fit onto "
            "the model's canvas as a whole (resize or letterbox).",
        )


def _equal_pixels(first: MaskRuns, second: MaskRuns, whose: str) -> float:
    """Share of the pixels that the first mask judges."""
    _check_sizes(first, second, whose)
    both = overlap(first, second)
    judged = both.first != UNJUDGED
    pixels = int(both.pixels[judged].sum())
    return int(both.pixels[judged & both.equal].sum()) / pixels if pixels else 1.0


def _grid(mask: MaskRuns) -> NDArray[Any]:
    height, width = mask.size
    if not height * width:
        return np.zeros(_GRID * _GRID)
    rows, columns = ((2 * np.arange(_GRID) + 1) * side // (2 * _GRID) for side in mask.size)
    places = (rows[:, np.newaxis] * width + columns).reshape(-1)
    found: NDArray[Any] = mask.classes[np.searchsorted(np.cumsum(mask.lengths), places, side="right")]
    return found


def _notes(parts: MaskParts) -> list[str]:
    in_truth = int(parts.in_truth.sum())
    over = "that of the only class" if in_truth == 1 else f"the mean over the {in_truth} classes"
    notes = [f"mIoU is {over} that the true masks have"]
    if only := int((parts.answered & ~parts.in_truth).sum()):
        counted = "class that is" if only == 1 else "classes that are"
        notes.append(f"{only} {counted} answered but in no true mask would count as 0 with TensorFlow and torchmetrics")
    return notes
