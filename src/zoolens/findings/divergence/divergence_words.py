"""A divergence as sentences, as a table, and as data for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from zoolens.base.numerics.rounding import FACTOR, ROUNDINGS
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.json_columns import json_value
from zoolens.findings.divergence.divergence_answers import AnswerPair
from zoolens.findings.divergence.divergence_causes import Cause, Kind, number
from zoolens.findings.divergence.inspection import NOISY_RUNS, InspectedLayer, SideLayer
from zoolens.findings.divergence.result import Divergence, LayerFacts
from zoolens.findings.divergence.trunk import growth_in_files
from zoolens.findings.graph.diff.phrases import plural
from zoolens.inventory.tasks.task import TOLERANCE

FLOOR_IN_WORDS: Final = (
    f"The floor of a layer is {FACTOR:g} times the farthest that rounding moved it in {NOISY_RUNS} evaluations in "
    f"float32, with weights and inputs disturbed by up to {ROUNDINGS} roundings each."
)
_ONE_SIDE: Final = "not shown by both"
_PROPAGATED: Final = "carried on"  # in JSON: the difference came in with the inputs of the layer
_SHOWN: Final = 5
_COLUMNS: Final = (
    Column("layer", keep=9), Column("A and B", "number", keep=8), Column("floor", "number", keep=7),
    Column("A alone", "number", keep=4), Column("B alone", "number", keep=5), Column("verdict", keep=6),
)  # fmt: skip
_FILES: Final = Column("files", "number", keep=3)  # the last but one, where the two files differ


def headline(divergence: Divergence) -> str:
    """The one sentence to take away."""
    answers = divergence.answers
    if divergence.random:
        labels = [cause.side or "" for cause in divergence.causes if cause.kind is Kind.RANDOM]
        give = f"{' and '.join(labels)} {'gives' if len(labels) == 1 else 'give'}"
        return f"{give} another answer to the same input each time, so that no difference can be told from chance."
    if divergence.blind:
        return "Rounding alone can move these answers by their own size, so that their difference tells nothing."
    if not divergence.differs:
        return _no_difference(divergence)
    if not divergence.beyond_rounding:
        return _only_in_files(divergence)
    proved = [cause for cause in divergence.causes if cause.proved]
    count = f"{len(answers.flipped):,} of {len(answers.rows):,} answers differ"
    differ = "The two differ by more than rounding"
    if not divergence.measured_floor:
        differ = f"The relative difference is {number(divergence.relative_error)}, more than rounding is assumed to do"
    if math.isinf(divergence.relative_error):
        shapes = answers.other_shapes or (divergence.output is not None and divergence.output.why == "shape")
        differ = "The two give outputs of other shapes" if shapes else "Only one of the two gives finite numbers"
    if not proved:
        known = "" if divergence.verdict.known else "; whether that is a difference or rounding is not known"
        return f"{differ} ({count}), and no cause is proved{known}."
    rest = ", not all of it proved" if len(proved) < len(divergence.causes) else ""
    return f"{differ} ({count}); the cause is {_kinds(proved)}{rest}."


def _kinds(causes: Sequence[Cause]) -> str:
    return " and ".join(dict.fromkeys(cause.kind.value for cause in causes))


def _only_in_files(divergence: Divergence) -> str:
    """The files are proved to say different things, which moves no layer or answer beyond rounding."""
    kinds = _kinds([cause for cause in divergence.causes if cause.proved])
    return (
        f"The two files differ ({kinds}), which moves these answers by {number(divergence.relative_error)}, no more "
        f"than rounding may ({_floor(divergence)})."
    )


def _no_difference(divergence: Divergence) -> str:
    answers = divergence.answers
    broken = f"; {answers.not_finite:,} of {len(answers.rows):,} answers are not finite" if answers.not_finite else ""
    layers = [fact.layer.between for fact in divergence.layers if fact.layer.between is not None]
    compared = f"{len(layers):,} layers and all answers" if layers else "answers"
    if answers.equal and not any(between.error for between in layers):
        return f"The two are equal: {compared} that were compared hold the same numbers{broken}."
    flips = f"; {len(answers.flipped):,} answers flip by rounding alone" if answers.flipped else ""
    if divergence.unclear_part:
        return (
            f"Compared as whole tensors, {compared} differ by no more than rounding{flips}{broken}; whether rounding "
            "explains the difference in a part of the answers with much smaller numbers is not known."
        )
    if not divergence.measured_floor:
        return (
            "Whether the two agree is not known: the answers differ by no more than rounding is assumed to do, and "
            f"layers were not compared{flips}{broken}."
        )
    if not divergence.verdict.known:
        within = f"What was understood differs by no more than rounding, in {compared}{flips}{broken}"
        return f"{within}; the rest is not known."
    return f"Nothing differs by more than rounding, in {compared}{flips}{broken}."


def lines(divergence: Divergence) -> list[str]:
    """Return what was compared and found, sentence by sentence; `table` has the layers."""
    found = [*_on_answers(divergence), *_on_layers(divergence), *_on_causes(divergence), *divergence.notes]
    if divergence.tensors is not None:
        found += divergence.tensors.sentences
    return [*found, *coverage_lines(divergence)]


def coverage_lines(divergence: Divergence) -> Iterator[str]:
    coverage = divergence.verdict.coverage
    if not coverage.whole:
        yield " ".join((coverage.text, *coverage.remedies))


def _on_answers(divergence: Divergence) -> Iterator[str]:
    answers = divergence.answers
    flipped = f"{len(answers.flipped):,} of {len(answers.rows):,} inputs are answered differently"
    shares = [row.differing for row in answers.rows if row.differing is not None]
    if not answers.discrete:
        flipped += " (in at least one whole number)" if shares else f" (by more than {TOLERANCE:g} relative)"
    floor = f", {_floor(divergence)}" if divergence.output is None else ""
    if shares:
        sizes = f"are whole numbers, such as classes, of which up to {100 * max(shares):.2f} % differ on an input"
    elif math.isfinite(answers.relative_error):
        sizes = f"differ by up to {answers.max_error:.2g} ({number(answers.relative_error)} relative{floor})"
    elif answers.other_shapes:
        sizes = "have other shapes on at least one input, so that their difference has no measure"
    else:
        sizes = "of at least one input are finite on one side only, so that their difference has no measure"
    yield f"{flipped}; {answers.compared} {sizes}."
    for other in sorted(answers.others, key=lambda output: -output.relative_error)[:_SHOWN]:
        floor = f", {_floor(divergence)}" if divergence.output == other else ""
        sizes = f"differs by up to {other.error:.2g} ({number(other.relative_error)} relative{floor})"
        if other.why != "value":
            sizes = "has other shapes" if other.why == "shape" else "is finite on one side only"
        yield f"Output {other.name}: {sizes}."
    if len(answers.others) > _SHOWN:
        yield f"{len(answers.others) - _SHOWN} more outputs differ by no more than these."
    if (accuracy := answers.accuracy) is not None:
        yield f"Accuracy: A {100 * accuracy[0]:.2f} %, B {100 * accuracy[1]:.2f} %."
    for row in answers.flipped[:_SHOWN]:
        yield f"  {row.name}: {_flip(row, answers.discrete)}"
    if len(answers.flipped) > _SHOWN:
        yield f"  and {len(answers.flipped) - _SHOWN:,} more"


def _flip(row: AnswerPair, discrete: bool) -> str:
    if row.differing is not None:
        return f"{100 * row.differing:.2f} % of its numbers differ"
    if row.deviation.why == "shape":
        return "answers of other shapes"
    if not discrete:
        finite = math.isfinite(row.deviation.error)
        return f"off by {number(row.deviation.error)}" if finite else f"{row.not_finite} answers with no finite numbers"
    truth = f", truth {row.label}" if row.label >= 0 else ""
    return f"A says {_class(row.a)}, B says {_class(row.b)}{truth}"


def _class(answered: int) -> str:
    return str(answered) if answered >= 0 else "no number"


def _floor(divergence: Divergence) -> str:
    if not divergence.measured_floor:
        return f"floor not measured, {divergence.floor:.0e} assumed"
    return f"floor {number(divergence.floor)}"


def _on_layers(divergence: Divergence) -> Iterator[str]:
    if not divergence.layers:
        return
    both = [fact for fact in divergence.layers if fact.layer.between is not None]
    inputs = plural(len(divergence.examined), "input")
    shown = f"{plural(len(both), 'layer')} that both sides show"
    count = f"{shown} and {len(divergence.layers) - len(both)} that one shows, on {inputs}"
    if not both:
        yield f"No layer was compared: both sides show none that stands in the same place, on {inputs}."
    elif divergence.first is None:
        yield f"No layer is beyond the floor of rounding ({count})."
    else:
        first = divergence.first
        last = both[-1]
        yield (
            f"First layer beyond rounding of those that both show: {first.label}, relative difference "
            f"{_error(first.layer)} (floor {number(first.layer.floor)}); at {last.label} it is "
            f"{_error(last.layer)} ({count})."
        )
    yield from growth_in_files(divergence.layers)
    if divergence.parts is not None:
        floor = number(divergence.parts.floor)
        yield f"Of the difference on the worst input: {divergence.parts.words} (floor {floor})."


def _on_causes(divergence: Divergence) -> Iterator[str]:
    for cause in divergence.causes:
        yield f"{'Cause' if cause.proved else 'Suspected, not proved'}: {cause.words}."
        if cause.proof is not None:
            yield f"  {proof_in_words(cause)}"
        yield from (f"  Not proved: {text}." for text in cause.withdrawn)


def proof_in_words(cause: Cause) -> str:
    proof = cause.proof
    assert proof is not None
    before = number(proof.before)
    after = number(proof.after)
    if proof.holds:
        gone = f"{100 * proof.removed:.4g} % of it is gone" if math.isfinite(proof.before) else "it is finite then"
        return f"Proof: {proof.words}: the difference goes from {before} to {after}; {gone} (floor {proof.floor:.1e})."
    return f"No proof: {proof.words}: {after} of {before} is left (floor {proof.floor:.1e})."


def table(divergence: Divergence) -> Table:
    """Return one row a layer: the difference of the sides, and the error that each side's layer adds by itself."""
    return layer_table([_layer(fact) for fact in divergence.layers])


