"""`train`: the user's two networks, trained in pairs over several seeds, and whether they differ beyond seed noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import TypeAdapter

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.engine.executors.executor import Executor
from zoolens.base.errors import ModelError, StoreError, ZoolensError
from zoolens.base.present.results import Result
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.seeds import SeedNoise, seed_noise
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.verdicts import Coverage, Verdict, combined, judged
from zoolens.training.pairs.data.opening import BATCH, DataChoice, OpenData, Pipelines, opened_pipelines
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.data.stream import ChannelOrder
from zoolens.training.pairs.data.stream_comparison import StreamComparison
from zoolens.training.pairs.data.stream_writer import LIMIT
from zoolens.training.pairs.live.answer_kinds import as_taken_by
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.loop.at_once import both_at_once
from zoolens.training.pairs.loop.compared_settings import epoch_lengths, setting_differences, settings_of_both
from zoolens.training.pairs.loop.seed_pairs import SeedPair, compared_measure, is_one_training, scores_of
from zoolens.training.pairs.loop.seed_verdict import training_coverage
from zoolens.training.pairs.loop.single_run import Length, SingleRun, held_out_targets, train_once
from zoolens.training.pairs.loop.trainable_sides import TrainableSide, as_trainable, opened_for_training
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.networks.tensor_digest import digest_of_tensors
from zoolens.training.pairs.sides.network_sides import TIMEOUT, Device, InputShape
from zoolens.training.pairs.sides.open_pair import OpenPair, PairOptions
from zoolens.training.port.training.paired_notes import HowTrained, notes_of
from zoolens.training.port.training.seeds_elsewhere import SeedJobs, absolute_request, refuse_objects
from zoolens.training.port.weights import ask_for_missing

if TYPE_CHECKING:
    from zoolens.training.port.training.kept_seeds import KeptSeeds

SEEDS: Final = 3
MAX_SEED: Final = (1 << 31) - 1  # numpy and frameworks take 32 bits, some of them with a sign


@dataclass(frozen=True, repr=False)
class PairedTraining(Result):
    """Two networks trained in pairs, and how far apart they come out."""

    names: tuple[str, str]
    frameworks: tuple[str, str]
    versions: tuple[Mapping[str, str], Mapping[str, str]]
    data: str
    samples: tuple[int, int]
    length: Length
    steps: int
    batch: int | None
    shared_weights: bool
    headline: str
    same_structure: bool
    seeds: tuple[SeedPair, ...]
    measure: str  # "accuracy", "held-out loss" or "training loss"
    noise: SeedNoise | None  # of the measure, B − A; None where no seed has both sides
    settings: tuple[Mapping[str, Any], Mapping[str, Any]]
    # Settings of the live objects that are not the same, or not known of one.
    differences: tuple[SettingDifference, ...]
    notes: tuple[str, ...]  # sentences
    coverage: Coverage = field(default_factory=Coverage)
    streams: StreamComparison | None = None  # of two data pipelines
    own_data: bool = False  # each side was trained on its own

    @property
    def verdict(self) -> Verdict:
        """Different also where the data are, whichever both were trained on."""
        of_training = judged(self.coverage, different=bool(self.beyond_noise) or self.one_lost)
        return of_training if self.streams is None else combined([self.streams.verdict, of_training])

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the sides differ beyond seed noise; None: it cannot be told, since fewer than two seeds have both
        sides."""
        return None if self.noise is None else self.noise.beyond_noise

    @property
    def one_lost(self) -> bool:
        """Whether, with the same seed, one side did not stay finite and the other did."""
        return any(len({run.not_finite is None for run in pair.runs}) == 2 for pair in self.seeds)


