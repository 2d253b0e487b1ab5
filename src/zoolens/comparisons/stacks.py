"""How two stacks differ, the differences that can explain different answers first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zoolens.store.records import Run

ABSENT = "–"


@dataclass(frozen=True)
class Difference:
    """One fact that is not the same. `telling`: it can change answers by itself."""

    what: str
    a: str
    b: str
    telling: bool = False


def stack_differences(a: Run, b: Run) -> list[Difference]:
    """Effective precision, provider, runtime, options, packages, machine: only what differs."""
    found = [
        *_changed("effective", _resolved(a), _resolved(b), telling=("precision",)),
        *_changed("model", {"fingerprint": a.model.fingerprint[:12], "format": a.model.format},
                  {"fingerprint": b.model.fingerprint[:12], "format": b.model.format}, telling=("fingerprint",)),
        *_changed("", {"runtime": a.stack.runtime}, {"runtime": b.stack.runtime}, telling=("runtime",)),
        *_changed("option", a.stack.identity["options"], b.stack.identity["options"], telling=("precision", "mode")),
        *_changed("package", a.stack.identity["packages"], b.stack.identity["packages"]),
        *_changed("", {"python": a.stack.identity["python"]}, {"python": b.stack.identity["python"]}),
        *_changed("machine", a.stack.identity["machine"], b.stack.identity["machine"]),
    ]  # fmt: skip
    return sorted(found, key=lambda difference: not difference.telling)


def likely_cause(a: Run, b: Run, differ: bool) -> str | None:
    """One sentence for the reader who asks why, where the recorded facts give the answer."""
    if not differ:
        return None
    precision_a, precision_b = a.resolved.get("precision"), b.resolved.get("precision")
    if precision_a and precision_b and precision_a != precision_b:
        kernels = [run.resolved.get("details", {}).get("kernels", "") for run in (a, b)]
        named = "".join(f" ({side} ran {names})" for side, names in zip("AB", kernels, strict=True) if names)
        check = " Evaluate with --precision float32 to see whether the difference goes away."
        lowered = "float16" in precision_a + precision_b  # also bfloat16: the runtime's choice, not the file's
        return f"A computed in {precision_a}, B in {precision_b}{named}.{check if lowered else ''}"
    if a.model.fingerprint != b.model.fingerprint:
        if a.model.format != b.model.format:
            return f"Different files: A is {a.model.format}, B is {b.model.format}."
        return "Different models: other weights, or other preprocessing in the manifest."
    if a.stack.runtime != b.stack.runtime:
        return f"Same file, other runtime: the kernels of {a.stack.runtime} and {b.stack.runtime} round differently."
    return None


def _resolved(run: Run) -> dict[str, Any]:
    return {name: run.resolved.get(name) for name in ("precision", "provider", "threads")}


def _changed(
    group: str, a: Mapping[str, Any], b: Mapping[str, Any], telling: tuple[str, ...] = ()
) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        left, right = a.get(name), b.get(name)
        if left != right:
            title = f"{group} {name}".strip()
            yield Difference(title, _text(left), _text(right), telling=name in telling)


def _text(value: Any) -> str:
    return ABSENT if value is None else str(value)
