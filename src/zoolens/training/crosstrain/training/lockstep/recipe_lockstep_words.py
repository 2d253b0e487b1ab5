"""A comparison in lockstep as sentences, as a table, and as data for JSON."""

from __future__ import annotations

import math
from typing import Any, Final

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.crosstrain.training.lockstep.comparison import Divergence, Lockstep, LockstepSide
from zoolens.training.crosstrain.training.lockstep.floors import IN_WORDS
from zoolens.training.crosstrain.training.lockstep.quantities import QuantityRow
from zoolens.training.pairs.lockstep.quantities import KINDS

_KINDS: Final = {
    "definition": "definition", "activation": "activation", "statistic": "statistic", "loss": "loss",
    "gradient": "gradient", "first": "first moment", "second": "second moment",
    "average": "average gradient", "tensor": "tensor after the update",
}  # fmt: skip
_PROBLEMS: Final = {
    "missing": "does not have it",
    "extra": "alone has it",
    "shape": "has another shape",
    "not finite": "is not finite",
}


def lines(lockstep: Lockstep) -> list[str]:
    """What was compared, the first divergence with its cause, and what the floor means; the table is apart."""
    a, b = lockstep.sides
    text = [f"{a.label} and {b.label} beside a float64 reference, at step{_numbers(lockstep.compared)}."]
    text += [f"{side.label} ended early: {side.message}" for side in lockstep.sides if side.status != "finished"]
    if lockstep.first is None:
        text.append("Nothing exceeds the noise floor." if lockstep.compared else "No step could be compared.")
        verdict = lockstep.verdict
        open_ = "" if verdict.known else "Not known whether the sides train alike. "
        text.append(f"{open_}{verdict.coverage.text}")
    else:
        text += [f"First beyond the noise floor: {first_in_words(lockstep, lockstep.first)}.", _cause(lockstep.first)]
    if len(lockstep.causes) > 1:
        text.append("All causes, each beside a reference that has taken over those of its side before it:")
        text += [f"  {_departure(lockstep, cause)}" for cause in lockstep.causes]
    return [*text, IN_WORDS]


def first_in_words(lockstep: Lockstep, first: Divergence) -> str:
    """Describes the first divergence, such as: step 1: statistic of conv1_norm.mean: jax is off by 9.0e-01 (floor
    3.0e-06)."""
    row = first.row
    by_label = {side.label: moved for side, moved in zip(lockstep.sides, row.sides, strict=True)}
    sides = " and ".join(_off(label, by_label[label]) for label in first.sides)
    floor = f" (floor {row.floor:.1e})" if row.kind != "definition" else ""
    return f"step {row.step}: {_quantity(row)}: {sides}{floor}"


def table(lockstep: Lockstep) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, then for every step and kind of quantity the place where a side is farthest, in floors."""
    headings = ("step", "quantity", "worst at", *(side.label for side in lockstep.sides), "floor", "verdict")
    rows = []
    for step in lockstep.compared:
        for kind in KINDS:
            some = [row for row in lockstep.rows if row.step == step and row.kind == kind]
            if some:
                rows.append(_cells(lockstep, max(some, key=lambda row: row.worst)))
    return headings, rows


def as_data(lockstep: Lockstep) -> dict[str, Any]:
    a, b = lockstep.sides
    return {
        "a": _side(a),
        "b": _side(b),
        "recipe": lockstep.recipe.model_dump(mode="json"),
        "reference": lockstep.reference.model_dump(exclude_none=True),
        "steps": list(lockstep.steps),
        "compared": list(lockstep.compared),
        "floor": IN_WORDS,
        "first": None if lockstep.first is None else _first(lockstep, lockstep.first),
        "causes": [_first(lockstep, cause) for cause in lockstep.causes],
        "rows": [_row(row) for row in lockstep.rows],
        **lockstep.verdict.as_data(),
    }


def _cells(lockstep: Lockstep, row: QuantityRow) -> tuple[str, ...]:
    beyond = ", ".join(lockstep.sides[side].label for side in row.beyond)
    verdict = f"beyond: {beyond}" if beyond else row.verdict(0)
    floor = "–" if row.kind == "definition" else f"{row.floor:.1e}"
    return (str(row.step), _KINDS[row.kind], row.name or "–", *(_figure(moved) for moved in row.sides), floor, verdict)


def _figure(moved: Deviation) -> str:
    return f"{moved.error:.1e}" if moved.why == "value" else moved.why


def _quantity(row: QuantityRow) -> str:
    return _KINDS[row.kind] if row.kind == "loss" else f"{_KINDS[row.kind]} of {row.name}"


def _off(label: str, moved: Deviation) -> str:
    return f"{label} is off by {moved.error:.1e}" if moved.why == "value" else f"{label} {_PROBLEMS[moved.why]}"


def _cause(first: Divergence) -> str:
    sentence = first.cause.sentence
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence.startswith("unexplained") else f"Cause: {sentence}."


def _departure(lockstep: Lockstep, divergence: Divergence) -> str:
    return f"{divergence.cause.sentence} ({first_in_words(lockstep, divergence)})"


def _numbers(steps: tuple[int, ...]) -> str:
    return f"{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps)) or 'none'}"


def _side(side: LockstepSide) -> dict[str, Any]:
    return {
        "name": side.label,
        "framework": side.framework,
        "versions": dict(side.versions),
        "semantics": side.semantics.model_dump(exclude_none=True),
        "status": side.status,
        "message": side.message,
    }


def _first(lockstep: Lockstep, first: Divergence) -> dict[str, Any]:
    cause = first.cause
    return {
        "sentence": first_in_words(lockstep, first),
        "sides": list(first.sides),
        **_row(first.row),
        "cause": {"sentence": cause.sentence, "semantics": list(cause.semantics), "confirmed": cause.confirmed},
    }


def _row(row: QuantityRow) -> dict[str, Any]:
    sides = {
        name: {"error": _number(moved.error), "why": moved.why, "verdict": row.verdict(side)}
        for side, (name, moved) in enumerate(zip("ab", row.sides, strict=True))
    }
    return {"step": row.step, "kind": row.kind, "name": row.name, "floor": _number(row.floor), **sides}


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
