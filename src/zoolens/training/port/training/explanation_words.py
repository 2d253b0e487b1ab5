"""An explanation of a port's gap as lines for a terminal and as data for JSON."""

from __future__ import annotations

from typing import Any

from zoolens.base.store.json_columns import json_value
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.explanation import noise_words
from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.explanation.sharing_out import culprits_of
from zoolens.training.pairs.explanation.sharing_words import shared_out_lines, verification_lines
from zoolens.training.pairs.live.setting_words import difference_words, setting_words
from zoolens.training.port.training.explanation import PortExplanation


def explanation_lines(explanation: PortExplanation) -> list[str]:
    lines = [f"A is {explanation.names[0]}, B is {explanation.names[1]}.", *noise_words.lines(explanation.pair), ""]
    lines += ["What A and B do differently and both can be given:"] if explanation.players else []
    lines += [f"  {difference_words(difference)}" for difference in explanation.players]
    lines.append("What cannot differ: both sides replay the same batches in the same order.")
    if explanation.fixed:
        lines.append("What differs and could not be switched counts as part of all the rest:")
        lines += [f"  {difference_words(difference)}. {why}" for difference, why in explanation.fixed]
    if explanation.structure:
        lines.append("Differences of the networks themselves, which count there, too:")
        lines += [f"  {text}" for text in explanation.structure]
    lines += ["", *_lost(explanation), *_shared_out(explanation), ""]
    kept = f", and {explanation.kept} kept from before" if explanation.kept else ""
    return [*lines, f"{plural(explanation.trained, 'training')} of {explanation.steps:,} steps each{kept}."]


def _shared_out(explanation: PortExplanation) -> list[str]:
    if not explanation.pair.beyond_noise:
        return ["There is no gap beyond seed noise, and so nothing to explain."]
    if explanation.explained is None and explanation.left_out:
        reason = "there are no two seeds under which every training of the design stays finite"
        return [f"The gap cannot be shared out: {reason}."]
    if explanation.explained is None:
        return ["There is a gap, and no setting that differs could be switched: see what could not."]
    players = (*(player.name for player in explanation.players), FRAMEWORK)
    verified = verification_lines(explanation.verification, "A", "B")
    if explanation.verification is None and culprits_of(explanation.explained.shares):
        verified = ["This could not be verified: no two fresh seeds are left under which every training stays finite."]
    return [*shared_out_lines(explanation.explained, players, _called), *verified]


def _lost(explanation: PortExplanation) -> list[str]:
    """Lists the trainings that did not stay finite: which settings make a side diverge is an answer, too."""
    if not explanation.lost:
        return []
    lines = ["Trainings that were lost, for their loss is not finite any more:"]
    for lost in explanation.lost:
        letter, other = "AB"[lost.arm.side], "BA"[lost.arm.side]
        given = f" with {', '.join(sorted(map(_called, lost.arm.switched)))} of {other}" if lost.arm.switched else ""
        seeds = f"{'seed' if len(lost.seeds) == 1 else 'seeds'} {', '.join(map(str, lost.seeds))}"
        lines.append(f"  {letter}{given}: under {seeds}, at step {lost.step} at the earliest")
    if explanation.explained is not None and explanation.left_out:
        lines.append(f"The design is computed without these seeds: {', '.join(map(str, explanation.left_out))}.")
    return [*lines, ""]


def _called(name: str) -> str:
    if name == FRAMEWORK:
        return "all the rest: the framework, the code, what could not be switched"
    return setting_words(name)


def explanation_data(explanation: PortExplanation) -> dict[str, Any]:
    data: dict[str, Any] = json_value(explanation)
    data["players"] = [difference.as_data() for difference in explanation.players]
    data["lost"] = [
        {"side": "ab"[lost.arm.side], "given": sorted(lost.arm.switched), "seeds": lost.seeds, "step": lost.step}
        for lost in explanation.lost
    ]
    data["fixed"] = [[difference.as_data(), why] for difference, why in explanation.fixed]
    if explanation.explained is not None:
        cells = explanation.explained.cells
        data["explained"]["cells"] = [{"at_b": list(names), "accuracies": values} for names, values in cells.items()]
        design = explanation.explained.design
        data["explained"]["design"] = {"full": design.full, "cells": len(design.cells)}
    return data
