"""A paired training as lines for a terminal and as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate
from zoolens.base.store.json_columns import json_value
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.data.stream_comparison import stream_data, stream_lines
from zoolens.training.pairs.explanation.noise_words import lines as noise_lines
from zoolens.training.pairs.explanation.noise_words import signed, verdict
from zoolens.training.pairs.live.differences import is_hidden
from zoolens.training.pairs.live.penalties import PENALTIES, REGULARISATION
from zoolens.training.pairs.live.setting_words import difference_words, setting_words, unread_words
from zoolens.training.pairs.live.tensor_constants import ROWS
from zoolens.training.pairs.loop.seed_pairs import SeedPair
from zoolens.training.pairs.loop.single_run import SingleRun
from zoolens.training.port.training.paired import PairedTraining


def paired_lines(training: PairedTraining) -> list[str]:
    """Who was trained on what, what each seed gave, the difference beyond seed noise, and what a reader must know."""
    lines = [
        f"{letter}  {name}  ({', '.join(f'{package} {version}' for package, version in versions.items())})"
        for letter, name, versions in zip("AB", training.names, training.versions, strict=True)
    ]
    lines.append("")
    if training.streams is not None:
        on = "Each side was trained on its own data." if training.own_data else "Both were trained on A's data."
        lines += stream_lines(training.streams, on)
    lines += [_what(training), ""]
    lines += _table(training)
    lines += ["*: trained before, and found in the store."] if any(pair.kept for pair in training.seeds) else []
    lines += ["", *_verdict(training), "", *_different(training)]
    return lines + ([""] + [f"Note: {note}" for note in training.notes] if training.notes else [])


def _what(training: PairedTraining) -> str:
    weights = "A's weights of each seed in both" if training.shared_weights else "each with the weights that it draws"
    epochs = plural(training.length.epochs, "epoch")
    sizes = "" if training.batch is None else f" of up to {training.batch:,} samples"
    trained = f"Trained on {training.samples[0]:,} samples of {training.data} in the same order"
    if training.own_data:
        trained = f"A was trained on {training.samples[0]:,} samples of {training.data}, B on its own data"
    return f"{trained}, {weights}: {epochs}, {training.steps:,} steps{sizes}, {plural(len(training.seeds), 'seed')}."


def _table(training: PairedTraining) -> list[str]:
    held = training.measure == "accuracy"
    head = ["seed", "A first loss", "B first loss", "A last epoch", "B last epoch"]
    head += ["A accuracy", "B accuracy", "answers differ"] if held else ["A held out", "B held out"]
    rows = [head, *(_row(pair, accuracies=held) for pair in training.seeds)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _row(pair: SeedPair, *, accuracies: bool) -> list[str]:
    a, b = pair.runs
    row = [f"{pair.seed}{'*' if pair.kept else ''}", *(f"{run.first_loss:.6g}" for run in pair.runs)]
    row += [f"{run.losses[-1]:.4f}" if run.losses else "-" for run in (a, b)]
    if accuracies:
        churn = "-" if pair.churn is None else f"{100 * pair.churn:.2f} %"
        return [*row, _accuracy(a), _accuracy(b), churn]
    losses: Sequence[float | None] = pair.held_out_losses or (None, None)
    return [*row, *("-" if loss is None else f"{loss:.6g}" for loss in losses)]


def _accuracy(run: SingleRun) -> str:
    return "-" if run.accuracy is None else f"{100 * run.accuracy:.2f} %"


def _verdict(training: PairedTraining) -> list[str]:
    lines = ["No seed has a result of both sides, so that nothing can be said about their difference."]
    if training.noise is not None and training.measure == "accuracy":
        lines = noise_lines(training.noise)
    elif training.noise is not None:
        lines = _loss_lines(training.noise, training.measure)
    different = bool(training.beyond_noise) or training.one_lost
    if different:
        return lines
    seeds = training.coverage.tallies[0].text
    if training.coverage.whole:
        return [
            *lines,
            f"They come out alike ({seeds}): no difference is left that is larger than two seeds of one side.",
        ]
    what = "; ".join(gap.what for gap in training.coverage.gaps)
    return [*lines, f"Not known whether they come out alike ({seeds}): {what}.", *training.coverage.remedies]


def _loss_lines(noise: SeedNoise, measure: str) -> list[str]:
    judged = "A's loss on the held-out samples" if measure == "held-out loss" else "the mean loss of the last epoch"
    lines = [f"B − A: {_signed(noise.difference)} of {judged}, over {plural(noise.seeds, 'seed')} (95 % t interval)."]
    if noise.excess is None or noise.level is None:
        return [*lines, "How much of it is seed noise is not known: that takes more seeds."]
    return [*lines, f"Δ minus noise: {_signed(noise.excess)} (noise {noise.level:.3g}). {verdict(noise)}."]


def _signed(estimate: Estimate) -> str:
    return signed(estimate, unit="", scale=1, form="+.4g")


def _different(training: PairedTraining) -> list[str]:
    lines = [] if training.same_structure else [f"Structure: {training.headline} See zoolens port check."]
    known = [difference for difference in training.differences if None not in (difference.a, difference.b)]
    unknown = [difference.name for difference in training.differences if None in (difference.a, difference.b)]
    neither = _told_by_neither(training)
    if unknown:
        lines.append(f"Not compared, since one side does not tell: {', '.join(unread_words(unknown))}.")
    lines += [f"Not compared, since neither side tells: {', '.join(neither)}."] if neither else []
    if known:
        return [*lines, "Settings that differ:", *(f"  {difference_words(difference)}" for difference in known)]
    read = len(_read_by_both(training))
    if unknown or neither:
        return [*lines, f"Not known whether another setting differs: {read} could be read on both sides, and do not."]
    return [*lines, f"No setting of the live objects differs, of {read} that could be read on both sides."]


def _read_by_both(training: PairedTraining) -> list[str]:
    """Names of settings that both sides have or lack for certain."""
    ours, theirs = training.settings
    names = dict.fromkeys((*ours, *theirs))
    return [name for name in names if not is_hidden(name) and None not in (ours.get(name, ""), theirs.get(name, ""))]


def _told_by_neither(training: PairedTraining) -> list[str]:
    """What both sides have as functions of their own, which may have the same name and do different things."""
    ours, theirs = training.settings
    names = [name for name in ours if ours[name] is None and theirs.get(name, "none") is None and name != ROWS]
    return [setting_words(REGULARISATION if name == PENALTIES else name).rstrip(",") for name in names]


def paired_data(training: PairedTraining) -> dict[str, Any]:
    """A paired training for JSON."""
    data: dict[str, Any] = {
        "a": {"name": training.names[0], "framework": training.frameworks[0], "versions": training.versions[0]},
        "b": {"name": training.names[1], "framework": training.frameworks[1], "versions": training.versions[1]},
        "data": {"name": training.data, "train": training.samples[0], "held_out": training.samples[1]},
        "epochs": training.length.epochs,
        "steps": training.steps,
        "batch": training.batch,
        "weights": "shared" if training.shared_weights else "own",
        "same_structure": training.same_structure,
        "structure": training.headline,
        "measure": training.measure,
        "seeds": [_seed_data(pair) for pair in training.seeds],
        "noise": training.noise,
        "beyond_noise": training.beyond_noise,
        "one_lost": training.one_lost,
        "verdict": None if training.noise is None else verdict(training.noise),
        "settings": {"a": training.settings[0], "b": training.settings[1]},
        "differences": [difference.as_data() for difference in training.differences],
        "notes": training.notes,
        "streams": None if training.streams is None else stream_data(training.streams),
        "own_data": training.own_data,
        **training.verdict.as_data(),
    }
    plain: dict[str, Any] = json_value(data)
    return plain


def _seed_data(pair: SeedPair) -> dict[str, Any]:
    sides = {
        letter: {name: value for name, value in vars(run).items() if name != "answers"} | {"accuracy": run.accuracy}
        for letter, run in zip("ab", pair.runs, strict=True)
    }
    return {"seed": pair.seed, **sides, "held_out_losses": pair.held_out_losses, "churn": pair.churn, "kept": pair.kept}
