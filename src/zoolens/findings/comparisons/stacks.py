"""How two environments differ, the differences that can explain different answers first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zoolens.base.store.records import Run
from zoolens.findings.measure.class_order import MATCHED, other_class_names

ABSENT = "–"


@dataclass(frozen=True)
class StackDifference:
    """One fact that is not the same. `telling`: it can change answers by itself."""

    what: str
    a: str
    b: str
    telling: bool = False


def stack_differences(a: Run, b: Run) -> list[StackDifference]:
    """Return what differs in effective precision, provider, runtime, options, packages and machine."""
    differences = [
        *_changed("effective", _resolved(a), _resolved(b), telling=("precision",)),
        *_changed("model", _model(a), _model(b), telling=("fingerprint",)),
        *_changed("", {"runtime": a.stack.runtime}, {"runtime": b.stack.runtime}, telling=("runtime",)),
        *_changed("option", _part(a, "options"), _part(b, "options"), telling=("precision", "mode")),
        *_changed("", _single(a, "isolated"), _single(b, "isolated")),
        *_changed("package", _part(a, "packages"), _part(b, "packages")),
        *_changed("decoder", a.stack.identity.get("decoder", {}), b.stack.identity.get("decoder", {})),
        *_changed("", _single(a, "python"), _single(b, "python")),
        *_changed("machine", _part(a, "machine"), _part(b, "machine")),
        *_changed("condition", _part(a, "conditions"), _part(b, "conditions")),
    ]
    return sorted(differences, key=lambda difference: not difference.telling)


def _model(run: Run) -> dict[str, Any]:
    return {"fingerprint": run.model.fingerprint[:12], "format": run.model.format}


def _single(run: Run, key: str) -> dict[str, Any]:
    return {key: run.stack.identity.get(key)}


def likely_cause(a: Run, b: Run, model: str | None) -> str | None:
    """The facts that can explain different answers, the largest first; None where there are none. `model`: what differs
    between the models themselves."""
    causes = [cause for cause in (model, _other_classes(a, b), _other_precision(a, b), _other_kernels(a, b)) if cause]
    return " ".join(causes[:2]) or None


def _other_classes(a: Run, b: Run) -> str | None:
    """Classes that were matched by other names. Two models may have orders of their own, one model may not."""
    orders = [run.stack.identity.get(MATCHED) for run in (a, b)]
    same_model = a.model.fingerprint == b.model.fingerprint
    if not other_class_names(a, b) and not (same_model and orders[0] != orders[1]):
        return None
    return "Classes were matched by other names in A than in B, so that the same class is not the same thing in both."


def _other_precision(a: Run, b: Run) -> str | None:
    if not a.precision or not b.precision or a.precision == b.precision:
        return None
    kernels = [run.resolved.get("details", {}).get("kernels", "") for run in (a, b)]
    named = "".join(f" ({side} ran {names})" for side, names in zip("AB", kernels, strict=True) if names)
    check = " Evaluate with --precision float32 to see whether the difference goes away."
    # Also bfloat16: the runtime's choice, not the file's. Of quantised files int8 is the only arithmetic there is.
    both = a.precision + b.precision
    lowered = "float16" in both and "int8" not in both
    return f"A computed in {a.precision}, B in {b.precision}{named}.{check if lowered else ''}"


def _other_kernels(a: Run, b: Run) -> str | None:
    if a.stack.address or b.stack.address:
        # What a server computes with is not known.
        return None
    if a.stack.runtime != b.stack.runtime:
        return f"Another runtime: the kernels of {a.stack.runtime} and {b.stack.runtime} round differently."
    if a.stack.version != b.stack.version:
        return f"Another version of {a.stack.runtime}: {a.stack.version} and {b.stack.version}."
    if a.resolved.get("threads") != b.resolved.get("threads"):
        return "Another number of threads, which changes the order of sums."
    return None


def _part(run: Run, name: str) -> Mapping[str, Any]:
    """Return a part of an environment's identity. A training has conditions instead of options and a machine."""
    part: Mapping[str, Any] = run.stack.identity.get(name) or {}
    return part


def _resolved(run: Run) -> dict[str, Any]:
    return {name: run.resolved.get(name) for name in ("precision", "provider", "threads")}


def _changed(
    group: str, a: Mapping[str, Any], b: Mapping[str, Any], telling: tuple[str, ...] = ()
) -> Iterator[StackDifference]:
    for name in dict.fromkeys((*a, *b)):
        left, right = a.get(name), b.get(name)
        if left != right:
            title = f"{group} {name}".strip()
            yield StackDifference(title, _text(left), _text(right), telling=name in telling)


def _text(value: Any) -> str:
    return ABSENT if value is None else str(value)
