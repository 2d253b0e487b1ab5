"""An explanation of a port's gap as lines for a terminal and as data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zoolens.crosstrain.study import noise
from zoolens.crosstrain.study.explanation.contest import FRAMEWORK
from zoolens.crosstrain.study.explanation.words import (
    design_lines,
    interaction_lines,
    share_lines,
    switch_lines,
    verification_lines,
)
from zoolens.graph.diff.phrases import plural
from zoolens.port.training.explanation import PortExplanation
from zoolens.port.training.lockstep_words import difference_words, setting_words


def explanation_lines(explanation: PortExplanation) -> list[str]:
    lines = [f"A is {explanation.names[0]}, B is {explanation.names[1]}.", *noise.lines(explanation.pair), ""]
    lines += ["What A and B do differently and both can be given:"] if explanation.players else []
    lines += [f"  {difference_words(difference)}" for difference in explanation.players]
    lines.append("What cannot differ: both sides replay the same batches in the same order.")
    if explanation.fixed:
        lines.append("What differs and could not be switched counts as part of all the rest:")
        lines += [f"  {difference_words(difference)}. {why}" for difference, why in explanation.fixed]
    if explanation.structure:
        lines.append("Differences of the networks themselves, which count there, too:")
        lines += [f"  {text}" for text in explanation.structure]
    lines += ["", *_shared_out(explanation), ""]
    kept = f", and {explanation.kept} kept from before" if explanation.kept else ""
    return [*lines, f"{plural(explanation.trained, 'training')} of {explanation.steps:,} steps each{kept}."]


def _shared_out(explanation: PortExplanation) -> list[str]:
    if not explanation.pair.beyond_noise:
        return ["There is no gap beyond seed noise, and so nothing to explain."]
    if explanation.explained is None:
        return ["There is a gap, and no setting that differs could be switched: see what could not."]
    players = (*(player.name for player in explanation.players), FRAMEWORK)
    return [
        *design_lines(explanation.explained, players), "", *share_lines(explanation.explained, _called), "",
        *switch_lines(explanation.explained, "A", "B"), "", *interaction_lines(explanation.explained), "",
        *verification_lines(explanation.verification, "A", "B"),
    ]  # fmt: skip


def _called(name: str) -> str:
    if name == FRAMEWORK:
        return "all the rest: the framework, the code, what could not be switched"
    return setting_words(name)


def explanation_data(explanation: PortExplanation) -> dict[str, Any]:
    data = asdict(explanation)
    data["players"] = [difference.as_data() for difference in explanation.players]
    data["fixed"] = [[difference.as_data(), why] for difference, why in explanation.fixed]
    if explanation.explained is not None:
        cells = explanation.explained.cells
        data["explained"]["cells"] = [{"at_b": list(names), "accuracies": values} for names, values in cells.items()]
        design = explanation.explained.design
        data["explained"]["design"] = {"full": design.full, "cells": len(design.cells)}
    return data