@dataclass(frozen=True)
class TrainingRequest:
    """Two sides, what they are trained on, and how often."""

    a: str | Any
    b: str | Any
    inputs: Sequence[str]
    data: Pipelines
    length: Length
    seeds: Sequence[int] = tuple(range(SEEDS))
    own_init: bool = False  # each side keeps the weights that it draws itself
    options: PairOptions = field(default_factory=PairOptions)

    def __post_init__(self) -> None:
        seeds = self.seeds
        if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) > MAX_SEED:
            raise ZoolensError(f"Seeds are different whole numbers from 0 to {MAX_SEED:,}, and there is at least one.")


def train(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    *,
    data: str | Any = "demo",
    test_data: str | Any = None,
    batch: int = BATCH,
    augmentation: str = "none",
    order: ChannelOrder | None = None,
    epoch_steps: int | None = None,
    record: Path | str | None = None,
    record_limit: int = LIMIT,
    epochs: int = 1,
    most_steps: int | None = None,
    seeds: int | Sequence[int] = SEEDS,
    own_init: bool = False,
    limits: tuple[int | None, int | None] = (None, None),
    chosen: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    device: Device = "cpu",
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
    data_b: str | Any = None,
    train_on: Literal["a", "own"] = "a",
) -> PairedTraining:
    """Train both networks on the same batches in the same order, from the same weights, once for each seed.
    `data_b`: B's own data, as `data`, or as a `DataChoice`; `train_on`: "a" or "own", what both are trained on then.

    `a`, `b`: "file.py:function" or "module:function", or in Python a function that returns the objects, or the objects
    themselves. `data`: a dataset as recipes name it, or data of one's own, as `DataChoice` has them with the arguments
    that follow. `own_init`: each side keeps the weights that it draws itself. `store`: where seeds that are done are
    kept and looked for; only sides that are named can be kept.
    """
    kept_in = None if record is None else Path(record)
    choice = DataChoice(data, test_data, batch, augmentation, limits, order, epoch_steps, kept_in, record_limit)
    request = TrainingRequest(
        a,
        b,
        inputs,
        Pipelines(choice, _choice_b(choice, data_b), train_on),
        Length(epochs, most_steps),
        range(seeds) if isinstance(seeds, int) else seeds,
        own_init,
        PairOptions(dict(chosen or {}), timeout, device),
    )
    with nullcontext() if store is None else borrowed_store(store) as opened:
        return train_pair(request, store=opened, progress=progress)


def train_pair(
    request: TrainingRequest, *, store: Store | None = None, progress: Progress | None = None
) -> PairedTraining:
    """Train both sides once for each seed and compare what came of it; see `train`."""
    shapes = [InputShape.parse(text) for text in request.inputs]
    options, length, seeds = request.options, request.length, request.seeds
    executor = current_executor()
    if executor.elsewhere:
        choices = [choice for choice in (request.data.a, request.data.b) if choice is not None]
        refuse_objects([request.a, request.b, *(part for one in choices for part in (one.data, one.test_data))])
    with (
        opened_pipelines(
            request.data,
            shapes,
            epochs=length.epochs,
            seeds=max(seeds) + 1,
            timeout=options.timeout,
            progress=progress,
        ) as data,
        opened_for_training(request.a, request.b, request.inputs, options) as pair,
    ):
        if not request.own_init:
            ask_for_missing(pair.map, instead="or let each side draw its own weights with --own-init")
        for one in dict.fromkeys((data.a, data.b)):
            _check_classes(pair, one)
        training = Training(pair, data, length, not request.own_init, progress or Silent())
        how = beside_seed(request, data)
        kept = None
        if store is not None:
            from zoolens.training.port.training.kept_seeds import KeptSeeds  # only a store needs pyarrow

            kept = KeptSeeds.of(store, pair, data.a, length, how)
        pairs = training.run(seeds, kept, _seed_jobs(executor, request, pair, data) if executor.elsewhere else None)
        return _result(pair, training, pairs, data)


def beside_seed(request: TrainingRequest, data: OpenData) -> dict[str, Any]:
    """What decides about a training beside the sides, the data and the length."""
    options = request.options
    how = {"own_init": request.own_init, "map": dict(options.chosen), "device": options.device}
    return how | ({"data_b": data.b.fingerprint} if data.own else {})


