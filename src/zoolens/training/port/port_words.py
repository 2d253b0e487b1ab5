"""A check as lines for a terminal and as data for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from zoolens.base.store.json_columns import json_value
from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.mapping.parameter_map import ParameterMap, Unmatched
from zoolens.training.port.agreement import PortAgreement
from zoolens.training.port.batch_answers import BatchAnswers
from zoolens.training.port.port_check import Check
from zoolens.training.port.weights import Moved

_SHOWN: Final = 8
SAME_WEIGHTS: Final = "the same weights"


def check_lines(check: Check, *, everything: bool = False) -> list[str]:
    """The verdict, what differs, what only training sees, how parameters map, and whether answers agree."""
    lines = [
        f"{letter}  {name}  {_versions(check, side)}"
        for side, (letter, name) in enumerate(zip("AB", check.names, strict=True))
    ]
    lines += [*check.notes, "", *_headlines(check)]
    if any(border.agree is False for border in check.agreement.borders):
        lines.append("An unknown layer answers otherwise in B than in A: see below.")
    lines += [f"{number:3}. {difference.text}" for number, difference in enumerate(check.diff.differences, 1)]
    if check.diff.unproved:
        lines.append("Not proved, for it stands beside layers that are not understood:")
        lines += [f"  {difference.text}" for difference in check.diff.unproved]
    lines += ["", *_training_lines(check)]
    lines += ["", *map_lines(check.map, everything=everything)]
    lines += ["", *agreement_lines(check.agreement, check.map)]
    own = sum(tensor.neutral is None for tensor in check.map.only_b)
    if own and check.agreement.agree is False:
        lines.append(f"B has its own numbers in {plural(own, 'tensor')} without a partner, which may be why.")
    return lines


def _headlines(check: Check) -> list[str]:
    """The verdict, and what it rests on where that is not all."""
    verdict = check.verdict
    if verdict.outcome is Outcome.NOT_KNOWN:
        understood = [f"By what was understood: {check.diff.verdict}."] if check.diff.decision.known else []
        coverage = verdict.coverage
        return ["Not known whether these are the same network.", coverage.text, *coverage.remedies, *understood]
    if verdict.outcome is Outcome.DIFFERENT and not check.diff.differences:
        structure = check.diff.verdict if check.diff.decision.known else "it is not known whether they differ"
        return [f"Different networks by what they answer; by structure {structure}."]
    if verdict.outcome is Outcome.DIFFERENT:
        return [check.diff.headline]
    return [check.diff.headline, verdict.coverage.text]


def _versions(check: Check, side: int) -> str:
    return f"({', '.join(f'{name} {version}' for name, version in check.versions[side].items())})"


def _training_lines(check: Check) -> list[str]:
    items = [f"  {item.what}: A {item.a}; B {item.b}" for item in check.training]
    if "jax" in check.frameworks:  # a function of parameters says nothing about its training
        return [
            "Dropout, statistics of norms and initial weights were not compared: a JAX function shows none.",
            *items,
        ]
    if not items:
        compared = "types, dropout rates, frozen tensors, norms' statistics, initial weights"
        return [f"Beside the structure nothing differs: {compared}."]
    return ["Differences that the structure does not show:", *items]


def map_lines(map_: ParameterMap, *, everything: bool = False) -> list[str]:
    """How many tensors move and how, and every one that does not."""
    ways = Counter(move.how for move in map_.moves)
    count = len({move.a.tensor for move in map_.moves})
    parts = f", in {len(map_.moves)} parts" if count < len(map_.moves) else ""
    lines = [f"{plural(count, 'tensor')} of A {'goes' if count == 1 else 'go'} to B{parts}:"]
    if everything:
        lines += [f"  {move.a.tensor} -> {move.b.tensor}: {move.how}" for move in map_.moves]
    else:
        lines += [f"  {count} {how}" for how, count in ways.most_common()]
    lines += _shared_lines(map_)
    if map_.folds:
        folds = [f"  {fold.bias.tensor} is subtracted from {fold.mean.tensor}" for fold in map_.folds]
        lines.append(f"Biases of A before a norm, where B has none ({len(folds)}):")
        lines += _first(folds, everything=everything)
    if map_.sums:
        lines.append(f"Second biases of A, where B has one bias for both ({len(map_.sums)}):")
        lines += [f"  {each.bias.tensor} is added to {each.into.tensor}" for each in map_.sums]
    for letter, tensors in (("A", map_.only_a), ("B", map_.only_b)):
        lines += _alone_lines(letter, tensors, everything=everything)
    for letter, names in zip("AB", map_.unused, strict=True):
        if names:
            lines.append(
                f"{plural(len(names), 'tensor')} of {letter} that no output depends on, as far as was tried: "
                f"{_few(names)}."
            )
    return lines


def _shared_lines(map_: ParameterMap) -> list[str]:
    """Tensors that several layers of A share, where B has one for each."""
    targets: dict[str, list[str]] = {}
    for move in map_.moves:
        if move.a.whole and move.b.tensor not in targets.setdefault(move.a.tensor, []):
            targets[move.a.tensor].append(move.b.tensor)
    return [
        f"  Layers of A share {name}; B has a tensor for each ({_few(tuple(names))}), which training would move apart."
        for name, names in targets.items()
        if len(names) > 1
    ]


def _alone_lines(letter: str, tensors: tuple[Unmatched, ...], *, everything: bool) -> list[str]:
    if not tensors:
        return []
    lines = []
    for tensor in tensors:
        filled = f"; set to {tensor.neutral:g}" if tensor.neutral is not None and letter == "B" else ""
        lines.append(f"  {tensor.tensor} ({'×'.join(map(str, tensor.shape))}): {tensor.why}{filled}")
    return [f"{plural(len(tensors), 'tensor')} of {letter} without a partner:", *_first(lines, everything=everything)]


def _first(lines: Sequence[str], *, everything: bool) -> list[str]:
    """All lines, or the first of them and how many more there are."""
    shown = lines if everything else lines[:_SHOWN]
    left = len(lines) - len(shown)
    return [*shown, *([f"  … and {left} more; see all with --all."] if left else [])]


def _few(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def agreement_lines(agreement: PortAgreement, map_: ParameterMap) -> list[str]:
    """Whether the outputs agree, by how much, and where the networks part. `map_`: how the weights were moved."""
    weights = "the weights that these inputs need" if agreement.branches else _weights(map_)
    lines = [_outputs(agreement, weights), *agreement.forms, *_batch(agreement.batch)]
    if agreement.first is not None:
        lines.append(f"They part first at {agreement.first.text}.")
        if agreement.beyond is not None and agreement.beyond != agreement.first:
            lines.append(f"They part by more than rounding first at {agreement.beyond.text}.")
        if agreement.behind is not None:
            lines.append(f"Given equal answers there, they part next at {agreement.behind.text}.")
        elif any((border.a, border.b) == (agreement.first.a, agreement.first.b) for border in agreement.borders):
            lines.append("Given equal answers there, no layer behind it parts.")
    elif agreement.compared and agreement.layers:
        pairs = plural(agreement.compared, "pair")
        lines.append(f"No layer before an unknown one parts ({pairs} computed in float64): they part in it or behind.")
    elif agreement.compared:
        lines.append(f"No aligned layer parts: {plural(agreement.compared, 'pair')} computed in float64.")
    lines += [
        f"{name} draws random numbers when it answers, although its answers to the same input never changed."
        for name in agreement.drawing
    ]
    lines += [f"  {border.text}" for border in agreement.borders[:_SHOWN]]
    if len(agreement.borders) > _SHOWN:
        lines.append(f"  … and {len(agreement.borders) - _SHOWN} more unknown layers.")
    if agreement.layers and agreement.why.startswith("not finite"):
        lines.append(agreement.layers)
    elif agreement.layers:
        part = "compared only in part" if agreement.compared else "not compared one by one"
        lines.append(f"Layers were {part}: {agreement.layers}")
    return lines


def _batch(batch: BatchAnswers | None) -> list[str]:
    """What several inputs in one batch show beyond each of them alone."""
    if batch is None:
        return []
    lines = [f"{name} answers an input otherwise when others are in its batch." for name in batch.mixing]
    if batch.refusing:
        names = " and ".join(batch.refusing)
        lines.append(f"A batch of {batch.size} inputs was not compared: {names} takes none.")
    return lines


def _weights(map_: ParameterMap) -> str:
    """What sentences call the weights: the same ones only if every tensor of A was moved, and B has no others."""
    if map_.lossless:
        return SAME_WEIGHTS
    left = [len(tensors) for tensors in (map_.only_a, [each for each in map_.only_b if each.neutral is None])]
    parts = [f"{count} of {letter}" for count, letter in zip(left, "AB", strict=True) if count]
    return f"what weights could be moved (not {' and '.join(parts)})"


def _outputs(agreement: PortAgreement, weights: str) -> str:
    given = f"{weights} and input" if weights == SAME_WEIGHTS else f"{weights} and the same input"
    if agreement.random:
        sides = " and ".join(agreement.random)
        return f"Given the same input again, {sides} answers with other numbers, so that answers cannot be compared."
    if agreement.why == "shape":
        return f"With {given}, the outputs have other shapes."
    if agreement.why == "not finite":
        return f"With {given}, an output is not finite, so that nothing can be told from the outputs."
    if agreement.why.startswith("not finite in"):
        return f"With {given}, the outputs differ: they are {agreement.why}."
    figures = f"{agreement.error:.1e} apart; rounding alone moves them by up to {agreement.floor:.1e}"
    if agreement.alike_alone and agreement.batch is not None and agreement.batch.differ:
        return (
            f"With {weights}, {plural(agreement.inputs, 'input')} given one by one are answered alike "
            f"({figures}), but in one batch the outputs differ{_batch_figures(agreement.batch)}."
        )
    words = {True: "the outputs agree", False: "the outputs differ", None: "nothing can be told from the outputs"}
    tried = f"on {plural(agreement.inputs, 'input')}, "
    return f"With {given}, {words[agreement.agree]} ({tried}{figures})."


def _batch_figures(batch: BatchAnswers) -> str:
    error = batch.worst.apart.error if batch.worst is not None else float("inf")
    return "" if error == float("inf") else f" ({error:.1e} apart)"


def moved_lines(moved: Moved, *, everything: bool = False) -> list[str]:
    """How the weights moved, whether the answers prove it, and what was written."""
    lines = [
        *map_lines(moved.map, everything=everything),
        "",
        *agreement_lines(moved.agreement, moved.map),
        *moved.notes,
    ]
    if not moved.verdict.known:
        lines += ["Not known whether they answer alike.", moved.verdict.coverage.text, *moved.verdict.coverage.remedies]
    if not moved.agreement.agree and moved.diff.differences:
        lines += [moved.diff.headline, *(f"  {difference.text}" for difference in moved.diff.differences)]
    if moved.written is None:
        return [
            *lines,
            "",
            f"Nothing was written, for {_why_not(moved)}; --unproved writes all the same.",
        ]
    proved = "" if moved.verdict.outcome is Outcome.SAME else ", unproved"
    return [*lines, "", f"The weights of {moved.names[1]} are in {moved.written}{proved}."]


def _why_not(moved: Moved) -> str:
    if moved.verdict.known:
        return "the two networks do not answer alike"
    return "it is not known whether the two networks answer alike"


def moved_data(moved: Moved) -> dict[str, Any]:
    return {
        "a": moved.names[0],
        "b": moved.names[1],
        "diff": moved.diff.as_data(),
        "map": map_data(moved.map),
        "agreement": agreement_data(moved.agreement),
        "written": str(moved.written) if moved.written else None,
        "notes": list(moved.notes),
        **moved.verdict.as_data(),
    }


def check_data(check: Check) -> dict[str, Any]:
    return {
        "a": {"name": check.names[0], "framework": check.frameworks[0], "versions": dict(check.versions[0])},
        "b": {"name": check.names[1], "framework": check.frameworks[1], "versions": dict(check.versions[1])},
        "same": check.same,
        **check.verdict.as_data(),
        "notes": list(check.notes),
        "diff": check.diff.as_data(),
        "training": json_value(check.training),
        "map": map_data(check.map),
        "agreement": agreement_data(check.agreement),
    }


def map_data(map_: ParameterMap) -> dict[str, Any]:
    return {
        "complete": map_.complete,
        "lossless": map_.lossless,
        "moves": [
            {"a": move.a.tensor, "b": move.b.tensor, "role": move.role, "how": move.how, "layers": list(move.layers)}
            for move in map_.moves
        ],
        "folds": [{"a": fold.bias.tensor, "b": fold.mean.tensor} for fold in map_.folds],
        "sums": [{"a": each.bias.tensor, "b": each.into.tensor} for each in map_.sums],
        "only_a": json_value(map_.only_a),
        "only_b": json_value(map_.only_b),
        "unused_a": list(map_.unused[0]),
        "unused_b": list(map_.unused[1]),
    }


def agreement_data(agreement: PortAgreement) -> dict[str, Any]:
    return {**json_value(agreement), "agree": agreement.agree}
