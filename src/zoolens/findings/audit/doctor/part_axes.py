"""The axis of which tensor holds what, of outputs that are read from several."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, Change, NotSwept, axis_or_none, with_output
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.runtimes.runtime import TensorSpec

MOST: Final = 4  # parts, of which all orders are tried
_Shape = tuple[int | None, ...]


def part_axis(manifest: Manifest, outputs: Sequence[TensorSpec]) -> list[Axis | NotSwept]:
    """The other orders of the tensors that fit their parts; empty for an output of a single tensor."""
    parts = manifest.outputs[0].parts
    if parts is None or len(parts) < 2:
        return []
    shapes = {spec.name: spec.shape for spec in outputs}
    if len(parts) > MOST or not set(parts.values()) <= set(shapes):
        return [NotSwept("parts", "there are too many of them, or the file does not have them.")]
    roles = list(parts)
    choices = []
    for names in itertools.permutations(parts.values()):
        moved = dict(zip(roles, names, strict=True))
        if moved != parts and _fits(moved, shapes):
            changed = [f"{role} {name}" for role, name in moved.items() if parts[role] != name]
            choices.append(AxisChoice("parts", "parts", ", ".join(changed), _naming(moved)))
    declared = ", ".join(f"{role} {name}" for role, name in parts.items())
    return [axis_or_none("parts", declared, choices, manifest) or NotSwept("parts", "their shapes say which is which.")]


def _naming(parts: Mapping[str, str]) -> Change:
    return lambda manifest: with_output(manifest, parts=dict(parts))


def _fits(parts: Mapping[str, str], shapes: Mapping[str, _Shape]) -> bool:
    """Whether each part may have its tensor's shape, as far as the file says it."""
    known = {role: shapes[name] for role, name in parts.items()}
    if "boxes" not in known:
        # Parts of other tasks look alike: scores of the first and of the last token.
        return len(set(map(len, known.values()))) == 1
    return all(_fits_role(role, shape) for role, shape in known.items())


def _fits_role(role: str, shape: _Shape) -> bool:
    if not shape:
        # The file does not say it.
        return True
    if role == "boxes":
        return len(shape) == 3
    if role == "count":
        return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    return len(shape) in (2, 3) if role == "scores" else len(shape) == 2
