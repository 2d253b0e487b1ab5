"""An explanation as lines for a terminal, and as data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zoolens.training.crosstrain.study.explanation.contest import Contest, Factor
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation, StandIn
from zoolens.training.pairs.explanation import noise_words
from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.explanation.noise_words import signed
from zoolens.training.pairs.explanation.sharing_words import mixed_shares, shared_out_lines, verification_lines


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
            "mixed": mixed_shares(explanation.explained, explanation.contest.players),
        }
    return data


def lines(explanation: Explanation) -> list[str]:
    game, explained = explanation.contest, explanation.explained
    text = [*noise_words.lines(explanation.pair), *_fresh(explanation), ""]
    if explanation.stand_in is not None:
        text += [*_stand_in(explanation.stand_in), ""]
    text += [*_differences(explanation), ""]
    if explained is None:
        text.append(_nothing(explanation))
    else:
        whose = "the stand-ins' gap" if explanation.stand_in else "the gap"
        names = explanation.pair.a, explanation.pair.b
        where = " on the stand-ins" if explanation.stand_in else ""
        text += shared_out_lines(explained, game.players, lambda name: _player(name, game), names, whose)
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


def _player(name: str, game: Contest) -> str:
    if name != FRAMEWORK:
        return name
    return f"the framework itself{''.join(f', with its {factor.name}' for factor in game.unnamed)}"


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


def _value(value: Any) -> str:
    return "(no name)" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
