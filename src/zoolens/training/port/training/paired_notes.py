"""What a reader of a paired training must know beside its figures, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.loop.seed_pairs import SeedPair
from zoolens.training.pairs.sides.open_pair import OpenPair

_STATISTICS = {
    "kept": "its function does not update them in training",
    "as parameters": "they are trained by their gradients like any other number",
}


@dataclass(frozen=True)
class HowTrained:
    """How the seeds of a pair began and were kept."""

    shared: bool  # B began with A's weights
    repeated: bool  # all seeds are one training
    equal_starts: Sequence[str]  # the sides whose first weights are the same for every seed
    not_kept: str | None  # why a seed could not be written to the store


def notes_of(
    pair: OpenPair,
    source: BatchSource,
    settings: tuple[Mapping[str, Any], Mapping[str, Any]],
    seeds: Sequence[SeedPair],
    how: HowTrained,
) -> Iterator[str]:
    """Yields notes in the order of importance."""
    yield from _not_finite(seeds)
    if how.repeated:
        yield (
            f"All {len(seeds)} seeds gave the same training, since neither the first weights nor the batches depend on "
            "the seed: they count as one."
        )
    drops = any(values.get("dropout.rate") for values in settings)
    if how.shared:
        yield from _starts(pair, seeds, drops=drops)
    for letter in () if how.repeated else how.equal_starts:
        yield (
            f"{letter}'s function draws the same weights for every seed, so that the seeds differ in the order of the "
            "samples alone; give it an argument named seed, or leave the generators alone."
        )
    if drops:
        yield "Dropout draws other numbers on each side, so that no two steps are the same; averages may be."
    for letter, graph in (("A", pair.diff.a), ("B", pair.diff.b)):
        if len(graph.outputs) > 1:
            yield f"{letter} answers {len(graph.outputs)} tensors, of which its loss is given the first alone."
    for letter, values in zip("AB", settings, strict=True):
        if values.get("schedule.name") not in (None, "none"):
            name, unit = values["schedule.name"], values.get("schedule.unit")
            yield f"The schedule of {letter} ({name}) goes on once every {unit}."
        if values.get("optimizer.untrained"):
            yield f"The optimizer of {letter} does not train {values['optimizer.untrained']} of its learned tensors."
        if why := values.get("jax.optimizer"):
            yield f"The rule of {letter}'s optimizer is not known: {why}."
        if (remark := _STATISTICS.get(values.get("jax.statistics", ""))) and _has_statistics(pair, "AB".index(letter)):
            yield f"{letter} has statistics of norms, and {remark}; return train_apply for one that updates them."
    if how.not_kept is not None:
        yield f"Seeds could not be kept, so that the same command trains them again: {how.not_kept}"
    if not source.held_out_samples:
        yield "There are no held-out samples, so that the losses of training are compared."
    yield from getattr(source, "notes", ())


def _has_statistics(pair: OpenPair, side: int) -> bool:
    roles = {move.role for move in pair.map.moves}
    alone = (pair.map.only_a, pair.map.only_b)[side]
    return any(role == "mean" or role.endswith("variance") for role in (*roles, *(tensor.role for tensor in alone)))


def _not_finite(seeds: Sequence[SeedPair]) -> Iterator[str]:
    for letter, side in (("A", 0), ("B", 1)):
        lost = [
            (seed_pair.seed, seed_pair.runs[side].not_finite)
            for seed_pair in seeds
            if seed_pair.runs[side].not_finite is not None
        ]
        if lost:
            places = ", ".join(f"seed {seed} at step {step:,}" for seed, step in lost[:4])
            yield f"The loss or the answers of {letter} became no finite number ({places}); these seeds do not count."


def _starts(pair: OpenPair, seeds: Sequence[SeedPair], *, drops: bool) -> Iterator[str]:
    """Compares the first losses. With dropout they say nothing: they depend on what was dropped."""
    neutral = [tensor.tensor for tensor in pair.map.only_b if tensor.neutral is not None]
    if neutral:
        yield f"{len(neutral)} tensors of B that A lacks begin with what changes nothing: {', '.join(neutral[:4])}."
    if pair.map.only_a:
        yield f"{len(pair.map.only_a)} tensors of A have no place in B, so that the two do not begin alike."
    first = [(seed_pair.runs[0].first_loss, seed_pair.runs[1].first_loss) for seed_pair in seeds]
    if first and not drops and all(abs(ours - theirs) > 1e-3 * max(abs(ours), abs(theirs)) for ours, theirs in first):
        yield (
            f"Already the first step's loss differs ({first[0][0]:.6g} and {first[0][1]:.6g} with the first seed): the "
            "networks or the losses are not the same."
        )
