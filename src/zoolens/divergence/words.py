"""A divergence as sentences, as a table, and as data for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from zoolens.divergence.causes import Cause
from zoolens.divergence.diverging import Divergence, LayerFacts, SideFacts
from zoolens.divergence.inspection import NOISY_RUNS, Layer, SideLayer
from zoolens.numerics.deviation import Deviation
from zoolens.numerics.rounding import FACTOR, ROUNDINGS
from zoolens.present.tables import Column, Table

FLOOR_IN_WORDS: Final = (
    f"The floor of a layer is {FACTOR:g} times the farthest that rounding moved it in {NOISY_RUNS} evaluations in "
    f"float32, with weights and inputs disturbed by up to {ROUNDINGS} roundings each."
)
_SHOWN: Final = 5
_COLUMNS: Final = (
    Column("layer", keep=9), Column("A and B", "number", keep=8), Column("floor", "number", keep=7),
    Column("A alone", "number", keep=4), Column("B alone", "number", keep=5), Column("verdict", keep=6),
)  # fmt: skip


def headline(divergence: Divergence) -> str:
    """The one sentence to take away."""
    answers = divergence.answers
    if not divergence.differs:
        told = "layers and answers" if divergence.layers else "answers"
        flips = f"; {len(answers.flipped):,} answers flip by rounding alone" if answers.flipped else ""
        return f"Nothing differs by more than rounding, in {told}{flips}."
    proved = [cause for cause in divergence.causes if cause.proved]
    count = f"{len(answers.flipped):,} of {len(answers.rows):,} answers differ"
    if not proved:
        return f"The two differ by more than rounding ({count}), and no cause is proved."
    kinds = " and ".join(dict.fromkeys(cause.kind.value for cause in proved))
    rest = ", not all of it proved" if len(proved) < len(divergence.causes) else ""
    return f"The two differ by more than rounding ({count}); the cause is {kinds}{rest}."


def lines(divergence: Divergence) -> list[str]:
    """What was compared and found, sentence by sentence; the table is apart."""
    return [*_on_answers(divergence), *_on_layers(divergence), *_on_causes(divergence), *divergence.notes]


def _on_answers(divergence: Divergence) -> Iterator[str]:
    answers = divergence.answers
    flipped = f"{len(answers.flipped):,} of {len(answers.rows):,} inputs are answered differently"
    sizes = f"{answers.compared} differ by up to {answers.max_error:.2g} ({answers.relative_error:.1e} relative"
    floor = f", floor {divergence.floor:.1e})" if divergence.measured_floor else ")"
    yield f"{flipped}; {sizes}{floor}."
    if (accuracy := answers.accuracy) is not None:
        yield f"A answers {100 * accuracy[0]:.2f} % rightly, B {100 * accuracy[1]:.2f} %."
    for row in answers.flipped[:_SHOWN]:
        truth = f", truth {row.label}" if row.label >= 0 else ""
        classes = f"A says {row.a}, B says {row.b}" if row.a >= 0 else f"off by {row.deviation.error:.1e}"
        yield f"  {row.name}: {classes}{truth}"
    if len(answers.flipped) > _SHOWN:
        yield f"  and {len(answers.flipped) - _SHOWN:,} more"


def _on_layers(divergence: Divergence) -> Iterator[str]:
    if not divergence.layers:
        return
    both = sum(fact.layer.between is not None for fact in divergence.layers)
    count = f"{both} layers that both sides show and {len(divergence.layers) - both} that one shows, on "
    count += f"{len(divergence.examined)} inputs"
    if divergence.first is None:
        yield f"No layer is beyond the floor of rounding ({count})."
    else:
        first, last = divergence.first, [fact for fact in divergence.layers if fact.layer.between is not None][-1]
        yield (
            f"First layer beyond rounding of those that both show: {first.label}, where the two are "
            f"{_error(first.layer)} apart (floor {first.layer.floor:.1e}); at {last.label} it is "
            f"{_error(last.layer)} ({count})."
        )
    if divergence.parts is not None:
        yield f"Of the difference on the worst input: {divergence.parts.words} (floor {divergence.parts.floor:.1e})."


def _on_causes(divergence: Divergence) -> Iterator[str]:
    for cause in divergence.causes:
        yield f"{'Cause' if cause.proved else 'Suspected, not proved'}: {cause.words}."
        if cause.proof is not None:
            yield f"  {proof_in_words(cause)}"
        yield from (f"  Not proved: {text}." for text in cause.withdrawn)


def proof_in_words(cause: Cause) -> str:
    proof = cause.proof
    assert proof is not None
    before, after = _number(proof.before), _number(proof.after)
    if proof.holds:
        return f"Proof: {proof.words}: the difference goes from {before} to {after} (floor {proof.floor:.1e})."
    return f"No proof: {proof.words}: {after} of {before} is left (floor {proof.floor:.1e})."


def table(divergence: Divergence) -> Table:
    """One row for each layer that a side shows: how far apart they are, and what each side's layer does by itself."""
    return Table("layers", _COLUMNS, tuple(_row(fact) for fact in divergence.layers))