def _seed_jobs(executor: Executor, request: TrainingRequest, pair: OpenPair, data: OpenData) -> SeedJobs:
    from zoolens.training.port.training.kept_seeds import decided_by

    fields = absolute_request(
        TypeAdapter(TrainingRequest).dump_python(replace(request, seeds=list(request.seeds)), mode="json")
    )
    decided = decided_by(pair, data.a, request.length, beside_seed(request, data)) or {}
    return SeedJobs(executor, fields, decided, request.options.device == "gpu")


def _choice_b(choice: DataChoice, data_b: Any) -> DataChoice | None:
    if data_b is None or isinstance(data_b, DataChoice):
        return data_b
    return replace(choice, data=data_b, test_data=None, record=None)


def _check_classes(pair: OpenPair, source: BatchSource) -> None:
    """Refuse a network that has fewer answers than the data have classes, before anything is trained."""
    if source.classes is None:
        return
    for side, graph in ((pair.a, pair.diff.a), (pair.b, pair.diff.b)):
        shape = graph.by_name[graph.outputs[0]].shape
        if len(shape) == 2 and 1 < shape[1] < source.classes:
            raise ModelError(
                f"{side.text} answers {shape[1]} numbers for a sample, and {source.name} has {source.classes} classes."
            )


class Training:
    """The pair with what it is trained on. Both sides of a seed are trained at once where each has its own process."""

    def __init__(self, pair: OpenPair, data: OpenData, length: Length, shared: bool, progress: Progress) -> None:
        self.pair, self.source, self.length, self.shared = pair, data.a, length, shared
        self.sources = data.a, data.b
        self.sides = as_trainable(pair.a), as_trainable(pair.b)
        self.not_kept: str | None = None  # why a seed could not be written to the store
        self.equal_starts: dict[str, bool] = {}  # whether a side's first weights are the same for every seed
        self.settings: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
        self._progress, self._lock = progress, Lock()
        self._first: dict[str, Mapping[str, Array]] = {}

    def run(self, seeds: Sequence[int], kept: KeptSeeds | None, elsewhere: SeedJobs | None = None) -> list[SeedPair]:
        self.settings = settings_of_both(self.pair, epoch_lengths(self.source, self.length, seeds))
        pairs: dict[int, SeedPair] = {}
        missing: dict[int, str] = {}
        for place, seed in enumerate(seeds, 1):
            start = self.start(seed)
            pair = kept.read(seed, start) if kept is not None else None
            if pair is not None:
                pairs[seed] = pair
            elif elsewhere is not None:
                missing[seed] = start
            else:
                runs = self.both(seed, f"seed {seed} ({place} of {len(seeds)})")
                pairs[seed] = self._finished(seed, start, runs, kept)
        if elsewhere is not None and missing:
            for seed, runs in elsewhere.train(missing, self._progress):
                pairs[seed] = self._finished(seed, missing[seed], runs, kept)
        self._progress.end()
        return [pairs[seed] for seed in seeds]

    def start(self, seed: int) -> str:
        """Gives both sides their first weights for this seed; returns the digest of all of them."""
        a, b = self.sides
        a.begin(seed)
        b.begin(seed)
        weights = a.tensors()
        self._look_at_start("A", weights)
        if self.shared:
            b.assign(self.pair.map.moved(weights, b.tensors()))
        else:
            self._look_at_start("B", b.tensors())
        return digest_of_tensors(weights, b.tensors())

    def both(self, seed: int, title: str) -> tuple[SingleRun, SingleRun]:
        """Trains both sides from their first weights."""
        steps = sum(self.length.steps(source, seed) for source in self.sources)
        self._progress.begin(title, "training", steps, "steps")
        sides = zip(self.sides, self.sources, strict=True)
        a, b = both_at_once(self.sides, [partial(self._one, side, source, seed) for side, source in sides])
        return a, b

    def _finished(self, seed: int, start: str, runs: tuple[SingleRun, SingleRun], kept: KeptSeeds | None) -> SeedPair:
        pair = self._compared(seed, runs)
        if kept is not None:
            self._keep(kept, pair, start)
        return pair

    def _keep(self, kept: KeptSeeds, pair: SeedPair, start: str) -> None:
        """A training that took hours is told even where the disk is full or the store is read-only."""
        try:
            kept.write(pair, start)
        except StoreError as error:
            self.not_kept = error.message

    def _look_at_start(self, letter: str, weights: Mapping[str, Array]) -> None:
        """Notice that the user's function draws the same weights for every seed."""
        first = self._first.setdefault(letter, weights)
        if first is not weights:
            same = all(np.array_equal(array, first[name]) for name, array in weights.items())
            self.equal_starts[letter] = same and self.equal_starts.get(letter, True)

    def _one(self, side: TrainableSide, source: BatchSource, seed: int, stop: Event) -> SingleRun:
        return train_once(side, source, seed, self.length, fresh=False, report=self._advance, stop=stop)

    def _same_held_out(self) -> bool:
        """Whether the held-out samples of both have the same targets, so that answers to them can be compared."""
        a, b = self.sources
        return a is b or np.array_equal(held_out_targets(a), held_out_targets(b))

    def _advance(self, steps: int) -> None:
        with self._lock:
            self._progress.advance(steps)

    def _compared(self, seed: int, runs: tuple[SingleRun, SingleRun]) -> SeedPair:
        pair = SeedPair(seed, runs)
        ours, theirs = (run.answers for run in runs)
        if ours is None or theirs is None or ours.size != theirs.size or not self._same_held_out():
            return pair
        theirs = theirs.reshape(ours.shape)  # a single answer may have an axis of its own
        if all(run.correct is not None for run in runs):
            pair = replace(pair, churn=float((ours.argmax(-1) != theirs.argmax(-1)).mean()))
        taken = as_taken_by(self.settings[0], theirs, self.settings[1])
        if taken is None:
            return pair
        targets, judge = held_out_targets(self.source), self.sides[0]
        return replace(pair, held_out_losses=(judge.loss_of(ours, targets), judge.loss_of(taken, targets)))


