"""A comparison in lockstep as sentences, as a table, and as data for JSON.

Those of a port are in `zoolens.training.pairs.lockstep.lockstep_words`. The two have no sentence in common: here two
sides are off a reference, there B is apart from A. People and programs read both, so that neither may change.
"""

from __future__ import annotations

from typing import Any, Final

from zoolens.base.numerics.deviation import Deviation
from zoolens.base.numerics.rounding import FACTOR, ROUNDINGS
from zoolens.training.crosstrain.training.lockstep.comparison import Lockstep, LockstepSide
from zoolens.training.pairs.lockstep.cause_search import DepartureCause
from zoolens.training.pairs.lockstep.floors import MORE_RUNS, RUNS
from zoolens.training.pairs.lockstep.lockstep_result import finite
from zoolens.training.pairs.lockstep.quantities import KINDS, ComparedQuantity

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
IN_WORDS: Final = (
    f"The floor of a quantity is {FACTOR:g} times the farthest that rounding moved it in {RUNS} runs, or {MORE_RUNS} "
    "before a side is accused without a proved cause: in float32, by the reference's trainer on the CPU, with first "
    f"weights disturbed by up to {ROUNDINGS} roundings each. They train along, so that the floor grows as rounding "
    "errors do. Where it reaches the quantity's own size, nothing can be told."
)


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
        text += [f"  {sentence(cause)} ({first_in_words(lockstep, cause)})" for cause in lockstep.causes]
    return [*text, IN_WORDS]


def first_in_words(lockstep: Lockstep, first: DepartureCause) -> str:
    """Describes the first divergence, such as: step 1: statistic of conv1_norm.mean: jax is off by 9.0e-01 (floor
    3.0e-06)."""
    row = first.departure
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


def _cells(lockstep: Lockstep, row: ComparedQuantity) -> tuple[str, ...]:
    beyond = ", ".join(lockstep.sides[side].label for side in row.beyond)
    verdict = f"beyond: {beyond}" if beyond else row.verdict(0)
    floor = "–" if row.kind == "definition" else f"{row.floor:.1e}"
    return (str(row.step), _KINDS[row.kind], row.name or "–", *(_figure(moved) for moved in row.sides), floor, verdict)


def _figure(moved: Deviation) -> str:
    return f"{moved.error:.1e}" if moved.why == "value" else moved.why


def _quantity(row: ComparedQuantity) -> str:
    return _KINDS[row.kind] if row.kind == "loss" else f"{_KINDS[row.kind]} of {row.name}"


def _off(label: str, moved: Deviation) -> str:
    return f"{label} is off by {moved.error:.1e}" if moved.why == "value" else f"{label} {_PROBLEMS[moved.why]}"


def _cause(first: DepartureCause) -> str:
    text = sentence(first)
    return f"{text[0].upper()}{text[1:]}." if text.startswith("unexplained") else f"Cause: {text}."


def sentence(cause: DepartureCause) -> str:
    """Names what makes the departure, or what could, such as: norm_epsilon is 1e-05 in the reference and 0.001 in jax;
    with that, the reference agrees."""
    if cause.reason:
        return cause.reason
    differ = " and ".join(
        f"{one.name} is {one.a} in the reference and {one.b} in {cause.sides[0]}" for one in cause.differences
    )
    if not cause.proved:
        return f"unexplained: {differ}, but with that the reference still differs"
    return differ if cause.departure.kind == "definition" else f"{differ}; with that, the reference agrees"


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


def _first(lockstep: Lockstep, first: DepartureCause) -> dict[str, Any]:
    return {
        "sentence": first_in_words(lockstep, first),
        "sides": list(first.sides),
        **_row(first.departure),
        "cause": {"sentence": sentence(first), "semantics": list(first.names), "confirmed": first.proved},
    }


def _row(row: ComparedQuantity) -> dict[str, Any]:
    sides = {
        name: {"error": finite(moved.error), "why": moved.why, "verdict": row.verdict(side)}
        for side, (name, moved) in enumerate(zip("ab", row.sides, strict=True))
    }
    return {"step": row.step, "kind": row.kind, "name": row.name, "floor": finite(row.floor), **sides}
