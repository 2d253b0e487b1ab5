"""The corrected manifest: as a fragment to read, and as a file."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoolens.base.errors import ManifestError
from zoolens.base.statistics.intervals import Interval
from zoolens.findings.audit.doctor.diagnosis import Diagnosis
from zoolens.findings.measure.run_data import ACCURACY
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.manifests.files import dump_manifest
from zoolens.inventory.manifests.guesses import GUESSED
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.preprocess.outputs import relocated_manifest

SHOWN = 3  # entries of a long mapping


def fragment(diagnosis: Diagnosis) -> str:
    """The parts of the manifest that change, as YAML; long lists are cut short."""
    corrected = diagnosis.corrected
    if corrected is None:
        return ""
    sections = _sections(dump_manifest(_shortened(corrected, diagnosis.declared)))
    changed = [name for name in ("inputs", "outputs") if getattr(corrected, name) != getattr(diagnosis.declared, name)]
    text = "".join(sections[name] for name in changed)
    return text + _what_is_short(corrected, diagnosis.declared) if "outputs" in changed else text


def write_corrected(diagnosis: Diagnosis, model: str, target: Path, *, force: bool = False) -> None:
    """The whole corrected manifest. A file that exists is overwritten only by force."""
    if diagnosis.corrected is None:
        raise ManifestError("There is nothing to correct, so nothing was written.")
    if target.exists() and not force:
        raise ManifestError(f"{target} exists already.", hint="Overwrite it with --force, or name another file.")
    folder = find(model).folder
    corrected = without_guesses(diagnosis.corrected)
    if folder is not None:
        corrected = relocated_manifest(corrected, folder.resolve(), target.resolve().parent)
    try:
        target.write_text(dump_manifest(corrected), encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{target} cannot be written: {error.strerror}.", hint="Name another file.") from error


def without_guesses(manifest: Manifest) -> Manifest:
    """What was tried on data is no guess any more."""
    kept = {name: value for name, value in manifest.attributes.items() if name != GUESSED}
    return manifest.model_copy(update={"attributes": kept})


def _sections(text: str) -> dict[str, str]:
    """Top-level keys of a dumped manifest and the lines under each."""
    lines_of_key: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line[0] not in " -":
            name = line.partition(":")[0]
        lines_of_key[name] = lines_of_key.get(name, "") + line
    return lines_of_key


def _shortened(manifest: Manifest, declared: Manifest) -> Manifest:
    """The manifest with the first few of a long mapping, and of labels that change."""
    output = manifest.outputs[0]
    mapping = output.label_map
    short = dict(itertools.islice(mapping.items(), SHOWN)) if mapping else mapping
    named = output.labels if _renamed(manifest, declared) else None
    changes = {"label_map": short, "labels": None if named is None else named[:SHOWN], "labels_file": None}
    return manifest.model_copy(update={"outputs": (output.model_copy(update=changes), *manifest.outputs[1:])})


def _renamed(manifest: Manifest, declared: Manifest) -> bool:
    output, before = manifest.outputs[0], declared.outputs[0]
    return (output.labels, output.labels_file) != (before.labels, before.labels_file)


def _what_is_short(manifest: Manifest, declared: Manifest) -> str:
    output = manifest.outputs[0]
    lines = []
    if output.label_map and len(output.label_map) > SHOWN:
        source, target = max(output.label_map.items())
        lines.append(f"  # … and so on to {source}: {target}\n")
    if output.labels and _renamed(manifest, declared):
        lines.append(f"  # … and so on, {len(output.labels)} labels, the last of which is {output.labels[-1]}\n")
    elif output.labels or output.labels_file:
        lines.append("  # with the labels it has\n")
    return "".join(lines)


def as_data(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain JSON-able values; manifests as they would be written."""
    data = asdict(diagnosis)
    for name in ("declared", "corrected"):
        manifest: Manifest | None = getattr(diagnosis, name)
        data[name] = manifest.model_dump(mode="json", exclude_defaults=True) if manifest else None
    if diagnosis.metric == ACCURACY:
        # The names of 0.1.0, which are deprecated: see docs/stability.md.
        for trial in data["trials"]:
            trial["accuracy"] = trial["value"]
        # In 0.1.0 the declared variant was compared with itself.
        data["trials"][0].update({"change": 0.0, "change_interval": Interval(0.0, 0.0), "p_value": 1.0})
        for factor in data["sensitivity"]:
            factor |= {"worst_accuracy": factor["worst_value"], "best_accuracy": factor["best_value"]}
    return {**data, "fragment": fragment(diagnosis)}
