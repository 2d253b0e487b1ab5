"""What really differs between the models of two runs: the manifest line by line, the structure, the weights by tensor.

Everything is at hand: manifests are stored with the runs, and files are where they were. What is not here any more is
left out, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.present.text import clean
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.weight_tensors import weight_digests
from zoolens.findings.graph.diff.report import Diff, diff
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.findings.graph.weights.weight_diff import SUFFIXES, WeightDiff, weight_diff
from zoolens.findings.graph.weights.weight_words import headline
from zoolens.inventory.catalog.stored import stored_entry
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.locations import model_fingerprint, resolve_asset
from zoolens.inventory.zoos.zoo import Entry

PARTS: Final = ("inputs", "outputs", "code")  # of a manifest: what changes answers
SHOWN: Final = 3
_ELSEWHERE: Final = (
    "The files differ in constants or settings that are not compared here; `zoolens diverge` names them."
)
_LONGEST: Final = 200  # characters of what is said of one line
_MOST_BYTES: Final = 1 << 30  # of two files whose values are compared unasked: half a minute


@dataclass(frozen=True)
class Line:
    """One value of the manifests that is not the same."""

    what: str  # such as "inputs[0].preprocess[1].std"
    a: str
    b: str

    @property
    def words(self) -> str:
        return f"{self.what} {self.a} → {self.b}"


def lines_words(lines: Sequence[Line]) -> str:
    # A matrix of transitions, or a list of a thousand labels, is one line of a manifest.
    return first_few([clean(line.words, _LONGEST) for line in lines], SHOWN, between="; ", rest="more lines")


def _as_it_ran(run: Run) -> Entry:
    """The model in the format of the run alone: its structure is that of this file."""
    entry = stored_entry(run)
    assets = tuple(asset for asset in entry.manifest.assets if asset.format == run.model.format)
    return replace(entry, manifest=entry.manifest.model_copy(update={"assets": assets}))


def manifest_lines(a: Run, b: Run) -> list[Line]:
    """Where the manifests say something else about inputs, outputs or code."""
    ours, theirs = a.model.manifest, b.model.manifest
    return [line for part in PARTS for line in differing_lines(part, ours.get(part), theirs.get(part))]


def model_cause(store: Store, a: Run, b: Run) -> str | None:
    """Sentences that name what differs between two models; None: they are the same."""
    difference = model_difference(store, a, b)
    return None if difference is None else " ".join(sentences(difference))


# --- what differs, as data


class FilesState(Enum):
    """What is known about the files of two models."""

    ABSENT = "absent"  # at least one is not here any more
    ELSEWHERE = "elsewhere"  # at least one model ran behind a server
    SAME = "same"
    CHANGED = "changed"


@dataclass(frozen=True)
class WeightsDifference:
    """How the weight tensors of two files differ."""

    tensors: tuple[int, int]  # how many each file has
    changed: tuple[str, ...]  # names that both have, with other values
    common: int  # how many tensors of A are in B, under whatever names
    shared_names: int  # how many names both have
    same: bool


@dataclass(frozen=True)
class ModelDifference:
    """What differs between two models."""

    formats: tuple[str, str]
    manifest: tuple[Line, ...]
    files: FilesState
    structure: Diff | None = None  # None: not compared, for the reason in `structure_error`
    structure_error: str = ""
    weights: WeightsDifference | None = None  # None: this format is not compared by tensor
    values: WeightDiff | None = None  # of language models: rounding, or another training
    values_error: str = ""  # why the values of language models could not be compared


def model_difference(store: Store, a: Run, b: Run) -> ModelDifference | None:
    """What differs between the models of two runs; None: they are the same."""
    if a.model.fingerprint == b.model.fingerprint:
        return None
    paths = _paths(a), _paths(b)
    if any(run.stack.address for run in (a, b)):
        formats = a.model.format, b.model.format
        return ModelDifference(formats, tuple(manifest_lines(a, b)), FilesState.ELSEWHERE)
    formats, lines = (a.model.format, b.model.format), tuple(manifest_lines(a, b))
    if not all(paths):
        return ModelDifference(formats, lines, FilesState.ABSENT)
    digests = [{role: digest(path) for role, path in side.items()} for side in paths]
    if digests[0] == digests[1]:
        return ModelDifference(formats, lines, FilesState.SAME)
    structure, error = _structure(store, a, b)
    weights = _weights(formats[0], *paths) if formats[0] == formats[1] else None
    values, values_error = _values(*paths)
    return ModelDifference(formats, lines, FilesState.CHANGED, structure, error, weights, values, values_error)


def _structure(store: Store, a: Run, b: Run) -> tuple[Diff | None, str]:
    try:
        graphs = [structure_of(_as_it_ran(run), store=store)[0].graph for run in (a, b)]
        return diff(graphs[0], graphs[1], names=("A", "B")), ""
    except ZoolensError as error:
        return None, error.message


def _weights(file_format: str, a: Mapping[str, Path], b: Mapping[str, Path]) -> WeightsDifference | None:
    ours, theirs = weight_digests(file_format, a), weight_digests(file_format, b)
    if not ours or not theirs:
        return None
    values = Counter(ours.values()), Counter(theirs.values())
    return WeightsDifference(
        tensors=(len(ours), len(theirs)),
        changed=tuple(name for name in ours if name in theirs and ours[name] != theirs[name]),
        common=sum((values[0] & values[1]).values()),
        shared_names=len(ours.keys() & theirs.keys()),
        same=values[0] == values[1],
    )


def _values(a: Mapping[str, Path], b: Mapping[str, Path]) -> tuple[WeightDiff | None, str]:
    """The values of the weights, where both files can be compared so and are small enough to do it unasked."""
    files = a.get("model"), b.get("model")
    if files[0] is None or files[1] is None:
        return None, ""
    suffixes = {path.suffix for path in files if path is not None}
    if not suffixes <= set(SUFFIXES) or ".gguf" not in suffixes:
        return None, ""
    if sum(path.stat().st_size for path in files if path is not None) > _MOST_BYTES:
        return None, ""
    try:
        found = weight_diff(files[0], files[1])
    except ZoolensError as error:
        return None, error.message
    return (found, "") if found.pairs else (None, "")


# --- the same in words


def sentences(difference: ModelDifference) -> Iterator[str]:
    if difference.files is FilesState.ABSENT:
        yield "The files that ran are not here any more, so that they cannot be compared."
    elif difference.files is FilesState.ELSEWHERE:
        yield "Not both ran here: what a server runs, and whether it is the same model, cannot be seen from here."
    elif difference.files is FilesState.SAME:
        yield "The files are the same."
    else:
        yield from _file_sentences(difference)
    if difference.manifest:
        yield f"The manifests differ: {lines_words(difference.manifest)}."


def _file_sentences(difference: ModelDifference) -> Iterator[str]:
    format_a, format_b = difference.formats
    if format_a != format_b:
        yield f"A is {format_a}, B is {format_b}."
    structure = difference.structure
    if structure is None:
        yield f"The structures cannot be compared: {difference.structure_error}"
    else:
        yield _structure_sentence(structure)
    same_structure = structure is not None and structure.same
    if difference.values is not None:
        yield headline(difference.values, alone=same_structure)
        if difference.values.equal and same_structure:
            yield _ELSEWHERE
        return
    if difference.values_error:
        yield difference.values_error
    if difference.weights is not None:
        yield _weights_sentence(difference.weights)
        if same_structure and difference.weights.same:
            yield _ELSEWHERE
        return
    if format_a == format_b:
        yield f"Weights of {format_a} files such as these are compared as a whole, not by tensor."
    if structure is None:
        yield "The structure, the weights or the constants in the files differ."
    elif structure.same:
        yield "The weights or constants in the files differ."
    elif not structure.decision.known:
        yield "The weights, the constants or what is not understood differ."


def _structure_sentence(structure: Diff) -> str:
    if structure.same:
        return f"The structure is the same ({structure.layers:,} layers compared)."
    return f"By structure: {structure.verdict.rstrip('.')}."


def _weights_sentence(weights: WeightsDifference) -> str:
    total, theirs = weights.tensors
    if weights.same:
        return f"All {total} weight tensors are the same."
    if weights.changed and weights.shared_names > total / 2:
        named = ", ".join(weights.changed[:SHOWN]) + (", …" if len(weights.changed) > SHOWN else "")
        return f"{len(weights.changed)} of {total} weight tensors have other values: {named}."
    return f"{weights.common} of the {total} weight tensors of A are in B ({theirs}) with the same values."


# --- files and manifests


def _paths(run: Run) -> dict[str, Path]:
    """The files of the run's model, where they are here and still the ones that ran."""
    try:
        entry = stored_entry(run)
        asset = next(candidate for candidate in entry.manifest.assets if candidate.format == run.model.format)
        paths = resolve_asset(asset, entry.folder, fetch=False)
        return paths if model_fingerprint(entry.manifest, asset, paths) == run.model.fingerprint else {}
    except (ZoolensError, KeyError, StopIteration, ValueError):
        return {}


def differing_lines(where: str, a: Any, b: Any) -> Iterator[Line]:
    """The leaves that differ; steps of another kind are shown whole."""
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.get("op") == b.get("op"):
        for name in dict.fromkeys((*a, *b)):
            yield from differing_lines(f"{where}.{name}", a.get(name), b.get(name))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b) and _of_parts(a):
        for place, (part_a, part_b) in enumerate(zip(a, b, strict=True)):
            yield from differing_lines(f"{where}[{place}]", part_a, part_b)
    else:
        yield Line(where, _text(a), _text(b))


def _of_parts(values: Any) -> bool:
    return any(isinstance(part, Mapping) for part in values)


def _text(value: Any) -> str:
    if value is None or value in ((), []):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        kept = {name: inner for name, inner in value.items() if inner is not None}
        return "{" + ", ".join(f"{name}: {_text(inner)}" for name, inner in kept.items()) + "}"
    if isinstance(value, list | tuple):
        shown = ", ".join(_text(inner) for inner in value[:8])
        return f"[{shown}{', …' if len(value) > 8 else ''}]"
    return str(value)
