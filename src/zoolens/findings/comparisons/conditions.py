"""Whether figures of two runs of one model may be held against each other, and what differs besides the machine.

A difference is told as one of the machine or of the software. That is wrong where the two answered other inputs, were
asked to run otherwise, or were measured in another way, and it is half the truth where a runtime chose another
precision by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from zoolens.base.store.records import Run
from zoolens.findings.measure.lock import measured_alike

EFFECTIVE: Final = ("precision", "provider", "threads")  # in run.resolved: what the open session told
_PREPARING: Final = ("decoder", "tokenizer", "sound")  # of a stack's identity: packages that make the inputs
_USUAL: Final = (None, "default")


def incomparable(a: Run, b: Run) -> str:
    """Why no figure of A may be held against one of B, to be put behind "cannot be compared, since"; or nothing."""
    if a.dataset.fingerprint != b.dataset.fingerprint:
        return "the inputs are others"
    ours, theirs = (options_words(run.stack.identity.get("options")) for run in (a, b))
    if ours != theirs:
        return f"it was asked to run otherwise ({ours or 'defaults'} instead of {theirs or 'defaults'})"
    if not measured_alike(a.stack.identity, b.stack.identity):
        return "versions of zoolens measured it in different ways"
    return ""


def options_words(options: Any) -> str:
    """What was asked for besides the defaults. The device is a part of the kind of machine."""
    if not isinstance(options, Mapping):
        return ""
    asked = {name: value for name, value in options.items() if name != "device" and value not in _USUAL}
    return ", ".join(f"{name} {value}" for name, value in sorted(asked.items()))


def effective_conditions(run: Run) -> tuple[str, ...]:
    """What was in effect, and cannot be told from the run's key."""
    return tuple(str(run.resolved.get(name)) for name in EFFECTIVE)


def other_conditions(run: Run, other: Run) -> Iterator[str]:
    """What differs besides the kind of machine: "precision bfloat16 instead of float32"."""
    if run.model.fingerprint != other.model.fingerprint:
        yield "another content of the model"
    for name in EFFECTIVE:
        ours, theirs = run.resolved.get(name), other.resolved.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            yield f"{name} {ours} instead of {theirs}"
    for part in _PREPARING:
        ours, theirs = (_versions(one.stack.identity.get(part)) for one in (run, other))
        for name in dict.fromkeys((*ours, *theirs)):
            if ours.get(name) != theirs.get(name):
                yield f"{name} {ours.get(name) or 'none'} instead of {theirs.get(name) or 'none'}"


def _versions(packages: Any) -> Mapping[str, Any]:
    return packages if isinstance(packages, Mapping) else {}
