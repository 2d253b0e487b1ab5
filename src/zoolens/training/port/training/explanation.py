"""`explain`: which settings make the gap between two trainings of a port, and how much of it each.

The settings that both sides can be given are players of a game, and so is all that is left: the framework, the user's
code, what could not be switched. A cell of the design is A with some of B's settings, or B with some of A's. Shares,
design and the judgement of the verifying re-run are those of `training/pairs/explanation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.store.store import Store
from zoolens.base.verdicts import Coverage, Tally, Verdict
from zoolens.base.verdicts import judged as judged_by
from zoolens.findings.graph.diff.diff_causes import PADDING as CAUSE
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.explanation.design import FRAMEWORK, Fraction
from zoolens.training.pairs.explanation.game import DESIGN, FEWEST, shared_out, verified
from zoolens.training.pairs.explanation.results import Explained, Verification
from zoolens.training.pairs.explanation.sharing_out import cells_of
from zoolens.training.pairs.explanation.side_bench import LostArm, PortExplanationBench, SideGame
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.live.paddings import PADDING
from zoolens.training.pairs.loop.seed_verdict import noise_gaps
from zoolens.training.pairs.loop.single_run import Length
from zoolens.training.pairs.loop.trainable_sides import opened_for_training
from zoolens.training.pairs.sides.open_pair import OpenPair, PairOptions
from zoolens.training.port.weights import ask_for_missing

REPLICATES: Final = 4
_VERIFYING: Final = 3  # arms of the verification at most: both sides, and one of them with the culprits switched


@dataclass(frozen=True)
class PortExplanation:
    """Which settings make the gap between two trainings, and how much of it each."""

    names: tuple[str, str]
    players: tuple[SettingDifference, ...]  # what differs and was switched
    fixed: tuple[tuple[SettingDifference, str], ...]  # what differs and was not, with the reason
    structure: tuple[str, ...]
    pair: SeedNoise
    seeds: tuple[int, ...]
    steps: int
    planned: int  # how many trainings the whole explanation takes
    trained: int  # how many there were now
    kept: int  # how many were in the store from before
    explained: Explained | None = None  # None: there is no gap beyond seed noise, or nothing to switch
    verification: Verification | None = None  # None: no player has a share worth it
    lost: tuple[LostArm, ...] = ()  # trainings whose loss was not finite any more
    left_out: tuple[int, ...] = ()  # seeds under which one of the design was lost, which do not count in it

    @property
    def verdict(self) -> Verdict:
        tally = Tally("seeds", self.pair.seeds, len(self.seeds))
        return judged_by(
            Coverage((tally,), tuple(noise_gaps(self.pair, "points"))), different=bool(self.pair.beyond_noise)
        )


@dataclass(frozen=True)
class ExplanationPlan:
    """How long each training of an explanation is, and how many there are."""

    length: Length
    replicates: int = REPLICATES  # seeds of the design, and as many fresh ones for the verification
    own_init: bool = False  # each side draws its own first weights, which is then a player, too
    fraction: Fraction = "auto"
    options: PairOptions = field(default_factory=PairOptions)


def explain(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    source: BatchSource,
    plan: ExplanationPlan,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
) -> PortExplanation:
    """Share the gap between two trainings out among the settings that both sides can be given. `store`: where trainings
    that are done are kept and looked for, so that an explanation that was interrupted goes on. The sides are as in
    `train`."""
    if plan.replicates < FEWEST:
        raise ZoolensError("One seed cannot tell a cause from noise.", hint="Use at least 2 replicates.")
    if source.classes is None or not source.held_out_samples:
        raise ZoolensError(
            f"{source.name} has no held-out samples with classes, whose accuracy could be explained.",
            hint="Use --lockstep, which compares the first steps of any training.",
        )
    options = plan.options
    with opened_for_training(a, b, inputs, options) as pair:
        ask_for_missing(pair.map)
        kept = None
        if store is not None:
            from zoolens.training.port.training.kept_runs import KeptRuns  # only a store needs pyarrow

            how = {"map": dict(options.chosen), "device": options.device}
            kept = KeptRuns.of(store, pair, source, plan.length, how)
        bench = PortExplanationBench(pair, source, plan.length, plan.own_init, progress or Silent(), kept)
        return _explained(bench, pair, plan.replicates, plan.fraction)


def _explained(bench: PortExplanationBench, pair: OpenPair, replicates: int, fraction: Fraction) -> PortExplanation:
    players, fixed = bench.players(2 * replicates)
    game = SideGame((*(player.name for player in players), FRAMEWORK))
    cells = cells_of(len(game.players), fraction)
    planned = replicates * (len(cells) + _VERIFYING)
    seeds, fresh = range(replicates), range(replicates, 2 * replicates)
    steps = bench.length.steps(bench.source)
    bench.say(
        f"Up to {planned} trainings of {steps:,} steps, if the sides differ: {len(cells)} "
        f"cells of {plural(len(players), 'setting')} that can be switched, {replicates} seeds each, and a verification."
    )
    noise = bench.noise("the pair", game.a, game.b, seeds)

    left_out: list[int] = []

    def result(explained: Explained | None = None, verification: Verification | None = None) -> PortExplanation:
        named = {CAUSE} if any(player.name == PADDING for player in players) else set()
        structure = tuple(difference.text for difference in pair.diff.differences if difference.cause not in named)
        return PortExplanation(
            (pair.a.text, pair.b.text), players, fixed, structure, noise, tuple(seeds), steps, planned, bench.trained,
            bench.found, explained, verification, bench.lost(), tuple(left_out),
        )  # fmt: skip

    if not noise.beyond_noise or not players:
        return result()

    arms = [game.arm(cell) for cell in cells]
    bench.accuracies(DESIGN, arms, seeds)
    whole = bench.finite_seeds(arms, seeds)
    left_out += sorted({*seeds} - {*whole})
    if len(whole) < FEWEST:
        return result()

    explained = shared_out(bench, game, whole, fraction, noise.level or 0.0)
    return result(explained, verified(bench, game, explained.shares, noise, fresh))
