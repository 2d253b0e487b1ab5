"""Between a stored run and its model: the entry it was made from, and which contents the files hold today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from pydantic import ValidationError

from zoolens.base.errors import AssetError, ModelError
from zoolens.base.store.records import GUESSED, Run
from zoolens.inventory.manifests.guesses import guesses_in
from zoolens.inventory.manifests.locations import model_fingerprint, resolve_asset
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.zoos.zoo import Entry, Weights


def stored_entry(run: Run) -> Entry:
    """The model of a run as the store knows it, also where its zoo lists it otherwise by now."""
    folder = run.origin.get("folder")
    try:
        manifest = Manifest.model_validate(run.origin.get("manifest"))
    except ValidationError as error:
        raise ModelError(
            f"Run {run.id[:8]} does not record where its model is.", hint="Evaluate it again with `zoolens eval`."
        ) from error
    return Entry(run.ref.partition(":")[0], manifest, Weights.PRESENT, Path(folder) if folder else None)


def guessed_of(run: Run) -> tuple[str, ...]:
    """What the accuracy of a run rests on that nobody has checked. Of older runs only the guesses of the manifest are
    known, and not whether their classes were numbered by the alphabet."""
    if GUESSED in run.resolved:
        return tuple(map(str, run.resolved[GUESSED] or ()))
    manifest = run.origin.get("manifest") or {}
    return guesses_in(manifest.get("attributes") or {})


def guesses_in_words(guessed: Sequence[str]) -> str:
    return (
        f"its accuracy rests on guesses ({'; '.join(guessed)}): check them in a manifest (`zoolens manifest init`), or "
        "let `zoolens doctor` try others (of classifiers)"
    )


def contents_of(entry: Entry) -> set[str]:
    """The fingerprint of a model in each format whose files are here."""
    contents = set()
    for asset in entry.manifest.assets:
        try:
            paths = resolve_asset(asset, entry.folder, fetch=False)
        except AssetError:
            continue
        contents.add(model_fingerprint(entry.manifest, asset, paths))
    return contents


def check_model(entry: Entry, run: Run) -> None:
    """ModelError unless the run was made with what the model's files hold today."""
    if run.key.model not in contents_of(entry):
        raise ModelError(
            f"The files of {run.ref} have changed since run {run.id[:8]}.",
            hint=f"Measure it again: zoolens eval {run.ref} --data {quote(str(run.origin.get('data') or 'DATA'))}.",
        )
