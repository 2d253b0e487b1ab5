"""Voice activity: a probability of speech for each frame of a sound.

Where a dataset has the times at which somebody speaks, frames are judged, each by the moment at its centre. Where it
only says whether anybody speaks in a sound, sounds are judged by their most probable frame. Frames whose centre lies in
silence that the manifest puts before a sound are kept, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.base.present.figures import percent
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema_masks import Threshold
from zoolens.inventory.preprocess.sound_inputs import SoundPlace
from zoolens.inventory.tasks.drawing import Drawing, DrawnSpan
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.output_setup import OutputSetup, Reader
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.scoring.activity import ActivityParts, clip_figures, frame_figures
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Column, Floats, Task, column, ragged_column

if TYPE_CHECKING:
    import pyarrow as pa

Flags = NDArray[np.bool_]

ROLE: Final = "probability"
FRAMES: Final = (Metric("frame_auc", blind=0.5), Metric("frame_accuracy"), Metric("frame_f1"))
CLIPS: Final = (Metric("clip_auc", blind=0.5), Metric("clips_found"), Metric("false_alarms", lower_is_better=True))
_DEFAULT: Final = 0.5
_PARTS: Final = 16  # moments of a sound in the signature
_SHOWN: Final = 3  # turns of one answer
_ROUNDING: Final = 0.001  # that a probability may lie outside of 0 to 1
_SIGMOID_OF_1: Final = 0.7311


@dataclass(frozen=True)
class Frames:
    """The frames of one sound: the probability of each, the moment of the first one's centre and their distance."""

    probability: NDArray[np.float32]
    first: float  # seconds from the beginning of the file: negative in silence that was put before it
    step: float
    seconds: float  # of the file
    threshold: float

    @property
    def centres(self) -> Floats:
        return np.asarray(self.first + self.step * np.arange(len(self.probability)), np.float64)

    @property
    def active(self) -> Flags:
        return self.probability > self.threshold

    @property
    def inside(self) -> Flags:
        """Which frames are of the file itself; the last one may reach beyond its end."""
        centres = self.centres
        return (centres >= 0) & (centres - self.step / 2 < self.seconds)


