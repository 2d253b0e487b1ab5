"""The models of a folder that `zoolens init` evaluates: each with a manifest, its own or one that is drafted now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import as_written
from zoolens.faces.cli.manifest import write_manifest
from zoolens.findings.audit.doctor.correction import without_guesses, write_corrected
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.found_models import find_models
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.formats import legal_name, model_stem
from zoolens.inventory.manifests.guesses import guesses_in

if TYPE_CHECKING:
    from zoolens.base.present.bars import Bars
    from zoolens.inventory.datasets.found_data import FoundData
    from zoolens.inventory.manifests.schema import Manifest

_MOST_LISTED = 20
_JUDGED = 2_000  # inputs that the doctor draws: more make it slower, and hardly surer


class _Apart(Enum):
    """How files of one name are told apart."""

    BY_FORMAT = auto()
    BY_FOLDER = auto()


@dataclass(frozen=True)
class DescribedModel:
    """A model by its manifest; `guesses`: what the manifest only assumes."""

    manifest: Path
    name: str
    guesses: tuple[str, ...]


def described_models(root: Path, data: FoundData, bars: Bars) -> list[DescribedModel]:
    """Every model below the folder that can be evaluated."""
    bars.begin(str(root), "look for models", None)
    searched = find_models(root, None if data.folder == root else data.folder)
    bars.end()
    for reason in searched.left_out[:_MOST_LISTED]:
        bars.say(f"Left out: {reason}")
    if not searched.manifests and not searched.files:
        raise ZoolensError(
            f"There are no models in {root} that zoolens can open.",
            hint="It knows .onnx, .tflite, .keras, .pt2, SavedModel folders and more: `zoolens runtimes` lists them.",
        )
    models: dict[str, DescribedModel] = {}
    for path in searched.manifests:
        _add_described(path, models, bars)
    bars.begin("manifests", "draft", len(searched.files))
    namesakes = Counter(path.with_name(model_stem(path)) for path in searched.files)
    stems = Counter(map(model_stem, searched.files))
    for path in searched.files:
        stem = model_stem(path)
        told_apart = _Apart.BY_FORMAT if namesakes[path.with_name(stem)] > 1 else _Apart.BY_FOLDER
        drafted = _drafted(path, models, bars, told_apart if stems[stem] > 1 else None)
        if drafted is not None:
            models[drafted.name] = drafted
        bars.advance(1)
    bars.end()
    if not models:
        raise ZoolensError("There is no model with a manifest; see above.")
    return list(models.values())


def _add_described(path: Path, models: dict[str, DescribedModel], bars: Bars) -> None:
    manifest = read_manifest(path)
    if (other := models.get(manifest.name)) is not None:
        # Their runs could not be told apart in what is said in the end.
        bars.say(
            f"Left out: {as_written(path)}: its name, {manifest.name}, is that of {as_written(other.manifest)} too"
        )
        return
    models[manifest.name] = DescribedModel(path, manifest.name, guesses_in(manifest.attributes))
    bars.say(f"Model: {as_written(path)}, described by its manifest.")


def _drafted(path: Path, others: Collection[str], bars: Bars, apart: _Apart | None) -> DescribedModel | None:
    """The model with a new manifest beside it; None where the file cannot be opened, which is said. `apart`: how it
    is told from other files of its name, if there are any."""
    try:
        manifest = draft_manifest(path)
        manifest, target = _free_name(manifest, path, others, apart)
        write_manifest(manifest, path.parent, target)
    except ZoolensError as error:
        bars.say(f"Left out: {as_written(path)}: {error}")
        return None
    bars.say(f"Model: {as_written(target)} written. {manifest.description}")
    return DescribedModel(target, manifest.name, guesses_in(manifest.attributes))


def _free_name(manifest: Manifest, path: Path, others: Collection[str], apart: _Apart | None) -> tuple[Manifest, Path]:
    """The manifest under a name that no other model of the folder has, and a file for it that is not there yet.

    Exporters call every file model.onnx and tell models apart by folders; one model in two formats has two files of one
    name.
    """
    plain = manifest.name
    by_format = f"{plain}-{manifest.assets[0].format}"
    by_folder = legal_name(f"{path.parent.name}-{plain}")
    told_apart = [by_folder, by_format] if apart is _Apart.BY_FOLDER else [by_format, by_folder]
    names = [plain, *told_apart] if apart is None else told_apart
    names += [f"{plain}-{number}" for number in range(2, len(others) + 3)]
    for name in names:
        target = path.parent / f"{name.replace('/', '_')}.yaml"
        if name not in others and not target.exists():
            return manifest.model_copy(update={"name": name}), target
    raise ZoolensError(f"There is no free name for a manifest beside {path.name}.", hint="Write one by hand.")


def corrected_model(model: DescribedModel, data: FoundData, chosen: Mapping[str, Any], bars: Bars) -> DescribedModel:
    """The model after the doctor tried what its manifest guesses."""
    from zoolens.findings.audit.doctor.diagnose import doctor
    from zoolens.findings.audit.doctor.diagnosis import Status

    if not model.guesses:
        return model
    runtimes: Sequence[str] = chosen["runtimes"]
    try:
        diagnosis = doctor(
            str(model.manifest),
            data.spec,
            runtime=runtimes[0] if len(runtimes) == 1 else None,
            limit=chosen["limit"] if data.size <= _JUDGED else min(chosen["limit"] or _JUDGED, _JUDGED),
            store=chosen["store"],
            progress=bars,
        )
        bars.say(f"Doctor: {model.name}: {diagnosis.sentence}")
        if diagnosis.status in (Status.WRONG, Status.IMPROVABLE):
            write_corrected(diagnosis, str(model.manifest), model.manifest, force=True)
        elif diagnosis.status is Status.RIGHT:
            kept = without_guesses(read_manifest(model.manifest))
            write_manifest(kept, model.manifest.parent, model.manifest, force=True)
        else:
            return model
    except ZoolensError as error:
        bars.say(f"Doctor: {model.name} stays as it is: {error}")
        return model
    return DescribedModel(model.manifest, model.name, ())
