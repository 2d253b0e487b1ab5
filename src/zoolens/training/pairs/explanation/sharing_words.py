"""The shares of a gap as lines for a terminal: design, shares, switches, interactions, verification."""

from __future__ import annotations

from collections.abc import Callable

from zoolens.base.statistics.student import Estimate
from zoolens.training.pairs.explanation.noise_words import signed
from zoolens.training.pairs.explanation.results import Explained, Verification


def shared_out_lines(
    explained: Explained,
    players: tuple[str, ...],
    called: Callable[[str], str],
    names: tuple[str, str] = ("A", "B"),
    whose: str = "the gap",
) -> list[str]:
    """Design, shares, switches and interactions. `called`: what a player is called in sentences."""
    parts = (
        _design_lines(explained, players),
        _share_lines(explained, called, whose),
        _switch_lines(explained, *names),
        _interaction_lines(explained),
    )
    return [line for part in parts for line in (*part, "")]


def _design_lines(explained: Explained, players: tuple[str, ...]) -> list[str]:
    design, count = explained.design, len(players)
    seeds = len(next(iter(explained.cells.values())))
    if design.full:
        return [f"Design: full, all 2^{count} = {len(design.cells)} cells, {seeds} seeds each."]
    mixed = mixed_shares(explained, players)
    text = [
        f"Design: a fold-over fraction of resolution IV, {len(design.cells)} of 2^{count} = {1 << count} cells, "
        f"{seeds} seeds each. Interactions of two (or four, …) do not touch the shares; those of three do."
    ]
    if mixed:
        name, trios = next(iter(mixed.items()))
        several = f" and {len(trios) - 1} more" if len(trios) > 1 else ""
        text.append(f"  For example, the share of {name} is mixed with {' × '.join(trios[0])}{several}.")
    return text


def mixed_shares(explained: Explained, players: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """For each player the trios whose interaction the design cannot tell from its share."""
    if explained.design.full:
        return {}
    trios = {name: explained.design.mixed_into(place) for place, name in enumerate(players)}
    return {name: [[players[player] for player in trio] for trio in some] for name, some in trios.items() if some}


def _share_lines(explained: Explained, called: Callable[[str], str], whose: str) -> list[str]:
    rows = [*explained.shares, *([explained.unassigned] if explained.unassigned else [])]
    return [
        f"Shapley shares of {whose} (pointwise 95 % intervals over seeds: each holds for itself, not all at once):",
        *(f"  {_percent(row.share):>26}  {called(row.name)}: {signed(row.points)}" for row in rows),
    ]


def _percent(estimate: Estimate) -> str:
    text = f"{100 * estimate.value:z.1f} %"
    if estimate.interval is None:
        return text
    return f"{text} [{100 * estimate.interval.low:z.1f}, {100 * estimate.interval.high:z.1f}]"


def _switch_lines(explained: Explained, a: str, b: str) -> list[str]:
    return [
        f"Switched alone, accuracy changes by (in {a}, to {b}'s value | in {b}, to {a}'s value):",
        *(f"  {switch.name:<14} {_effect(switch.in_a)} | {_effect(switch.in_b)}" for switch in explained.switches),
    ]


def _effect(effect: Estimate | None) -> str:
    return "no name for it" if effect is None else signed(effect)


def _interaction_lines(explained: Explained) -> list[str]:
    if not explained.interactions:
        return [f"Interactions of two above noise: none of {explained.looked_at}, each judged for itself."]
    rows = []
    for interaction in explained.interactions:
        names = " or ".join(f"{first} × {second}" for first, second in interaction.pairs)
        rows.append(f"  {signed(interaction.points)}  {names}")
    return [f"Interactions of two above noise, {len(rows)} of {explained.looked_at}, each judged for itself:", *rows]


def verification_lines(verification: Verification | None, a: str, b: str, where: str = "") -> list[str]:
    if verification is None:
        return ["No setting has a share worth fixing: what makes the gap is none of those that can be switched."]
    before, after = verification.before.difference, verification.after.difference
    fixed, other = (a, b) if verification.side == "a" else (b, a)
    return [
        f"Verified{where} with {verification.before.seeds} fresh seeds, "
        f"{', '.join(verification.culprits)} of {fixed} set to {other}'s:",
        f"  gap before {signed(before)}, after {signed(after)}; "
        f"seeds alone show {100 * (verification.after.level or 0):.2f}.",
        f"  {_verdict(verification)}",
    ]


def _verdict(verification: Verification) -> str:
    if not verification.shown:
        return "The fresh seeds show no gap beyond noise, and so nothing is verified. More replicates may show one."
    if verification.closed:
        return f"This closes the gap: {signed(verification.gained)} of it are gone, and what is left may be noise."
    if verification.narrowed:
        return f"This narrows the gap by {signed(verification.gained)} and does not close it."
    return "This is not shown to narrow the gap."