class VoiceActivity(Task):
    name = "voice-activity"
    summary = "Speech in the frames of a sound"
    judged = True
    metric = "frame_auc"
    unit = "frames"
    located = True
    roles: ClassVar[Mapping[str, bool]] = {ROLE: True}
    truth = "activity"
    ragged = frozenset({ROLE, "intervals"})

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        numbers = {name: pa.float64() for name in ("first", "step", "seconds", "threshold")}
        return {ROLE: pa.list_(pa.float32(), -1), **numbers}

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {"intervals": pa.list_(pa.float64(), -1), "timed": pa.int8()}

    def reader(self, setup: OutputSetup) -> Reader:
        sound = setup.inputs[0].sound
        if sound is None or sound.windows is None or sound.windows.join != "frames":
            raise ManifestError(
                "Voice activity is told frame by frame, but the manifest does not cut sounds into frames.",
                hint="Declare the input with modality: sound and sound: {windows: {join: frames, …}}.",
            )
        step, half = sound.windows.step / sound.rate, sound.windows.length / sound.rate / 2
        steps = [step for step in setup.output.postprocess if isinstance(step, Threshold)]
        threshold = steps[0].above if steps else _DEFAULT
        logits = setup.output.scores == "logits"

        def frames(raw: Mapping[str, NDArray[Any]], memos: Sequence[Any]) -> list[Frames]:
            values = raw[ROLE]
            if values.ndim != 2:
                raise ModelError(
                    f"The output {setup.tensors[ROLE].name} has {values[0, 0].size:,} numbers for each frame, not one.",
                    hint="Name the output with the probability of speech.",
                )
            rows = zip(_probabilities(values, logits=logits), memos, strict=True)
            return [Frames(row, _place(memo).begin + half, step, _place(memo).seconds, threshold) for row, memo in rows]

        return frames

    def keep(self, values: Sequence[Frames], labels: NDArray[Any] | None) -> Mapping[str, Column]:
        names = ("first", "step", "seconds", "threshold")
        return {
            ROLE: Ragged.of([frames.probability for frames in values], np.float32),
            **{name: np.array([getattr(frames, name) for frames in values], np.float64) for name in names},
        }

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        intervals = [np.zeros(0) if truth is None else truth["intervals"] for truth in truths]
        timed = [truth is not None and bool(truth["timed"].all()) for truth in truths]
        return {"intervals": Ragged.of(intervals, np.float64), "timed": np.array(timed, np.int8)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        """The share of moments that both call speech, or neither; moments are the frames of the model with more."""
        pairs = zip(_each(a), _each(b), strict=True)
        return np.array([_agreement(ours, theirs) for ours, theirs in pairs], np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return "mean share of frames with the same decision"

    def silent(self, answers: Answers) -> NDArray[np.bool_]:
        return np.array([not frames.active.any() for frames in _each(answers)], np.bool_)

    def signature(self, answers: Answers) -> NDArray[Any]:
        """Probabilities at 16 moments of each sound. An index only stores them: it compares by agreement."""
        return np.array([_at_moments(frames) for frames in _each(answers)], np.float32).reshape(-1, _PARTS)

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        """The share of frames with the right decision; of a sound without times or frames, whether its one decision is
        right."""
        if not answers.truths:
            return np.zeros(len(answers))
        parts = _parts(answers)
        whole = (parts.highest > _thresholds(answers)) == parts.spoken
        share = parts.right / np.maximum(parts.judged, 1)
        # A sound that is shorter than a frame has none to judge.
        return np.where(parts.judged > 0, share, whole).astype(np.float64)

    def judgement(self, answers: Answers) -> Judgement | None:
        parts = _parts(answers)
        figures = []
        if parts.timed.any():
            figures.append((FRAMES, frame_figures(parts)))
        if not parts.timed.all() or len(np.unique(parts.spoken)) > 1:
            figures.append((CLIPS, clip_figures(parts, _thresholds(answers))))
        metrics = tuple(metric for some, _ in figures for metric in some)

        def aggregate(weights: NDArray[np.int64]) -> Floats:
            return np.concatenate([figure(weights) for _, figure in figures], axis=1)

        return Judgement(metrics, aggregate, tuple(_notes(answers, parts)))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        frames = _frames(answers, place)
        turns = list(_turns(frames))
        if not turns:
            return f"no speech in {len(frames.probability):,} frames"
        return f"speech in {percent(frames.active.mean(), 0)} of frames: {_in_words(turns)}"

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        intervals = answers.truths["intervals"][place].reshape(-1, 2)
        if not len(intervals):
            return "no speech"
        return f"speech: {_in_words(intervals.tolist())}" if answers.truths["timed"][place] else "speech"

    def drawing(
        self, answers: Answers, place: int, names: Sequence[str] | None = None, *, truth: bool = False
    ) -> Drawing | None:
        if truth and not answers.truths["timed"][place]:
            # When somebody speaks is not known, only whether.
            return None
        spoken = (
            answers.truths["intervals"][place].reshape(-1, 2).tolist() if truth else _turns(_frames(answers, place))
        )
        return Drawing(spans=tuple(DrawnSpan(max(begin, 0.0), end) for begin, end in spoken if end > 0))


def _in_words(turns: Sequence[Sequence[float]]) -> str:
    listed = ", ".join(f"{max(begin, 0):.2f} to {end:.2f} s" for begin, end in turns[:_SHOWN])
    return listed + (", …" if len(turns) > _SHOWN else "")


def _each(answers: Answers) -> Iterator[Frames]:
    return (_frames(answers, place) for place in range(len(answers)))


def _frames(answers: Answers, place: int) -> Frames:
    first, step, seconds, threshold = (
        float(column(answers, name)[place]) for name in ("first", "step", "seconds", "threshold")
    )
    return Frames(ragged_column(answers, ROLE)[place], first, step, seconds, threshold)


def _thresholds(answers: Answers) -> Floats:
    return np.asarray(column(answers, "threshold"), np.float64)


def _place(memo: Any) -> SoundPlace:
    if not isinstance(memo, SoundPlace):
        raise ManifestError(
            "Where frames lie in the sound is unknown.", hint="Declare the steps under preprocess, instead of code."
        )
    return memo


def _probabilities(values: NDArray[Any], *, logits: bool) -> NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ModelError("The model answers NaN or infinity for a frame.", hint="Does it run elsewhere?")
    if logits:
        # Beyond 60 a sigmoid is 0 or 1 in float32; the exponential of a larger number may overflow.
        return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))), np.float32)
    if values.size and (values.min() < -_ROUNDING or values.max() > 1 + _ROUNDING):
        worst = values.min() if values.min() < -_ROUNDING else values.max()
        raise ModelError(
            f"The manifest declares probabilities, but the model answered {worst:.4g}.",
            hint="Declare scores: logits for this output.",
        )
    return np.asarray(np.clip(values, 0, 1), np.float32)


