"""An explanation as lines for a terminal, and as data for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from zoolens.base.statistics.student import Estimate
from zoolens.training.crosstrain.study import noise
from zoolens.training.crosstrain.study.explanation.contest import FRAMEWORK, Contest, Factor
from zoolens.training.crosstrain.study.explanation.results import Explained, Explanation, StandIn, Verification
from zoolens.training.crosstrain.study.noise import signed


def as_data(explanation: Explanation) -> dict[str, Any]:
    data = asdict(explanation)
    data["recipe"] = explanation.recipe.model_dump(mode="json")
    for side in ("a", "b"):
        arm = getattr(explanation.contest, side)
        data["contest"][side] = {"framework": arm.framework, "told": arm.told.model_dump(exclude_none=True)}
    if explanation.explained is not None:
        cells = explanation.explained.cells
        data["explained"]["cells"] = [
            {"at_b": list(names), "accuracies": accuracies} for names, accuracies in cells.items()
        ]
        data["explained"]["design"] = {
            "kind": "full" if explanation.explained.design.full else "fold-over, resolution IV",
            "cells": len(explanation.explained.design.cells),
            "mixed": _mixed(explanation.explained, explanation.contest.players),
        }
    return data


def lines(explanation: Explanation) -> list[str]:
    game, explained = explanation.contest, explanation.explained
    text = [*noise.lines(explanation.pair), *_fresh(explanation), ""]
    if explanation.stand_in is not None:
        text += [*_stand_in(explanation.stand_in), ""]
    text += [*_differences(explanation), ""]
    if explained is None:
        text.append(_nothing(explanation))
    else:
        whose = "the stand-ins' gap" if explanation.stand_in else "the gap"
        names = explanation.pair.a, explanation.pair.b
        where = " on the stand-ins" if explanation.stand_in else ""
        text += [
            *design_lines(explained, game.players),
            "",
            *share_lines(explained, lambda name: _player(name, game), whose),
        ]
        text += ["", *switch_lines(explained, *names), "", *interaction_lines(explained), ""]
        text += verification_lines(explanation.verification, *names, where)
    if explanation.unconfirmed:
        text += ["", f"Told, and not confirmed by any live object: {'; '.join(explanation.unconfirmed)}."]
    runs = f"{explanation.trained} runs trained, {explanation.known} known from before"
    return [*text, "", f"{runs}; all are in the study {explanation.study}."]


def _fresh(explanation: Explanation) -> list[str]:
    """Which seeds these are, where those that led to the question were left out."""
    seeds = explanation.seeds
    if not seeds or seeds[0] == explanation.recipe.seed:
        return []
    return [
        f"Seeds {seeds[0]} to {seeds[-1]}: those that the trial was trained and may have been chosen with are left out."
    ]


def _nothing(explanation: Explanation) -> str:
    if explanation.stand_in is None:
        return "There is no gap beyond seed noise, and so nothing to explain."
    return (
        "The stand-ins show no such gap beyond seed noise, and so nothing is shared out. More seeds may show one; else "
        "it comes from something of the libraries' own networks that the stand-ins do not have."
    )


def _differences(explanation: Explanation) -> list[str]:
    game, a, b = explanation.contest, explanation.pair.a, explanation.pair.b
    who = "the stand-ins of " if explanation.stand_in else ""
    if not game.factors:
        return [f"{who.capitalize()}{a} and {b} do the same in all that can be switched."]
    rows = [f"  {factor.name:<14} {_value(factor.a)} | {_value(factor.b)}" for factor in game.factors]
    return [f"What {who}{a} | {b} do differently:", *rows, *(_unnamed(factor, a, b) for factor in game.unnamed)]


def _unnamed(factor: Factor, a: str, b: str) -> str:
    who, other, value = (a, b, factor.b) if factor.a is None else (b, a, factor.a)
    return (
        f"  {factor.name:<14} {_value(factor.a)} | {_value(factor.b)}: {who}'s own has no name that {other} could be "
        f"given, so it counts as part of the framework (switched to {value} in {who} alone, see below)"
    )


def design_lines(explained: Explained, players: tuple[str, ...]) -> list[str]:
    design, count = explained.design, len(players)
    seeds = len(next(iter(explained.cells.values())))
    if design.full:
        return [f"Design: full, all 2^{count} = {len(design.cells)} cells, {seeds} seeds each."]
    mixed = _mixed(explained, players)
    text = [
        f"Design: a fold-over fraction of resolution IV, {len(design.cells)} of 2^{count} = {1 << count} cells, "
        f"{seeds} seeds each. Interactions of two (or four, …) do not touch the shares; those of three do."
    ]
    if mixed:
        name, trios = next(iter(mixed.items()))
        several = f" and {len(trios) - 1} more" if len(trios) > 1 else ""
        text.append(f"  For example, the share of {name} is mixed with {' × '.join(trios[0])}{several}.")
    return text


def _mixed(explained: Explained, players: tuple[str, ...]) -> dict[str, list[list[str]]]:
    if explained.design.full:
        return {}
    trios = {name: explained.design.mixed_into(place) for place, name in enumerate(players)}
    return {name: [[players[player] for player in trio] for trio in some] for name, some in trios.items() if some}


def share_lines(explained: Explained, called: Callable[[str], str], whose: str = "the gap") -> list[str]:
    """`called`: what a player is called in sentences."""
    rows = [*explained.shares, *([explained.unassigned] if explained.unassigned else [])]
    return [
        f"Shapley shares of {whose} (pointwise 95 % intervals over seeds: each holds for itself, not all at once):",
        *(f"  {_percent(row.share):>26}  {called(row.name)}: {signed(row.points)}" for row in rows),
    ]


def _player(name: str, game: Contest) -> str:
    if name != FRAMEWORK:
        return name
    return f"the framework itself{''.join(f', with its {factor.name}' for factor in game.unnamed)}"


def _percent(estimate: Estimate) -> str:
    text = f"{100 * estimate.value:z.1f} %"
    if estimate.interval is None:
        return text
    return f"{text} [{100 * estimate.interval.low:z.1f}, {100 * estimate.interval.high:z.1f}]"


def switch_lines(explained: Explained, a: str, b: str) -> list[str]:
    return [
        f"Switched alone, accuracy changes by (in {a}, to {b}'s value | in {b}, to {a}'s value):",
        *(f"  {switch.name:<14} {_effect(switch.in_a)} | {_effect(switch.in_b)}" for switch in explained.switches),
    ]


def _effect(effect: Estimate | None) -> str:
    return "no name for it" if effect is None else signed(effect)


def interaction_lines(explained: Explained) -> list[str]:
    if not explained.interactions:
        return [f"Interactions of two above noise: none of {explained.looked_at}, each judged for itself."]
    rows = []
    for interaction in explained.interactions:
        names = " or ".join(f"{first} × {second}" for first, second in interaction.pairs)
        rows.append(f"  {signed(interaction.points)}  {names}")
    return [f"Interactions of two above noise, {len(rows)} of {explained.looked_at}, each judged for itself:", *rows]


def _stand_in(stand_in: StandIn) -> list[str]:
    care = ": read on with care" if stand_in.same_way else ""
    verdict = "They reproduce the gap." if stand_in.reproduces else f"They do NOT reproduce the gap{care}."
    assumed = [f"  {', '.join(stand_in.assumed)}: the libraries' own have no name, the stand-ins have ours."]
    return [
        "The libraries' own networks cannot be switched. Our definition with their semantics stands in for them:",
        f"  gap of the libraries' own {signed(stand_in.shipped.difference)}, of the stand-ins "
        f"{signed(stand_in.stand_in.difference)}, apart by {signed(stand_in.off)}. {verdict}",
        *(assumed if stand_in.assumed else []),
    ]


def verification_lines(verification: Verification | None, a: str, b: str, where: str = "") -> list[str]:
    if verification is None:
        return ["No semantic has a share worth fixing: what makes the gap is none of those that can be switched."]
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


def _value(value: Any) -> str:
    return "(no name)" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