def _row(fact: LayerFacts) -> tuple[Any, ...]:
    layer = fact.layer
    verdict = ", ".join(f"{label} by itself" for label in layer.faulty)
    verdict = verdict or ("carried on" if layer.beyond else "within")
    return (fact.label, _error(layer), _number(layer.floor), _alone(layer.a), _alone(layer.b), verdict)


def _alone(side: SideLayer | None) -> str:
    return "–" if side is None or side.local is None else _moved(side.local)


def _error(layer: Layer) -> str:
    return "–" if layer.between is None else _moved(layer.between)


def _moved(moved: Deviation) -> str:
    return _number(moved.error) if moved.why == "value" else moved.why


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else "without measure"


# --- data


def as_data(divergence: Divergence) -> dict[str, Any]:
    answers = divergence.answers
    return {
        "a": _side(divergence.a),
        "b": _side(divergence.b),
        "data": divergence.data,
        "differs": divergence.differs,
        "verdict": headline(divergence),
        "answers": {
            "inputs": len(answers.rows),
            "compared": answers.compared,
            "flips": len(answers.flipped),
            "max_error": _json(answers.max_error),
            "relative_error": _json(answers.relative_error),
            "floor": divergence.floor,
            "floor_measured": divergence.measured_floor,
            "accuracy": answers.accuracy,
            "flipped": [
                {"input": row.name, "label": row.label, "a": row.a, "b": row.b, "error": _json(row.error)}
                for row in answers.flipped
            ],
        },
        "first": None if divergence.first is None else _layer(divergence.first),
        "layers": [_layer(fact) for fact in divergence.layers],
        "parts": None
        if divergence.parts is None
        else {name: _json(getattr(divergence.parts, name)) for name in ("a", "files", "b", "floor")},
        "causes": [_cause(cause) for cause in divergence.causes],
        "examined": list(divergence.examined),
        "memory": divergence.memory,
        "floor": FLOOR_IN_WORDS,
        "notes": list(divergence.notes),
    }


def _side(facts: SideFacts) -> dict[str, Any]:
    return {
        "title": facts.title,
        "runtime": facts.runtime,
        "version": facts.version,
        "precision": facts.precision,
        "layers": facts.layers,
    }


def _layer(fact: LayerFacts) -> dict[str, Any]:
    layer = fact.layer
    return {
        "layer": fact.label,
        "a": layer.pair.a,
        "b": layer.pair.b,
        "error": None if layer.between is None else _json(layer.between.error),
        "why": "not shown by both" if layer.between is None else layer.between.why,
        "floor": _json(layer.floor),
        "beyond": layer.beyond,
        "sides": {label: _side_layer(side) for label, side in zip("ab", layer.sides, strict=True) if side is not None},
    }


def _side_layer(side: SideLayer) -> dict[str, Any]:
    return {
        "total": _json(side.total.error),
        "local": None if side.local is None else _json(side.local.error),
        "local_floor": _json(side.local_floor),
        "faulty": side.faulty,
        "finite": side.finite,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    proof = cause.proof
    return {
        "kind": cause.kind.value,
        "sentence": cause.words,
        "side": cause.side,
        "layer": cause.layer,
        "label": cause.label,
        "proved": cause.proved,
        "proof": None
        if proof is None
        else {
            "sentence": proof.words,
            "before": _json(proof.before),
            "after": _json(proof.after),
            "floor": proof.floor,
            "holds": proof.holds,
        },
        "withdrawn": list(cause.withdrawn),
    }


def _json(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
