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


def explanation_lines(found: PortExplanation) -> list[str]:
    lines = [f"A is {found.names[0]}, B is {found.names[1]}.", *noise.lines(found.pair), ""]
    lines += ["What A and B do differently and both can be given:"] if found.players else []
    lines += [f"  {difference_words(one)}" for one in found.players]
    lines.append("What cannot differ: both sides replay the same batches in the same order.")
    if found.fixed:
        lines.append("What differs and could not be switched counts as part of all the rest:")
        lines += [f"  {difference_words(one)}. {why}" for one, why in found.fixed]
    if found.structure:
        lines.append("Differences of the networks themselves, which count there, too:")
        lines += [f"  {text}" for text in found.structure]
    lines += ["", *_shared_out(found), ""]
    kept = f", and {found.kept} kept from before" if found.kept else ""
    return [*lines, f"{plural(found.trained, 'training')} of {found.steps:,} steps each{kept}."]


def _shared_out(found: PortExplanation) -> list[str]:
    if not found.pair.beyond_noise:
        return ["There is no gap beyond seed noise, and so nothing to explain."]
    if found.explained is None:
        return ["There is a gap, and no setting that differs could be switched: see what could not."]
    players = (*(one.name for one in found.players), FRAMEWORK)
    return [
        *design_lines(found.explained, players), "", *share_lines(found.explained, _called), "",
        *switch_lines(found.explained, "A", "B"), "", *interaction_lines(found.explained), "",
        *verification_lines(found.verification, "A", "B"),
    ]  # fmt: skip


def _called(name: str) -> str:
    if name == FRAMEWORK:
        return "all the rest: the framework, the code, what could not be switched"
    return setting_words(name)


def explanation_data(found: PortExplanation) -> dict[str, Any]:
    data = asdict(found)
    data["players"] = [one.as_data() for one in found.players]
    data["fixed"] = [[one.as_data(), why] for one, why in found.fixed]
    if found.explained is not None:
        cells = found.explained.cells
        data["explained"]["cells"] = [{"at_b": list(names), "accuracies": values} for names, values in cells.items()]
        design = found.explained.design
        data["explained"]["design"] = {"full": design.full, "cells": len(design.cells)}
    return data