def _result(pair: OpenPair, training: Training, pairs: Sequence[SeedPair], data: OpenData) -> PairedTraining:
    names, source = (pair.a.text, pair.b.text), data.a
    measure = compared_measure(pairs)
    both = [seed_pair for seed_pair in pairs if seed_pair.finite]
    repeated = is_one_training(both)
    scores = [scores_of(seed_pair, measure) for seed_pair in (both[:1] if repeated else both)]
    images = source.held_out_samples if measure == "accuracy" else None
    settings = training.settings
    noise = None
    if scores:
        noise = seed_noise("A", [ours for ours, _ in scores], "B", [theirs for _, theirs in scores], images)
    ours, theirs = settings
    different = [
        difference
        for difference in setting_differences(pair, ours, theirs)
        if None not in (difference.a, difference.b) or (difference.name in ours and difference.name in theirs)
    ]
    return PairedTraining(
        names,
        (pair.a.framework, pair.b.framework),
        (pair.a.facts.versions, pair.b.facts.versions),
        source.name,
        (source.samples, source.held_out_samples),
        training.length,
        training.length.steps(source),
        source.batch,
        training.shared,
        pair.diff.headline,
        pair.diff.same,
        tuple(pairs),
        measure,
        noise,
        settings,
        tuple(different),
        tuple(
            notes_of(
                pair,
                source,
                settings,
                pairs,
                HowTrained(
                    training.shared,
                    repeated,
                    [letter for letter, same in training.equal_starts.items() if same],
                    training.not_kept,
                ),
            )
        ),
        training_coverage(pairs if not repeated else pairs[:1], noise, measure),
        data.compared,
        data.own,
    )