def layer_table(layers: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of layers from their JSON form (`as_data`)."""
    if not any(layer.get("files_beyond") for layer in layers):
        return Table("layers", _COLUMNS, tuple(map(_row, layers)))
    columns = (*_COLUMNS[:-1], _FILES, _COLUMNS[-1])
    rows = [_row(layer) for layer in layers]
    files = [_moved(layer["files"], layer["files_why"]) for layer in layers]
    return Table("layers", columns, tuple((*row[:-1], own, row[-1]) for row, own in zip(rows, files, strict=True)))


def _row(layer: Mapping[str, Any]) -> tuple[Any, ...]:
    between = "–" if layer["why"] == _ONE_SIDE else _moved(layer["error"], layer["why"])
    alone = (_alone(layer["sides"].get(label)) for label in "ab")
    # JSON and stored comparisons keep the older word.
    verdict = "propagated" if layer["verdict"] == _PROPAGATED else layer["verdict"]
    return (layer["layer"], between, _moved(layer["floor"], "value"), *alone, verdict)


def _alone(side: Mapping[str, Any] | None) -> str:
    if side is None or side["local_why"] is None:
        return "–"
    return _moved(side["local"], side["local_why"])


def _moved(error: float | None, why: str | None) -> str:
    """A deviation in words; in data an infinite one is None, and so is the reason of one that is not known."""
    if why is None:
        return "–"
    if why != "value":
        return why
    return number(math.inf if error is None else error)


def _error(layer: InspectedLayer) -> str:
    moved = layer.between
    return "–" if moved is None else _moved(moved.error, moved.why)


def _verdict(layer: InspectedLayer) -> str:
    own = ", ".join(f"{label} by itself" for label in layer.faulty)
    return own or (_PROPAGATED if layer.beyond else "within")


# --- data


def as_data(divergence: Divergence) -> dict[str, Any]:
    """What `zoolens diverge --json` prints."""
    return json_value(_data(divergence))  # type: ignore[no-any-return]


def _data(divergence: Divergence) -> dict[str, Any]:
    answers = divergence.answers
    return {
        "a": divergence.a,
        "b": divergence.b,
        "data": divergence.data,
        "origin": _origin(divergence),
        "differs": divergence.differs,
        "agrees": divergence.agrees,
        "verdict": headline(divergence),
        **divergence.verdict.as_data(),
        "sentences": [line.strip() for line in lines(divergence)],
        "answers": {
            "inputs": len(answers.rows),
            "compared": answers.compared,
            "flips": len(answers.flipped),
            "max_error": answers.max_error,
            "relative_error": answers.relative_error,
            "floor": divergence.floor,
            "floor_measured": divergence.measured_floor,
            "accuracy": answers.accuracy,
            "not_finite": answers.not_finite,
            "others": [
                {"output": other.name, "max_error": other.error, "relative_error": other.relative_error}
                for other in answers.others
            ],
            "flipped": [
                {
                    "index": row.index,
                    "input": row.name,
                    "label": row.label,
                    "a": row.a,
                    "b": row.b,
                    "error": row.error,
                }
                for row in answers.flipped
            ],
        },
        "output": None if divergence.output is None else divergence.output.name,
        "first": None if divergence.first is None else _layer(divergence.first),
        "layers": [_layer(fact) for fact in divergence.layers],
        "parts": divergence.parts,
        "tensors": None if divergence.tensors is None else divergence.tensors.as_data(),
        "causes": [_cause(cause) for cause in divergence.causes],
        "examined": divergence.examined,
        "memory": divergence.memory,
        "floor": FLOOR_IN_WORDS,
        "notes": divergence.notes,
    }


def _origin(divergence: Divergence) -> dict[str, Any] | None:
    if divergence.origin is None:
        return None
    return {**asdict(divergence.origin), "fingerprint": divergence.fingerprint}


def _layer(fact: LayerFacts) -> dict[str, Any]:
    layer = fact.layer
    return {
        "layer": fact.label,
        "a": layer.pair.a,
        "b": layer.pair.b,
        "error": None if layer.between is None else layer.between.error,
        "why": _ONE_SIDE if layer.between is None else layer.between.why,
        "floor": layer.floor,
        "beyond": layer.beyond,
        "files": None if layer.files is None else layer.files.error,
        "files_why": None if layer.files is None else layer.files.why,
        "files_beyond": layer.files_beyond,
        "verdict": _verdict(layer),
        "sides": {label: _side_layer(side) for label, side in zip("ab", layer.sides, strict=True) if side is not None},
    }


def _side_layer(side: SideLayer) -> dict[str, Any]:
    return {
        "total": side.total.error,
        "local": None if side.local is None else side.local.error,
        "local_why": None if side.local is None else side.local.why,
        "local_floor": side.local_floor,
        "faulty": side.faulty,
        "broken": side.broken,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    proof = cause.proof
    return {
        "kind": cause.kind,
        "sentence": cause.words,
        "side": cause.side,
        "layer": cause.layer,
        "label": cause.label,
        "proved": cause.proved,
        "proof": None
        if proof is None
        else {
            "sentence": proof.words,
            "before": proof.before,
            "after": proof.after,
            "floor": proof.floor,
            "holds": proof.holds,
            "removed": proof.removed,
        },
        "withdrawn": cause.withdrawn,
    }
