"""Two data pipelines beside each other, before anything is trained: whether both give the same batches, the first that
parts, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np

from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.data.stream import RecordedStream
from zoolens.training.pairs.data.stream_targets import target_change
from zoolens.training.pairs.data.stream_values import EXACT, counterparts, distance, value_change
from zoolens.training.pairs.networks.framework import Array

EPOCHS: Final = 2  # recorded at least: augmentation shows in the second
_MOST: Final = 4096  # samples that are looked at to say how two streams differ


@dataclass(frozen=True)
class StreamFinding:
    """One way in which two streams part."""

    kind: str  # what parts: batches, order, inputs, targets, augmentation, form
    text: str
    different: bool = True  # False where it is told and is no difference in what the networks are given


@dataclass(frozen=True)
class StreamComparison:
    """Two data pipelines beside each other."""

    names: tuple[str, str]
    batches: tuple[int, int]  # of the first epoch, in A and B
    samples: tuple[int, int]  # of the first epoch, in A and B
    first: int | None  # the number of the first batch that parts, from 1; None: there is none
    findings: tuple[StreamFinding, ...]
    coverage: Coverage

    @property
    def verdict(self) -> Verdict:
        return judged(self.coverage, different=any(finding.different for finding in self.findings))


def compare_streams(a: BatchSource, b: BatchSource) -> StreamComparison:
    """Compare the first epoch of both under the first seed, what the second epoch changes, and the held-out parts."""
    ours, theirs = _Epoch(_unshuffled(a, b)), _Epoch(_unshuffled(b, a))
    first = _first_parting(ours.batches, theirs.batches)
    findings = [*_sizes(ours, theirs), *_layouts(a, b)]
    changing = _changes(a), _changes(b)
    gaps: list[Gap] = []
    if first is not None:
        parted, gaps = _parted(ours, theirs, changing)
        findings += parted
    elif (form := target_change(ours.targets, theirs.targets)) is not None:
        findings.append(StreamFinding("targets", form.text, form.different))
    findings += _epochs(changing)
    findings += _held_out(a, b)
    most = max(len(ours.batches), len(theirs.batches))
    tally = Tally("batches", min(len(ours.batches), len(theirs.batches)), most)
    coverage = Coverage((tally,), tuple(gaps))
    counts = len(ours.batches), len(theirs.batches)
    samples = sum(ours.sizes), sum(theirs.sizes)
    return StreamComparison((a.name, b.name), counts, samples, first, tuple(findings), coverage)


class _Epoch:
    """The batches of an epoch, and the first samples of it in their order."""

    def __init__(self, batches: Sequence[TrainingBatch]) -> None:
        self.batches = list(batches)
        self.sizes = [batch.size for batch in self.batches]
        ends = list(accumulate(self.sizes))
        few = [batch for batch, end in zip(self.batches, ends, strict=True) if end <= _MOST] or self.batches[:1]
        self.inputs = [np.concatenate(several) for several in zip(*(batch.inputs for batch in few), strict=True)]
        self.targets = np.concatenate([batch.targets for batch in few])
        self.whole = len(few) == len(self.batches)


def _unshuffled(source: BatchSource, other: BatchSource) -> list[TrainingBatch]:
    """The batches of the first epoch. Arrays that are shuffled here, on both sides, are compared as they were given:
    one sample more would shuffle all others otherwise."""
    arrays = [isinstance(one, RecordedStream) and one.about.shuffled for one in (source, other)]
    if all(arrays) and isinstance(source, RecordedStream):
        return list(source.as_given())
    return list(source.batches(1, 0))


def _first_parting(a: Sequence[TrainingBatch], b: Sequence[TrainingBatch]) -> int | None:
    for number, (ours, theirs) in enumerate(zip(a, b, strict=False), 1):
        if not _same_batch(ours, theirs):
            return number
    return min(len(a), len(b)) + 1 if len(a) != len(b) else None


def _same_batch(a: TrainingBatch, b: TrainingBatch) -> bool:
    if a.size != b.size or any(x.shape != y.shape for x, y in zip(a.inputs, b.inputs, strict=True)):
        return False
    same = all(distance(x, y) <= EXACT for x, y in zip(a.inputs, b.inputs, strict=True))
    changed = target_change(a.targets, b.targets)
    return same and (changed is None or not changed.different)


def _sizes(a: _Epoch, b: _Epoch) -> list[StreamFinding]:
    if a.sizes == b.sizes:
        return []
    for letter, long, short in (("B", b, a), ("A", a, b)):
        if len(long.sizes) > len(short.sizes) and _same_batch(long.batches[-1], long.batches[-2]):
            return [StreamFinding("batches", f"{letter} gives its last batch twice")]
    for letter, long, short in (("B", a, b), ("A", b, a)):
        if short.sizes == long.sizes[:-1] and long.sizes[-1] < long.sizes[0]:
            last = plural(long.sizes[-1], "sample")
            return [StreamFinding("batches", f"{letter} drops the last batch of an epoch, which has {last}")]
    if a.sizes[0] != b.sizes[0]:
        return [StreamFinding("batches", f"batches have {a.sizes[0]} samples in A and {b.sizes[0]} in B")]
    counts = [f"{sum(epoch.sizes):,} samples in {len(epoch.sizes):,} batches" for epoch in (a, b)]
    return [StreamFinding("batches", f"an epoch has {counts[0]} in A and {counts[1]} in B")]


def _layouts(a: BatchSource, b: BatchSource) -> list[StreamFinding]:
    orders = [
        [given.order for given in source.about.inputs] if isinstance(source, RecordedStream) else None
        for source in (a, b)
    ]
    if orders[0] is None or orders[1] is None or orders[0] == orders[1]:
        return []
    words = [str(order[0]).removeprefix("channels_") for order in orders if order]
    text = f"channels come {words[0]} in A and {words[1]} in B, and each network is given them as it needs them"
    return [StreamFinding("form", text, different=False)]


def _parted(a: _Epoch, b: _Epoch, changing: tuple[float | None, float | None]) -> tuple[list[StreamFinding], list[Gap]]:
    """How the samples of two streams differ, of which some batch parts."""
    count = min(len(a.targets), len(b.targets))
    order = _order(a, b)
    findings = []
    if order is not None:
        ours, theirs = np.arange(len(order)), order
        whole = a.whole and b.whole and sum(a.sizes) == sum(b.sizes)
        same = "the same samples come" if whole else "samples come"
        if not np.array_equal(ours, theirs):
            findings.append(StreamFinding("order", f"{same} in another order"))
    else:
        ours = theirs = np.arange(count)
    for x, y in zip(a.inputs, b.inputs, strict=True):
        change = value_change(x[ours], y[theirs])
        if change is None:
            continue
        if all(changing) and change.kind in ("values", "augmentation"):
            remedy = "Compare them without augmentation, or let both draw the same."
            return findings, [Gap("inputs, which both sides change at random in every epoch", remedy=remedy)]
        findings.append(StreamFinding("inputs", change.text))
    told = target_change(a.targets[ours], b.targets[theirs])
    if told is not None:
        findings.append(StreamFinding("targets", told.text, told.different))
    return findings, []


def _order(a: _Epoch, b: _Epoch) -> Array | None:
    """Where the first samples of A stand in B; None: they cannot be found there. In the same order where they are."""
    x, y = a.inputs[0], b.inputs[0]
    count = min(len(x), len(y))
    if x.shape[1:] != y.shape[1:] or distance(x[:count], y[:count]) <= EXACT:
        return None
    places = {digest: place for place, digest in enumerate(_digests(y))}
    exact = [places.get(digest) for digest in _digests(x[:count])]
    if all(place is not None for place in exact) and len(set(exact)) == len(exact):
        return np.array(exact)
    found = counterparts(x, y)
    return None if found is None else found


def _digests(samples: Array) -> list[bytes]:
    return [hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=8).digest() for row in samples]


def _changes(source: BatchSource) -> float | None:
    """The share of samples in the second epoch that the first one does not have; None: there is no second one."""
    if isinstance(source, RecordedStream) and not source.about.shuffled and source.about.epochs < EPOCHS:
        return None
    seen = {digest for batch in source.batches(1, 0) for digest in _digests(batch.inputs[0])}
    later = [digest for batch in source.batches(2, 0) for digest in _digests(batch.inputs[0])]
    return sum(digest not in seen for digest in later) / len(later)


def _epochs(changing: tuple[float | None, float | None]) -> list[StreamFinding]:
    a, b = changing
    if a is None or b is None or bool(a) == bool(b):
        return []
    letter, share = ("A", a) if a else ("B", b)
    other = "B" if letter == "A" else "A"
    text = (
        f"{letter} alone changes its samples from epoch to epoch: {100 * share:.0f} % of the second epoch are not in "
    )
    return [StreamFinding("augmentation", f"{text}the first, as after augmentation; those of {other} stay")]


def _held_out(a: BatchSource, b: BatchSource) -> list[StreamFinding]:
    counts = a.held_out_samples, b.held_out_samples
    if not all(counts):
        return [] if counts[0] == counts[1] else [StreamFinding("held out", "only one side has a held-out part")]
    ours, theirs = _Epoch(list(a.held_out())), _Epoch(list(b.held_out()))
    found = (
        [] if counts[0] == counts[1] else [StreamFinding("held out", f"held-out samples: {counts[0]} and {counts[1]}")]
    )
    flat = [np.concatenate([batch.inputs[0] for batch in epoch.batches]) for epoch in (ours, theirs)]
    if counts[0] == counts[1] and distance(*flat) <= EXACT and _same_targets(ours, theirs):
        return found
    parted, _ = _parted(ours, theirs, (None, None))
    return found + [StreamFinding("held out", f"held out: {one.text}", one.different) for one in parted]


def _same_targets(a: _Epoch, b: _Epoch) -> bool:
    count = min(len(a.targets), len(b.targets))
    changed = target_change(a.targets[:count], b.targets[:count])
    return changed is None or not changed.different


def stream_lines(compared: StreamComparison, trained_on: str) -> list[str]:
    """What is said before anything else. `trained_on`: the end of the last sentence."""
    lines = [f"Data: A has {compared.names[0]}, B has {compared.names[1]}."]
    told = [finding for finding in compared.findings if finding.different]
    if told or compared.coverage.gaps:
        of = f" (batch {compared.first} of the first epoch parts first)" if compared.first is not None else ""
        lines.append(f"The two streams differ{of}:" if told else f"Not known whether the streams are the same{of}:")
        lines += [f"  {finding.text}" for finding in told]
        lines += [f"  not compared: {gap.what}. {gap.remedy}" for gap in compared.coverage.gaps]
    else:
        lines.append(
            f"Both streams are the same: {compared.batches[0]:,} batches of {compared.samples[0]:,} samples in the "
            "first epoch, up to rounding."
        )
    lines += [f"  No difference: {finding.text}." for finding in compared.findings if not finding.different]
    return [*lines, trained_on, ""]


def stream_data(compared: StreamComparison) -> dict[str, Any]:
    return {**asdict(compared), **compared.verdict.as_data()}
