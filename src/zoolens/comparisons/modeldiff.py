"""What really differs between the models of two runs: the manifest line by line, the structure, the weights by tensor.

Everything is at hand: manifests are stored with the runs, and files are where they were. What is not here any more is
left out, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from zoolens.catalog.stored import stored_entry
from zoolens.comparisons.weighttensors import weight_digests
from zoolens.errors import ZoolensError
from zoolens.graph.diff.report import diff
from zoolens.graph.structure import structure_of
from zoolens.manifests.digests import digest
from zoolens.manifests.locations import model_fingerprint, resolve_asset
from zoolens.store.records import Run
from zoolens.store.store import Store
from zoolens.zoos.base import Entry

PARTS: Final = ("inputs", "outputs", "code")  # of a manifest: what changes answers
SHOWN: Final = 3


@dataclass(frozen=True)
class Line:
    """One value of the manifests that is not the same."""

    what: str  # such as "inputs[0].preprocess[1].std"
    a: str
    b: str


def _as_it_ran(run: Run) -> Entry:
    """The model in the format of the run alone: its structure is that of this file."""
    entry = stored_entry(run)
    assets = tuple(asset for asset in entry.manifest.assets if asset.format == run.model.format)
    return replace(entry, manifest=entry.manifest.model_copy(update={"assets": assets}))


def manifest_lines(a: Run, b: Run) -> list[Line]:
    """Where the manifests say something else about inputs, outputs or code."""
    ours, theirs = a.model.manifest, b.model.manifest
    return [line for part in PARTS for line in _lines(part, ours.get(part), theirs.get(part))]


def model_cause(store: Store, a: Run, b: Run) -> str | None:
    """Sentences that name what differs between two models; None: they are the same."""
    if a.model.fingerprint == b.model.fingerprint:
        return None
    lines = manifest_lines(a, b)
    return " ".join([*_about_files(store, a, b), *_about_manifests(lines)])


def _about_manifests(lines: list[Line]) -> Iterator[str]:
    if lines:
        shown = "; ".join(f"{line.what} {line.a} → {line.b}" for line in lines[:SHOWN])
        more = f" and {len(lines) - SHOWN} more lines" if len(lines) > SHOWN else ""
        yield f"The manifests differ: {shown}{more}."


def _about_files(store: Store, a: Run, b: Run) -> Iterator[str]:
    paths_a, paths_b = _paths(a), _paths(b)
    if not paths_a or not paths_b:
        yield "The files that ran are not here any more, so that they cannot be compared."
        return
    if {role: digest(path) for role, path in paths_a.items()} == {role: digest(path) for role, path in paths_b.items()}:
        yield "The files are the same."
        return
    if a.model.format != b.model.format:
        yield f"A is {a.model.format}, B is {b.model.format}."
    same = _same_structure(store, a, b)
    yield same[1]
    yield from _about_values(a, b, paths_a, paths_b, same_structure=same[0])


def _about_values(
    a: Run, b: Run, paths_a: Mapping[str, Path], paths_b: Mapping[str, Path], *, same_structure: bool
) -> Iterator[str]:
    formats = a.model.format, b.model.format
    if formats[0] == formats[1]:
        weights = weight_digests(formats[0], paths_a), weight_digests(formats[1], paths_b)
        if weights[0] and weights[1]:
            yield _about_weights(*weights)
            return
        yield f"Weights of {formats[0]} files such as these are compared as a whole, not by tensor."
    if same_structure:
        yield "The weights or constants in the files differ."


def _same_structure(store: Store, a: Run, b: Run) -> tuple[bool, str]:
    try:
        graphs = [structure_of(_as_it_ran(run), store=store)[0].graph for run in (a, b)]
        found = diff(graphs[0], graphs[1], names=("A", "B"))
    except ZoolensError as error:
        return True, f"The structures cannot be compared: {error.message}"
    return found.same, "The structure is the same." if found.same else f"By structure: {found.verdict.rstrip('.')}."


def _about_weights(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    if Counter(ours.values()) == Counter(theirs.values()):
        return f"All {len(ours)} weight tensors are the same."
    changed = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    if changed and len(ours.keys() & theirs.keys()) > len(ours) / 2:
        named = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
        return f"{len(changed)} of {len(ours)} weight tensors have other values: {named}."
    common = sum((Counter(ours.values()) & Counter(theirs.values())).values())
    return f"{common} of the {len(ours)} weight tensors of A are in B ({len(theirs)}) with the same values."


def _paths(run: Run) -> dict[str, Path]:
    """The files of the run's model, where they are here and still the ones that ran."""
    try:
        entry = stored_entry(run)
        asset = next(one for one in entry.manifest.assets if one.format == run.model.format)
        paths = resolve_asset(asset, entry.folder, fetch=False)
        return paths if model_fingerprint(entry.manifest, asset, paths) == run.model.fingerprint else {}
    except (ZoolensError, KeyError, StopIteration, ValueError):
        return {}


def _lines(where: str, a: Any, b: Any) -> Iterator[Line]:
    """The leaves that differ; steps of another kind are shown whole."""
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.get("op") == b.get("op"):
        for name in dict.fromkeys((*a, *b)):
            yield from _lines(f"{where}.{name}", a.get(name), b.get(name))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b) and _of_parts(a):
        for place, (one, two) in enumerate(zip(a, b, strict=True)):
            yield from _lines(f"{where}[{place}]", one, two)
    else:
        yield Line(where, _text(a), _text(b))


def _of_parts(values: Any) -> bool:
    return any(isinstance(one, Mapping) for one in values)


def _text(value: Any) -> str:
    if value is None or value in ((), []):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if one is not None}
        return "{" + ", ".join(f"{name}: {_text(one)}" for name, one in kept.items()) + "}"
    if isinstance(value, list | tuple):
        shown = ", ".join(_text(one) for one in value[:8])
        return f"[{shown}{', …' if len(value) > 8 else ''}]"
    return str(value)