def _agreement(a: Frames, b: Frames) -> float:
    finer, coarser = (a, b) if len(a.probability) >= len(b.probability) else (b, a)
    if not len(coarser.probability):
        return float(len(finer.probability) == 0)
    nearest = np.rint((finer.centres - coarser.first) / coarser.step).astype(np.int64)
    there = coarser.active[np.clip(nearest, 0, len(coarser.probability) - 1)]
    return float((finer.active == there).mean())


def _at_moments(frames: Frames) -> Floats:
    count = len(frames.probability)
    if not count:
        return np.zeros(_PARTS)
    return np.asarray(np.interp(np.linspace(0, count - 1, _PARTS), np.arange(count), frames.probability), np.float64)


def _parts(answers: Answers) -> ActivityParts:
    """The judged frames of all sounds, and what is known of each sound."""
    timed = np.asarray(answers.truths["timed"] != 0)
    intervals = answers.truths["intervals"]
    scores, active, truths = [np.zeros(0)], [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
    count = len(answers)
    judged, right, highest = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    for place, frames in enumerate(_each(answers)):
        highest[place] = frames.probability.max(initial=0)
        if not timed[place]:
            continue
        inside = frames.inside
        true = _spoken_at(frames.centres[inside], intervals[place].reshape(-1, 2))
        judged[place], right[place] = len(true), int((frames.active[inside] == true).sum())
        scores.append(frames.probability[inside].astype(np.float64))
        active.append(frames.active[inside])
        truths.append(true)
    return ActivityParts(
        scores=np.concatenate(scores),
        active=np.concatenate(active),
        true=np.concatenate(truths),
        owners=np.repeat(np.arange(count), judged),
        timed=timed,
        spoken=np.array([len(row) > 0 for row in intervals], np.bool_),
        highest=highest,
        judged=judged,
        right=right,
    )


def _spoken_at(moments: Floats, intervals: Floats) -> Flags:
    spoken = np.zeros(len(moments), np.bool_)
    for begin, end in intervals:
        spoken |= (moments >= begin) & (moments < end)
    return spoken


def _turns(frames: Frames) -> Iterator[tuple[float, float]]:
    """Begin and end of each run of frames with speech."""
    edges = np.flatnonzero(np.diff(frames.active.astype(np.int8), prepend=0, append=0))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        start = frames.first - frames.step / 2
        yield start + begin * frames.step, start + end * frames.step


def _notes(answers: Answers, parts: ActivityParts) -> Iterator[str]:
    if not parts.timed.all():
        without = int((~parts.timed).sum())
        yield f"{without:,} of {len(parts.timed):,} sounds say whether anybody speaks and not when: they have no frames"
    probabilities = ragged_column(answers, ROLE).values
    if len(probabilities) and probabilities.min() >= 0.5 and probabilities.max() <= _SIGMOID_OF_1:
        yield (
            "all outputs lie between 0 and 1 and were taken for logits: are they probabilities? Then declare scores: "
            "probabilities"
        )
