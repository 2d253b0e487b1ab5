"""Recognise which system wrote a file, and draft a manifest from it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.files import SUFFIXES, is_manifest, read_text
from zoolens.inventory.manifests.foreign.mlmodelscope import draft_from_mlmodelscope
from zoolens.inventory.manifests.foreign.triton import draft_from_triton
from zoolens.inventory.manifests.schema import Manifest

TRITON_FILE: Final = "config.pbtxt"
TRITON_SUFFIXES: Final = (".pbtxt", ".textproto")


def import_manifest(path: Path) -> Manifest:
    """A manifest drafted from a file of another system, its files named relative to that file's folder.

    `path` is an MLModelScope YAML file, a Triton `config.pbtxt`, or the folder of a Triton model.
    """
    path = path.resolve()
    if path.is_dir():
        if not (path / TRITON_FILE).is_file():
            raise ManifestError(
                f"{path} holds no {TRITON_FILE}.", hint="Name the file to import, or the folder of one Triton model."
            )
        path = path / TRITON_FILE
    text = read_text(path)
    if path.suffix in TRITON_SUFFIXES:
        return draft_from_triton(text, path)
    if path.suffix not in SUFFIXES:
        raise ManifestError(
            f"{path.name} is not a manifest of a system that zoolens knows.",
            hint="It imports MLModelScope manifests (.yml, .yaml) and Triton configurations (config.pbtxt).",
        )
    if is_manifest(text):
        raise ManifestError(f"{path.name} is a zoolens manifest already.", hint="Use it as it is.")
    return draft_from_mlmodelscope(text, path)
